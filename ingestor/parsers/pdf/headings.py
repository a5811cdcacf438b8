"""The headings of a PDF: by its tags, its outline, else by how lines are set and where they stand. Pure.

A line that may be a heading has named features, each with a weight in ``WEIGHTS``; their sum decides. What is
set larger than the text may be one wherever it stands; what is bold, in capitals, in italics or in another
family needs space above it, and most of what is set so in the document must stand like that. What says
something else is none in any type: an address, units, names of columns, a form's label, a caption.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

from ingestor.parsers.pdf.lines import (
    LARGE,
    LEADER,
    Bookmark,
    Line,
    PageLines,
    body_size,
    contents,
    is_columns,
    is_units,
    prose,
)
from ingestor.text.outline import heading_number

ENOUGH = 3
WEIGHTS = {
    "large": 3,  # LARGE times the text's size, or more
    "larger": 2,  # a little larger than the text
    "bold": 2,  # where the text is not
    "marked": 1,  # in capitals, in italics, in another family
    "named": 2,  # a part, item, note or statement of a report, by its words
    "space": 1,  # above it
    "close": -1,  # to the line above, and not large
    "alone": 1,  # short, with text below
    "inside": -9,  # most lines of its style stand inside the text, or are the text; or its page repeats it
    "never": -9,  # it says something else, see ``_says_otherwise``
}
LONGEST = 150  # characters of a line of a heading
_LONGEST_TITLE, _MOST_LINES = 250, 4  # of all its lines
_LARGER, _SMALLER = 1.07, 0.94  # times the text's size
_SPACE = 1.2  # times the usual distance between lines
_GAP = 1.5  # sizes of the type between two words: columns
_TALL_HEADER, _HEADER = 3.0, 6  # sizes of the type between lines of a table's header, and such lines
_APART = 0.5  # share of a style's lines that must stand like headings
_WIDE = 0.9  # of the column: a line as wide as that goes on, unless it is large
_SERIES = 3  # items of a filed report, at least
_SHARE = 0.3  # of the text: if more is a heading, type tells nothing
_TAGGED = 2  # headings at least, for tags to be believed
_KNOWN = 0.5  # share of an outline's titles that the text has, if the outline is the document's own
_SPARSE = 0.5  # entries of an outline to the page: fewer are not all headings
_LONG, _PARAGRAPHS, _TEXT = (
    60,
    8,
    0.3,
)  # characters of a line; such lines, and their share, of a style of text
_PROSE = 45  # characters of a line of text
_NOT_ALNUM = re.compile(r"[\W_]+")
_NUMBERING = re.compile(
    r"(?:chapter|section|part|appendix|kapitel|chapitre)?(?:\d{1,6}|[a-z]\d{0,4}|[ivxl]{1,6})?"
)
_CHAPTER = re.compile(r"[^\W\d_]{2,14}\s+(?:\d{1,3}|[IVXLC]+|[A-Z])[.:]?$")  # a label alone on its line
_OUTLINED = re.compile(
    r"(?:(?:\d{1,3}(?:\.\d{1,3})*|[A-Z](?:\.\d{1,3})+)[.)]?|[IVX]{1,5}\.|[A-Z]\.|§\s?\d+)\s+\S"
)
_FILED = re.compile(  # numbers of a report, or of an agreement
    r"(part\s+[IV]{1,3}\b|article\s+(?:[IVX]+|one|two|three|four|five|six|seven|eight|nine|ten)\b)"
    r"|((?:item|section)\s+\d{1,3}(?:\.\s?\d\d|[A-C])?\b)",
    re.IGNORECASE,
)
_NAMED = re.compile(
    r"(?:part [IV]{1,3}|item \d{1,2}(?:\.\d\d|[A-C])?|note \d{1,2})\b\s*[.:—–-]?\s*(?:[A-Z][^.]{2,90})?\.?$"
    r"|(?:[\w.,&' ]{0,40} )?(?:condensed )?consolidated (?:balance sheets?|statements? of [\w’'(), ]{4,50})"
    r"(?: \(unaudited\))?$",
    re.IGNORECASE,
)
_NOTE = re.compile(r"note \d{1,2}\b", re.IGNORECASE)
_FAMILY = re.compile(r"[-,].*|\d+$|(?:bold|italic|oblique|regular|medium|light|roman|mt|ps)+$")
_WORD = re.compile(r"[^\W\d_]{3}|[\u3040-\u9fff\uac00-\ud7af]|[^\W\d_a-zA-Z]{2}")
_SYNTAX = re.compile(r"[\\{}<>@_|~^]")
_MATHS = re.compile(r"[=∑∏∫√≤≥±∞∈→×∂∀∃⊂∪≡]")
_LEADING_NUMBER = re.compile(r"^(?:\d{1,3}(?:\.\d{1,3})*|[A-Z](?:\.\d{1,3})+)[.)]?\s+")
_FIGURES = re.compile(r"\d[\d.,:/-]*")
CAPTION = re.compile(
    r"(?:fig(?:ure|\.)?|table|tab\.|abb(?:ildung|\.)|tabelle|listing|algorithm|exhibit|chart|plate)\s*(?:[A-Z]?\.?\d|[IVX])",
    re.IGNORECASE,
)
_OTHERWISE = re.compile(
    r"\[[ x]\]|\ufffd|^[•‣▪◦●○∙–—*]\s|☐|☒|^[¨þxo]\s"  # boxes to tick, items of a list
    r"|^\[.*\]$|^\(.*\)$|^\*.*\*$"  # notices: [SIGNATURES ON FOLLOWING PAGE], (Mark One)
    r"|\b[A-Z]{2}\.?,?\s+\d{5}(?:-\d{4})?\b|\(\d{3}\)\s?\d{3}-\d{4}|\b\d{5}\s+[A-Z][a-zäöü]+$"  # addresses
    r"|^\d+\s+(?:[A-Z][\w.]*\s+){1,4}(?:street|st\.|avenue|ave\.?|road|rd\.|drive|boulevard|blvd\.?|lane|way|plaza|parkway|circle)\b"
    r"|^(?:one|two)\s+\w+(?:\s\w+)?\s+(?:street|avenue|road|drive|way|plaza|place|center)\b"
    r"|^(?:yes|no|none|page|total|signature|title|date|name|by)s?:?$|^/s/|^(?:dated?|by):"  # labels
    r"|\(continued\)$|^notes?:|^for immediate release$|^execution copy$|^dated as of\b"  # notices
    r"|^(?:see|the) accompanying notes|exact name of registrant|^commission file|employer identification",
    re.IGNORECASE,
)

_SIGNER = re.compile(
    r"(?:[\w ,.]+ )?(?:director|(?:chief|principal) \w+(?: and \w+)? officer|(?:vice )?president|secretary)$"
    r"|(?:senior |executive )*(?:vice )?president\b.{0,60}$|(?:chief|principal) \w+ officer\b.{0,60}$",
    re.IGNORECASE,
)
_COMPANY = re.compile(r"\b(?:INC|CO|CORP|LTD|PLC|N\.V|S\.A)\.$")


@dataclass(frozen=True, slots=True)
class PdfHeading:
    """``count``: its lines; none where the title does not stand on the page."""

    title: str
    level: int
    count: int


Headings = Mapping[int, list[PdfHeading]]  # by the line of the page before which, or with which, they begin


@dataclass(frozen=True, slots=True)
class FontStyle:
    """``size`` in half points."""

    size: float
    bold: bool
    italic: bool
    caps: bool
    family: str


@dataclass(frozen=True, slots=True)
class BodyStyle:
    """The type of most of the text; ``leading`` in units of its size."""

    size: float
    bold: bool
    family: str
    leading: float


@dataclass(frozen=True, slots=True)
class Title:
    """``count`` lines from ``at`` on, that may be a heading."""

    page: int
    at: int
    count: int
    text: str
    style: FontStyle
    left: float
    features: frozenset[str]

    @property
    def score(self) -> int:
        return sum(WEIGHTS[feature] for feature in self.features)


def headings(pages: Sequence[PageLines], outline: Sequence[Bookmark], leading: float) -> Sequence[Headings]:
    """Return the headings of each page; ``leading``: the usual step between lines, in sizes of their type."""
    tagged = _by_tags(pages)
    own = _own(pages, outline)
    if sum(map(len, tagged)) >= max(len(own), _TAGGED):
        return tagged
    if not own:
        return _by_setting(pages, leading)
    found = _by_outline(pages, own)
    return _with_others(found, _by_setting(pages, leading)) if len(own) < _SPARSE * len(pages) else found


# --- as the document says ----------------------------------------------------------------------------------


def _by_tags(pages: Sequence[PageLines]) -> list[dict[int, list[PdfHeading]]]:
    """Return what the document's own structure calls headings; none where that is much of the text."""
    found: list[dict[int, list[PdfHeading]]] = [{} for _ in pages]
    said = 0
    for page, taken in zip(pages, found, strict=True):
        for tag, group in groupby(enumerate(page.lines), key=lambda line: line[1].tagged):
            lines = list(group)
            if tag and (title := " ".join(prose([line for _, line in lines]).split())):
                taken[lines[0][0]] = [PdfHeading(title, tag[1], len(lines))]
                said += len(title)
    size = sum(len(line.text) for page in pages for line in page.lines)
    return found if said <= _SHARE * size else [{} for _ in pages]


