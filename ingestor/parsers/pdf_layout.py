"""The lines of a PDF's pages -> headings, paragraphs, lists and code. Pure.

All that a PDF tells of a line is its text, where it stands and how it is set. So this file holds rules of
thumb, each of them for documents that people have; none of them drops text but that of running headers and
footers.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from ingestor.parsers.compose import Composer
from ingestor.structure import heading_number

_LARGE = 1.15  # times the size of most of the text: a heading
_MOST = 0.3  # if a larger share of the text than this is that large, size tells nothing
_LONGEST = 150  # characters of a line of a heading
_MARGIN = 0.12  # of the page's height, at the top and at the bottom
_REPEATED = 3  # pages with the same line in the same place: no text
_WIDE_GAP = 1.25  # times the usual distance between lines: a new paragraph
_SHORT = 0.7  # of the widest line: ended on purpose
_BULLET = re.compile(r"[•‣▪■●○◦∙·–—*](?:\s+\S|$)|\(?(?:\d{1,2}|[a-z]|[ivx]{2,4})[.)]\s+\S")
_SENTENCE_END = (".", "!", "?", ":", "”", '"', "。", "！", "？")
_ROMAN = re.compile(r"[ivxlc]+")
_DIGITS = re.compile(r"\d+")
_NOT_ALNUM = re.compile(r"[\W_]+")
_NUMBERING = re.compile(
    r"(?:chapter|section|part|appendix|kapitel|chapitre)?(?:\d{1,6}|[a-z]\d{0,4}|[ivxl]{1,6})?"
)
_LEADER = re.compile(r"(?:\s?\.){5,}")  # from a title to its page, in a table of contents
_WITHOUT_SPACES = re.compile("[\u3000-\u30ff\u3400-\u9fff\uff00-\uff60]")


@dataclass(frozen=True, slots=True)
class Line:
    """Distances in points, from the page's left and bottom; ``hyphen``: its last word goes on below."""

    text: str
    left: float
    right: float
    baseline: float
    size: float
    bold: bool = False
    mono: bool = False
    hyphen: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    label: str
    height: float
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Bookmark:
    """An entry of the outline; ``level`` 1 is the outermost, ``page`` counts from 0."""

    title: str
    level: int
    page: int


@dataclass(frozen=True, slots=True)
class Heading:
    """Of ``count`` lines; of none where the title does not stand on the page."""

    title: str
    level: int
    count: int


_Key = tuple[str, int]  # what a line of the margin says, and where
Headings = Mapping[int, list[Heading]]  # by the line of the page before which, or with which, they begin


def compose(pages: Sequence[Page], outline: Sequence[Bookmark]) -> Composer:
    """The whole text, page by page."""
    kept = _without_furniture(pages)
    body = _body_size(kept)
    leading = _leading(kept)
    headings = _by_outline(kept, outline) if outline else _by_setting(kept, body)
    composer = Composer()
    for number, page in enumerate(kept):
        composer.page, composer.page_label = number, page.label
        _compose_page(composer, page.lines, headings[number], leading)
    return composer


def cover_title(pages: Sequence[Page]) -> str | None:
    """What is set largest on the first page, if it is much larger than the text."""
    lines = [line for line in (pages[0].lines if pages else ()) if _may_be_title(line)]
    largest = max((line.size for line in lines), default=0.0)
    title = " ".join(line.text for line in lines if line.size == largest)
    return title if largest > 1.3 * _body_size(pages) and len(title) <= _LONGEST else None


def _compose_page(composer: Composer, lines: Sequence[Line], headings: Headings, leading: float) -> None:
    at = 0
    begins = sorted({*headings, len(lines)})
    for begin in begins:
        _compose_text(composer, lines[at:begin], leading)
        at = max(at, begin)
        for heading in headings.get(begin, ()):
            composer.heading(heading.title, heading.level, heading_number(heading.title))
            at = max(at, begin + heading.count)


def _compose_text(composer: Composer, lines: Sequence[Line], leading: float) -> None:
    items: list[str] = []
    for group in _groups(lines, leading):
        kind = _kind(group)
        if kind == "list":
            items.append(_prose(group))
            continue
        composer.add("list", "\n".join(items))
        items = []
        composer.add(kind, _code(group) if kind == "code" else _prose(group))
    composer.add("list", "\n".join(items))


def _kind(group: Sequence[Line]) -> str:
    if all(line.mono for line in group):
        return "code"
    return "list" if _BULLET.match(group[0].text) else "paragraph"


# --- what is left out --------------------------------------------------------------------------------------


def _without_furniture(pages: Sequence[Page]) -> list[Page]:
    """Less outermost lines that are the same on several pages, but for the page's number."""
    body = _body_size(pages)
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
        if place in outermost and not bottom < place < top and line.size <= _LARGE * body
        else set()
        for line, place in zip(page.lines, places, strict=True)
    ]


