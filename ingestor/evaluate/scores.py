"""Scores of retrieved chunks against the excerpts of a question. Pure.

Token-wise metrics on character ranges [Smith & Troynikov, "Evaluating Chunking Strategies for Retrieval",
Chroma technical report, 2024]: a character of an excerpt counts once, however many chunks hold it; a
retrieved character counts as often as it was retrieved. Chunks of other documents count as retrieved.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import log2
from typing import Literal

from ingestor.text.spans import Span

Origin = Literal["file", "made", "model"]


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A stretch of a document that answers a question; ``document``: its number in the sample."""

    document: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class EvalQuestion:
    """``origin``: ``made`` by this program without a model, by a language ``model``, or from a ``file``."""

    text: str
    excerpts: tuple[Excerpt, ...]
    origin: Origin = "file"


@dataclass(frozen=True, slots=True)
class ChunkPlace:
    """Place of a chunk, as one span or several, with the tokens of its text."""

    document: int
    spans: tuple[Span, ...]
    tokens: int

    @property
    def length(self) -> int:
        return sum(end - start for start, end in self.spans)


@dataclass(frozen=True, slots=True)
class Score:
    """All from 0 to 1."""

    recall: float
    precision: float
    iou: float


def score(excerpts: Sequence[Excerpt], places: Sequence[ChunkPlace]) -> Score:
    """Score the chunks that one question retrieved."""
    hit, wanted = common(excerpts, places), length(excerpts)
    retrieved = sum(place.length for place in places)
    return Score(hit / wanted, hit / retrieved if retrieved else 0.0, hit / (wanted + retrieved - hit))


def omega(excerpts: Sequence[Excerpt], places: Iterable[ChunkPlace]) -> float:
    """The precision when exactly the chunks that hold a part of the excerpts are retrieved."""
    return score(excerpts, [place for place in places if common(excerpts, [place])]).precision


def ndcg(
    excerpts: Sequence[Excerpt], ranked: Sequence[ChunkPlace], places: Iterable[ChunkPlace], n: int
) -> float:
    """Normalized discounted cumulative gain of the first ``n``; a chunk's gain is its share of the excerpts.

    ``places``: all chunks, of which the best order is made. 0 where none holds a part of the excerpts.
    """
    gains = [common(excerpts, [place]) for place in ranked[:n]]
    best = sorted((common(excerpts, [place]) for place in places), reverse=True)[:n]
    return _discount(gains) / _discount(best) if best and best[0] else 0.0


def within(ranked: Iterable[ChunkPlace], budget: int) -> Iterator[ChunkPlace]:
    """The first chunks that fill ``budget`` tokens; of the last one its beginning, in proportion."""
    left = budget
    for place in ranked:
        if left <= 0:
            return
        yield place if place.tokens <= left else _take_beginning(place, left / place.tokens)
        left -= place.tokens


def length(excerpts: Sequence[Excerpt]) -> int:
    """Characters in at least one of them."""
    documents = {excerpt.document for excerpt in excerpts}
    return sum(count_covered((e.start, e.end) for e in excerpts if e.document == each) for each in documents)


def common(excerpts: Sequence[Excerpt], places: Sequence[ChunkPlace]) -> int:
    """Characters of the excerpts that are in at least one of the places."""
    return sum(
        count_covered(_overlaps([e for e in excerpts if e.document == each], places))
        for each in {excerpt.document for excerpt in excerpts}
    )


def count_covered(spans: Iterable[Span]) -> int:
    """Characters in at least one span."""
    total, at = 0, 0
    for start, end in sorted(spans):
        total += max(end - max(start, at), 0)
        at = max(at, end)
    return total


def _overlaps(excerpts: Sequence[Excerpt], places: Sequence[ChunkPlace]) -> Iterator[Span]:
    """Yield the overlaps of chunks with excerpts, which belong to one document."""
    for place in places:
        if place.document == excerpts[0].document:
            for low, high in place.spans:
                for excerpt in excerpts:
                    start, end = max(low, excerpt.start), min(high, excerpt.end)
                    if start < end:
                        yield start, end


def _take_beginning(place: ChunkPlace, share: float) -> ChunkPlace:
    left, spans = round(place.length * share), list[Span]()
    for start, end in place.spans:
        if left > 0:
            spans.append((start, min(end, start + left)))
        left -= end - start
    return ChunkPlace(place.document, tuple(spans), round(place.tokens * share))


def _discount(gains: Sequence[float]) -> float:
    return sum(gain / log2(rank + 1) for rank, gain in enumerate(gains, start=1))