def _own(pages: Sequence[PageLines], outline: Sequence[Bookmark]) -> list[Bookmark]:
    """Return the entries of the outline that these pages have, not the document they were cut out of."""
    there = [entry for entry in outline if entry.page < len(pages)]
    said = "".join(_key(line.text) for page in pages for line in page.lines)
    known = [entry for entry in there if _key(entry.title) in said]
    return there if len(known) >= _KNOWN * len(outline) else known


def _by_outline(pages: Sequence[PageLines], outline: Iterable[Bookmark]) -> list[dict[int, list[PdfHeading]]]:
    """Return the outline's titles where they stand on their pages."""
    found: list[dict[int, list[PdfHeading]]] = [{} for _ in pages]
    keys = [[_key(line.text) for line in page.lines] for page in pages]
    labels = [[_is_label(line.text) for line in page.lines] for page in pages]
    for bookmark in outline:
        page, taken = pages[bookmark.page], found[bookmark.page]
        places = list(_places(keys[bookmark.page], labels[bookmark.page], _key(bookmark.title)))
        if free := [place for place in places if not any(h.count for h in taken.get(place[0], ()))]:
            at, count = max(
                free,
                key=lambda place: (
                    max(line.size for line in page.lines[place[0] : sum(place)]), -place[0]
                ),
            )  # fmt: skip
            heading = PdfHeading(prose(page.lines[at : at + count]), bookmark.level, count)
        else:
            below = (n for n, line in enumerate(page.lines) if line.baseline <= (bookmark.top or 0.0))
            at = max(max(taken, default=0), next(below, 0) if bookmark.top else 0)
            heading = PdfHeading(bookmark.title, bookmark.level, 0)
        if page.lines:
            taken.setdefault(at, []).append(heading)
    return found


