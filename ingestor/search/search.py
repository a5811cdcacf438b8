"""One search: what is asked of Chroma and of the lexical index. How both are weighed is in ``fusion``."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from ingestor.core.listings.pages import pages
from ingestor.lexical.check import Words
from ingestor.lexical.ranking import ByWords, ranked
from ingestor.model import Hit, Record, RecordId, Vector, Vectors
from ingestor.search import fusion
from ingestor.search.around import Around
from ingestor.search.fusion import Ranked
from ingestor.search.passages import Count, document_of, passages, within
from ingestor.search.reranking import Reranker, reranked
from ingestor.search.values import Answer, Found, Mode, Question

DEPTH = 50  # candidates of each list
SPARE = 10  # hits that take the places of records that are deleted meanwhile
_PAGE, _LOOKED_AT = 200, 2000  # lexical hits that a filter is tried on at once; and in all
_BUDGET_HITS = 100  # hits that a budget may take

Order = list[tuple[RecordId, float]]
Written = Callable[[Mapping[RecordId, bytes]], Mapping[RecordId, Vector]]
"""The digests of records' texts to their vectors as Chroma has them; it may leave records out."""


class Store(Protocol):
    """What a search asks of a collection in Chroma."""

    def query(self, vectors: Vectors, n: int, where: dict[str, object] | None = None) -> list[list[Hit]]: ...

    def nearest(
        self, vectors: Vectors, n: int, where: dict[str, object] | None = None
    ) -> list[list[tuple[RecordId, float]]]: ...

    def vectors(self, ids: Sequence[RecordId]) -> Mapping[RecordId, Vector]: ...

    def read(self, ids: Sequence[RecordId]) -> list[Record]: ...

    def matching(self, ids: Sequence[RecordId], where: Mapping[str, Any]) -> set[RecordId]: ...

    def select(self, where: Mapping[str, Any], most: int = 2000) -> list[Record]: ...

    def check_filter(self, where: dict[str, object]) -> None: ...

    def count(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Searcher:
    """``embed``: a question's vectors. ``count``: tokens of texts. ``clock``: seconds.

    ``reranker``: orders the first hits anew. ``written``: vectors that Chroma need not be asked for.
    """

    store: Store
    words: Words
    embed: Callable[[Sequence[str]], Vectors]
    count: Count
    clock: Callable[[], float]
    reranker: Reranker | None = None
    written: Written | None = None

    def answer(self, question: Question) -> Answer:
        """Raises ValueError if Chroma refuses the filter, and what Chroma and the embedder raise."""
        start = self.clock()
        unready = self.words.unready() if question.mode != "dense" else None
        mode: Mode = "dense" if unready is not None else question.mode
        n = question.n if question.budget_tokens is None else _BUDGET_HITS
        best, records = _Search(self, question, max(n, self.reranker.hits if self.reranker else 0)).run(mode)
        best, unranked = self._reranked(question, best, records)
        best = best[:n]
        used, shown = self._shown(question, best, records)
        hits = tuple(_found(one, records[one.id]) for one in used)
        order = [document_of(records[one.id]) for one in used]
        reasons = "; ".join(filter(None, (unready, unranked)))
        return Answer(hits, tuple(passages(shown, order)), mode, self.clock() - start, reasons or None)

    def _reranked(
        self, question: Question, best: list[Ranked], records: Mapping[RecordId, Record]
    ) -> tuple[list[Ranked], str | None]:
        """See reranking.reranked."""
        if self.reranker is None:
            return best, None
        return reranked(self.reranker, question.query, best, [records[one.id].text for one in best])

    def _shown(
        self, question: Question, best: Sequence[Ranked], records: Mapping[RecordId, Record]
    ) -> tuple[Sequence[Ranked], list[Record]]:
        """The hits that fit the budget, and the records that passages are made of."""
        expanded = Around(self.store, question.expand)
        if question.budget_tokens is None:
            return best, [record for one in best for record in expanded.of(records[one.id])]
        used, shown = within(
            [one.id for one in best],
            lambda id_: expanded.of(records[id_]),
            question.budget_tokens,
            self.count,
        )
        return [one for one in best if one.id in set(used)], shown


@dataclass(slots=True)
class _Search:
    """The ranking of one question. ``known``: records that were read on the way."""

    by: Searcher
    question: Question
    n: int
    known: dict[RecordId, Record] = field(default_factory=dict)

    def run(self, mode: Mode) -> tuple[list[Ranked], dict[RecordId, Record]]:
        """The best records, and what is known of them. Those that are gone meanwhile are replaced."""
        best = {"hybrid": self._hybrid, "dense": self._dense_alone, "lexical": self._lexical_alone}[mode]()
        found: list[Ranked] = []
        for page in pages(best, self.n):
            self._read([one.id for one in page])
            found += [one for one in page if one.id in self.known]
            if len(found) >= self.n:
                break
        return found[: self.n], self.known

    def _dense_alone(self) -> list[Ranked]:
        vectors = self._vectors()
        hits = self.by.store.query(vectors, self.n, self._where)[0]
        self.known |= {hit.id: Record(hit.id, hit.text, hit.metadata, vectors[0][:0]) for hit in hits}
        return fusion.by_vectors([(hit.id, hit.score) for hit in hits], self.n)

    def _lexical_alone(self) -> list[Ranked]:
        found = self._lexical(self.n + SPARE)
        return fusion.by_words(found.order, found.most, self.n + SPARE)

    def _hybrid(self) -> list[Ranked]:
        """Texts and metadata are read of the best alone: to read those of all candidates takes most time."""
        vectors, depth = self._vectors(), max(DEPTH, self.n)
        (dense,) = self.by.store.nearest(vectors, depth, self._where)
        lexical, near = self._lexical(depth), {id_ for id_, _ in dense}
        others = self._vectors_of({id_: lexical.texts[id_] for id_, _ in lexical.order if id_ not in near})
        cosines = {id_: float(vectors[0] @ vector) for id_, vector in others.items()}
        return fusion.fused(dense, lexical.order, cosines, lexical.most, self.n + SPARE)

    def _vectors_of(self, texts: Mapping[RecordId, bytes]) -> Mapping[RecordId, Vector]:
        """``texts``: their digests. To read vectors from Chroma takes a third of a search."""
        written = self.by.written(texts) if self.by.written is not None else {}
        return {**written, **self.by.store.vectors([id_ for id_ in texts if id_ not in written])}

    def _vectors(self) -> Vectors:
        return self.by.embed([self.question.query])

    @property
    def _where(self) -> dict[str, object] | None:
        return dict(self.question.where) if self.question.where else None

    def _lexical(self, n: int) -> ByWords:
        """The best ``n`` that the filter lets pass, of the best _LOOKED_AT."""
        db, number = self.by.words.db, self.by.words.number
        if db is None or number is None:
            return ByWords([], 0.0, {})
        where = self.question.where
        found = ranked(db, number, self.question.query, _LOOKED_AT if where else n)
        return replace(found, order=self._allowed(found.order, n)) if where else found

    def _allowed(self, order: Order, n: int) -> Order:
        passed: Order = []
        for start in range(0, len(order), _PAGE):
            page = order[start : start + _PAGE]
            allowed = self.by.store.matching([id_ for id_, _ in page], self.question.where or {})
            passed += [row for row in page if row[0] in allowed]
            if len(passed) >= n:
                break
        return passed[:n]

    def _read(self, ids: Sequence[RecordId]) -> None:
        absent = [id_ for id_ in ids if id_ not in self.known]
        if absent:
            self.known |= {record.id: record for record in self.by.store.read(absent)}


def _found(one: Ranked, record: Record) -> Found:
    return Found(one.id, one.score, record.text, record.metadata, one.ranks, one.reranked)
