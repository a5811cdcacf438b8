"""What properties, styles and lists make of a paragraph of a .doc.

[MS-DOC] Properties are codes with operands (2.2.5.1). A style has those that its paragraphs do not set
themselves (2.9.260), and inherits from another. A list's levels say how its numbers look (2.9.150).
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from ingestor.parsers.shared.numbers import ListLevel, ListNumbers

_IN_TABLE, _ROW_END, _LEVEL, _LIST_LEVEL, _LIST = 0x2416, 0x2417, 0x2640, 0x260A, 0x460B
_SIZES = {0: 1, 1: 1, 2: 2, 3: 4, 4: 2, 5: 2, 7: 3}  # of a property's operand, by its group
_OWN = 0xFFE  # styles of the author's own are from there on
_LONGEST = 20  # styles that inherit from each other
_LEVELS = 9
_LONGEST_MARK = 100  # characters
_FORMATS = {  # [MS-OSHARED] 2.2.1.3, as newer Word calls them
    0: "decimal", 1: "upperRoman", 2: "lowerRoman", 3: "upperLetter", 4: "lowerLetter",
    10: "ideographDigital", 11: "japaneseCounting", 12: "aiueo", 13: "iroha", 14: "decimalFullWidth",
    18: "decimalEnclosedCircle", 22: "decimalZero", 24: "ganada", 30: "ideographTraditional",
    31: "ideographZodiac", 33: "taiwaneseCounting", 35: "taiwaneseCountingThousand", 37: "chineseCounting",
    39: "chineseCountingThousand", 46: "arabicAlpha", 47: "hebrew2", 58: "russianLower", 59: "russianUpper",
}  # fmt: skip
_NO_NUMBER = {23: "bullet", 255: "none"}


@dataclass(frozen=True, slots=True)
class ParagraphStyle:
    """None is for what it does not say. ``level`` of the outline, from 0; 9 is body text. List 0: none."""

    style: int = 0
    in_table: bool = False
    row_end: bool = False
    level: int | None = None
    list_number: int | None = None
    list_level: int | None = None


@dataclass(frozen=True, slots=True)
class DocStyle:
    """``built_in``: the number of the one that it is, or is made from: 1 to 9 are headings."""

    built_in: int = 0
    said: ParagraphStyle = ParagraphStyle()


@lru_cache(1000)  # many paragraphs have the same
def paragraph(properties: bytes) -> ParagraphStyle:
    """``properties``: the number of a style, then codes with their operands."""
    (style,) = struct.unpack_from("<H", properties)
    said: dict[int, int] = {}
    at = 2
    while at + 3 <= len(properties):
        (code,) = struct.unpack_from("<H", properties, at)
        size = _SIZES.get(code >> 13)
        if size is None:
            long = code == 0xD608  # what a table looks like
            size = 1 + int.from_bytes(properties[at + 2 : at + (4 if long else 3)], "little")
        said[code] = int.from_bytes(properties[at + 2 : at + 2 + min(size, 2)], "little")
        at += 2 + size
    return ParagraphStyle(
        style, bool(said.get(_IN_TABLE)), bool(said.get(_ROW_END)),
        said.get(_LEVEL), said.get(_LIST), said.get(_LIST_LEVEL),
    )  # fmt: skip


def with_style(own: ParagraphStyle, style: ParagraphStyle) -> ParagraphStyle:
    return replace(
        own,
        level=style.level if own.level is None else own.level,
        list_number=style.list_number if own.list_number is None else own.list_number,
        list_level=style.list_level if own.list_level is None else own.list_level,
    )


def styles(sheet: bytes) -> dict[int, DocStyle]:
    """By their numbers, with all that they inherit."""
    if len(sheet) < 6:
        return {}
    size, count, base = struct.unpack_from("<HHH", sheet)
    at, found = 2 + size, dict[int, tuple[int, int, ParagraphStyle]]()
    for number in range(count):
        if at + 2 > len(sheet):
            break
        (length,) = struct.unpack_from("<H", sheet, at)
        if length >= 4:
            first, second = struct.unpack_from("<HH", sheet, at + 2)
            found[number] = (
                first & 0x0FFF,
                second >> 4,
                _of_style(sheet[at + 2 : at + 2 + length], second, base),
            )
        at += 2 + length
    return {number: _resolved(number, found) for number in found}


def _of_style(style: bytes, kind: int, base: int) -> ParagraphStyle:
    """What a style of paragraphs says itself: after its name, the first of its sets of properties."""
    if kind & 0xF != 1 or base + 2 > len(style):
        return ParagraphStyle()
    (letters,) = struct.unpack_from("<H", style, base)
    at = base + 2 * letters + 4
    size = int.from_bytes(style[at : at + 2], "little")
    properties = style[at + 2 : at + 2 + size]
    return paragraph(properties) if len(properties) >= 2 else ParagraphStyle()


def _resolved(number: int, found: dict[int, tuple[int, int, ParagraphStyle]]) -> DocStyle:
    built_in, said = 0xFFF, ParagraphStyle()
    for _ in range(_LONGEST):
        if number not in found:
            break
        name, parent, own = found[number]
        said = with_style(said, own)
        if built_in >= _OWN:
            built_in = name
        number = parent
    return DocStyle(0 if built_in >= _OWN else built_in, said)


def lists(patterns: bytes, named: bytes) -> ListNumbers:
    """``patterns``: from the table of patterns to the end of the stream. Damaged ones are as if not there."""
    try:
        return ListNumbers(dict(_patterns(patterns)), dict(_named(named)))
    except (struct.error, IndexError):
        return ListNumbers({}, {})


def _patterns(data: bytes) -> Iterator[tuple[str, dict[int, ListLevel]]]:
    """The levels of all follow after the last; a simple list has one."""
    (count,) = struct.unpack_from("<H", data)
    at = 2 + 28 * count
    for number in range(count):
        (name,) = struct.unpack_from("<i", data, 2 + 28 * number)
        simple = data[2 + 28 * number + 26] & 1
        levels = {}
        for level in range(1 if simple else _LEVELS):
            levels[level], at = _level(data, at)
        yield str(name), levels


def _level(data: bytes, at: int) -> tuple[ListLevel, int]:
    """The level, and where the next one begins."""
    start, form = struct.unpack_from("<iB", data, at)
    after = at + 28 + data[at + 24] + data[at + 25]
    (letters,) = struct.unpack_from("<H", data, after)
    text = data[after + 2 : after + 2 + 2 * min(letters, _LONGEST_MARK)].decode("utf-16-le", "replace")
    shown = "".join(f"%{ord(sign) + 1}" if ord(sign) < _LEVELS else sign for sign in text)
    form_name = _NO_NUMBER.get(form) or _FORMATS.get(form, "decimal")
    return ListLevel(form_name, shown, start), after + 2 + 2 * letters


def _named(data: bytes) -> Iterator[tuple[str, tuple[str, dict[int, int]]]]:
    """Lists are counted from 1; each names its pattern, and may start its levels elsewhere."""
    (count,) = struct.unpack_from("<I", data)
    at = 4 + 16 * count
    for number in range(min(count, len(data) // 16)):
        (pattern,) = struct.unpack_from("<i", data, 4 + 16 * number)
        changed, restarts = data[4 + 16 * number + 12], dict[int, int]()
        at += 4
        for _ in range(changed):
            start, flags = struct.unpack_from("<iI", data, at)
            at += 8
            if flags & 0x20:  # a level of its own
                level, at = _level(data, at)
                start = level.start
            if flags & 0x10:
                restarts[flags & 0xF] = start
        yield str(number + 1), (str(pattern), restarts)
