"""Running headers and footers of a PDF: lines that stand at the edge of several pages. Pure.

What makes up most of the pages that it stands on is none. A slanted line that repeats is a watermark,
wherever it stands.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from ingestor.parsers.pdf.lines import LARGE, Line, PageLines, body_size

_MARGIN = 0.12  # of the page's height, at the top and at the bottom
_REPEATED = 3  # pages with the same line in the same place: no text
_MOST = 0.5  # of a page's characters: what is more is its text
_NEAR = 4  # points between places that are one
_NUMBERED = re.compile(  # "38", "F-12", "Page 3 of 80"
    r"(?:page\s+)?[-–—]?\s?([A-Z]{1,2}-)?(\d{1,4})(?:\s+(?:of|/)\s+\d{1,4})?\s?[-–—]?", re.IGNORECASE
)
_PAGE = re.compile(r"(?:page|seite|página)\s+\d+(?:\s+(?:of|von|de|/)\s+\d+)?", re.IGNORECASE)
_ROMAN = re.compile(r"[ivxlc]+")
_DIGITS = re.compile(r"\d+")

_Key = tuple[str, int]  # words of a line of the margin, and its place


def without_furniture(pages: Sequence[PageLines]) -> list[PageLines]:
    """Remove lines of the margins that are the same on several pages, apart from the page's number.

    The outermost line goes if some pages have it. Others must stand on half of the pages, and so must what is
    larger than the text, or a table.
    """
    pages, body = _without_numbers(pages), body_size(pages)
    keys = [_keys_of(page) for page in pages]
    counts, most = Counter[_Key](), Counter[_Key]()
    for page, own in zip(pages, keys, strict=True):
        every = set[_Key]().union(*own)
        counts.update(every)
        size = sum(len(line.text) for line in page.lines)
        if sum(len(line.text) for line, one in zip(page.lines, own, strict=True) if one) > _MOST * size:
            most.update(every)
    some, half = max(_REPEATED, len(pages) // 50), max(_REPEATED, len(pages) // 2)
    kept = []
    for page, own in zip(pages, keys, strict=True):
        lines, outermost = list[Line](), _outermost(page)
        for at, (line, one) in enumerate(zip(page.lines, own, strict=True)):
            plain = not line.rows and line.size <= LARGE * body
            enough = some if line.slanted or (plain and at in outermost) else half
            if not any(counts[key] >= enough and 2 * most[key] <= counts[key] for key in one):
                lines.append(line)
        kept.append(replace(page, lines=tuple(lines)))
    return kept


def _without_numbers(pages: Sequence[PageLines]) -> list[PageLines]:
    """Drop page numbers wherever they stand: first or last on their page, and one more from page to page."""
    places: list[dict[int, tuple[str, int]]] = []
    for number, page in enumerate(pages):
        own: dict[int, tuple[str, int]] = {}
        for at in {0, len(page.lines) - 1} if page.lines else ():
            line = page.lines[at]
            if not line.rows and (match := _NUMBERED.fullmatch(line.text)):
                own[at] = (match[1] or "", int(match[2]) - number)
        places.append(own)
    counts = Counter(key for own in places for key in set(own.values()))
    return [
        replace(
            page,
            lines=tuple(
                line for at, line in enumerate(page.lines) if at not in own or counts[own[at]] < _REPEATED
            ),
        )
        for page, own in zip(pages, places, strict=True)
    ]


def _outermost(page: PageLines) -> set[int]:
    """Return the highest and the lowest lines."""
    heights = [round(line.baseline) for line in page.lines]
    ends = {max(heights, default=0), min(heights, default=0)}
    return {at for at, height in enumerate(heights) if height in ends}


def _keys_of(page: PageLines) -> list[set[_Key]]:
    """Return the part of each line that repeats on other pages; nothing for lines inside the page."""
    top, bottom = (1 - _MARGIN) * page.height, _MARGIN * page.height
    return [
        _keys(line, page.label) if line.slanted or not bottom < line.baseline < top else set()
        for line in page.lines
    ]


def _keys(line: Line, label: str) -> set[_Key]:
    if line.rows:  # figures of a table are its content
        shapes = {_PAGE.sub("#", "\n".join(" ".join(row) for row in line.rows))}
    else:
        words = line.text.split()
        shapes = {"#" if _ROMAN.fullmatch(line.text.lower()) else _DIGITS.sub("#", line.text)}
        shapes |= {""} if label in (words[0], words[-1]) else set()
    place = line.baseline / _NEAR
    return {(shape, int(place + half)) for shape in shapes for half in (0.0, 0.5)}
