"""Finds the headings of a PDF by its tags, its outline, or the type and position of lines. Pure.

A line that may be a heading has named features, each with a weight in ``WEIGHTS``; the sum of the weights
decides. A line in larger type than the text may be a heading wherever it stands. A line that is bold, in
capitals, in italics or in another font family needs space above it, like most such lines. An address, units,
names of columns, a form's label and a caption are never headings.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

from ingestor.parsers.pdf.lines import (
    LARGE,
    LEADER,
    Bookmark,
    Line,
    PageLines,
    body_size,
    is_columns,
    is_level,
    is_units,
    parts,
    prose,
)
from ingestor.text.outline import heading_number

WEIGHTS = {
    "large": 3,  # LARGE times the text's size, or more
    "larger": 2,  # a little larger than the text
    "bold": 2,  # where the text is not
    "marked": 1,  # in capitals, in italics, in another family
    "named": 2,  # a part, item, note or statement of a report, by its words
    "space": 1,  # above it
    "close": -1,  # to the line above, and not large
    "alone": 1,  # short, with text below
    "inside": -9,  # most lines of its style stand inside the text, or are the text
    "never": -9,  # a sentence, code, or one of ``_is_otherwise``
}
ENOUGH = 3  # the sum of a heading
LONGEST = 150  # characters of a line of a heading
_LONGEST_TITLE, _MOST_LINES = 250, 4  # characters and lines of a heading
_LARGER, _SMALLER = 1.07, 0.94  # times the text's size
_SPACE = 1.2  # times the usual distance between lines
_TOGETHER = 1.7, 1.3  # sizes of the type, or times the usual distance, between two lines of a heading
_COLUMNS = 1.5  # sizes of the type between two words: columns
_HEADER, _TALL = 6, 3.0  # lines of a table's header, and sizes of the type between them
_APART = 0.5  # share of a style's lines that must stand like headings
_WIDE = 0.9  # of the column: a line as wide as that goes on, unless it is large
_LONG = 60  # characters of a line of text
_PARAGRAPHS, _TEXT = 8, 0.3  # such lines, and their share, of a style of text
_PROSE = 45  # characters of a line of text below a cover
_SHARE = 0.3  # of the text: if more is a heading, type tells nothing
_SERIES = 3  # items of a filed report, at least
_TAGGED = 2  # headings at least, for tags to be believed
_KNOWN = 0.5  # share of an outline's titles that the text has, if the outline is the document's own
_SPARSE = 0.5  # entries of an outline to the page: fewer are not all headings

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
    r"(?:part [IV]{1,3}|item \d{1,2}(?:\.\d\d|[A-C])?|note \d{1,2})\b"
    r"\s*+(?:[.:—–-]\s*+)?(?:[A-Z][^.]{2,90})?\.?$"
    r"|(?:[\w.,&' ]{0,40} )?(?:condensed )?consolidated (?:balance sheets?|statements? of [\w’'(), ]{4,50})"
    r"(?: \(unaudited\))?$",
    re.IGNORECASE,
)
_NOTE = re.compile(r"note \d{1,2}\b", re.IGNORECASE)
_FAMILY = re.compile(r"[-,].*|\d+$|(?:bold|italic|oblique|regular|medium|light|roman|mt|ps)+$")
_WORD = re.compile(r"[^\W\d_]{3}|[\u3040-\u9fff\uac00-\ud7af]|[^\W\d_a-zA-Z]{2}")
_LEADING_NUMBER = re.compile(r"^(?:\d{1,3}(?:\.\d{1,3})*|[A-Z](?:\.\d{1,3})+)[.)]?\s+")
CAPTION = re.compile(
    r"(?:fig(?:ure|\.)?|table|tab\.|abb(?:ildung|\.)|tabelle|listing|algorithm|exhibit|chart|plate)\s*(?:[A-Z]?\.?\d|[IVX])",
    re.IGNORECASE,
)
_OTHERWISE = re.compile(
    r"\[[ x]\]|\ufffd|^[•‣▪◦●○∙–—*]\s|☐|☒|^[¨þxo]\s"  # boxes to tick, items of a list
    r"|^\[.*\]$|^\(.*\)$|^\*.*\*$"  # notices: [SIGNATURES ON FOLLOWING PAGE], (Mark One)
    r"|\b[A-Z]{2}\.?,?\s+\d{5}(?:-\d{4})?\b|\(\d{3}\)\s?\d{3}-\d{4}|\b\d{5}\s+[A-Z][a-zäöü]+$"  # addresses
    r"|^(?:\d+|one|two)\s+(?:[A-Z][\w.]*\s+){1,4}(?:street|st\.|avenue|ave\.?|road|rd\.|drive|boulevard"
    r"|blvd\.?|lane|way|plaza|place|parkway|circle|center|square|court|terrace|highway|yards)\b"
    r"|^p\.?\s?o\.?\s+box\b|,\s+[^\W\d]+(?:\s[^\W\d]+)?\s+\d{5}(?:-\d{4})?$|,\s+\d{4}\s+[^\W\d]+$"
    r"|\b(?:[A-Z]\d[A-Z]\s?\d[A-Z]\d|[A-Z]{1,2}\d[A-Z\d]?\s\d[A-Z]{2})$|^\S+@\S+\.\w+$|^(?:https?://|www\.)\S+$"
    r"|^(?:yes|no|none|page|total|signature|title|date|name|by)s?:?$|^/s/|^(?:dated?|by):"  # labels
    r"|\(continued\)$|^notes?:|^for immediate release$|^execution copy$|^dated as of\b"  # notices
    r"|^(?:see|the) accompanying notes|exact name of registrant|^commission file|employer identification"
    r"|^(?:large |non-)?accelerated filer|^(?:smaller reporting|emerging growth) company$|^trading symbol"
    r"|^indicate by check mark|^registrant[’']?s telephone|^(?:documents incorporated|securities registered) "
    r"|^title of (?:each|every) class|^name of (?:each|every) exchange|^page \d+(?: of \d+)?$"
    r"|^this page (?:is )?(?:intentionally )?left blank|^continued on (?:the )?next page"
    r"|^for the .{6,40} ended\b|^\*\w|^\(\d{1,2}\)\s+(?:refer|see|represents|includes|excludes|reflects)\b"
    r"|[$€£]\s?[\d,.]+\s+[\d,.]+$"  # notes below a table, and its rows
    r"|^(?:[\w ,.]+ )?(?:director|president|secretary|(?:chief|principal) \w+(?: and \w+)? officer)$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class PdfHeading:
    """A heading. ``count``: number of lines that it takes; 0 if the title is not on the page."""

    title: str
    level: int
    count: int


Headings = dict[int, list[PdfHeading]]  # by the line of the page before which, or with which, they begin


@dataclass(frozen=True, slots=True)
class FontStyle:
    """The style of a line's type. ``size``: in points, rounded to halves.

    ``caps``: whether all letters are capitals.
    """

    size: float
    bold: bool
    italic: bool
    caps: bool
    family: str


@dataclass(frozen=True, slots=True)
class BodyStyle:
    """The style of most of the text. ``leading``: distance between its lines, as a multiple of its size."""

    size: float
    bold: bool
    family: str
    leading: float


@dataclass(frozen=True, slots=True)
class Title:
    """A candidate for a heading: ``count`` lines of a page, from line ``at`` on."""

    page: int
    at: int
    count: int
    text: str
    style: FontStyle
    features: frozenset[str]

    @property
    def score(self) -> int:
        return sum(WEIGHTS[feature] for feature in self.features)


def headings(pages: Sequence[PageLines], outline: Sequence[Bookmark], leading: float) -> Sequence[Headings]:
    """Return the headings of each page. ``leading``: usual distance of lines, in sizes of their type."""
    tagged = _by_tags(pages)
    own = _entries_of_pages(pages, outline)
    if sum(map(len, tagged)) >= max(len(own), _TAGGED):
        return tagged
    if own and len(own) >= _SPARSE * len(pages):
        return _by_outline(pages, own)
    others = _by_setting(pages, leading)
    return _with_others(_by_outline(pages, own), others) if own else others


# --- as the document states --------------------------------------------------------------------------------


def _by_tags(pages: Sequence[PageLines]) -> list[Headings]:
    """Return the headings of each page that the document's tags name."""
    placed: list[Headings] = [{} for _ in pages]
    for page, taken in zip(pages, placed, strict=True):
        for tag, group in groupby(enumerate(page.lines), key=lambda line: line[1].tagged):
            lines = list(group)
            if tag and (title := " ".join(prose([line for _, line in lines]).split())):
                taken[lines[0][0]] = [PdfHeading(title, tag[1], len(lines))]
    return placed


