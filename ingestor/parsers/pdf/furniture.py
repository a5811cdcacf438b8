"""Running headers and footers of a PDF: lines that stand at the edge of several pages. Pure.

A line of a table is none, nor is what makes up most of the pages that it stands on. A slanted line that
repeats is a watermark, wherever it stands.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from ingestor.parsers.pdf.lines import LARGE, Line, PageLines, body_size

_MARGIN = 0.12  # of the page's height, at the top and at the bottom
_REPEATED = 3  # pages with the same line in the same place: no text
_LINES = 4  # of a header or a footer
_MOST = 0.5  # of a page's characters: what is more is its text
_NUMBERED = re.compile(  # "38", "F-12", "Page 3 of 80"
    r"(?:page\s+)?[-–—]?\s?([A-Z]{1,2}-)?(\d{1,4})(?:\s+(?:of|/)\s+\d{1,4})?\s?[-–—]?", re.IGNORECASE
)
_ROMAN = re.compile(r"[ivxlc]+")
_DIGITS = re.compile(r"\d+")

_Key = tuple[str, int]  # what a line of the margin says, and where


def without_furniture(pages: Sequence[PageLines]) -> list[PageLines]:
    """Remove outermost lines that are the same on several pages, apart from the page's number.

    After a removal the next line is the outermost: that line must be the same on half of the pages.
    """
    body = body_size(pages)
    kept = _without_outermost(_without_numbers(pages), body, max(_REPEATED, len(pages) // 50))
    for _ in range(_LINES - 1):
        before, kept = kept, _without_outermost(kept, body, max(_REPEATED, len(pages) // 2))
        if all(len(was.lines) == len(now.lines) for was, now in zip(before, kept, strict=True)):
            break
    return kept


def _without_numbers(pages: Sequence[PageLines]) -> list[PageLines]:
    """Drop page numbers wherever they stand: first or last on their page, and one more from page to page."""
    places: list[dict[int, tuple[str, int]]] = []
    for number, page in enumerate(pages):
        own: dict[int, tuple[str, int]] = {}
        for at in {0, len(page.lines) - 1} if page.lines else ():
            line = page.lines[at]
            if not line.rows and (told := _NUMBERED.fullmatch(line.text)):
                own[at] = (told[1] or "", int(told[2]) - number)
        places.append(own)
    counts = Counter(key for own in places for key in set(own.values()))
    gone = [{at for at, key in own.items() if counts[key] >= _REPEATED} for own in places]
    return [
        replace(page, lines=tuple(line for at, line in enumerate(page.lines) if at not in own))
        for page, own in zip(pages, gone, strict=True)
    ]


def _without_outermost(pages: Sequence[PageLines], body: float, enough: int) -> list[PageLines]:
    keys = [_keys_of(page, body) for page in pages]
    counts = Counter(key for own in keys for key in set().union(*own))
    most = Counter(
        key for page, own in zip(pages, keys, strict=True) if _is_most(page, own) for key in set().union(*own)
    )
    repeated = {key for key, count in counts.items() if count >= enough and 2 * most[key] <= count}
    return [
        replace(page, lines=_kept(page.lines, own, repeated)) for page, own in zip(pages, keys, strict=True)
    ]


def _kept(lines: Sequence[Line], keys: Sequence[set[_Key]], repeated: set[_Key]) -> tuple[Line, ...]:
    return tuple(line for line, own in zip(lines, keys, strict=True) if not own & repeated)


def _is_most(page: PageLines, keys: Sequence[set[_Key]]) -> bool:
    """Whether the lines that may be furniture hold most of the page's text."""
    size = sum(len(line.text) for line in page.lines)
    return sum(len(line.text) for line, own in zip(page.lines, keys, strict=True) if own) > _MOST * size


def _keys_of(page: PageLines, body: float) -> list[set[_Key]]:
    """The part of each line that repeats on other pages; none for lines of text and titles."""
    places = [round(line.baseline) for line in page.lines]
    outermost = {max(places, default=0), min(places, default=0)}
    top, bottom = (1 - _MARGIN) * page.height, _MARGIN * page.height
    return [
        _keys(line, page.label)
        if line.slanted
        or (place in outermost and not bottom < place < top and not line.rows and line.size <= LARGE * body)
        else set()
        for line, place in zip(page.lines, places, strict=True)
    ]


def _keys(line: Line, label: str) -> set[_Key]:
    place, words = round(line.baseline / 4), line.text.split()
    text = "#" if _ROMAN.fullmatch(line.text.lower()) else _DIGITS.sub("#", line.text)
    return {(text, place)} | ({("", place)} if label in (words[0], words[-1]) else set())
