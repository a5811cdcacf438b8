"""The format's own units: sections under headings, or functions and statements of code.

A section's blocks are packed up to ``max_tokens``, never across a heading; a section without a body joins
the next. In code small neighbours are packed, and what is too large is opened: a class down to its methods, a
function down to its statements. A chunk that begins inside a function or class carries the signature
(``signature``), which also stands in front of the chunk. Other units over the limit are split by
``recursive``, which cuts a table between rows. A sentence that ends its line with a colon stays with what it
announces, or with the beginning of that. Blank lines and indentation divide languages without a grammar, and
the chunks have ``fallback``.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

from pydantic import Field

from ingestor.chunkers.options import ChunkerOptions
from ingestor.chunkers.recursive import fitting, pieces
from ingestor.core.content_types import code_language
from ingestor.model import Chunk, Chunking, Document, Scalar
from ingestor.registry import Plugin
from ingestor.text.bonds import announces, settle
from ingestor.text.code_units import NoGrammar, Opened, Unit, groups_by_layout, statements, versions
from ingestor.text.limits import SMALLEST, Ruler, count, pack, sizes
from ingestor.text.nested_units import INDENTED, groups_by_indentation
from ingestor.text.sections import sections, units
from ingestor.text.sentences import sentences
from ingestor.text.spans import Span, chunks, trim, trim_all, union

if TYPE_CHECKING:
    from ingestor.model import Sums
    from ingestor.ports import Embed
    from ingestor.text.tokens import Tokens

_INEXACT = 12  # tokens by which a sum of counts, or a count inside a longer text, may be off

Extra = tuple[tuple[str, Scalar], ...]


class StructureOptions(ChunkerOptions):
    """``depth``: how many levels of headings begin a section of their own."""

    max_tokens: int = Field(
        default=250, ge=SMALLEST, description="smaller units are packed, larger ones are cut"
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
            spans += self._packed(text, blocks[bisect_left(starts, start) : bisect_left(starts, end)])
        return chunks(text, self._limited(document, spans))

    def _code(self, document: Document, language: str) -> tuple[Chunk, ...]:
        text, tokens, most = document.text, self._tokens, self._options.max_tokens
        ruler = Ruler(text, (0, len(text)), tokens)
        opened: list[Opened] = []
        fallback: Extra = ()

        def fits(span: Span) -> bool:
            size = ruler.size(span)  # as counted inside the whole: exact but for a few tokens
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
            parts = trim_all(text, [(unit.start, unit.end) for unit in group])
            if fallback or language in INDENTED:
                spans += self._packed(text, parts)
            else:
                spans += _fill(text, fitting(text, parts, tokens, most), tokens, most)
        kept = self._limited(document, spans)
        units = [unit for group in groups for unit in group]
        signatures = _signatures(opened, kept)
        return tuple(
            Chunk(start, end, text[start:end], extra=(*_symbols(units, (start, end)), *signed, *fallback))
            for (start, end), signed in zip(kept, signatures, strict=True)
        )

    def _packed(self, text: str, units: Sequence[Span]) -> Iterator[Span]:
        """Units that may share a chunk, each split where it is too large for one."""
        most = self._options.max_tokens
        parts = introduced(text, fitting(text, units, self._tokens, most), self._tokens, most)
        return pack(text, parts, self._tokens, most)

    def _limited(self, document: Document, spans: Sequence[Span]) -> list[Span]:
        return settle(document, spans, self._tokens, self._options.min_tokens, self._options.max_tokens)


def _fill(text: str, units: Sequence[Span], tokens: "Tokens", most: int) -> list[Span]:
    """Pack units as ``pack`` does, with exact counts, so that no later limit cuts within a statement."""
    spans: list[Span] = []
    total = 0
    for unit, size in zip(units, sizes(text, units, tokens), strict=True):
        both = union(spans[-1], unit) if spans else unit
        total += size
        if spans and (total <= most - _INEXACT or count(text, both, tokens) <= most):
            spans[-1] = both
        else:
            spans.append(unit)
            total = size
    return spans


def _symbols(units: Sequence[Unit], span: Span) -> Extra:
    """Name the functions and classes that a span touches."""
    first = bisect_right(units, span[0], key=attrgetter("start")) - 1
    end = bisect_left(units, span[1], key=attrgetter("start"))
    names = [unit.symbol for unit in units[max(first, 0) : end] if unit.symbol]
    distinct = dict.fromkeys(name for each in names for name in each.split(", "))
    return (("symbol", ", ".join(distinct)),) if names else ()


def _signatures(opened: Sequence[Opened], spans: Sequence[Span]) -> Iterator[Extra]:
    """Yield the signatures of the functions and classes that each of the ordered spans begins inside."""
    around: list[Opened] = []
    waiting = sorted(opened, key=attrgetter("start"), reverse=True)
    for start, _ in spans:
        while waiting and waiting[-1].start < start:
            around.append(waiting.pop())
        around = [each for each in around if each.end > start]
        line = " > ".join(each.signature for each in around)
        yield (("signature", line),) if line else ()


PLUGIN = Plugin(kind="structure", version=f"6, {versions()}", options=StructureOptions, build=Structure)


def introduced(text: str, parts: Sequence[Span], tokens: "Tokens", most: int) -> list[Span]:
    """Join each part that announces the next to it, or to its beginning; parts are ordered and trimmed.

    Only the last sentence of a paragraph is joined. No part has more than ``most`` tokens.
    """
    found: list[Span] = []  # from the last to the first
    for part in reversed(parts):
        if not (found and announces(text, part, found[-1])):
            found.append(part)
            continue
        *before, last = sentences(text, part)
        found += _joined(text, last, found.pop(), tokens, most)
        if before:
            found.append((part[0], before[-1][1]))
    return found[::-1]


def _joined(text: str, lead: Span, following: Span, tokens: "Tokens", most: int) -> Iterator[Span]:
    """Yield both as one, or the lead with the beginning that fits; from the last to the first."""
    whole = union(lead, following)
    if count(text, whole, tokens) <= most:
        yield whole
        return
    room = most - count(text, lead, tokens) - 2  # for the blank line between them
    first, *rest = pieces(text, following, tokens, room) if room > most // 2 else [following]
    both = union(lead, first)
    fits = count(text, both, tokens) <= most
    yield from reversed(rest)
    yield from [both] if fits else [first, lead]
