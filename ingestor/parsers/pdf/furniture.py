"""Running headers and footers of a PDF: lines that stand at the edge of several pages. Pure.

A line of a table is none, nor is what makes up most of the pages that it stands on. A slanted line that
repeats is a watermark, wherever it stands.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

from ingestor.parsers.pdf.lines import LARGE, Line, PageLines, body_size

_MARGIN = 0.12  # of the page's height, at the top and at the bottom
_REPEATED = 3  # pages with the same line in the same place: no text
_LINES = 4  # of a header or a footer
_MOST = 0.5  # of a page's characters: what is more is its text
_NEAR = 10  # pages between a running head and what it repeats
_FEW = 4  # pages with a line at the same place of the edge
_SAID_AGAIN = 0.75  # share of these lines that say again what stands elsewhere: running heads
_PAGE_NUMBER = re.compile(r"^(?:\d+|[ivxlc]+)\s+|\s+(?:\d+|[ivxlc]+)$", re.IGNORECASE)
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


def running_heads(pages: Sequence[PageLines], size: float, leading: float) -> list[set[int]]:
    """Return each page's outermost lines, by index, that repeat other lines, such as the title of a section.

    The lines stand away from the text, at a place where most lines repeat others. ``size``: font size of the
    text; ``leading``: distance between two lines of text, in units of ``size``.
    """
    edges = [_edges(page, size, leading) for page in pages]
    places = Counter(place for edge in edges for place in set(edge.values()))
    said: dict[str, list[int]] = defaultdict(list)
    for number, page in enumerate(pages):
        for line in page.lines:
            said[_unnumbered(line)].append(number)

    def repeats(number: int, line: Line) -> bool:
        return sum(abs(other - number) <= _NEAR for other in said[_unnumbered(line)]) > 1

    again = Counter(
        place for number, (page, edge) in enumerate(zip(pages, edges, strict=True))
        for at, place in edge.items() if repeats(number, page.lines[at])
    )  # fmt: skip
    heads = {
        place for place, count in places.items() if count >= _FEW and again[place] >= _SAID_AGAIN * count
    }
    return [{at for at, place in edge.items() if place in heads} for edge in edges]


def _unnumbered(line: Line) -> str:
    return _PAGE_NUMBER.sub("", line.text).casefold()


def _edges(page: PageLines, size: float, leading: float) -> dict[int, int]:
    """The lines at the top and at the bottom that stand further from the next than text does; places."""
    order = sorted(
        (at for at, line in enumerate(page.lines) if not line.rows), key=lambda at: page.lines[at].baseline
    )
    found: dict[int, int] = {}
    for edge in (order, order[::-1]):
        outer = page.lines[edge[0]].baseline if edge else 0.0
        same = [at for at in edge if abs(page.lines[at].baseline - outer) < 2]
        inner = edge[len(same)] if len(same) < len(edge) else None
        apart = inner is None or abs(page.lines[inner].baseline - outer) > 1.5 * leading * size
        if apart:
            found |= {
                at: round(page.lines[at].baseline / 2) for at in same if page.lines[at].size < LARGE * size
            }
    return found
