"""Scores retrieved chunks by the excerpts that answer a question. Pure.

Recall, precision and IoU are computed on ranges of characters [Smith & Troynikov, "Evaluating Chunking
Strategies for Retrieval", Chroma technical report, 2024]. A character of an excerpt counts once, however many
chunks contain it. A retrieved character counts as often as it was retrieved, also in other documents.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log2
from typing import Literal

import numpy as np

from ingestor.evaluate.comparison import Floats
from ingestor.text.spans import Span

Ranked = Sequence[Sequence[int]]  # for each question, numbers of chunks, best first
Origin = Literal["file", "made", "model"]


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A span of a document that answers a question. ``document``: number of the document in the sample."""

    document: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class EvalQuestion:
    """A question of an evaluation, with the excerpts that answer it.

    ``origin``: ``file`` if the question is from a file, ``model`` if a language model wrote it, ``made`` if
    this program did.
    """

    text: str
    excerpts: tuple[Excerpt, ...]
    origin: Origin = "file"


@dataclass(frozen=True, slots=True)
class ChunkPlace:
    """Place of a chunk: the number of its document, and the spans of the document that the chunk contains.

    ``tokens``: number of tokens in the chunk's text.
    """

    document: int
    spans: tuple[Span, ...]
    tokens: int

    @property
    def length(self) -> int:
        return sum(end - start for start, end in self.spans)


@dataclass(frozen=True, slots=True)
class Score:
    """Recall, precision and IoU (intersection over union) for one question, each from 0 to 1."""

    recall: float
    precision: float
    iou: float


def score(excerpts: Sequence[Excerpt], places: Sequence[ChunkPlace]) -> Score:
    """Return recall, precision and IoU of retrieved chunks for a question.

    ``excerpts``: the text that should be found. ``places``: the retrieved chunks.
    """
    hit, wanted = common(excerpts, places), length(excerpts)
    retrieved = sum(place.length for place in places)
    return Score(hit / wanted, hit / retrieved if retrieved else 0.0, hit / (wanted + retrieved - hit))


def omega(excerpts: Sequence[Excerpt], places: Iterable[ChunkPlace]) -> float:
    """Return the precision if all chunks that contain a part of the excerpts were retrieved, and no others.

    This is the best precision that complete retrieval can have with these chunks. ``places``: all chunks.
    """
    return score(excerpts, [place for place in places if common(excerpts, [place])]).precision


def ndcg(
    excerpts: Sequence[Excerpt], ranked: Sequence[ChunkPlace], places: Iterable[ChunkPlace], n: int
) -> float:
    """Return the normalised discounted cumulative gain (nDCG) of the first ``n`` retrieved chunks.

    A chunk's gain is the number of the excerpts' characters that it contains. ``ranked``: the retrieved
    chunks, best first. ``places``: all chunks, from which the ideal order is computed. Return 0 if no chunk
    contains a part of the excerpts.
    """
    gains = [common(excerpts, [place]) for place in ranked[:n]]
    best = sorted((common(excerpts, [place]) for place in places), reverse=True)[:n]
    return _discount(gains) / _discount(best) if best and best[0] else 0.0


def within(ranked: Iterable[ChunkPlace], budget: int) -> Iterator[ChunkPlace]:
    """Yield the first chunks that together have ``budget`` tokens; the last chunk is truncated to fit."""
    left = budget
    for place in ranked:
        if left <= 0:
            return
        yield place if place.tokens <= left else _take_beginning(place, left / place.tokens)
        left -= place.tokens


def length(excerpts: Sequence[Excerpt]) -> int:
    """Count the characters of the excerpts. A character of several excerpts counts once."""
    documents = {excerpt.document for excerpt in excerpts}
    return sum(count_covered((e.start, e.end) for e in excerpts if e.document == each) for each in documents)


def common(excerpts: Sequence[Excerpt], places: Sequence[ChunkPlace]) -> int:
    """Count the characters of the excerpts that at least one of the chunks contains."""
    return sum(
        count_covered(_overlaps([e for e in excerpts if e.document == each], places))
        for each in {excerpt.document for excerpt in excerpts}
    )


def count_covered(spans: Iterable[Span]) -> int:
    """Count the characters that at least one of the spans contains."""
    total, at = 0, 0
    for start, end in sorted(spans):
        total += max(end - max(start, at), 0)
        at = max(at, end)
    return total


def _overlaps(excerpts: Sequence[Excerpt], places: Sequence[ChunkPlace]) -> Iterator[Span]:
    """Yield the spans that a chunk and an excerpt have in common. All excerpts must be of one document."""
    for place in places:
        if place.document == excerpts[0].document:
            for low, high in place.spans:
                for excerpt in excerpts:
                    start, end = max(low, excerpt.start), min(high, excerpt.end)
                    if start < end:
                        yield start, end


