"""Steps of a search in Chroma and in the lexical index; ``fusion`` weighs the results of both.

An answer shows one state of the collection. It is computed again if a write came between its parts: the
lexical file changed, or Chroma returned other records than the lexical index has.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain
from typing import Any, Protocol

from ingestor.core.listings import pages
from ingestor.core.metadata_keys import Profile
from ingestor.lexical.check import Words
from ingestor.lexical.ranking import ByWords, rank_by_words
from ingestor.model import Hit, Record, RecordId, Vector, Vectors
from ingestor.search import fusion
from ingestor.search.filters import find_left_out
from ingestor.search.fusion import Distinct, Ranked
from ingestor.search.passages import Around, Count, cost, document_of, passages, within
from ingestor.search.rerankers import Reranker, cache_scores, rerank
from ingestor.search.values import MOST, Answer, BadQuestion, Copy, Found, Mode, Question


class Store(Protocol):
    def query(self, vectors: Vectors, n: int, where: dict[str, object] | None = None) -> list[list[Hit]]: ...

    def nearest(
        self, vectors: Vectors, n: int, where: dict[str, object] | None = None
    ) -> list[list[tuple[RecordId, float]]]: ...

    def vectors(self, ids: Sequence[RecordId]) -> Mapping[RecordId, Vector]: ...

    def read(self, ids: Sequence[RecordId]) -> list[Record]: ...

    def filter_ids(self, ids: Sequence[RecordId], where: Mapping[str, Any]) -> set[RecordId]: ...

    def select(self, where: Mapping[str, Any], most: int = 2000) -> list[Record]: ...

    def count(self) -> int: ...


@dataclass(slots=True)
class Observed:
    """A store that remembers the records that it returned.

    ``texts``: their texts; None if only their ids or vectors were returned. ``steady``: whether no record was
    deleted or changed between two calls.
    """

    store: Store
    texts: dict[RecordId, str | None] = field(default_factory=dict)
    steady: bool = True

    def query(self, vectors: Vectors, n: int, where: dict[str, object] | None = None) -> list[list[Hit]]:
        rows = self.store.query(vectors, n, where)
        for hit in (hit for hits in rows for hit in hits):
            self._note(hit.id, hit.text)
        return rows

    def nearest(
        self, vectors: Vectors, n: int, where: dict[str, object] | None = None
    ) -> list[list[tuple[RecordId, float]]]:
        rows = self.store.nearest(vectors, n, where)
        for id_, _ in (hit for hits in rows for hit in hits):
            self._note(id_, None)
        return rows

    def vectors(self, ids: Sequence[RecordId]) -> Mapping[RecordId, Vector]:
        picked = self.store.vectors(ids)
        for id_ in ids:
            self.steady &= id_ in picked
            self._note(id_, None)
        return picked

    def read(self, ids: Sequence[RecordId]) -> list[Record]:
        picked = self._note_all(self.store.read(ids))
        self.steady &= {record.id for record in picked} == set(ids)
        return picked

    def filter_ids(self, ids: Sequence[RecordId], where: Mapping[str, Any]) -> set[RecordId]:
        return self.store.filter_ids(ids, where)

    def select(self, where: Mapping[str, Any], most: int = 2000) -> list[Record]:
        return self._note_all(self.store.select(where, most))

    def count(self) -> int:
        return self.store.count()

    def _note_all(self, records: list[Record]) -> list[Record]:
        for record in records:
            self._note(record.id, record.text)
        return records

    def _note(self, id_: RecordId, text: str | None) -> None:
        known = self.texts.setdefault(id_, text)
        if known is None:
            self.texts[id_] = text
        elif text is not None:
            self.steady &= text == known


DEPTH = 50  # candidates of each list
_NAMED = 8  # documents that a question names whose records are candidates
SPARE = 10  # further hits that replace records deleted meanwhile
_PAGE, _LOOKED_AT = 200, 2000  # lexical hits to which a filter is applied at once, and in all
_BUDGET_HITS = 100  # hits at most, if there is a budget
_DISTINCT = 20  # distinct hits to search, if there is a budget
AGAIN = 3  # times that an answer is computed again if the collection changed meanwhile
_DEEPER = 4  # factor of further candidates if most are near-duplicates

Order = list[tuple[RecordId, float]]


@dataclass(frozen=True, slots=True)
class Searcher:
    """Searches one collection. ``embed``: returns a question's vectors. ``count``: counts tokens of texts.

    ``clock``: returns seconds. ``reranker``: reorders the first hits. ``profile``: selects the metadata that
    records have.
    """

    store: Store
    words: Words
    embed: Callable[[Sequence[str]], Vectors]
    count: Count
    clock: Callable[[], float]
    reranker: Reranker | None = None
    profile: Profile = "full"

    def answer(self, question: Question) -> Answer:
        """Answer a question.

        Raises BadQuestion if the filter names a key that records never have, and ValueError if Chroma refuses
        the filter. Also raises the errors of Chroma and of the embedder. If a write disturbs each of AGAIN
        + 1 attempts, the last answer is returned.
        """
        if left_out := find_left_out(question.where, self.profile):  # before the model is loaded
            raise BadQuestion("where", f"where {left_out}")
        start = self.clock()
        vectors = cache(lambda: self.embed([question.query]))
        reranker = None if self.reranker is None else cache_scores(self.reranker)
        for _ in range(AGAIN + 1):
            before, store = self.words.moment(), Observed(self.store)
            picked = replace(self, store=store, reranker=reranker)._answer(question, vectors)
            if store.steady and self.words.agree(store.texts) and self.words.moment() == before:
                break
        return replace(picked, seconds=self.clock() - start)

    def _answer(self, question: Question, vectors: Callable[[], Vectors]) -> Answer:
        """Return one answer without checking for writes; ``seconds`` is not set yet."""
        unready = self.words.unready() if question.mode != "dense" else None
        mode: Mode = "dense" if unready is not None else question.mode
        n = question.n if question.budget_tokens is None else _BUDGET_HITS
        seen = self.reranker.hits if self.reranker else 0
        enough = max(seen, n if question.budget_tokens is None else _DISTINCT)
        search = _Search(self, question, vectors, max(n, seen), enough)
        best, records = search.run(mode), search.known
        unranked = None
        if self.reranker is not None:
            seen_texts = [records[one.id].text for one in best]
            best, unranked = rerank(self.reranker, question.query, best, seen_texts)
        best = best[:n]
        used, shown = self._select_shown(question, best, records)
        copies = {one.id: tuple(_copy(records[id_]) for id_ in search.copies.get(one.id, ())) for one in used}
        hits = tuple(
            Found(one.id, one.score, record.text, record.metadata, one.ranks, one.reranked, copies[one.id])
            for one in used
            for record in [records[one.id]]
        )
        order = [document_of(records[one.id]) for one in used]
        scores = {one.id: one.score for one in used}
        texts = (
            replace(
                each,
                score=max((scores[id_] for id_ in each.ids if id_ in scores), default=None),
                also_in=tuple(chain.from_iterable(copies.get(id_, ()) for id_ in each.ids)),
            )
            for each in passages(shown, order)
        )
        reasons = "; ".join(filter(None, (unready, unranked)))
        needed = cost([records[best[0].id]], self.count) if best and not used else None
        return Answer(hits, tuple(texts), mode, 0.0, reasons or None, needed)

    def _select_shown(
        self, question: Question, best: Sequence[Ranked], records: Mapping[RecordId, Record]
    ) -> tuple[Sequence[Ranked], list[Record]]:
        """Return the hits that fit the budget, and the records for passages."""
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
    """The ranking of one question: ``n`` hits.

    ``vectors``: of the question. ``enough``: number of distinct hits below which more candidates are ranked.
    ``known``: records that were read. ``copies``: near-duplicates of hits.
    """

    by: Searcher
    question: Question
    vectors: Callable[[], Vectors]
    n: int
    enough: int
    known: dict[RecordId, Record] = field(default_factory=dict)
    copies: dict[RecordId, list[RecordId]] = field(default_factory=dict)

    def run(self, mode: Mode) -> list[Ranked]:
        """Return the best records. The next records replace deleted records and near-duplicates."""
        vectors = None if mode == "lexical" else self.vectors()
        depth = max(DEPTH, self.n) if self.question.is_distinct() else self.n
        while True:
            best = self._candidates(mode, vectors, depth)
            picked = self._first(best, min(depth, max(DEPTH, self.n)))
            if not self.question.is_distinct() or len(picked) >= self.enough:
                return picked
            if len(best) < depth or depth >= MOST:
                return picked
            depth = min(MOST, depth * _DEEPER)

    def _candidates(self, mode: Mode, vectors: Vectors | None, depth: int) -> list[Ranked]:
        if vectors is None:
            words = self._lexical(depth + SPARE)
            return fusion.by_words(words.order, words.most, depth + SPARE)
        if mode == "hybrid":
            return self._hybrid(vectors, depth)
        hits = self.by.store.query(vectors, depth, self._where)[0]
        self.known |= {hit.id: Record(hit.id, hit.text, hit.metadata, vectors[0][:0]) for hit in hits}
        return fusion.by_vectors([(hit.id, hit.score) for hit in hits], depth)

    def _first(self, best: Sequence[Ranked], at_once: int) -> list[Ranked]:
        """Return the first ``n`` candidates that still exist; without near-duplicates, if the question asks.

        ``at_once``: number of candidates that are read together.
        """
        picked: list[Ranked] = []
        distinct, self.copies = Distinct(), {}
        for page in pages(best, at_once):
            self._read([one.id for one in page])
            for one in page:
                record = self.known.get(one.id)
                if record is None:
                    continue
                first = distinct.add(one.id, record.text) if self.question.is_distinct() else one.id
                if first == one.id:
                    picked.append(one)
                else:
                    self.copies.setdefault(first, []).append(one.id)
            if len(picked) >= self.n:
                break
        return picked[: self.n]

    def _hybrid(self, vectors: Vectors, depth: int) -> list[Ranked]:
        """Rank by vectors and words.

        Only ids and scores are read: texts of all candidates would take most time.
        """
        wide = max(DEPTH, depth)
        (dense,) = self.by.store.nearest(vectors, wide, self._where)
        lexical, near = self._lexical(wide), {id_ for id_, _ in dense}
        others = self.by.store.vectors([id_ for id_, _ in lexical.order if id_ not in near])
        cosines = {id_: float(vectors[0] @ vector) for id_, vector in others.items()}
        cosines |= self._of_named(vectors, lexical.named, wide)
        return fusion.fuse(
            dense, lexical.order, cosines, lexical.most, 2 * wide, named=lexical.named, scores=lexical.scores
        )

    def _of_named(self, vectors: Vectors, named: Mapping[str, float], n: int) -> Order:
        """Return the ``n`` records nearest to the question, of the documents that the question names.

        ``named``: by document id, how much of the name stands in the question. The ``_NAMED`` documents with
        the largest values count.
        """
        first = sorted(named, key=lambda document: (-named[document], document))[:_NAMED]
        if not first:
            return []
        where: dict[str, object] = {"document_id": {"$in": first}}
        if self._where:
            where = {"$and": [where, self._where]}
        return self.by.store.nearest(vectors, n, where)[0]

    @property
    def _where(self) -> dict[str, object] | None:
        return dict(self.question.where) if self.question.where else None

    def _lexical(self, n: int) -> ByWords:
        """Return the best ``n`` records by words that pass the filter, among the best _LOOKED_AT."""
        db, number = self.by.words.db, self.by.words.number
        if db is None or number is None:
            return ByWords([], 0.0)
        where = self.question.where
        picked = rank_by_words(db, number, self.question.query, _LOOKED_AT if where else n)
        return replace(picked, order=self._filter(picked.order, n)) if where else picked

    def _filter(self, order: Order, n: int) -> Order:
        passed: Order = []
        for start in range(0, len(order), _PAGE):
            page = order[start : start + _PAGE]
            allowed = self.by.store.filter_ids([id_ for id_, _ in page], self.question.where or {})
            passed += [row for row in page if row[0] in allowed]
            if len(passed) >= n:
                break
        return passed[:n]

    def _read(self, ids: Sequence[RecordId]) -> None:
        absent = [id_ for id_ in ids if id_ not in self.known]
        if absent:
            self.known |= {record.id: record for record in self.by.store.read(absent)}


def _copy(record: Record) -> Copy:
    return Copy(record.id, document_of(record), str(record.metadata.get("source") or ""))