def _entries_of_pages(pages: Sequence[PageLines], outline: Sequence[Bookmark]) -> list[Bookmark]:
    """Return the entries of the outline whose titles occur on these pages; all of them if most titles occur.

    A document that was cut out of another one may keep the whole outline of the other.
    """
    there = [entry for entry in outline if entry.page < len(pages)]
    text = "".join(_key(line.text) for page in pages for line in page.lines)
    known = [entry for entry in there if _key(entry.title) in text]
    return there if len(known) >= _KNOWN * len(outline) else known


def _by_outline(pages: Sequence[PageLines], outline: Iterable[Bookmark]) -> list[Headings]:
    """Return the headings of each page that the outline names, at the lines where their titles stand."""
    placed: list[Headings] = [{} for _ in pages]
    keys = [[_key(line.text) for line in page.lines] for page in pages]
    for bookmark in outline:
        lines, taken = pages[bookmark.page].lines, placed[bookmark.page]
        places = _places(lines, keys[bookmark.page], _key(bookmark.title))
        free = [place for place in places if not any(h.count for h in taken.get(place[0], ()))]
        at, count = max(
            free,
            key=lambda place: (max(line.size for line in lines[place[0] : sum(place)]), -place[0]),
            default=(max(taken, default=0), 0),
        )
        title = prose(lines[at : at + count]) if count else bookmark.title
        if lines:
            taken.setdefault(at, []).append(PdfHeading(title, bookmark.level, count))
    return placed


