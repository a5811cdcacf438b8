"""Strategies that pack units of a text into windows: ``fixed``, ``sentence``, ``paragraph`` and ``hybrid``.

``fixed`` packs tokens or characters, and may cut words: the cheapest strategy, and the simplest baseline. A
window has ``size`` tokens as they are in the whole text. It has a few fewer if its own text has more tokens
than that, or if its end would split a user-perceived character.

``sentence`` packs whole sentences, and cuts only one over ``max_tokens``. ``paragraph`` packs paragraphs,
which blank lines separate, and splits longer ones between sentences. ``hybrid`` packs paragraphs up to a size
in characters, and a larger paragraph sentence by sentence. A chunk of ``hybrid`` begins with the last whole
sentences of the previous chunk, up to ``overlap`` characters, if its first new unit leaves room.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import ClassVar, Literal

from pydantic import Field

from ingestor.chunkers.options import OverlapOptions
from ingestor.chunkers.recursive import split_large
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


class SentenceOptions(OverlapOptions):
    """Options of ``sentence``. ``overlap`` counts sentences."""

    size_option: ClassVar = "max_sentences"

    max_sentences: int = Field(default=10, ge=1, description="most sentences of a chunk")
    overlap: int = Field(default=2, ge=0, description="sentences at a chunk's end that the next one repeats")
    max_tokens: int | None = Field(
        default=250, ge=SMALLEST, description="most tokens of a chunk; `null`: no limit"
    )


class ParagraphOptions(OverlapOptions):
    """Options of ``paragraph``. ``overlap`` counts paragraphs."""

    size_option: ClassVar = "max_paragraphs"

    max_paragraphs: int = Field(default=3, ge=1, description="most paragraphs of a chunk")
    overlap: int = Field(default=1, ge=0, description="paragraphs at a chunk's end that the next one repeats")
    max_tokens: int | None = Field(
        default=250, ge=SMALLEST, description="most tokens of a chunk; `null`: no limit"
    )


class HybridOptions(OverlapOptions):
    """Options of ``hybrid``. ``max_size`` and ``overlap`` count characters."""

    size_option: ClassVar = "max_size"

    max_size: int = Field(default=1000, ge=50, description="most characters of a chunk")
    overlap: int = Field(
        default=100,
        ge=0,
        description="characters of whole sentences that the next chunk repeats",
    )


class Fixed:
    """Strategy ``fixed``: windows of a fixed size, which may cut words; the cheapest strategy."""

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
    """Strategy ``sentence``: windows of whole sentences. Only a sentence over ``max_tokens`` is cut."""

    def __init__(self, options: SentenceOptions, tokens: Tokens) -> None:
        self._options, self._tokens = options, tokens

    def chunk(self, document: Document, embed: Embed, others: Sums | None) -> Chunking:
        text, tokens, options = document.text, self._tokens, self._options
        units = sentences(text, language=document.language)
        spans = pack(text, units, tokens, options.max_tokens, options.max_sentences, options.overlap)
        return Chunking(chunks(text, settle(document, spans, tokens, options.min_tokens, options.max_tokens)))


class Paragraph:
    """Strategy ``paragraph``: windows of paragraphs, of which larger ones are split between sentences."""

    def __init__(self, options: ParagraphOptions, tokens: Tokens) -> None:
        self._options, self._tokens = options, tokens

    def chunk(self, document: Document, embed: Embed, others: Sums | None) -> Chunking:
        text, tokens, options = document.text, self._tokens, self._options
        units = split_large(text, paragraphs(text), tokens, options.max_tokens)
        spans = pack(text, units, tokens, options.max_tokens, options.max_paragraphs, options.overlap)
        return Chunking(chunks(text, settle(document, spans, tokens, options.min_tokens, options.max_tokens)))


class Hybrid:
    """Strategy ``hybrid``: paragraphs packed up to a size in characters; longer ones sentence by sentence."""

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
    """Yield each paragraph of at most ``size`` characters, and the sentences of longer paragraphs.

    A sentence over ``size`` is cut.
    """
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
    """Yield spans of at most ``size`` characters, which together cover every unit.

    ``starts``: offsets at which a span may begin. A span begins at most ``overlap`` characters before the
    previous one's end. Only a span of a single unit may exceed ``size``.
    """
    new = 0  # index of the first unit that no span covers yet
    begin = end = units[0][0] if units else 0
    while new < len(units):
        earliest = max(end - overlap, units[new][1] - size, begin + 1) if new else begin
        begin = starts[bisect_left(starts, min(earliest, units[new][0]))]
        new = max(bisect_right(units, begin + size, key=itemgetter(1)), new + 1)
        end = units[new - 1][1]
        yield begin, end


FIXED = Plugin(kind="fixed", version=2, options=FixedOptions, build=Fixed)
SENTENCE = Plugin(kind="sentence", version=2, options=SentenceOptions, build=Sentence)
PARAGRAPH = Plugin(kind="paragraph", version=3, options=ParagraphOptions, build=Paragraph)
HYBRID = Plugin(kind="hybrid", version=2, options=HybridOptions, build=Hybrid)