def _places(keys: Sequence[str], labels: Sequence[bool], title: str) -> Iterator[tuple[int, int]]:
    """Yield (first line, lines) wherever one to three lines say the title, with or without a number."""
    for at in range(len(keys)):
        said = ""
        for count, key in enumerate(keys[at : at + 3], 1):
            said += key
            number = said[: -len(title)]
            if title and said.endswith(title) and _NUMBERING.fullmatch(number):
                if len(number) < len(keys[at]) or labels[at]:
                    yield at, count
                break


def _is_label(text: str) -> bool:
    """Tell whether a line is the number of a heading below it: "Chapter 1", "IV"."""
    return bool(_CHAPTER.match(text) or _key(text) == text.casefold().rstrip("."))


def _with_others(
    found: list[dict[int, list[PdfHeading]]], others: Sequence[Headings]
) -> list[dict[int, list[PdfHeading]]]:
    """Add headings that a sparse outline does not name, each below the entry before it."""
    level, above = 0, list[int]()
    for taken, more in zip(found, others, strict=True):
        lines = {at + n for at, some in taken.items() for one in some for n in range(one.count)}
        for at in sorted({*taken, *more}):
            if at in taken:
                level, above = taken[at][-1].level, []
            if at in more and not any(at + n in lines for n in range(more[at][0].count)):
                (one,) = more[at]
                while above and above[-1] >= one.level:
                    above.pop()
                above.append(one.level)
                added = replace(one, level=min(level + len(above), 6))
                taken[at] = [*taken.get(at, ()), added]
    return found