def _places(lines: Sequence[Line], keys: Sequence[str], title: str) -> Iterator[tuple[int, int]]:
    """Yield (first line, number of lines) of each place where one to three lines form the title.

    ``keys``: the lines' letters and digits in lower case, as in ``title``. A number may precede the title.
    """
    for at in range(len(keys) if title else 0):
        key = ""
        for count, more in enumerate(keys[at : at + 3], 1):
            key += more
            number = key[: -len(title)]
            if key.endswith(title) and _NUMBERING.fullmatch(number):
                text = lines[at].text
                label = _CHAPTER.match(text) or keys[at] == text.casefold().rstrip(".")  # "Chapter 1", "IV"
                if len(number) < len(keys[at]) or label:
                    yield at, count
                break


def _with_others(placed: list[Headings], others: Sequence[Headings]) -> list[Headings]:
    """Add headings that an incomplete outline does not name, each at a level below the entry before it.

    ``placed``: headings of each page by the outline. ``others``: headings of each page by their style.
    """
    level, above = 0, list[int]()
    for taken, more in zip(placed, others, strict=True):
        lines = {at + n for at, some in taken.items() for one in some for n in range(one.count)}
        for at in sorted({*taken, *more}):
            if at in taken:
                level, above = taken[at][-1].level, []
            if at in more and not any(at + n in lines for n in range(more[at][0].count)):
                (one,) = more[at]
                above = [*(each for each in above if each < one.level), one.level]
                taken[at] = [*taken.get(at, ()), replace(one, level=min(level + len(above), 6))]
    return placed


def _key(text: str) -> str:
    return _NOT_ALNUM.sub("", text).casefold()


# --- by how lines are set ----------------------------------------------------------------------------------


