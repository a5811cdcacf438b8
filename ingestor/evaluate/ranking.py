"""Searches the chunks of each strategy, and computes scores and costs.

Chunks are searched like a collection: by vectors, by words, or by both. Vectors are compared exactly. A
temporary lexical index of the chunks finds words, and both rankings are fused as in ``ingestor.search``.

A reranker scores each question once, and its scores are cached. A folder or an address does not identify the
weights, which may change. So the scores of a fixed question are part of the key: a reranker with other scores
counts as another reranker.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import Connection
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np

from ingestor.config.models import Choice
from ingestor.config.servers import Rerank
from ingestor.core.fingerprint import text_digest
from ingestor.evaluate.comparison import Floats
from ingestor.evaluate.cutting import SampleCut, StrategyCosts, extrapolate
from ingestor.evaluate.scores import EvalQuestion, Ranked, Scores, count_tokens, enough, scores
from ingestor.evaluate.workplace import Workplace
from ingestor.lexical.file import LexicalFile, open_for_reading
from ingestor.lexical.index import LexicalIndex
from ingestor.lexical.ranking import rank_by_words
from ingestor.model import Metadata, Record, RecordId, Vectors
from ingestor.pipeline.language import identify
from ingestor.pipeline.metadata import title_of
from ingestor.search.fusion import document_of, fuse
from ingestor.search.rerankers import Scores as RerankerScores
from ingestor.search.rerankers import best_first, finite_scores, scores_of
from ingestor.search.search import DEPTH
from ingestor.search.values import Mode
from ingestor.state.cache import VectorCache
from ingestor.text.outline import outline
from ingestor.units import quantity

_BLOCK = 64  # questions that are compared at a time
_SAMPLE = "sample"  # in place of the UUID of a collection


@dataclass(frozen=True, slots=True, eq=False)
class Chunks:
    """Chunks of one strategy, as a collection to search.

    ``documents``: number of each chunk's document. ``described``: metadata of each chunk (see ``describe``).
    """

    texts: Sequence[str]
    vectors: Vectors
    documents: Sequence[int]
    described: Sequence[Metadata]

    @property
    def ids(self) -> list[RecordId]:
        return [RecordId(f"{document}#{at}") for at, document in enumerate(self.documents)]


def search(
    mode: Mode, questions: Sequence[str], vectors: Vectors, chunks: Chunks, count: int
) -> list[list[int]]:
    """Return the numbers of the best ``count`` chunks for each question, best first.

    ``vectors``: vectors of the questions. A lexical search returns fewer chunks if fewer have a word of the
    question.
    """
    if mode == "dense":
        return nearest(vectors, chunks.vectors, count)
    with _words(chunks) as (db, number):
        by_words = [rank_by_words(db, number, question, max(DEPTH, count)) for question in questions]
    if mode == "lexical":
        return [[_place(id_) for id_, _ in each.order[:count]] for each in by_words]
    ids, fused = chunks.ids, list[list[int]]()
    for vector, words in zip(vectors, by_words, strict=True):
        cosines = chunks.vectors @ vector
        best = np.argsort(-cosines, kind="stable")[: max(DEPTH, count)].tolist()
        dense = [(ids[at], float(cosines[at])) for at in best]
        others = {id_: float(cosines[_place(id_)]) for id_, _ in words.order}
        if words.named:
            named = ((at, id_) for at, id_ in enumerate(ids) if document_of(id_) in words.named)
            others |= {id_: float(cosines[at]) for at, id_ in named}
        order = fuse(dense, words.order, others, words.most, count, named=words.named, scores=words.scores)
        fused.append([_place(one.id) for one in order])
    return fused


def nearest(asked: Vectors, vectors: Vectors, count: int) -> list[list[int]]:
    """Return the numbers of the ``count`` chunks with the greatest cosine to each question, greatest first.

    ``asked``: vectors of the questions. ``vectors``: vectors of the chunks. Of chunks with equal cosines, the
    first in the order of the chunks comes first.
    """
    best: list[list[int]] = []
    for start in range(0, len(asked), _BLOCK):
        similar = asked[start : start + _BLOCK] @ vectors.T
        best += np.argsort(-similar, axis=1, kind="stable")[:, :count].tolist()
    return best


@contextmanager
def _words(chunks: Chunks) -> Iterator[tuple[Connection, int]]:
    """Open a temporary lexical index of the chunks.

    Yield its connection, and the number of its collection.
    """
    empty = np.zeros(0, np.float32)
    records = [
        Record(id_, text, described, empty)
        for id_, text, described in zip(chunks.ids, chunks.texts, chunks.described, strict=True)
    ]
    with TemporaryDirectory(prefix="ingestor-") as folder:
        path = Path(folder) / "lexical.sqlite3"
        file = LexicalFile(path, synchronous="OFF")
        try:
            LexicalIndex(file, (_SAMPLE,)).upsert(records)
            number = file.number((_SAMPLE,))
        finally:
            file.close()
        with open_for_reading(path) as db:
            yield db, number


def _place(id_: RecordId) -> int:
    return int(id_.rpartition("#")[2])


_PATIENCE = 60.0  # seconds; an evaluation waits longer for a reranker than a search does
_QUESTION = "What does a loan from another library cost?"
_TEXTS = ("A book from another library costs two euros.", "The garden opens at nine.", "Loans are free.")
_DIGITS = 3  # significant digits of the fixed question's scores; further digits may differ from run to run


def rerank_best(
    rerank: Rerank,
    questions: Sequence[str],
    texts: Sequence[str],
    rankings: Ranked,
    cache: VectorCache,
    progress: Callable[[int], None],
) -> tuple[list[list[int]], float]:
    """Rerank the best chunks of every question.

    Return the new rankings, and the reranker's mean time for a question in seconds. ``texts``: texts of all
    chunks. ``rankings``: each question's chunk numbers, best first. Raises the errors of the reranker:
    Transient or NeedsHuman.
    """
    scores = scores_of(rerank.model_copy(update={"timeout": _PATIENCE}), patient=True)
    probed = [f"{score:.{_DIGITS}g}" for score in finite_scores(scores, _QUESTION, _TEXTS)]
    name = json.dumps([rerank.url, rerank.model, probed])
    orders, seconds = list[list[int]](), list[float]()
    for at, (question, best) in enumerate(zip(questions, rankings, strict=True)):
        progress(at)
        seen, rest = best[: rerank.hits], best[rerank.hits :]
        if seen:
            rated, took = _rate(scores, name, question, [texts[number] for number in seen], cache)
            seen = [seen[number] for number in best_first(rated)]
            seconds.append(took)
        orders.append([*seen, *rest])
    return orders, sum(seconds) / max(1, len(seconds))


def _rate(
    scores: RerankerScores, name: str, question: str, texts: Sequence[str], cache: VectorCache
) -> tuple[list[float], float]:
    """Return the reranker's scores of some texts, and the seconds that the scoring took.

    Cached scores are returned with the seconds that they took originally. ``name``: identifies the reranker.
    """
    key = text_digest(json.dumps(["rerank", name, question, *texts]))
    if (known := cache.get_answer(key)) is not None:
        kept = json.loads(known)
        return kept["scores"], kept["seconds"]
    begun = perf_counter()
    made = finite_scores(scores, question, texts)
    seconds = perf_counter() - begun
    cache.put_answer(key, json.dumps({"scores": made, "seconds": seconds}))
    return made, seconds


_MEASURED = 64  # texts; fewer are too few to measure the model's speed


@dataclass(frozen=True, slots=True, eq=False)
class StrategyOutcome:
    """Scores and costs of one strategy.

    ``questions``: the questions, with excerpts as spans of the texts that this strategy parses. ``seconds``:
    time to cut and embed the sample on this machine. ``rerank_seconds``: the reranker's mean time for a
    question; None without a reranker. ``costs``: estimate for the whole collection. ``similarity``: cosine of
    each question and its best chunk. ``by_tokens``: recall and IoU of the five best chunks for each question,
    counted in tokens.
    """

    cut: SampleCut
    questions: Sequence[EvalQuestion]
    scores: Scores
    seconds: float
    rerank_seconds: float | None
    costs: StrategyCosts
    similarity: Floats
    by_tokens: tuple[Floats, Floats]
    model: str | None = None  # if models are compared
    embedding: Choice | None = None

    @property
    def name(self) -> str:
        return self.cut.strategy.name + (f" by {self.model}" if self.model else "")

    @property
    def mode(self) -> Mode:
        return self.cut.strategy.beside.search or "dense"


def score_cuts(
    place: Workplace,
    cuts: Sequence[SampleCut],
    questions: Mapping[tuple[str, ...], Sequence[EvalQuestion]],
    budgets: Sequence[int],
) -> list[StrategyOutcome]:
    """Search the chunks of each strategy for each question, rerank the hits, and score them.

    ``questions``: the questions by the parser settings of the strategies (see ``Strategy.parser_settings``).
    Raises the errors of the embedder and the reranker.
    """
    texts = [question.text for question in questions[()]]
    place.progress(f"asking {quantity(len(texts), 'question')}")
    asked, speed = place.parts.query_vectors(texts), _speed(place, cuts)
    outcomes = list[StrategyOutcome]()
    for cut in cuts:
        own = questions[cut.strategy.parser_settings]
        ranked, took = _rank(place, cut, texts, asked, enough(cut.places, max(budgets)))
        rated = scores(own, ranked, cut.places, budgets)
        seconds = cut.seconds + cut.embedded_tokens / speed
        tokens = sum(place.parts.tokens.counts(cut.sample.texts))
        offsets = [place.parts.tokens.offsets(text).tolist() for text in cut.sample.texts]
        cosines = [
            float(vector @ cut.vectors[best[0]]) if best else 0.0
            for vector, best in zip(asked, rated.ranked, strict=True)
        ]
        outcomes.append(
            StrategyOutcome(
                cut, own, rated, seconds, took,
                extrapolate(cut, tokens, seconds, place.sample.share, place.parts.config.rechunk.price),
                similarity=np.array(cosines),
                by_tokens=count_tokens(own, rated.ranked, cut.places, offsets),
            )
        )  # fmt: skip
    return outcomes


def _rank(
    place: Workplace, cut: SampleCut, texts: Sequence[str], asked: Vectors, count: int
) -> tuple[list[list[int]], float | None]:
    """Return each question's best ``count`` chunks as numbers, and the reranker's mean time for a question.

    The chunks are ordered best first. The time is in seconds, and None without a reranker. ``asked``: vectors
    of the questions.
    """
    mode, rerank = cut.strategy.beside.search or "dense", cut.strategy.beside.rerank
    numbers = [each.document for each in cut.places]
    chunks = Chunks(cut.texts, cut.vectors, numbers, describe(cut) if mode != "dense" else [])
    ranked = search(mode, texts, asked, chunks, max(count, rerank.hits if rerank else 0))
    if rerank is None:
        return ranked, None

    def progress(at: int) -> None:
        place.progress(f"reranking by {cut.strategy.name}: {at + 1:,} of {quantity(len(texts), 'question')}")

    return rerank_best(rerank, texts, cut.texts, ranked, place.cache, progress)


def describe(cut: SampleCut) -> list[Metadata]:
    """Return the metadata of each chunk that a lexical search uses: language, title, context and page."""
    known = [
        {"language": identify(each.document).language, "title": title_of(each.document, each.item)}
        for each in cut.sample.documents
    ]
    outlines = [outline(each.document) for each in cut.sample.documents]
    return [
        {
            **known[place.document],
            "context": "\n".join(lines),
            "page": next((each.page for each in outlines[place.document].between(*place.spans[0])), None),
        }
        for place, lines in zip(cut.places, cut.lines, strict=True)
    ]


def _speed(place: Workplace, cuts: Sequence[SampleCut]) -> float:
    """Return how many tokens the embedder processed in a second of this run.

    If the cache had the vectors of most texts, some texts are embedded again to measure the speed.
    """
    embedded = place.embedding.counts()
    if embedded.texts >= _MEASURED:
        return embedded.tokens / max(1e-6, embedded.seconds)
    texts = list(cuts[0].texts[:_MEASURED])
    begun = perf_counter()
    place.parts.embedder.embed(texts)
    return max(1, sum(place.parts.tokens.counts(texts))) / max(1e-6, perf_counter() - begun)
