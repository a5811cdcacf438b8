"""The lines of a PDF's pages -> headings, paragraphs, lists and code. Pure.

All that a PDF tells of a line is its text, where it stands and how it is set. So this file holds rules of
thumb, each of them for documents that people have; none of them drops text but that of running headers and
footers.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from statistics import median

from ingestor.parsers.pdf.headings import Headings, headings
from ingestor.parsers.pdf.lines import LARGE, Bookmark, Line, Page, body_size, prose
from ingestor.parsers.shared.compose import Composer
from ingestor.text.outline import heading_number

_MARGIN = 0.12  # of the page's height, at the top and at the bottom
_REPEATED = 3  # pages with the same line in the same place: no text
_WIDE_GAP = 1.25  # times the usual distance between lines: a new paragraph
_BULLET = re.compile(r"[•‣▪■●○◦∙·–—*](?:\s+\S|$)|\(?(?:\d{1,2}|[a-z]|[ivx]{2,4})[.)]\s+\S")
_SENTENCE_END = (".", "!", "?", ":", "”", '"', "。", "！", "？")
_ROMAN = re.compile(r"[ivxlc]+")
_DIGITS = re.compile(r"\d+")

_Key = tuple[str, int]  # what a line of the margin says, and where


def compose(pages: Sequence[Page], outline: Sequence[Bookmark]) -> Composer:
    """The whole text, page by page."""
    kept = _without_furniture(pages)
    leading, found = _leading(kept), headings(kept, outline)
    composer = Composer()
    for number, page in enumerate(kept):
        composer.page, composer.page_label = number, page.label
        _compose_page(composer, page.lines, found[number], leading)
    return composer


def _compose_page(composer: Composer, lines: Sequence[Line], found: Headings, leading: float) -> None:
    at = 0
    begins = sorted({*found, len(lines)})
    for begin in begins:
        _compose_text(composer, lines[at:begin], leading)
        at = max(at, begin)
        for heading in found.get(begin, ()):
            composer.heading(heading.title, heading.level, heading_number(heading.title))
            at = max(at, begin + heading.count)


def _compose_text(composer: Composer, lines: Sequence[Line], leading: float) -> None:
    items: list[str] = []
    for group in _groups(lines, leading):
        kind = _kind(group)
        if kind == "list":
            items.append(prose(group))
            continue
        composer.add("list", "\n".join(items))
        items = []
        if kind == "table":
            composer.table(group[0].rows)
        else:
            composer.add(kind, _code(group) if kind == "code" else prose(group))
    composer.add("list", "\n".join(items))


def _kind(group: Sequence[Line]) -> str:
    if group[0].rows:
        return "table"
    if all(line.mono for line in group):
        return "code"
    return "list" if _BULLET.match(group[0].text) else "paragraph"


# --- what is left out --------------------------------------------------------------------------------------


def _without_furniture(pages: Sequence[Page]) -> list[Page]:
    """Less outermost lines that are the same on several pages, but for the page's number."""
    body = body_size(pages)
    keys = [_furniture(page, body) for page in pages]
    counts = Counter(key for page in keys for key in set().union(*page))
    enough = max(_REPEATED, len(pages) // 50)
    repeated = {key for key, count in counts.items() if count >= enough}
    return [
        Page(page.label, page.height, tuple(_kept(page.lines, own, repeated)))
        for page, own in zip(pages, keys, strict=True)
    ]


def _kept(lines: Sequence[Line], keys: Sequence[set[_Key]], repeated: set[_Key]) -> Iterator[Line]:
    return (line for line, own in zip(lines, keys, strict=True) if not own & repeated)


def _furniture(page: Page, body: float) -> list[set[_Key]]:
    """Of each line, what is the same of it on other pages; nothing of a line of the text, or of a title."""
    places = [round(line.baseline) for line in page.lines]
    outermost = {max(places, default=0), min(places, default=0)}
    top, bottom = (1 - _MARGIN) * page.height, _MARGIN * page.height
    return [
        _keys(line, page.label)
        if place in outermost and not bottom < place < top and line.size <= LARGE * body
        else set()
        for line, place in zip(page.lines, places, strict=True)
    ]


def _keys(line: Line, label: str) -> set[_Key]:
    place, words = round(line.baseline / 4), line.text.split()
    text = "#" if _ROMAN.fullmatch(line.text.lower()) else _DIGITS.sub("#", line.text)
    return {(text, place)} | ({("", place)} if label in (words[0], words[-1]) else set())


# --- paragraphs --------------------------------------------------------------------------------------------


def _leading(pages: Iterable[Page]) -> float:
    """The usual distance of one line from the next, in sizes of their type."""
    steps = (
        (above.baseline - below.baseline) / above.size
        for page in pages
        for above, below in pairwise(page.lines)
        if above.size and above.size == below.size
    )
    return median([step for step in steps if 0.8 < step < 3] or [1.2])


def _groups(lines: Sequence[Line], leading: float) -> Iterator[list[Line]]:
    """Lines that belong together."""
    group: list[Line] = []
    for line in lines:
        if group and _parts(group, line, leading):
            yield group
            group = []
        group.append(line)
    if group:
        yield group


def _parts(group: Sequence[Line], line: Line, leading: float) -> bool:
    """Whether a new paragraph begins with ``line``."""
    above = group[-1]
    if line.rows or above.rows:
        return True
    step = above.baseline - line.baseline
    if abs(step) < 0.5 * above.size:
        return False
    wide = step > _WIDE_GAP * leading * line.size
    finished = above.text.endswith(_SENTENCE_END)
    if line.mono != above.mono and (finished or wide or abs(line.left - above.left) > 2):
        return True
    if not 0.85 < line.size / (above.size or 1.0) < 1.18:
        return True
    if _BULLET.match(line.text) and not line.mono:
        return True
    if step < 0:  # the next column
        return finished or not line.text[:1].islower()
    indented = line.left > above.left + 0.8 * line.size
    return wide or (indented and finished and not line.mono and not _BULLET.match(group[0].text))


def _code(lines: Sequence[Line]) -> str:
    """A line each, indented as it stands."""
    left = min(line.left for line in lines)
    wide = max(0.6 * lines[0].size, 1.0)
    return "\n".join(" " * min(round((line.left - left) / wide), 40) + line.text for line in lines)