def _by_setting(pages: Sequence[PageLines], leading: float) -> list[Headings]:
    """Return the headings of each page that differ in type or position from the text, with their levels.

    Return none if only a single line, or too much of the text, would be a heading.
    """
    text = _body_style(pages, leading)
    chosen = _without_cover(pages, _titles(pages, text), text)
    placed: list[Headings] = [{} for _ in pages]
    letter = (
        len(chosen) == 1
        and not chosen[0].features & {"large", "named"}
        and not _OUTLINED.match(chosen[0].text)
    )
    much = sum(len(title.text) for title in chosen) > _SHARE * sum(
        len(line.text) for page in pages for line in page.lines
    )
    if letter or much:
        return placed  # a single line in bold is the subject of a letter
    whole = _with_labels(chosen)
    for title, level in zip(whole, _levels(whole), strict=True):
        words = prose(pages[title.page].lines[title.at : title.at + title.count]).split()
        placed[title.page][title.at] = [PdfHeading(" ".join(words), level, title.count)]
    return placed


def _with_labels(titles: Iterable[Title]) -> list[Title]:
    """Join each label, such as "Chapter 1", with the title right below it into one title."""
    labelled: list[Title] = []
    for title in titles:
        label = labelled[-1] if labelled else None
        if (
            label
            and _CHAPTER.match(label.text)
            and not _NAMED.match(label.text)
            and (label.page, label.at + label.count) == (title.page, title.at)
            and title.style.size >= label.style.size
        ):
            text = f"{label.text} {title.text}"
            labelled[-1] = replace(title, at=label.at, count=label.count + title.count, text=text)
        else:
            labelled.append(title)
    return labelled


def _body_style(pages: Sequence[PageLines], leading: float) -> BodyStyle:
    """Return the style of most of the text."""
    size = body_size(pages)
    styles: Counter[tuple[bool, str]] = Counter()
    for page in pages:
        for line in page.lines:
            if abs(line.size - size) < 0.3:
                styles[line.bold, _FAMILY.sub("", line.font)] += len(line.text)
    bold, family = max(styles, key=lambda style: styles[style], default=(False, ""))
    return BodyStyle(size, bold, family, leading)


def _titles(pages: Sequence[PageLines], text: BodyStyle) -> list[Title]:
    """Return the candidates on all pages whose features score enough. ``text``: style of most of the text.

    A style that mostly occurs inside the text, or on whole paragraphs, scores less.
    """
    candidates = [title for number, page in enumerate(pages) for title in _of_page(number, page, text)]
    lines = [(page.lines, at, line, style_of(line)) for page in pages for at, line in enumerate(page.lines)]
    used = Counter(
        style
        for all_, at, line, style in lines
        if may_be_title(line) and not _is_otherwise(all_, at, 1, line.text)
    )
    long = Counter(style for *_, line, style in lines if len(line.text) > _LONG)
    apart: Counter[FontStyle] = Counter()
    for title in candidates:
        apart[title.style] += title.count
    chosen = []
    for title in candidates:
        style = title.style
        is_text = long[style] >= _PARAGRAPHS and long[style] >= _TEXT * used[style]
        inside = apart[style] < _APART * used[style] and "large" not in title.features
        if (is_text or inside) and "named" not in title.features:
            title = replace(title, features=title.features | {"inside"})
        if title.score >= ENOUGH:
            chosen.append(title)
    return chosen


def _of_page(number: int, page: PageLines, text: BodyStyle) -> Iterator[Title]:
    """Yield the candidates on page ``number``. ``text``: style of most of the document's text.

    A page whose text is smaller, such as a schedule, is compared with its own text.
    """
    text = replace(text, size=min(text.size, body_size([page]) or text.size))
    lines, at = page.lines, 0
    widths = sorted(line.right - line.left for line in lines if not line.rows)
    width = widths[int(0.9 * len(widths))] if widths else 0.0
    while at < len(lines):
        near = (lines[other] for other in (at - 1, at + 1) if 0 <= other < len(lines))
        possible = may_be_title(lines[at]) and not any(is_level(lines[at], one) for one in near)
        title = _title(number, lines, at, text, width) if possible else None
        if title and title.score >= ENOUGH:
            yield title
        at += title.count if title and (title.score >= ENOUGH or title.count > _MOST_LINES) else 1


