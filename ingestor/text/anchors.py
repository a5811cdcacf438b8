"""Places far apart at which an algorithm that reads a text in windows restarts. Pure.

If each window begins where the last one ended, one edit shifts all windows after it.
So the text is first divided at *anchors*: parts that outrank all others
within a reach before and after them. Where there is an anchor depends on that neighbourhood only, so an edit
moves anchors no further away than that. Two of them are more than a reach apart, two reaches on average;
where all parts are alike there is none. [Local maximum chunking: Bjørner, Blass & Gurevich, 2010.]
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise
from zlib import crc32

from ingestor.model import Document
from ingestor.text.sections import headings
from ingestor.text.sentences import paragraphs
from ingestor.text.spans import Span

Rank = tuple[int, int]
_OUTERMOST = 100  # above the number of levels of headings in any format


def stretches(document: Document, parts: Sequence[Span], sizes: Sequence[int], reach: int) -> list[Span]:
    """Runs [first, end) of the parts, divided at anchors; ``reach`` is in the units of ``sizes``."""
    if not parts:
        return []
    places = anchors(ranks(document, parts), sizes, reach)
    edges = [0, *(at for at in places if at), len(parts)]
    return list(pairwise(edges))


def ranks(document: Document, parts: Sequence[Span]) -> list[Rank]:
    """Outer headings before inner ones, these before paragraphs, and before all else; then by content."""
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
