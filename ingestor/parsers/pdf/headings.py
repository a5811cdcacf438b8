"""The headings of a PDF: by its tags, its outline, else lines that are set apart by type or space. Pure."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from ingestor.parsers.pdf.lines import Bookmark, Line, PageLines, body_size, contents, prose
from ingestor.parsers.pdf.titles import (
    CHAPTER,
    LONGEST,
    OUTLINED,
    BodyStyle,
    FontStyle,
    Title,
    body,
    may_be_title,
    titles,
)
from ingestor.text.outline import heading_number

_MOST = 0.3  # if a larger share of the text than this is that large, size tells nothing
_TAGGED = 2  # headings at least, for tags to be believed
_PROSE = 45  # characters of a line of text
_READ = 0.3  # of the usual amount of text: less stands on a title page
_SET_APART = 0.4  # share of a title page's lines
_COVERS = 12  # pages at most
_ROMAN = re.compile(r"[IVXLC]+$")
_FORM = re.compile(r"([IVXLC]{1,6}|[A-Z]|\d{1,2})\.\s+\S")
_NOT_ALNUM = re.compile(r"[\W_]+")
_NUMBERING = re.compile(
    r"(?:chapter|section|part|appendix|kapitel|chapitre)?(?:\d{1,6}|[a-z]\d{0,4}|[ivxl]{1,6})?"
)


@dataclass(frozen=True, slots=True)
class PdfHeading:
    """Of ``count`` lines; of none where the title does not stand on the page."""

    title: str
    level: int
    count: int


Headings = Mapping[int, list[PdfHeading]]  # by the line of the page before which, or with which, they begin


def headings(pages: Sequence[PageLines], outline: Sequence[Bookmark], leading: float) -> Sequence[Headings]:
    """Those of each page; ``leading``: the usual distance between lines, in sizes of their type."""
    tagged = _by_tags(pages)
    if sum(map(len, tagged)) >= max(len(outline), _TAGGED):
        return tagged
    return _by_outline(pages, outline) if outline else _by_setting(pages, leading)


def cover_title(pages: Sequence[PageLines]) -> str | None:
    """The largest text on the first page, if it is much larger than the rest."""
    lines = [line for line in (pages[0].lines if pages else ()) if may_be_title(line)]
    largest = max((line.size for line in lines), default=0.0)
    title = " ".join(line.text for line in lines if line.size == largest)
    return title if largest > 1.3 * body_size(pages) and len(title) <= LONGEST else None


def _by_tags(pages: Sequence[PageLines]) -> list[dict[int, list[PdfHeading]]]:
    """What the document's own structure calls headings; none where that is much of the text."""
    found: list[dict[int, list[PdfHeading]]] = [{} for _ in pages]
    said = 0
    for page, taken in zip(pages, found, strict=True):
        for tag, group in groupby(enumerate(page.lines), key=lambda line: line[1].tagged):
            lines = list(group)
            if tag and (title := " ".join(prose([line for _, line in lines]).split())):
                taken[lines[0][0]] = [PdfHeading(title, tag[1], len(lines))]
                said += len(title)
    size = sum(len(line.text) for page in pages for line in page.lines)
    return found if said <= _MOST * size else [{} for _ in pages]


def _by_outline(pages: Sequence[PageLines], outline: Iterable[Bookmark]) -> list[dict[int, list[PdfHeading]]]:
    """The outline's titles where they stand on their pages."""
    found: list[dict[int, list[PdfHeading]]] = [{} for _ in pages]
    keys = [[_key(line.text) for line in page.lines] for page in pages]
    labels = [[_is_label(line.text) for line in page.lines] for page in pages]
    for bookmark in outline:
        if bookmark.page >= len(pages):
            continue
        page, taken = pages[bookmark.page], found[bookmark.page]
        places = list(_places(keys[bookmark.page], labels[bookmark.page], _key(bookmark.title)))
        if free := [place for place in places if not any(h.count for h in taken.get(place[0], ()))]:
            at, count = max(free, key=lambda place: (_largest(page.lines, *place), -place[0]))
            heading = PdfHeading(prose(page.lines[at : at + count]), bookmark.level, count)
        else:
            at, heading = max(taken, default=0), PdfHeading(bookmark.title, bookmark.level, 0)
        if page.lines:
            taken.setdefault(at, []).append(heading)
    return found


