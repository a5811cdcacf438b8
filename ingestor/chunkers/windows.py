"""Windows over a text's own units: ``fixed``, ``sentence``, ``paragraph`` and ``hybrid``.

``fixed`` takes tokens or characters, whatever they cut through: the cheapest strategy, and the plainest
baseline. A window holds ``size`` tokens of the whole text, or a few fewer where its text, counted by itself,
would have more, or where its end would tear a user-perceived character.

``sentence`` cuts a sentence only if it is over ``max_tokens`` by itself. ``paragraph`` takes paragraphs,
which blank lines separate, and has ``recursive`` split longer ones. ``hybrid`` packs paragraphs up to a size
in characters, and takes a larger one sentence by sentence. A chunk of ``hybrid`` begins with the last whole
sentences of the chunk before, as many as ``overlap`` characters hold and the first new unit leaves room for.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Literal

from pydantic import Field, model_validator

from ingestor.chunkers.options import OverlapOptions, require_smaller
from ingestor.chunkers.recursive import fitting
from ingestor.model import Chunking, Document, Sums
from ingestor.ports import Embed
from ingestor.registry import Plugin
from ingestor.text.bonds import settle
from ingestor.text.limits import SMALLEST, count, pack, windows
from ingestor.text.sentences import paragraphs, sentences
from ingestor.text.spans import Span, by_characters, chunks
from ingestor.text.tokens import Tokens


class FixedOptions(OverlapOptions):
    size: int = Field(default=200, ge=SMALLEST, description="size of a window, in `unit`")
    unit: Literal["tokens", "characters"] = Field(
        default="tokens", description="unit of `size` and `overlap`"
    )

    @model_validator(mode="after")
    def _sizes_in_order(self) -> "FixedOptions":
        require_smaller("overlap", self.overlap, "size", self.size)
        return self


class SentenceOptions(OverlapOptions):
    """Options of windows of sentences. ``overlap`` is in sentences."""

    max_sentences: int = Field(default=10, ge=1, description="most sentences of a chunk")
    overlap: int = Field(default=2, ge=0, description="sentences at a chunk's end that the next one repeats")
    max_tokens: int | None = Field(
        default=250, ge=SMALLEST, description="longer chunks are cut; `null`: no limit"
    )

    @model_validator(mode="after")
    def _sizes_in_order(self) -> "SentenceOptions":
        require_smaller("overlap", self.overlap, "max_sentences", self.max_sentences)
        return self


class ParagraphOptions(OverlapOptions):
    """Options of windows of paragraphs. ``overlap`` is in paragraphs."""

    max_paragraphs: int = Field(default=3, ge=1, description="most paragraphs of a chunk")
    overlap: int = Field(default=1, ge=0, description="paragraphs at a chunk's end that the next one repeats")
    max_tokens: int | None = Field(
        default=250, ge=SMALLEST, description="longer chunks are cut; `null`: no limit"
    )

    @model_validator(mode="after")
    def _sizes_in_order(self) -> "ParagraphOptions":
        require_smaller("overlap", self.overlap, "max_paragraphs", self.max_paragraphs)
        return self


class HybridOptions(OverlapOptions):
    """Options of packed paragraphs. ``max_size`` and ``overlap`` are in characters."""

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


class Fixed:
    """Windows of a fixed size, whatever they cut through. The cheapest strategy, and the plain baseline."""

    def __init__(self, options: FixedOptions, tokens: Tokens) -> None:
        self._options, self._tokens = options, tokens

    def chunk(self, document: Document, embed: Embed, others: Sums | None) -> Chunking:
        text, tokens, options = document.text, self._tokens, self._options
        by_tokens = options.unit == "tokens"
        whole = (0, len(text))
        if by_tokens:
            spans = windows(text, whole, tokens, options.size, options.overlap)
        else:
            spans = by_characters(text, whole, options.size, options.overlap)

        def within(span: Span) -> bool:
            return (count(text, span, tokens) if by_tokens else span[1] - span[0]) <= options.size

        kept = settle(document, spans, tokens, options.min_tokens, options.max_tokens, within)
        return Chunking(chunks(text, kept))


class Sentence:
    """Windows of whole sentences. A sentence is cut only where it is over ``max_tokens`` by itself."""

    def __init__(self, options: SentenceOptions, tokens: Tokens) -> None:
        self._options, self._tokens = options, tokens

    def chunk(self, document: Document, embed: Embed, others: Sums | None) -> Chunking:
        text, tokens, options = document.text, self._tokens, self._options
        units = sentences(text, language=document.language)
        spans = pack(text, units, tokens, options.max_tokens, options.max_sentences, options.overlap)
        return Chunking(chunks(text, settle(document, spans, tokens, options.min_tokens, options.max_tokens)))


class Paragraph:
    """Windows of paragraphs, which blank lines separate; ``recursive`` splits one over ``max_tokens``."""

    def __init__(self, options: ParagraphOptions, tokens: Tokens) -> None:
        self._options, self._tokens = options, tokens

    def chunk(self, document: Document, embed: Embed, others: Sums | None) -> Chunking:
        text, tokens, options = document.text, self._tokens, self._options
        units = fitting(text, paragraphs(text), tokens, options.max_tokens)
        spans = pack(text, units, tokens, options.max_tokens, options.max_paragraphs, options.overlap)
        return Chunking(chunks(text, settle(document, spans, tokens, options.min_tokens, options.max_tokens)))


class Hybrid:
    """Paragraphs packed up to a size in characters. A larger paragraph is taken sentence by sentence."""

    def __init__(self, options: HybridOptions, tokens: Tokens) -> None:
        self._options, self._tokens = options, tokens

    def chunk(self, document: Document, embed: Embed, others: Sums | None) -> Chunking:
        text, options = document.text, self._options
        parts = sentences(text, language=document.language)
        units = list(_paragraphs_or_sentences(text, parts, options.max_size))
        starts = sorted({start for start, _ in (*parts, *units)})
        spans = _pack_characters(units, starts, options.max_size, options.overlap)

        def within(span: Span) -> bool:
            return span[1] - span[0] <= options.max_size

        kept = settle(document, spans, self._tokens, options.min_tokens, options.max_tokens, within)
        return Chunking(chunks(text, kept))


def _paragraphs_or_sentences(text: str, sentences: Sequence[Span], size: int) -> Iterator[Span]:
    """Yield paragraphs, the sentences of paragraphs over ``size``, and windows of sentences over it."""
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


def _pack_characters(units: Sequence[Span], starts: Sequence[int], size: int, overlap: int) -> Iterator[Span]:
    """Yield spans from one of ``starts`` to the end of a unit; every unit lies in one of them."""
    new = 0  # the first unit that no span holds yet
    begin = end = units[0][0] if units else 0
    while new < len(units):
        earliest = max(end - overlap, units[new][1] - size, begin + 1) if new else begin
        begin = starts[bisect_left(starts, min(earliest, units[new][0]))]
        new = max(bisect_right(units, begin + size, key=itemgetter(1)), new + 1)
        end = units[new - 1][1]
        yield begin, end


FIXED = Plugin(kind="fixed", version=2, options=FixedOptions, build=Fixed)
SENTENCE = Plugin(kind="sentence", version=2, options=SentenceOptions, build=Sentence)
PARAGRAPH = Plugin(kind="paragraph", version=2, options=ParagraphOptions, build=Paragraph)
HYBRID = Plugin(kind="hybrid", version=2, options=HybridOptions, build=Hybrid)