def _key(text: str) -> str:
    return _NOT_ALNUM.sub("", text).casefold()


# --- by how lines are set ----------------------------------------------------------------------------------


def _by_setting(pages: Sequence[PageLines], leading: float) -> list[dict[int, list[PdfHeading]]]:
    """Return the lines that are set apart from the text, and what is one heading in several of them."""
    text = body(pages, leading)
    found = _without_cover(pages, titles(pages, text), text)
    size = sum(len(line.text) for page in pages for line in page.lines)
    if sum(len(title.text) for title in found) > _SHARE * size:
        return [{} for _ in pages]
    if len(found) == 1 and not found[0].features & {"large", "named"} and not _OUTLINED.match(found[0].text):
        return [{} for _ in pages]  # the subject of a letter
    whole = list(_with_labels(found))
    levels = _levels(whole)
    placed: list[dict[int, list[PdfHeading]]] = [{} for _ in pages]
    for title in whole:
        said = prose(pages[title.page].lines[title.at : title.at + title.count])
        placed[title.page][title.at] = [PdfHeading(" ".join(said.split()), levels[title], title.count)]
    return placed


def _with_labels(found: Iterable[Title]) -> Iterator[Title]:
    """Yield the titles, each with the label above it, such as "Chapter 1", as one title."""
    waiting: Title | None = None
    for title in found:
        one = title
        if waiting and (waiting.page, waiting.at + waiting.count) == (title.page, title.at) and (
            title.style.size >= waiting.style.size
        ):  # fmt: skip
            count = waiting.count + title.count
            one = replace(title, at=waiting.at, count=count, text=f"{waiting.text} {title.text}")
        elif waiting:
            yield waiting
        waiting = None
        if one is title and _CHAPTER.match(title.text) and not _NAMED.match(title.text):
            waiting = title
        else:
            yield one
    if waiting:
        yield waiting


def body(pages: Sequence[PageLines], leading: float) -> BodyStyle:
    size = body_size(pages)
    said: Counter[tuple[bool, str]] = Counter()
    for page in pages:
        for line in page.lines:
            if abs(line.size - size) < 0.3:
                said[line.bold, _family(line.font)] += len(line.text)
    bold, name = max(said, key=lambda key: said[key], default=(False, ""))
    return BodyStyle(size, bold, name, leading)


def titles(pages: Sequence[PageLines], text: BodyStyle) -> list[Title]:
    """Return the titles that score enough, of styles that stand apart."""
    found = [title for number, page in enumerate(pages) for title in _of_page(number, page, _on(page, text))]
    lefts = [min((line.left for line in page.lines), default=0.0) for page in pages]
    twice = Counter((title.page, title.text) for title in found if title.left > lefts[title.page] + text.size)
    used = Counter(
        style_of(line)
        for page in pages
        for at, line in enumerate(page.lines)
        if may_be_title(line) and not _says_otherwise(page.lines, at, 1, line.text)
    )
    apart: Counter[FontStyle] = Counter()
    for title in found:
        apart[title.style] += title.count
    long = Counter(style_of(line) for page in pages for line in page.lines if len(line.text) > _LONG)
    inside = {style for style, count in used.items() if apart[style] < _APART * count}
    text_styles = {
        style for style in used if long[style] >= _PARAGRAPHS and long[style] >= _TEXT * used[style]
    }
    judged = [
        replace(title, features=title.features | {"inside"})
        if (title.style in text_styles and not title.features & {"named"})
        or (title.style in inside and not title.features & {"large", "named"})
        or (twice[title.page, title.text] > 1 and not _OUTLINED.match(title.text))
        else title
        for title in found
    ]
    return [title for title in judged if title.score >= ENOUGH]


def _on(page: PageLines, text: BodyStyle) -> BodyStyle:
    """Return the text's type on a page that is set in smaller type, such as a schedule."""
    return replace(text, size=min(text.size, body_size([page]) or text.size))