def _keys(line: Line, label: str) -> set[_Key]:
    place, words = round(line.baseline / 4), line.text.split()
    text = "#" if _ROMAN.fullmatch(line.text.lower()) else _DIGITS.sub("#", line.text)
    return {(text, place)} | ({("", place)} if label in (words[0], words[-1]) else set())


# --- headings ----------------------------------------------------------------------------------------------


def _by_outline(pages: Sequence[Page], outline: Iterable[Bookmark]) -> list[dict[int, list[Heading]]]:
    """The outline's titles where they stand on their pages."""
    found: list[dict[int, list[Heading]]] = [{} for _ in pages]
    keys = [[_key(line.text) for line in page.lines] for page in pages]
    for bookmark in outline:
        if bookmark.page >= len(pages):
            continue
        page, taken = pages[bookmark.page], found[bookmark.page]
        places = list(_places(keys[bookmark.page], _key(bookmark.title)))
        if free := [place for place in places if not any(h.count for h in taken.get(place[0], ()))]:
            at, count = max(free, key=lambda place: (page.lines[place[0]].size, -place[0]))
            heading = Heading(_prose(page.lines[at : at + count]), bookmark.level, count)
        else:
            at, heading = max(taken, default=0), Heading(bookmark.title, bookmark.level, 0)
        if page.lines:
            taken.setdefault(at, []).append(heading)
    return found


def _places(keys: Sequence[str], title: str) -> Iterator[tuple[int, int]]:
    """(first line, lines) wherever one to three lines say the title, a number before it aside."""
    for at in range(len(keys)):
        said = ""
        for count, key in enumerate(keys[at : at + 3], 1):
            said += key
            if title and said.endswith(title) and _NUMBERING.fullmatch(said[: -len(title)]):
                yield at, count
                break


def _by_setting(pages: Sequence[Page], body: float) -> list[dict[int, list[Heading]]]:
    """Lines set larger than the text; and bold, numbered ones below them."""
    lines = [line for page in pages for line in page.lines]
    large = [line for line in lines if line.size >= _LARGE * body and _may_be_title(line)]
    if sum(len(line.text) for line in large) > _MOST * sum(len(line.text) for line in lines):
        return [{} for _ in pages]
    sizes = sorted({line.size for line in large}, reverse=True)
    levels = {size: min(level, 6) for level, size in enumerate(sizes, 1)}
    return [_set_apart(page.lines, levels) for page in pages]


def _set_apart(lines: Sequence[Line], levels: Mapping[float, int]) -> dict[int, list[Heading]]:
    found: dict[int, list[Heading]] = {}
    at = 0
    while at < len(lines):
        line, count = lines[at], 1
        if line.size in levels and _may_be_title(line):
            while count < 3 and at + count < len(lines) and lines[at + count].size == line.size:
                count += 1
            found[at] = [Heading(_prose(lines[at : at + count]), levels[line.size], count)]
        elif line.bold and _may_be_title(line) and (number := heading_number(line.text)):
            level = len(set(levels.values())) + 1 + number.count(".")
            found[at] = [Heading(line.text, level, 1)]
        at += count
    return found


def _may_be_title(line: Line) -> bool:
    return not line.mono and len(line.text) <= _LONGEST and any(map(str.isalpha, line.text))


def _key(text: str) -> str:
    return _NOT_ALNUM.sub("", text).casefold()


# --- paragraphs --------------------------------------------------------------------------------------------


def _body_size(pages: Iterable[Page]) -> float:
    sizes: Counter[float] = Counter()
    for page in pages:
        for line in page.lines:
            sizes[line.size] += len(line.text)
    return max(sizes, key=lambda size: (sizes[size], size), default=0.0)


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


def _prose(lines: Sequence[Line]) -> str:
    """Lines as running text; one that ends long before the margin ends on purpose."""
    widest = max(line.right - line.left for line in lines)
    text = lines[0].text
    for above, line in pairwise(lines):
        text += _joint(above, line, widest) + line.text
    return _LEADER.sub(" …", f"{text}-" if lines[-1].hyphen else text)


def _joint(above: Line, line: Line, widest: float) -> str:
    """What stands between two lines of one paragraph."""
    if above.hyphen:
        return "" if line.text[:1].islower() else "-"
    same_line = abs(above.baseline - line.baseline) < 0.5 * above.size
    if not same_line and (above.right - above.left < _SHORT * widest or _LEADER.search(above.text)):
        return "\n"
    return "" if _WITHOUT_SPACES.match(above.text[-1:]) and _WITHOUT_SPACES.match(line.text) else " "


def _code(lines: Sequence[Line]) -> str:
    """A line each, indented as it stands."""
    left = min(line.left for line in lines)
    wide = max(0.6 * lines[0].size, 1.0)
    return "\n".join(" " * min(round((line.left - left) / wide), 40) + line.text for line in lines)