def _title(number: int, lines: Sequence[Line], at: int, text: BodyStyle, width: float) -> Title:
    """Return the candidate that begins with line ``at``: the lines in the same style, with their features.

    ``text``: style of most of the text. ``width``: usual width of a full line.
    """
    line, style = lines[at], style_of(lines[at])
    size = line.size
    large, larger = size >= LARGE * text.size, size >= _LARGER * text.size
    bold = style.bold and not text.bold
    family = style.family != text.family
    marked = style.caps or style.italic or family
    plain = not (larger or bold or marked)
    named = bool(_NAMED.match(line.text))
    farthest = style.size * (_TOGETHER[0] if larger else _TOGETHER[1] * text.leading)
    count = 1 if plain and named else _count(lines, at, style, farthest)
    words = " ".join(one.text for one in lines[at : at + count])
    above = lines[at - 1] if at else None
    step = above.baseline - line.baseline if above else 0.0
    space = (
        not above or bool(above.rows) or not 0 <= step <= _SPACE * text.leading * max(line.size, text.size)
    )
    short = count <= 2 and lines[at + count - 1].right - lines[at + count - 1].left < _WIDE * width
    known = {
        "large": large,
        "larger": larger and not large,
        "bold": bold and not larger,
        "marked": marked and not larger and not bold,
        "named": named,
        "space": space and not large,
        "close": not space and not large,
        "alone": short and at + count < len(lines) and not large,
        "never": (
            (size < _SMALLER * text.size and not named) or
            count > _MOST_LINES or len(words) > _LONGEST_TITLE or (line.mono and not larger)
            or _is_sentence(words, large, (style.bold or family) and " " in words)
            or _is_otherwise(lines, at, count, words)
        ),
    }  # fmt: skip
    return Title(number, at, count, words, style, frozenset(name for name, holds in known.items() if holds))


def _is_otherwise(lines: Sequence[Line], at: int, count: int, text: str) -> bool:
    """Return whether lines are no heading but an address, a label, units, columns or a caption.

    ``text``: words of the ``count`` lines from line ``at`` on. A bracket without its partner counts as well.
    """
    listed = re.sub(r"^\(?[\w.]{1,6}\)", "", text)
    return bool(
        _OTHERWISE.search(text) or CAPTION.match(text)
        or listed.count("(") != listed.count(")")
        or _heads_columns(lines, at, count, text)
    )  # fmt: skip


def _heads_columns(lines: Sequence[Line], at: int, count: int, text: str) -> bool:
    """Return whether lines belong to a table's header: they have wide gaps, or stand beside years and units.

    ``text``: words of the ``count`` lines from line ``at`` on.
    """
    line = lines[at]
    numbered = _FILED.match(text) or _OUTLINED.match(text) or _NAMED.match(text)
    if _names_columns(line) or is_units(text) or is_columns(text):
        return True
    if len(parts(line, _COLUMNS)) > 1 and not numbered:
        return True
    for one, other in pairwise(lines[max(at - 1, 0) : at + count + 1]):
        rise = other.baseline - one.baseline  # the next column of a header stands a little higher
        if not (one.rows or other.rows) and -0.5 * one.size < rise < 2 * _TALL * one.size:
            return True
    for above, below in [*pairwise(lines[max(at - _HEADER, 0) : at + 1])][::-1]:
        if not abs(above.baseline - below.baseline) < _TALL * line.size:
            break
        if _names_columns(above):
            return True
        if above.rows or not above.bold:
            break
    return False


def _names_columns(line: Line) -> bool:
    return not line.rows and (is_units(line.text) or is_columns(line.text))


def may_be_title(line: Line) -> bool:
    """Return whether a line consists mostly of letters, as titles do; formulas and code do not."""
    if line.mono or line.rows or line.slanted or line.math or len(line.text) > LONGEST:
        return False
    text = _LEADING_NUMBER.sub("", line.text)
    return bool(_WORD.search(text)) and 2 * sum(map(str.isalpha, text)) >= len("".join(text.split()))


def style_of(line: Line) -> FontStyle:
    upper = line.text.isupper() and sum(map(str.isalpha, line.text)) >= 4
    family = _FAMILY.sub("", line.font)
    return FontStyle(round(2 * line.size) / 2, line.bold, line.italic, upper, family)