def _take_beginning(place: ChunkPlace, share: float) -> ChunkPlace:
    """Return a place without its end. ``share``: share of the characters that remain, from 0 to 1."""
    left, spans = round(place.length * share), list[Span]()
    for start, end in place.spans:
        if left > 0:
            spans.append((start, min(end, start + left)))
        left -= end - start
    return ChunkPlace(place.document, tuple(spans), round(place.tokens * share))


def _discount(gains: Sequence[float]) -> float:
    return sum(gain / log2(rank + 1) for rank, gain in enumerate(gains, start=1))


NEAREST = 5
DEPTHS = (1, 3, 5)  # numbers of chunks at which a question may be found
_HALF = 0.5  # share of the excerpts that the chunks hold


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """Scores of one strategy. Each array has a value for each question, from 0 to 1 unless stated otherwise.

    ``at``: recall, by budget in tokens. ``hits``: for each n, 1 if the best n chunks contain half of the
    excerpts, else 0. ``context``: number of tokens in the best five chunks. ``recall``, ``precision``,
    ``iou``, ``ndcg``: scores of the best five chunks. ``omega``: see the function ``omega``. ``ranked``:
    numbers of each question's best chunks, enough to fill the largest budget.
    """

    at: Mapping[int, Floats]
    hits: Mapping[int, Floats]
    context: Floats
    recall: Floats
    precision: Floats
    iou: Floats
    omega: Floats
    ndcg: Floats
    ranked: Ranked


def scores(
    questions: Sequence[EvalQuestion], ranked: Ranked, places: Sequence[ChunkPlace], budgets: Sequence[int]
) -> Scores:
    """Score the retrieved chunks for every question. At least one question and one chunk are required.

    ``ranked``: each question's retrieved chunks, best first, as indices of ``places``. ``places``: all
    chunks. ``budgets``: numbers of tokens at which recall is computed.
    """
    near: defaultdict[int, list[ChunkPlace]] = defaultdict(list)  # by document
    for place in places:
        near[place.document].append(place)
    rows = [_score_question(question, [places[at] for at in best], near, budgets)
            for question, best in zip(questions, ranked, strict=True)]  # fmt: skip
    columns = np.array(rows, np.float64).T
    recall, precision, iou, whole, gained, context = columns[:6]
    hits = dict(zip(DEPTHS, columns[6:], strict=False))
    by_budget = dict(zip(budgets, columns[6 + len(DEPTHS) :], strict=True))
    return Scores(by_budget, hits, context, recall, precision, iou, whole, gained, ranked)


def count_tokens(
    questions: Sequence[EvalQuestion],
    ranked: Ranked,
    places: Sequence[ChunkPlace],
    offsets: Sequence[Sequence[int]],
) -> tuple[Floats, Floats]:
    """Return recall and IoU of each question's five best chunks, counted in tokens instead of characters.

    ``offsets``: for each document, the offsets in its text at which tokens begin.
    """

    def tokens(document: int, span: Span) -> Span:
        return bisect_left(offsets[document], span[0]), bisect_left(offsets[document], span[1])

    def place(number: int) -> ChunkPlace:
        one = places[number]
        return replace(one, spans=tuple(tokens(one.document, span) for span in one.spans))

    rows = []
    for question, best in zip(questions, ranked, strict=True):
        spans = [(e.document, *tokens(e.document, (e.start, e.end))) for e in question.excerpts]
        excerpts = [Excerpt(document, start, max(end, start + 1)) for document, start, end in spans]
        made = score(excerpts, [place(number) for number in best[:NEAREST]])
        rows.append((made.recall, made.iou))
    recall, iou = np.array(rows, np.float64).T
    return recall, iou


def enough(places: Sequence[ChunkPlace], budget: int) -> int:
    """Return how many chunks fill the budget in any case, even if only the smallest are retrieved."""
    filled = np.cumsum(np.sort([max(1, place.tokens) for place in places]))
    return max(NEAREST, int(np.searchsorted(filled, budget)) + 1)


def _score_question(
    question: EvalQuestion,
    best: Sequence[ChunkPlace],
    near: Mapping[int, Sequence[ChunkPlace]],
    budgets: Iterable[int],
) -> list[float]:
    """Return all scores of a question as one row of numbers, which ``scores`` splits into arrays.

    ``best``: the retrieved chunks, best first. ``near``: all chunks, by document.
    """
    excerpts = question.excerpts
    possible = [place for each in {e.document for e in excerpts} for place in near.get(each, ())]
    first = score(excerpts, best[:NEAREST])
    return [
        first.recall,
        first.precision,
        first.iou,
        omega(excerpts, possible),
        ndcg(excerpts, best, possible, NEAREST),
        sum(place.tokens for place in best[:NEAREST]),
        *(common(excerpts, best[:depth]) >= _HALF * length(excerpts) for depth in DEPTHS),
        *(score(excerpts, list(within(best, budget))).recall for budget in budgets),
    ]