def _of_page(number: int, page: PageLines, text: BodyStyle) -> Iterator[Title]:
    lines, at = page.lines, 0
    entries = contents(lines)
    widths = sorted(line.right - line.left for line in lines if not line.rows)
    width = widths[int(0.9 * len(widths))] if widths else 0.0
    while at < len(lines):
        title = None if at in entries else _title(number, lines, at, text, width)
        if title and title.score >= ENOUGH:
            yield title
        at += title.count if title and (title.score >= ENOUGH or title.count > _MOST_LINES) else 1


def _title(number: int, lines: Sequence[Line], at: int, text: BodyStyle, width: float) -> Title | None:
    """Return the lines from there on that are set alike, with their features; None if none can be a title."""
    line = lines[at]
    style, size = style_of(line), line.tallest if _is_upper(line.text) else line.size
    if not may_be_title(line) or size < _SMALLER * text.size or _beside(lines, at):
        return None
    larger = size >= _LARGER * text.size
    bold = style.bold and not text.bold
    marked = style.caps or style.italic or style.family != text.family
    plain = not (larger or bold or marked)
    named = plain and _NAMED.match(line.text)
    count = 1 if named else _count(lines, at, style, 1.7 if larger else 1.3 * text.leading, plain)
    said = " ".join(one.text for one in lines[at : at + count])
    large = size >= LARGE * text.size
    known = {
        "large": large,
        "larger": larger and not large,
        "bold": bold and not larger,
        "marked": marked and not larger and not bold,
        "named": bool(_NAMED.match(said) or (not plain and _FILED.match(said))),
        "space": not large and _has_space(lines, at, text, style),
        "close": not large and not _has_space(lines, at, text, style),
        "alone": not large and _stands_alone(lines, at, count, text, width, plain),
        "never": (
            count > _MOST_LINES or len(said) > _LONGEST_TITLE or (line.mono and not larger)
            or _reads_on(said, large, (style.bold or style.family != text.family) and " " in said)
            or _says_otherwise(lines, at, count, said)
        ),
    }  # fmt: skip
    return Title(
        number, at, count, said, style, line.left, frozenset(name for name, is_so in known.items() if is_so)
    )


def _says_otherwise(lines: Sequence[Line], at: int, count: int, said: str) -> bool:
    """Tell whether the words are an address, a label, units, columns, a caption or half a bracket."""
    listed = re.sub(r"^\(?[\w.]{1,6}\)", "", said)
    below = lines[at + count] if at + count < len(lines) else None
    years = len(re.findall(r"\b(?:19|20)\d\d\b", said)) > 1 and bool(below and below.rows)
    return bool(
        _OTHERWISE.search(said) or CAPTION.match(said) or is_units(said) or is_columns(said) or years
        or _heads_columns(lines, at, count, said)
        or listed.count("(") != listed.count(")")
        or _SIGNER.match(said) or (below and _SIGNER.match(below.text))
    )  # fmt: skip


def _heads_columns(lines: Sequence[Line], at: int, count: int, said: str) -> bool:
    """Tell whether a line is a part of a table's header: it has wide gaps, or stands with years and units."""
    line = lines[at]
    gaps = any(after.left - word.right > _GAP * line.size for word, after in pairwise(line.words))
    numbered = _FILED.match(said) or _OUTLINED.match(said) or _NAMED.match(said)
    if _names_columns(line) or (gaps and not numbered):
        return True
    pairs = [*pairwise(lines[max(at - _HEADER, 0) : at + 1])][::-1]
    if _steps_up(lines[at + count - 1 : at + count + 1]) or (pairs and _steps_up(pairs[0])):
        return True
    for above, below in pairs:
        if not abs(above.baseline - below.baseline) < _TALL_HEADER * line.size:
            break
        if _names_columns(above) or _steps_up((above, below)):
            return True
        if above.rows or not above.bold:
            break
    return False


def _steps_up(lines: Sequence[Line]) -> bool:
    """Tell whether the second line stands a little higher, as the next column of a table's header does."""
    if len(lines) < 2 or lines[0].rows or lines[1].rows:
        return False
    return 0.5 * lines[0].size > lines[0].baseline - lines[1].baseline > -2 * _TALL_HEADER * lines[0].size


