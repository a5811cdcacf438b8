"""Lines of a PDF that may be headings: set apart by their type and by the space around them. Pure.

What is set larger than the text may be one wherever it stands. What is bold, in capitals, in italics or in
another family at the text's size needs space above it, and most of what is set so in the document must stand
like that. Never: code, formulas, captions, entries of a table of contents, what goes on for more than four
lines.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ingestor.parsers.pdf.furniture import running_heads
from ingestor.parsers.pdf.lines import LARGE, LEADER, Line, PageLines, body_size, contents
from ingestor.text.outline import heading_number

LONGEST = 150  # characters of a line of a heading
_RISING = 0.9  # share of the numbers that are greater than the one before
_LEAST = 3  # headings that are set as the text is
_LONGEST_TITLE = 250  # characters of all its lines
_MOST_LINES = 4
_LARGER = 1.07  # times the text's size: counts as set larger, with space above
_SMALLER = 0.94  # times the text's size: too small for a heading, unless it stands alone in bold
_SMALLEST = 0.85  # too small even then
_SPACE = 1.2  # times the usual distance between lines: space above
_APART = 0.5  # share of a style's lines that must stand like headings
_WIDE = 0.9  # of the column: a line as wide as that goes on, unless it is large
_WORD = re.compile(r"[^\W\d_]{3}|[\u3040-\u9fff\uac00-\ud7af]")
_SYNTAX = re.compile(r"[\\{}<>@_|~^]")
_FORM = re.compile(r"\[[ x]\]|\ufffd|^[•‣▪◦●○∙–—]\s")  # boxes to tick, unknown characters, items of a list
_FIGURE = re.compile(r"\d[\d.,:/-]*")
_MOST_FIGURES = 3  # of a heading in digits, as a version with its date
_LETTER, _DIGITS = re.compile("[A-Za-z]"), re.compile(r"\d{3}")
_CAPTION = re.compile(
    r"(?:fig(?:ure|\.)?|table|tab\.|abb(?:ildung|\.)|tabelle|listing|algorithm|exhibit|chart|plate)\s*(?:[A-Z]?\.?\d|[IVX])",
    re.IGNORECASE,
)
_MATHS = re.compile(r"[=∑∏∫√≤≥±∞∈→×∂∀∃⊂∪≡]")
CHAPTER = re.compile(r"[^\W\d_]{2,14}\s+(?:\d{1,3}|[IVXLC]+|[A-Z])[.:]?$")  # a label alone on its line
OUTLINED = re.compile(
    r"(?:(?:\d{1,3}(?:\.\d{1,3})*|[A-Z](?:\.\d{1,3})+)[.)]?|[IVX]{1,5}\.|[A-Z]\.|§\s?\d+)\s+\S"
)
_LISTED = re.compile(r"^\(?[\w.]{1,6}\)")  # (a), 1.2)
_LEADING_NUMBER = re.compile(r"^(?:\d{1,3}(?:\.\d{1,3})*|[A-Z](?:\.\d{1,3})+)[.)]?\s+")
_FAMILY = re.compile(r"[-,].*|\d+$|(?:bold|italic|oblique|regular|medium|light|roman|mt|ps)+$")


@dataclass(frozen=True, slots=True)
class FontStyle:
    """``size`` in half points."""

    size: float
    bold: bool
    italic: bool
    caps: bool
    family: str


@dataclass(frozen=True, slots=True)
class Title:
    """``count`` lines from ``at`` on; ``plain``: set as the text is."""

    page: int
    at: int
    count: int
    text: str
    style: FontStyle
    large: bool
    plain: bool = False
    left: float = 0.0


@dataclass(frozen=True, slots=True)
class BodyStyle:
    """The type of most of the text; ``leading`` in units of its size."""

    size: float
    bold: bool
    family: str
    leading: float


def body(pages: Sequence[PageLines], leading: float) -> BodyStyle:
    size = body_size(pages)
    said: Counter[tuple[bool, str]] = Counter()
    for page in pages:
        for line in page.lines:
            if abs(line.size - size) < 0.3:
                said[line.bold, family(line.font)] += len(line.text)
    bold, name = max(said, key=lambda key: said[key], default=(False, ""))
    return BodyStyle(size, bold, name, leading)


def family(font: str) -> str:
    return _FAMILY.sub("", font)


def titles(pages: Sequence[PageLines], text: BodyStyle) -> list[Title]:
    """Possible headings: lines in styles that headings use."""
    heads = running_heads(pages, text.size, text.leading)
    found = [
        title for number, page in enumerate(pages) for title in _of_page(number, page, text, heads[number])
    ]
    used: Counter[FontStyle] = Counter()
    for page in pages:
        used.update(style_of(line) for line in page.lines if may_be_title(line))
    apart: dict[FontStyle, int] = defaultdict(int)
    for title in found:
        apart[title.style] += title.count
    return _numbered_in_order(
        [
            title
            for title in found
            if title.large or title.plain or apart[title.style] >= _APART * used[title.style]
        ]
    )


def _numbered_in_order(found: Sequence[Title]) -> list[Title]:
    """Less those set as the text is, unless their numbers go up through the document, as no list's do."""
    others = any(not title.plain and OUTLINED.match(title.text) for title in found)
    series: dict[tuple[str, int], list[Title]] = defaultdict(list)
    for title in found:
        if title.plain and not (others and "." not in title.text.split()[0].rstrip(".")):
            form = re.sub(r"\d+", "", title.text.split()[0])[-1:]
            series[form if form in ".)" else "", round(title.left / 8)].append(title)
    wanted = {title for one in series.values() if len(one) >= _LEAST and _rises(one) for title in one}
    return [title for title in found if not title.plain or title in wanted]


