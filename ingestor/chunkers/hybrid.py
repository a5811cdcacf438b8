"""Paragraphs packed up to a size in characters; one over it is taken sentence by sentence.

A chunk begins with the last whole sentences of the one before, as many as ``overlap`` characters hold
and the first new unit leaves room for.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from operator import itemgetter

from pydantic import Field, model_validator

from ingestor.chunkers.options import OverlapOptions, require_smaller
from ingestor.model import Chunking, Document, Sums
from ingestor.ports import Embed
from ingestor.registry import Plugin
from ingestor.text.bonds import settle
from ingestor.text.sentences import paragraphs
from ingestor.text.sentences import sentences as sentences_of
from ingestor.text.spans import Span, by_characters, chunks
from ingestor.text.tokens import Tokens


class HybridOptions(OverlapOptions):
    """``max_size`` and ``overlap`` are in characters."""

    max_size: int = Field(default=1000, ge=50, description="most characters of a chunk")
    overlap: int = Field(
        default=100,
        ge=0,
        description="characters of whole sentences that the next chunk repeats",
    )

    @model_validator(mode="after")
    def _sizes_in_order(self) -> "HybridOptions":
        require_smaller("overlap", self.overlap, "max_size", self.max_size)
        return self


class Hybrid:
    def __init__(self, options: HybridOptions, tokens: Tokens) -> None:
        self._options, self._tokens = options, tokens

    def chunk(self, document: Document, embed: Embed, others: Sums | None) -> Chunking:
        text, options = document.text, self._options
        sentences = sentences_of(text, language=document.language)
        units = list(_units(text, sentences, options.max_size))
        starts = sorted({start for start, _ in (*sentences, *units)})
        spans = _packed(units, starts, options.max_size, options.overlap)

        def within(span: Span) -> bool:
            return span[1] - span[0] <= options.max_size

        kept = settle(document, spans, self._tokens, options.min_tokens, options.max_tokens, within)
        return Chunking(chunks(text, kept))


def _units(text: str, sentences: Sequence[Span], size: int) -> Iterator[Span]:
    """Paragraphs; of one over the size its sentences; of a sentence over it windows."""
    starts = [start for start, _ in sentences]
    for paragraph in paragraphs(text):
        if paragraph[1] - paragraph[0] <= size:
            yield paragraph
            continue
        for sentence in sentences[bisect_left(starts, paragraph[0]) : bisect_left(starts, paragraph[1])]:
            if sentence[1] - sentence[0] <= size:
                yield sentence
            else:
                yield from by_characters(text, sentence, size, soft=True)


def _packed(units: Sequence[Span], starts: Sequence[int], size: int, overlap: int) -> Iterator[Span]:
    """Yield spans from one of ``starts`` to the end of a unit; every unit lies in one of them."""
    new = 0  # the first unit that no span holds yet
    begin = end = units[0][0] if units else 0
    while new < len(units):
        earliest = max(end - overlap, units[new][1] - size, begin + 1) if new else begin
        begin = starts[bisect_left(starts, min(earliest, units[new][0]))]
        new = max(bisect_right(units, begin + size, key=itemgetter(1)), new + 1)
        end = units[new - 1][1]
        yield begin, end


PLUGIN = Plugin(kind="hybrid", version=2, options=HybridOptions, build=Hybrid)
