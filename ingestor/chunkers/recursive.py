"""Strategy ``recursive``: splits at coarse separators first, and parts that are too large at finer ones.

A text is split at the first separator that occurs in it; each part begins with its separator. Parts under
``size`` are packed greedily, and larger parts are split by the next separators. The empty separator splits
between user-perceived characters. The method is LangChain's RecursiveCharacterTextSplitter, with the
separators of Chroma's technical report of 2024. With the same token count, spans are identical to
LangChain's, except where LangChain's chunk exceeds the size or only repeats the previous chunk.

The length of a part is the number of tokens of its own text. The length of a pack is the sum over its parts,
as in LangChain. The sum is not exact, so the pack's own text is counted as well. A pack over the size passes
its last part on to the next pack. Each part is counted once for every separator tried on it, so time is
linear in the text.
"""

from array import array
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, TypeAlias

from pydantic import Field, field_validator, model_validator

from ingestor.chunkers.options import OverlapOptions, smaller
from ingestor.model import Chunking, Document
from ingestor.registry import Plugin
from ingestor.text.bonds import settle
from ingestor.text.limits import SMALLEST, count, limit
from ingestor.text.sentences import sentences
from ingestor.text.spans import Span, chunks, clusters, trim

if TYPE_CHECKING:
    from ingestor.model import Sums
    from ingestor.ports import Embed
    from ingestor.text.tokens import Tokens

_Numbers: TypeAlias = "array[int]"

_Separators: TypeAlias = "tuple[str | None, ...]"  # None: the starts of sentences

SEPARATORS = ("\n\n", "\n", ".", "?", "!", " ", "")
_LINES_AND_SENTENCES = ("\n\n", "\n", None, " ", ".", "?", "!", "")  # for other strategies


class RecursiveOptions(OverlapOptions):
    size: int = Field(default=200, ge=SMALLEST, description="most tokens of a chunk")
    separators: tuple[str, ...] = Field(
        default=SEPARATORS,
        description="separators, each tried on parts still too large; the empty one splits between "
        "characters",
    )

    @field_validator("separators")
    @classmethod
    def _some_and_distinct(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value or len(set(value)) < len(value):
            raise ValueError(
                "`separators` must be a list of one or more different texts; '' splits between characters"
            )
        return value

    @model_validator(mode="after")
    def _sizes_in_order(self) -> "RecursiveOptions":
        if self.min_tokens is not None and self.min_tokens > self.size:
            raise ValueError(f"min_tokens ({self.min_tokens}) must not exceed size ({self.size})")
        return self


class Recursive:
    def __init__(self, options: RecursiveOptions, tokens: "Tokens") -> None:
        self._options, self._tokens = options, tokens

    def chunk(self, document: Document, embed: "Embed", others: "Sums | None") -> Chunking:
        text, options = document.text, self._options
        size = smaller(options.size, options.max_tokens)
        overlap = min(options.overlap, size - 1)
        spans = pack(text, (0, len(text)), self._tokens, size, overlap, options.separators)
        return Chunking(chunks(text, settle(document, spans, self._tokens, options.min_tokens, size)))


def split_large(text: str, spans: Sequence[Span], tokens: "Tokens", size: int | None) -> list[Span]:
    """Return the spans, but each span over ``size`` tokens cut into packs of lines, sentences or words."""
    if size is None:
        return list(spans)
    counts = tokens.counts([text[start:end] for start, end in spans])
    parts: list[Span] = []
    for span, length in zip(spans, counts, strict=True):
        if length <= size:
            parts.append(span)
        else:
            parts += limit(text, pack(text, span, tokens, size, 0, _LINES_AND_SENTENCES), tokens, None, size)
    return parts


def pack(
    text: str, span: Span, tokens: "Tokens", size: int, overlap: int, separators: _Separators
) -> Iterator[Span]:
    """Yield the packs of a span, untrimmed. Parts of the last separator may exceed ``size``.

    ``overlap``: most tokens of a pack's end that the next pack repeats.
    """
    separator, finer = _first_in(text, span, separators)
    edges = _edges(text, span, separator)
    sizes = _counts(text, edges, tokens)
    first = 0
    for fits, run in groupby(sizes, lambda length: length < size):
        end = first + sum(1 for _ in run)
        if fits:
            yield from _pack_parts(text, edges[first : end + 1], sizes[first:end], tokens, size, overlap)
        else:
            for part in pairwise(edges[first : end + 1]):
                yield from pack(text, part, tokens, size, overlap, finer) if finer else [part]
        first = end


def _first_in(text: str, span: Span, separators: _Separators) -> tuple[str | None, _Separators]:
    """Return the first separator that occurs in a span, and the separators after that one."""
    for index, separator in enumerate(separators):
        if separator is None or text.find(separator, *span) >= 0:
            return separator, separators[index + 1 :] if separator != "" else ()
    return separators[-1], ()


def _edges(text: str, span: Span, separator: str | None) -> _Numbers:
    """Return the start of each part, which begins with its separator, and the end of the span.

    An array takes only eight bytes for each part; a long word has as many parts as characters.
    """
    if separator == "":
        return array("q", clusters(text, span))
    start, end = span
    if separator is None:
        return array("q", [start, *(first for first, _ in sentences(text, span) if first > start), end])
    edges, at = array("q", [start]), text.find(separator, start, end)
    while at >= 0:
        if at > start:
            edges.append(at)
        at = text.find(separator, at + len(separator), end)
    edges.append(end)
    return edges


def _counts(text: str, edges: _Numbers, tokens: "Tokens") -> _Numbers:
    """Count the tokens of each part. Parts with the same text, such as words, are counted only once."""
    distinct: dict[str, int] = {}
    parts = array(
        "q", (distinct.setdefault(text[start:end], len(distinct)) for start, end in pairwise(edges))
    )
    counts = tokens.counts(list(distinct))
    return array("q", (counts[part] for part in parts))


def _pack_parts(
    text: str, edges: _Numbers, sizes: _Numbers, tokens: "Tokens", size: int, overlap: int
) -> Iterator[Span]:
    """Yield packs of parts up to ``size`` tokens; each repeats up to ``overlap`` of the previous one.

    ``edges``: starts of the parts and the last end. ``sizes``: tokens of each part.
    """

    def over(first: int, end: int) -> bool:
        return count(text, trim(text, (edges[first], edges[end])), tokens) > size

    first, end, total = 0, 0, 0  # the pack is the parts first:end
    while end < len(sizes):
        new = end
        while end < len(sizes) and (total + sizes[end] <= size or end == first):
            total += sizes[end]
            end += 1
        while end - first > 1 and over(first, end):  # the sum of counts is not exact
            if end - new > 1:
                end -= 1
                total -= sizes[end]
            else:
                total -= sizes[first]
                first += 1
        yield edges[first], edges[end]
        while end < len(sizes) and (total > overlap or (total and total + sizes[end] > size)):
            total -= sizes[first]
            first += 1


PLUGIN = Plugin(kind="recursive", version=2, options=RecursiveOptions, build=Recursive)