def _rises(series: Sequence[Title]) -> bool:
    numbers = [_number(title.text) for title in series]
    return sum(above < below for above, below in pairwise(numbers)) >= _RISING * (len(numbers) - 1)


def _number(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text.split()[0]))


def may_be_title(line: Line) -> bool:
    return (
        not ((line.mono and line.even) or line.rows or line.slanted or line.math)
        and len(line.text) <= LONGEST
        and _has_words(line.text, line.bold)
    )


def _has_words(text: str, bold: bool) -> bool:
    """Whether it says something in words, or in bold in digits; a formula does neither."""
    text = _LEADING_NUMBER.sub("", text)
    words = len(_WORD.findall(text))
    visible = sum(not character.isspace() for character in text)
    if (_MATHS.search(text) and words < 3) or len(_SYNTAX.findall(text)) > words:
        return False
    if words and 2 * sum(map(str.isalpha, text)) >= visible:
        return True
    if len(_FIGURE.findall(text)) > _MOST_FIGURES:  # a row of sums
        return False
    return (
        bold
        and bool(_LETTER.search(text) and _DIGITS.search(text))
        and 2 * sum(map(str.isalnum, text)) >= visible
    )


def style_of(line: Line) -> FontStyle:
    upper = _is_upper(line.text)
    size = line.tallest if upper else line.size
    return FontStyle(round(2 * size) / 2, line.bold, line.italic, line.caps or upper, family(line.font))


def _is_upper(text: str) -> bool:
    return text.isupper() and sum(map(str.isalpha, text)) >= 4


def _of_page(number: int, page: PageLines, text: BodyStyle, heads: set[int]) -> Iterator[Title]:
    lines, at = page.lines, 0
    entries = contents(lines) | heads
    right = _right(lines)
    while at < len(lines):
        title = None if at in entries else _title(number, lines, at, text, right)
        if title:
            yield title
        at += title.count if title else 1


def _right(lines: Sequence[Line]) -> float:
    """The width of the widest lines of text."""
    widths = sorted(line.right - line.left for line in lines if not line.rows)
    return widths[int(0.9 * len(widths))] if widths else 0.0