def _names_columns(line: Line) -> bool:
    return not line.rows and (is_units(line.text) or is_columns(line.text))


def may_be_title(line: Line) -> bool:
    """Tell whether a line says something in words, or in bold in digits; a formula does neither."""
    if (line.mono and line.even) or line.rows or line.slanted or line.math or len(line.text) > LONGEST:
        return False
    text = _LEADING_NUMBER.sub("", line.text)
    words = len(_WORD.findall(text))
    visible = len("".join(text.split()))
    if (_MATHS.search(text) and words < 3) or len(_SYNTAX.findall(text)) > words:
        return False
    if words and 2 * sum(map(str.isalpha, text)) >= visible:
        return True
    if not line.bold or len(_FIGURES.findall(text)) > 3:  # a row of sums
        return False
    return bool(re.search("[A-Za-z]", text) and re.search(r"\d{3}", text)) and (
        2 * sum(map(str.isalnum, text)) >= visible
    )


def style_of(line: Line) -> FontStyle:
    upper = _is_upper(line.text)
    size = line.tallest if upper else line.size
    return FontStyle(round(2 * size) / 2, line.bold, line.italic, line.caps or upper, _family(line.font))


def _family(font: str) -> str:
    return _FAMILY.sub("", font)


def _is_upper(text: str) -> bool:
    return text.isupper() and sum(map(str.isalpha, text)) >= 4


def _beside(lines: Sequence[Line], at: int) -> bool:
    """Tell whether another line stands at the same height."""
    near = [lines[other] for other in (at - 1, at + 1) if 0 <= other < len(lines)]
    return any(abs(line.baseline - lines[at].baseline) < 0.4 * lines[at].size for line in near)


def _count(lines: Sequence[Line], at: int, style: FontStyle, farthest: float, plain: bool) -> int:
    """Count the lines that are set the same, each close below the one before."""
    count = 1
    while at + count < len(lines):
        above, line = lines[at + count - 1], lines[at + count]
        step = above.baseline - line.baseline
        same = style_of(line) == style or (
            style.caps and abs(line.tallest - style.size) < 0.3 and _is_upper(line.text)
        )
        far = (1.1 * farthest / 1.3 if plain else farthest) * style.size
        ends = (
            is_units(line.text)
            or is_columns(line.text)
            or _FILED.match(line.text)
            or _OUTLINED.match(line.text)
        )
        if not same or line.rows or not 0 < step < far or ends:
            break
        count += 1
    return count


def _reads_on(said: str, large: bool, marked: bool) -> bool:
    """Tell whether the words are a sentence, or a part of one."""
    if said.endswith((",", ";", " and", " or", " the", " of")) or LEADER.search(said):
        return True
    if marked and (_FILED.match(said) or (said.isupper() and said.endswith(":"))) and len(said) <= LONGEST:
        return False  # "Item 8.01. Other Events.", "OUTLOOK:"
    first = next((c for c in said if c.isalpha()), "")
    if large:
        sentence = said.isupper() and len(said.split()) > 4 and not _COMPANY.search(said)
        return said.endswith(".") and (len(said) > 60 or first.islower() or sentence)
    return said.endswith((".", ":", "。")) or (first.islower() and not marked)


def _has_space(lines: Sequence[Line], at: int, text: BodyStyle, style: FontStyle) -> bool:
    if at == 0 or lines[at - 1].rows:
        return True
    above, line = lines[at - 1], lines[at]
    step = above.baseline - line.baseline
    return (
        step < 0
        or step > _SPACE * text.leading * max(line.size, text.size)
        or (step > 0 and style_of(above) != style and above.size > LARGE * text.size)
    )


def _stands_alone(
    lines: Sequence[Line], at: int, count: int, text: BodyStyle, width: float, plain: bool
) -> bool:
    """Tell whether a line in a style like the text's stands as headings do: short, with text below."""
    line, last = lines[at], lines[at + count - 1]
    short = count <= 2 and last.right - last.left < _WIDE * width
    if not short or at + count >= len(lines):
        return False
    below = lines[at + count]
    step = last.baseline - below.baseline
    followed = step < 0 or len(below.text) > 25 or bool(below.rows) or style_of(below) != style_of(line)
    return followed and (not plain or step < 0 or step > _SPACE * text.leading * text.size)


