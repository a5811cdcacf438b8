"""Strategy ``structure``: chunks are sections under headings, or functions and statements of code.

The blocks of a section are packed up to ``max_tokens``, never across a heading. A section without text of its
own is joined with the next. In code, small neighbours are packed, and large units are divided: a class into
methods, a function into statements. A chunk that begins inside a function or class has its signature in the
metadata ``signature``, which is also the chunk's context. Other units over the limit are split between lines,
else between sentences or words. Code without a grammar is cut at blank lines before unindented lines, and its
chunks have the metadata ``fallback``.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

from pydantic import Field

from ingestor.chunkers.options import ChunkerOptions
from ingestor.chunkers.recursive import split_large
from ingestor.core.content_types import code_language
from ingestor.model import Chunk, Chunking, Document, Scalar
from ingestor.registry import Plugin
from ingestor.text.bonds import settle
from ingestor.text.code_units import NoGrammar, Opened, Unit, groups_by_layout, statements, versions
from ingestor.text.limits import SMALLEST, Ruler, count, sizes
from ingestor.text.nested_units import INDENTED, groups_by_indentation
from ingestor.text.sections import sections, units
from ingestor.text.spans import Span, chunks, trim, trim_all, union

if TYPE_CHECKING:
    from ingestor.model import Sums
    from ingestor.ports import Embed
    from ingestor.text.tokens import Tokens

_INEXACT = 12  # tokens by which a sum of counts, or a count inside a longer text, may be wrong

Extra = tuple[tuple[str, Scalar], ...]


class StructureOptions(ChunkerOptions):
    """Options of ``structure``. ``depth``: number of heading levels that begin a section."""

    max_tokens: int = Field(
        default=250,
        ge=SMALLEST,
        description="most tokens of a chunk; smaller units are packed, larger units are split",
    )
    depth: int = Field(default=6, ge=1, description="levels of headings that start a section")


class Structure:
    def __init__(self, options: StructureOptions, tokens: "Tokens") -> None:
        self._options, self._tokens = options, tokens

    def chunk(self, document: Document, embed: "Embed", others: "Sums | None") -> Chunking:
        language = code_language(document.content_type)
        return Chunking(self._code(document, language) if language else self._prose(document))

    def _prose(self, document: Document) -> tuple[Chunk, ...]:
        text, blocks = document.text, units(document)
        starts = [start for start, _ in blocks]
        spans: list[Span] = []
        for start, end in sections(document, self._options.depth):
            spans += self._pack(text, blocks[bisect_left(starts, start) : bisect_left(starts, end)])
        return chunks(text, self._apply_limits(document, spans))

    def _code(self, document: Document, language: str) -> tuple[Chunk, ...]:
        text, tokens, most = document.text, self._tokens, self._options.max_tokens
        ruler = Ruler(text, (0, len(text)), tokens)
        opened: list[Opened] = []
        fallback: Extra = ()

        def fits(span: Span) -> bool:
            size = ruler.size(span)  # approximate: counted inside the whole text
            near = abs(size - most) <= _INEXACT
            return count(text, trim(text, span), tokens) <= most if near else size <= most

        try:
            if language in INDENTED:
                groups = groups_by_indentation(text, language, fits)
            else:
                groups, opened = statements(text, language, fits)
        except NoGrammar as missing:
            groups = groups_by_layout(text)
            fallback = (("fallback", f"{missing}; cut at blank lines"),)
        spans: list[Span] = []
        for group in groups:
            spans += self._pack(text, trim_all(text, [(unit.start, unit.end) for unit in group]))
        kept = self._apply_limits(document, spans)
        units = [unit for group in groups for unit in group]
        signatures = _signatures(opened, kept)
        return tuple(
            Chunk(start, end, text[start:end], extra=(*_symbols(units, (start, end)), *signed, *fallback))
            for (start, end), signed in zip(kept, signatures, strict=True)
        )

    def _pack(self, text: str, units: Sequence[Span]) -> list[Span]:

        tokens, most = self._tokens, self._options.max_tokens
        parts, spans, total = split_large(text, units, tokens, most), list[Span](), 0
        for part, size in zip(parts, sizes(text, parts, tokens), strict=True):
            both = union(spans[-1], part) if spans else part
            total += size
            if spans and (total <= most - _INEXACT or count(text, both, tokens) <= most):
                spans[-1] = both
            else:
                spans.append(part)
                total = size
        return spans

    def _apply_limits(self, document: Document, spans: Sequence[Span]) -> list[Span]:
        return settle(document, spans, self._tokens, self._options.min_tokens, self._options.max_tokens)


def _symbols(units: Sequence[Unit], span: Span) -> Extra:
    """Return the metadata ``symbol``: the names of the functions and classes that a span overlaps."""
    first = bisect_right(units, span[0], key=attrgetter("start")) - 1
    end = bisect_left(units, span[1], key=attrgetter("start"))
    names = [unit.symbol for unit in units[max(first, 0) : end] if unit.symbol]
    distinct = dict.fromkeys(name for each in names for name in each.split(", "))
    return (("symbol", ", ".join(distinct)),) if names else ()


def _signatures(opened: Sequence[Opened], spans: Sequence[Span]) -> Iterator[Extra]:
    """Yield the metadata ``signature`` of each span: the functions and classes inside which the span begins.

    ``opened``: functions and classes that were divided, with their signatures.
    """
    around: list[Opened] = []
    waiting = sorted(opened, key=attrgetter("start"), reverse=True)
    for start, _ in spans:
        while waiting and waiting[-1].start < start:
            around.append(waiting.pop())
        around = [each for each in around if each.end > start]
        line = " > ".join(each.signature for each in around)
        yield (("signature", line),) if line else ()


PLUGIN = Plugin(kind="structure", version=f"8, {versions()}", options=StructureOptions, build=Structure)