def _places(keys: Sequence[str], labels: Sequence[bool], title: str) -> Iterator[tuple[int, int]]:
    """(first line, lines) wherever one to three lines say the title, a number before it or above it aside."""
    for at in range(len(keys)):
        said = ""
        for count, key in enumerate(keys[at : at + 3], 1):
            said += key
            number = said[: -len(title)]
            if title and said.endswith(title) and _NUMBERING.fullmatch(number):
                if len(number) < len(keys[at]) or labels[at]:
                    yield at, count
                break


def _largest(lines: Sequence[Line], at: int, count: int) -> float:
    return max(line.size for line in lines[at : at + count])


def _is_label(text: str) -> bool:
    """Whether a line is the number of a heading below it: "Chapter 1", "IV"."""
    return bool(CHAPTER.match(text) or _key(text) == text.casefold().rstrip("."))


def _by_setting(pages: Sequence[PageLines], leading: float) -> list[dict[int, list[PdfHeading]]]:
    """Lines set apart from the text."""
    text = body(pages, leading)
    found = _without_cover(pages, _without_title_pages(pages, titles(pages, text), text), text)
    size = sum(len(line.text) for page in pages for line in page.lines)
    if sum(len(title.text) for title in found) > _MOST * size:
        return [{} for _ in pages]
    if len(found) == 1 and not found[0].large and not OUTLINED.match(found[0].text):
        return [{} for _ in pages]  # the subject of a letter
    depths = _depths(found)
    levels = _levels(_without_main(found), depths)
    placed: list[dict[int, list[PdfHeading]]] = [{} for _ in pages]
    for title in _with_chapters(found):
        said = prose(pages[title.page].lines[title.at : title.at + title.count])
        placed[title.page][title.at] = [
            PdfHeading(" ".join(said.split()), _level(title, levels, depths), title.count)
        ]
    return placed


