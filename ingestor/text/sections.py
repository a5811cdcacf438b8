"""Sections of a document, and anchors, at which an algorithm that reads a text in windows restarts. Pure.

Headings are those that the parser found, with the labels and comments before them.

If each window began where the last one ended, an edit would shift all later windows. So the text is first
divided at *anchors*: parts whose rank exceeds that of all others within some distance, the *reach*, on both
sides. An anchor depends only on its neighbourhood, so an edit affects no anchor beyond the reach. Two anchors
are more than a reach apart, two reaches on average; among equal parts there is no anchor. [Local maximum
chunking: Bjørner, Blass & Gurevich, 2010.]
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
    """The span of a heading with the labels before it, and the heading's level; 1 is the outermost."""

    start: int
    end: int
    level: int


def headings(document: Document) -> list[Heading]:
    """Return the headings of a document in order."""
    openings = section_openings(document.blocks)
    return [Heading(first.start, heading.end, heading.level) for first, heading in openings]


def sections(document: Document, depth: int) -> list[Span]:
    """Return the sections of a document as spans, cut before headings of the first ``depth`` levels.

    Only levels that occur in the document count. A section without text of its own is joined with the next.
    """
    text, marked = document.text, headings(document)
    deepest = sorted({heading.level for heading in marked})[:depth]
    cuts = [heading.start for heading in marked if heading.level in deepest]
    return trim_all(text, _with_bodies(split((0, len(text)), cuts), _bodies(text, marked)))


def label_spans(document: Document) -> list[Span]:
    """Return, in order, the spans of headings, and of labels and comments before other blocks.

    Such a span belongs to the text after it.
    """
    above = [(heading.start, heading.end) for heading in headings(document)]
    others = [(block.start, block.end) for block in document.blocks if block.kind in LEADING]
    starts = [start for start, _ in above]
    return sorted(above + [span for span in others if not _within(above, owner(starts, span[0]), span)])


def _within(spans: Sequence[Span], at: int, span: Span) -> bool:
    return at >= 0 and span[1] <= spans[at][1]


def units(document: Document) -> list[Span]:
    """Return the units of which sections consist: each block with the labels before it, up to the next block.

    If the document has no blocks, the units are its paragraphs.
    """
    text, blocks = document.text, document.blocks
    before = ["", *(block.kind for block in blocks)]
    starts = {block.start for block, kind in zip(blocks, before, strict=False) if kind not in LEADING}
    starts = starts or {start for start, _ in paragraphs(text)}
    starts |= {heading.start for heading in headings(document)}
    return trim_all(text, split((0, len(text)), sorted(starts)))


def _with_bodies(parts: list[Span], bodies: Sequence[int]) -> Iterator[Span]:
    """Yield the parts in which a body begins; another part is joined with the next one.

    ``bodies``: starts of the texts under headings, ascending.
    """
    begin = parts[0][0]
    for start, end in parts:
        if owner(bodies, end - 1) > owner(bodies, start - 1) or end == parts[-1][1]:
            yield begin, end
            begin = end


def _bodies(text: str, marked: Sequence[Heading]) -> list[int]:
    """Return the starts of the texts between one heading and the next, and before the first heading."""
    gaps = zip(
        [0, *(heading.end for heading in marked)],
        [*(heading.start for heading in marked), len(text)],
        strict=True,
    )
    return [start for start, _ in trim_all(text, gaps)]


Rank = tuple[int, int]
_OUTERMOST = 100  # above the number of levels of headings in any format


def stretches(document: Document, parts: Sequence[Span], sizes: Sequence[int], reach: int) -> list[Span]:
    """Divide the parts of a text at anchors; return each stretch as a range of parts [first, end).

    ``sizes``: size of each part. ``reach``: distance, in the same unit, within which an anchor has the
    highest rank.
    """
    if not parts:
        return []
    places = anchors(ranks(document, parts), sizes, reach)
    edges = [0, *(at for at in places if at), len(parts)]
    return list(pairwise(edges))


def ranks(document: Document, parts: Sequence[Span]) -> list[Rank]:
    """Return the rank of each part: outer headings, inner headings, starts of paragraphs, all others.

    Parts of the same kind are ranked by a checksum of their text.
    """
    levels = {heading.start: _OUTERMOST - heading.level for heading in headings(document)}
    starts = {start: 1 for start, _ in paragraphs(document.text)} | levels
    text = document.text
    return [
        (starts.get(start, 0), crc32(text[start:end].encode("utf-8", "surrogatepass")))
        for start, end in parts
    ]


def anchors(ranks: Sequence[Rank], sizes: Sequence[int], reach: int) -> list[int]:
    """Return the indexes of parts that rank higher than every part that begins nearby, in ascending order.

    Nearby is a distance of at most ``reach`` characters, before or after. ``sizes``: lengths of the parts in
    characters. Parts nearer than ``reach`` to either end of the text are left out.
    """
    *begins, total = accumulate(sizes, initial=0)
    places = []
    for at in range(bisect_left(begins, reach), bisect_right(begins, total - reach)):
        first, end = bisect_left(begins, begins[at] - reach), bisect_right(begins, begins[at] + reach)
        others = (*ranks[first:at], *ranks[at + 1 : end])
        if ranks[at] > max(others, default=(-1, 0)):
            places.append(at)
    return places
