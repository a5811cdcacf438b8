"""The format's own units: sections under headings, or functions and classes of code.

A section's blocks are packed up to ``max_tokens``, never across a heading; a section without a body joins
the next. In code small neighbours are packed, and a class that is too large is opened. A unit over the
limit is split by ``recursive`` inside it, which cuts a table between rows. A sentence that ends its line with
a colon stays with what it announces, or with the beginning of that. Where a language has no grammar, blank
lines and indentation stand in, and the chunks say so (``fallback``).
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from pydantic import Field

from ingestor.chunkers.introductions import introduced
from ingestor.chunkers.options import ChunkerOptions
from ingestor.chunkers.recursive import fitting
from ingestor.core.content_types import code_language
from ingestor.model import Chunk, Chunking, Document, Scalar, Sums
from ingestor.ports import Embed
from ingestor.registry import Plugin
from ingestor.text.bonds import settle
from ingestor.text.code_units import NoGrammar, Unit, groups, groups_by_layout, versions
from ingestor.text.limits import SMALLEST, Ruler
from ingestor.text.nested_units import INDENTED, groups_by_indentation
from ingestor.text.packing import pack
from ingestor.text.sections import sections, units
from ingestor.text.spans import Span, chunks, owner, trim_all
from ingestor.text.tokens import Tokens

Extra = tuple[tuple[str, Scalar], ...]


class StructureOptions(ChunkerOptions):
    """``depth``: how many levels of headings begin a section of their own."""

    max_tokens: int = Field(
        default=250, ge=SMALLEST, description="smaller units are packed, larger ones are cut"
    )
    depth: int = Field(default=6, ge=1, description="levels of headings that start a section")


class Structure:
    def __init__(self, options: StructureOptions, tokens: Tokens) -> None:
        self._options, self._tokens = options, tokens

    def chunk(self, document: Document, embed: Embed, others: Sums | None) -> Chunking:
        language = code_language(document.content_type)
        return Chunking(self._code(document, language) if language else self._prose(document))

    def _prose(self, document: Document) -> tuple[Chunk, ...]:
        text, blocks = document.text, units(document)
        starts = [start for start, _ in blocks]
        spans: list[Span] = []
        for start, end in sections(document, self._options.depth):
            spans += self._packed(text, blocks[bisect_left(starts, start) : bisect_left(starts, end)])
        return chunks(text, self._limited(document, spans))

    def _code(self, document: Document, language: str) -> tuple[Chunk, ...]:
        text = document.text
        ruler = Ruler(text, (0, len(text)), self._tokens)
        fallback: Extra = ()

        def fits(span: Span) -> bool:
            return ruler.size(span) <= self._options.max_tokens

        try:
            by_indentation = language in INDENTED
            found = (groups_by_indentation if by_indentation else groups)(text, language, fits)
        except NoGrammar as missing:
            found = groups_by_layout(text)
            fallback = (("fallback", f"{missing}; cut at blank lines"),)
        spans: list[Span] = []
        for group in found:
            spans += self._packed(text, trim_all(text, [(unit.start, unit.end) for unit in group]))
        named = _Symbols([unit for group in found for unit in group])
        return tuple(
            Chunk(start, end, text[start:end], extra=(*named.within((start, end)), *fallback))
            for start, end in self._limited(document, spans)
        )

    def _packed(self, text: str, units: Sequence[Span]) -> Iterator[Span]:
        """Units that may share a chunk, each split where it is too large for one."""
        most = self._options.max_tokens
        parts = introduced(text, fitting(text, units, self._tokens, most), self._tokens, most)
        return pack(text, parts, self._tokens, most)

    def _limited(self, document: Document, spans: Sequence[Span]) -> list[Span]:
        return settle(document, spans, self._tokens, self._options.min_tokens, self._options.max_tokens)


class _Symbols:
    """Which functions and classes a span touches."""

    def __init__(self, units: Sequence[Unit]) -> None:
        self._units = units
        self._starts = [unit.start for unit in units]

    def within(self, span: Span) -> Extra:
        touched = self._units[max(owner(self._starts, span[0]), 0) : owner(self._starts, span[1] - 1) + 1]
        names = dict.fromkeys(unit.symbol for unit in touched if unit.symbol)
        return (("symbol", ", ".join(names)),) if names else ()


PLUGIN = Plugin(kind="structure", version=f"5, {versions()}", options=StructureOptions, build=Structure)