def _title(number: int, lines: Sequence[Line], at: int, text: BodyStyle, width: float) -> Title | None:
    line = lines[at]
    style, size = style_of(line), line.tallest if _is_upper(line.text) else line.size
    large = size >= LARGE * text.size
    larger = size >= _LARGER * text.size
    small = size < _SMALLER * text.size
    if not may_be_title(line) or size < _SMALLEST * text.size or _beside(lines, at):
        return None
    if small and not _heads_larger(lines, at, text, style):
        return None
    if line.mono and not larger:
        return None
    plain = not (
        large or larger or (style.bold and not text.bold) or style.caps or style.italic
        or style.family != text.family
    )  # fmt: skip
    count = _count(lines, at, style, 1.7 if larger else 1.3 * text.leading, plain)
    said = " ".join(line.text for line in lines[at : at + count])
    if (
        count > _MOST_LINES
        or len(said) > _LONGEST_TITLE
        or _reads_on(said, large, (style.bold or style.family != text.family) and " " in said)
        or _CAPTION.match(said)
        or _FORM.search(said)
        or _is_part(said)
    ):
        return None
    if not large and not _has_space(lines, at, text, style):
        return None
    weak = plain or small or not (large or larger or style.bold)
    if weak and not _stands_alone(lines, at, count, text, width, plain):
        return None
    return Title(number, at, count, said, style, large, plain, line.left)


def _heads_larger(lines: Sequence[Line], at: int, text: BodyStyle, style: FontStyle) -> bool:
    """Whether a line in smaller type is set apart, above text in the usual type: no note and no row."""
    apart = (style.bold and not text.bold) or (style.italic and OUTLINED.match(lines[at].text))
    return bool(apart) and any(line.size >= _SMALLER * text.size for line in lines[at + 1 : at + 4])


def _beside(lines: Sequence[Line], at: int) -> bool:
    """Whether another line stands at the same height, beside it."""
    near = [lines[other] for other in (at - 1, at + 1) if 0 <= other < len(lines)]
    return any(abs(line.baseline - lines[at].baseline) < 0.4 * lines[at].size for line in near)


def _count(lines: Sequence[Line], at: int, style: FontStyle, farthest: float, plain: bool) -> int:
    """How many lines it has: those below it that are set the same, and close."""
    count = 1
    while at + count < len(lines) and count <= _MOST_LINES:
        above, line = lines[at + count - 1], lines[at + count]
        step = above.baseline - line.baseline
        same = style_of(line) == style or (
            style.caps and abs(line.tallest - style.size) < 0.3 and _is_upper(line.text)
        )
        if (
            not same
            or line.rows
            or not 0 < step < (1.1 * farthest / 1.3 if plain else farthest) * style.size
            or OUTLINED.match(line.text)
        ):
            break
        count += 1
    return count


def _is_part(said: str) -> bool:
    """Whether it begins or ends within brackets."""
    text = _LISTED.sub("", said)
    return text.count("(") != text.count(")")


def _reads_on(said: str, large: bool, marked: bool) -> bool:
    """Whether it is a sentence, or a part of one."""
    if said.endswith((",", ";")) or LEADER.search(said):
        return True
    first = next((c for c in said if c.isalpha()), "")
    if large:
        return said.endswith(".") and (len(said) > 60 or first.islower())
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
    """Whether a line in a style like the text's stands alone as headings do: short, with text below."""
    line, last = lines[at], lines[at + count - 1]
    short = count <= 2 and last.right - last.left < _WIDE * width
    if not short or at + count >= len(lines):
        return False
    below = lines[at + count]
    step = last.baseline - below.baseline
    followed = step < 0 or len(below.text) > 25 or bool(below.rows) or style_of(below) != style_of(line)
    if not plain:
        return followed
    space = step < 0 or step > _SPACE * text.leading * text.size
    return followed and space and bool(OUTLINED.match(line.text)) and heading_number(line.text) is not None