def _without_title_pages(pages: Sequence[PageLines], found: Sequence[Title], text: BodyStyle) -> list[Title]:
    """Less what pages before the text say of the document: its author, its publisher, when and for what.

    Such a page has little text; after the first page much of it is set apart, and nothing follows.
    The largest line of the first page stays, and so do parts and what is numbered.
    """
    said = [_said(page, text) for page in pages]
    usual = sorted(said)[3 * len(said) // 4] if said else 0
    first = next((at for at, count in enumerate(said[:_COVERS]) if count >= _READ * usual), 0)
    of_page: dict[int, list[Title]] = defaultdict(list)
    for title in found:
        of_page[title.page].append(title)
    main = max(of_page[0], key=lambda title: (title.style.size, -title.at), default=None)
    covers = {
        at for at in range(first)
        if not contents(pages[at].lines)
        and (at == 0 or _is_cover(pages[at].lines, of_page[at]) or (main and _says(of_page[at], main)))
    }  # fmt: skip
    return [
        title for title in found
        if title.page not in covers or title == main or OUTLINED.match(title.text)
        or any(CHAPTER.match(pages[title.page].lines[one.at].text) for one in of_page[title.page])
    ]  # fmt: skip


def _said(page: PageLines, text: BodyStyle) -> int:
    """Characters that are set as the text is."""
    return sum(
        len(line.text) for line in page.lines
        if abs(line.size - text.size) < 0.1 * text.size and (not line.bold or text.bold)
    )  # fmt: skip


def _is_cover(lines: Sequence[Line], found: Sequence[Title]) -> bool:
    count = sum(title.count for title in found)
    ended = bool(found) and found[-1].at + found[-1].count >= len(lines)
    return ended and count >= _SET_APART * len(lines)


def _says(found: Sequence[Title], main: Title) -> bool:
    return any(_key(title.text) == _key(main.text) for title in found)


def _without_cover(pages: Sequence[PageLines], found: Sequence[Title], text: BodyStyle) -> list[Title]:
    """Less authors, dates and such that stand below the title on the first page, in type of their own."""
    first = [title for title in found if title.page == 0]
    if not first:
        return list(found)
    main = max(first, key=lambda title: (title.style.size, -title.at))
    begins = _text_begins(pages[0].lines, main.at + main.count, text)
    others: dict[FontStyle, list[bool]] = defaultdict(list)
    for title in found:
        if title.page > 0 or title.at > begins:
            others[title.style].append(bool(OUTLINED.match(title.text)))
    unnumbered = {style for style, numbered in others.items() if 2 * sum(numbered) <= len(numbered)}
    return [
        title for title in found
        if title.page > 0 or title.at > begins or title == main or title.style in unnumbered
        or OUTLINED.match(title.text)
    ]  # fmt: skip


def _text_begins(lines: Sequence[Line], at: int, text: BodyStyle) -> int:
    """The first line of prose from there on."""
    prose_lines = (
        number for number, line in enumerate(lines)
        if number >= at and abs(line.size - text.size) < 0.3 * text.size and len(line.text) > _PROSE
        and (not line.bold or text.bold)
    )  # fmt: skip
    return next(prose_lines, len(lines))


def _without_main(found: Sequence[Title]) -> Sequence[Title]:
    """Less the document's own title: it and its sections are of level 1, as in other formats."""
    alone = found and found[0].page == 0 and found[0].style not in {title.style for title in found[1:]}
    largest = all(title.style.size <= found[0].style.size for title in found)
    return found[1:] if alone and largest and len(found) > 2 else found


def _depths(found: Sequence[Title]) -> dict[Title, int]:
    """Of the numbered ones; where the first number is Roman, as in I, A, 1, the form of a number tells it."""
    marks = [(title, said[1]) for title in found if (said := _FORM.match(title.text))]
    if not marks or marks[0][1] != "I":
        numbers = ((title, heading_number(title.text)) for title in found)
        return {title: number.count(".") + 1 for title, number in numbers if number}
    order, letter, depths = list[str](), "A", dict[Title, int]()
    for title, mark in marks:
        form = "digit" if mark.isdigit() else "roman" if mark != letter and _ROMAN.match(mark) else "letter"
        if form != "digit":
            letter = chr(ord(mark) + 1) if form == "letter" else "A"
        order += [form] * (form not in order)
        depths[title] = order.index(form) + 1
    return depths


def _levels(found: Sequence[Title], told: Mapping[Title, int]) -> dict[FontStyle, int]:
    """The level of each style: larger type first, then the first to occur. Section numbers set the depth."""
    order = {title.style: at for at, title in reversed(list(enumerate(found)))}
    styles = sorted(order, key=lambda style: (-style.size, order[style]))
    of_style: dict[FontStyle, list[Title]] = defaultdict(list)
    for title in found:
        of_style[title.style].append(title)
    depths = [_depth(of_style[style], told) for style in styles]
    shallowest = [0] * (
        len(styles) + 1
    )  # depth of the numbers in the styles after each; 0 where there are none
    for at in reversed(range(len(styles))):
        shallowest[at] = min(filter(None, (depths[at], shallowest[at + 1])), default=0)
    levels: dict[FontStyle, int] = {}
    deepest = 0
    for at, style in enumerate(styles):
        depth = depths[at] or (max(1, shallowest[at + 1] - 1) if shallowest[at + 1] else deepest + 1)
        levels[style] = min(depth, 6)
        deepest = max(deepest, depth)
    return levels


def _depth(found: Sequence[Title], told: Mapping[Title, int]) -> int:
    """The usual depth of the numbers of most of them; 0 where most have none."""
    depths = Counter(told[title] for title in found if title in told)
    return max(depths, key=lambda depth: depths[depth]) if depths.total() > len(found) / 2 else 0


def _level(title: Title, levels: Mapping[FontStyle, int], told: Mapping[Title, int]) -> int:
    return min(told.get(title, 0) or levels.get(title.style, 1), 6)


def _with_chapters(found: Sequence[Title]) -> Iterator[Title]:
    """ "Chapter 1" and the title below it as one."""
    waiting: Title | None = None
    for title in found:
        below = waiting and (waiting.page, waiting.at + waiting.count) == (title.page, title.at)
        if waiting and below and title.style.size >= waiting.style.size:
            title = replace(title, at=waiting.at, count=waiting.count + title.count)
            waiting = None
        if waiting:
            yield waiting
        waiting = title if CHAPTER.match(title.text) else None
        if not waiting:
            yield title
    if waiting:
        yield waiting


def _key(text: str) -> str:
    return _NOT_ALNUM.sub("", text).casefold()
