"""Which lines of a PDF are headings: those of its outline, else those that are set apart. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ingestor.parsers.pdf.lines import LARGE, Bookmark, Line, Page, body_size, prose
from ingestor.text.outline import heading_number

_MOST = 0.3  # if a larger share of the text than this is that large, size tells nothing
_LONGEST = 150  # characters of a line of a heading
_NOT_ALNUM = re.compile(r"[\W_]+")
_NUMBERING = re.compile(
    r"(?:chapter|section|part|appendix|kapitel|chapitre)?(?:\d{1,6}|[a-z]\d{0,4}|[ivxl]{1,6})?"
)


@dataclass(frozen=True, slots=True)
class Heading:
    """Of ``count`` lines; of none where the title does not stand on the page."""

    title: str
    level: int
    count: int


Headings = Mapping[int, list[Heading]]  # by the line of the page before which, or with which, they begin


def headings(pages: Sequence[Page], outline: Sequence[Bookmark]) -> Sequence[Headings]:
    """Those of each page."""
    return _by_outline(pages, outline) if outline else _by_setting(pages, body_size(pages))


def cover_title(pages: Sequence[Page]) -> str | None:
    """What is set largest on the first page, if it is much larger than the text."""
    lines = [line for line in (pages[0].lines if pages else ()) if _may_be_title(line)]
    largest = max((line.size for line in lines), default=0.0)
    title = " ".join(line.text for line in lines if line.size == largest)
    return title if largest > 1.3 * body_size(pages) and len(title) <= _LONGEST else None


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
            heading = Heading(prose(page.lines[at : at + count]), bookmark.level, count)
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
    large = [line for line in lines if line.size >= LARGE * body and _may_be_title(line)]
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
            found[at] = [Heading(prose(lines[at : at + count]), levels[line.size], count)]
        elif line.bold and _may_be_title(line) and (number := heading_number(line.text)):
            level = len(set(levels.values())) + 1 + number.count(".")
            found[at] = [Heading(line.text, level, 1)]
        at += count
    return found


def _may_be_title(line: Line) -> bool:
    return not line.mono and not line.rows and len(line.text) <= _LONGEST and any(map(str.isalpha, line.text))


def _key(text: str) -> str:
    return _NOT_ALNUM.sub("", text).casefold()
