"""Sections of a document, and anchors, at which an algorithm that reads in windows restarts. Pure.

Headings are those of the parser, with the labels and comments before them.

If each window begins where the last one ended, an edit shifts all later windows. So the text is first divided
at *anchors*: parts that outrank all others within a reach before and after. An anchor depends on that
neighbourhood only, so an edit affects no anchor beyond the reach. Two anchors are more than a reach apart,
two reaches on average; among equal parts there is no anchor. [Local maximum chunking: Bjørner, Blass &
Gurevich, 2010.]
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from zlib import crc32

from ingestor.model import Document
from ingestor.text.outline import LEADING, section_openings
from ingestor.text.sentences import paragraphs
from ingestor.text.spans import Span, owner, split, trim_all


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading's span with the labels before it, and its level; 1 is the outermost."""

    start: int
    end: int
    level: int


def headings(document: Document) -> list[Heading]:
    """Return the headings in order."""
    openings = section_openings(document.blocks)
    return [Heading(first.start, heading.end, heading.level) for first, heading in openings]


def sections(document: Document, depth: int) -> list[Span]:
    """Return the whole text, cut at every heading down to level ``depth``.

    A section without a body joins the next. Only levels of this document count: 1 is the outermost one that
    occurs.
    """
    text, marked = document.text, headings(document)
    deepest = sorted({heading.level for heading in marked})[:depth]
    cuts = [heading.start for heading in marked if heading.level in deepest]
    return trim_all(text, _with_bodies(split((0, len(text)), cuts), _bodies(text, marked)))


def label_spans(document: Document) -> list[Span]:
    """Return the spans that belong to the text after them, in order.

    They are headings, and labels and comments before other blocks.
    """
    above = [(heading.start, heading.end) for heading in headings(document)]
    others = [(block.start, block.end) for block in document.blocks if block.kind in LEADING]
    starts = [start for start, _ in above]
    return sorted(above + [span for span in others if not _within(above, owner(starts, span[0]), span)])


def _within(spans: Sequence[Span], at: int, span: Span) -> bool:
    return at >= 0 and span[1] <= spans[at][1]


def units(document: Document) -> list[Span]:
    """Return the parts of sections: blocks with the labels before them, each up to the next block.

    If the document has no blocks, the parts are paragraphs.
    """
    text, blocks = document.text, document.blocks
    before = ["", *(block.kind for block in blocks)]
    starts = {block.start for block, kind in zip(blocks, before, strict=False) if kind not in LEADING}
    starts = starts or {start for start, _ in paragraphs(text)}
    starts |= {heading.start for heading in headings(document)}
    return trim_all(text, split((0, len(text)), sorted(starts)))


def _with_bodies(parts: list[Span], bodies: Sequence[int]) -> Iterator[Span]:
    """Yield parts that contain one of the ascending ``bodies``; other parts are joined to the next part."""
    begin = parts[0][0]
    for start, end in parts:
        if owner(bodies, end - 1) > owner(bodies, start - 1) or end == parts[-1][1]:
            yield begin, end
            begin = end


def _bodies(text: str, marked: Sequence[Heading]) -> list[int]:
    """Return the starts of texts between one heading and the next, or before the first."""
    gaps = zip(
        [0, *(heading.end for heading in marked)],
        [*(heading.start for heading in marked), len(text)],
        strict=True,
    )
    return [start for start, _ in trim_all(text, gaps)]


Rank = tuple[int, int]
_OUTERMOST = 100  # above the number of levels of headings in any format


def stretches(document: Document, parts: Sequence[Span], sizes: Sequence[int], reach: int) -> list[Span]:
    """Return runs [first, end) of the parts, divided at anchors. ``reach``: in the units of ``sizes``."""
    if not parts:
        return []
    places = anchors(ranks(document, parts), sizes, reach)
    edges = [0, *(at for at in places if at), len(parts)]
    return list(pairwise(edges))


def ranks(document: Document, parts: Sequence[Span]) -> list[Rank]:
    """Rank the parts: outer headings, inner headings, paragraphs, all others; equal ones by content."""
    levels = {heading.start: _OUTERMOST - heading.level for heading in headings(document)}
    starts = {start: 1 for start, _ in paragraphs(document.text)} | levels
    text = document.text
    return [
        (starts.get(start, 0), crc32(text[start:end].encode("utf-8", "surrogatepass")))
        for start, end in parts
    ]


def anchors(ranks: Sequence[Rank], sizes: Sequence[int], reach: int) -> list[int]:
    """Return ascending positions that outrank all others beginning within ``reach``.

    Positions nearer than ``reach`` to either end are left out.
    """
    *begins, total = accumulate(sizes, initial=0)
    places = []
    for at in range(bisect_left(begins, reach), bisect_right(begins, total - reach)):
        first, end = bisect_left(begins, begins[at] - reach), bisect_right(begins, begins[at] + reach)
        others = (*ranks[first:at], *ranks[at + 1 : end])
        if ranks[at] > max(others, default=(-1, 0)):
            places.append(at)
    return places