def _count(lines: Sequence[Line], at: int, style: FontStyle, farthest: float) -> int:
    """Count the lines in one style from line ``at`` on, each near the line above it.

    ``farthest``: distance in points within which a line is near.
    """
    count = 1
    for above, line in pairwise(lines[at:]):
        ends = _names_columns(line) or _FILED.match(line.text) or _OUTLINED.match(line.text)
        if style_of(line) != style or line.rows or not 0 < above.baseline - line.baseline < farthest or ends:
            break
        count += 1
    return count


def _is_sentence(text: str, large: bool, marked: bool) -> bool:
    """Return whether a text is a sentence or a part of one.

    ``large``: whether its type is larger than that of most of the text. ``marked``: whether it is bold or in
    another font family.
    """
    if text.endswith((",", ";", " and", " or", " the", " of")) or LEADER.search(text):
        return True
    if marked and (_FILED.match(text) or (text.isupper() and text.endswith(":"))) and len(text) <= LONGEST:
        return False  # "Item 8.01. Other Events.", "OUTLOOK:"
    first = next((c for c in text if c.isalpha()), "")
    if large:
        return text.endswith(".") and (
            len(text) > 60 or first.islower() or (text.isupper() and text.count(" ") > 3)
        )
    return text.endswith((".", ":", "。")) or (first.islower() and not marked)


# --- the first page ----------------------------------------------------------------------------------------


def _without_cover(pages: Sequence[PageLines], titles: Sequence[Title], text: BodyStyle) -> list[Title]:
    """Drop candidates on the first page in a style that no other heading has, such as authors and dates.

    The title stays. If the first page is the form with which a company files a report, all its candidates are
    dropped.
    """
    first = [title for title in titles if title.page == 0]
    form = " ".join(line.text for page in pages[:1] for line in page.lines).casefold()
    if not first or ("exchange act of 1934" in form and "registrant" in form):
        return [title for title in titles if title.page > 0]
    main = max(first, key=lambda title: (title.style.size, -title.at))
    begins = next(
        (
            number for number, line in enumerate(pages[0].lines)
            if number >= main.at + main.count and abs(line.size - text.size) < 0.3 * text.size
            and len(line.text) > _PROSE and (not line.bold or text.bold)
        ),
        len(pages[0].lines),
    )  # fmt: skip
    elsewhere = {title.style for title in titles if title.page > 0 or title.at > begins}
    return [title for title in titles if title == main or title.style in elsewhere]


# --- levels ------------------------------------------------------------------------------------------------


def _levels(titles: Sequence[Title]) -> list[int]:
    """Return the level of each title by its number, else by its style.

    Of styles, the larger type has the outer level, then the style that occurs first. The document's own title
    gets level 1 like its sections, as in other formats.
    """
    own = titles and titles[0].page == 0 and titles[0].style not in {title.style for title in titles[1:]}
    largest = all(title.style.size <= titles[0].style.size for title in titles)
    rest = titles[1:] if own and largest and len(titles) > 2 else titles
    order = list(dict.fromkeys(title.style for title in rest))
    styles = {style: at for at, style in enumerate(sorted(order, key=lambda style: -style.size), 1)}
    depths = {title: number.count(".") + 1 for title in titles if (number := heading_number(title.text))}
    for style in order:
        own_depths = [depths.get(title, 0) for title in rest if title.style == style]
        usual, count = Counter(own_depths).most_common(1)[0]
        if usual and 2 * count > len(own_depths):
            styles[style] = usual
    levels = [min(depths.get(title, 0) or styles.get(title.style, 1), 6) for title in titles]
    return _levels_of_report(titles, levels)


def _levels_of_report(titles: Sequence[Title], levels: Sequence[int]) -> list[int]:
    """Return the levels, changed for a filed report: one below the part or item above a heading."""
    marks = [_FILED.match(title.text) for title in titles]
    if sum(bool(mark and mark[2]) for mark in marks) < _SERIES:
        return list(levels)
    parts, under = any(mark and mark[1] for mark in marks), 0
    placed, above = list[int](), list[int]()
    for title, mark, level in zip(titles, marks, levels, strict=True):
        if mark:
            under, above = 1 if mark[1] else 1 + parts, []
            placed.append(under)
            continue
        note = bool(_NOTE.match(title.text))
        above = [0] if note else [*(each for each in above if each < level), level]
        placed.append(min(under + len(above), 6))
    return placed