# --- the first page ----------------------------------------------------------------------------------------


def _without_cover(pages: Sequence[PageLines], found: Sequence[Title], text: BodyStyle) -> list[Title]:
    """Drop authors, dates and such that stand below the title on the first page, in type of their own.

    The form with which a company files a report heads nothing.
    """
    first = [title for title in found if title.page == 0]
    if not first or _is_filed(pages[0]):
        return [title for title in found if title.page > 0]
    main = max(first, key=lambda title: (title.style.size, -title.at))
    begins = next(
        (
            number for number, line in enumerate(pages[0].lines)
            if number >= main.at + main.count and abs(line.size - text.size) < 0.3 * text.size
            and len(line.text) > _PROSE and (not line.bold or text.bold)
        ),
        len(pages[0].lines),
    )  # fmt: skip
    others: dict[FontStyle, list[bool]] = defaultdict(list)
    for title in found:
        if title.page > 0 or title.at > begins:
            others[title.style].append(bool(_OUTLINED.match(title.text)))
    unnumbered = {style for style, numbered in others.items() if 2 * sum(numbered) <= len(numbered)}
    return [
        title for title in found
        if title.page > 0 or title.at > begins or title == main or title.style in unnumbered
        or _OUTLINED.match(title.text)
    ]  # fmt: skip


def _is_filed(page: PageLines) -> bool:
    """Tell whether a page is the form with which a company files a report."""
    said = " ".join(line.text for line in page.lines).casefold()
    return "exchange act of 1934" in said and "registrant" in said


# --- levels ------------------------------------------------------------------------------------------------


def _levels(found: Sequence[Title]) -> dict[Title, int]:
    """Return levels by numbers, else by style: larger type first, then the first to occur.

    The document's own title stays beside its sections: they are of level 1, as in other formats.
    """
    alone = found and found[0].page == 0 and found[0].style not in {title.style for title in found[1:]}
    largest = all(title.style.size <= found[0].style.size for title in found)
    rest = found[1:] if alone and largest and len(found) > 2 else found
    depths = _depths(found)
    order = {title.style: at for at, title in reversed(list(enumerate(rest)))}
    styles = sorted(order, key=lambda style: (-style.size, order[style]))
    of_style: dict[FontStyle, list[Title]] = defaultdict(list)
    for title in rest:
        of_style[title.style].append(title)
    usual = []
    for style in styles:
        told = Counter(depths[title] for title in of_style[style] if title in depths)
        usual.append(
            max(told, key=lambda depth: told[depth]) if 2 * told.total() > len(of_style[style]) else 0
        )
    levels: dict[FontStyle, int] = {}
    deepest = 0
    for at, style in enumerate(styles):
        after = min(filter(None, usual[at + 1 :]), default=0)
        depth = usual[at] or (max(1, after - 1) if after else deepest + 1)
        levels[style] = min(depth, 6)
        deepest = max(deepest, depth)
    own = {title: min(depths.get(title, 0) or levels.get(title.style, 1), 6) for title in found}
    return _filed_levels(found, own)


def _filed_levels(found: Sequence[Title], levels: Mapping[Title, int]) -> dict[Title, int]:
    """Put what stands under the parts and items of a filed report below them."""
    marks = {title: match for title in found if (match := _FILED.match(title.text))}
    if sum(bool(match[2]) for match in marks.values()) < _SERIES:
        return dict(levels)
    parts, under = any(match[1] for match in marks.values()), 0
    placed, above = dict[Title, int](), list[int]()
    for title in found:
        if match := marks.get(title):
            under, above = 1 if match[1] else 1 + parts, []
            placed[title] = under
            continue
        if _NOTE.match(title.text):
            above = []
        while above and above[-1] >= levels[title]:
            above.pop()
        above.append(0 if _NOTE.match(title.text) else levels[title])
        placed[title] = min(under + len(above), 6)
    return placed


def _depths(found: Sequence[Title]) -> dict[Title, int]:
    """Return the depths of numbered titles."""
    numbers = ((title, heading_number(title.text)) for title in found)
    return {title: number.count(".") + 1 for title, number in numbers if number}
