"""Writes numbers as a spreadsheet shows them: currencies, units, leading zeros, percentages, dates. Pure.

A number format has up to four sections: for positive numbers, negative numbers, zero and text [ECMA-376-1,
18.8.31]. Dates are written in ISO 8601, to the day, minute or second, as the format shows them.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, DecimalException
from fractions import Fraction
from functools import lru_cache
from math import isfinite
from typing import Literal
from xml.etree.ElementTree import Element

from ingestor.parsers.shared.numbers import parse_integer

Writer = Callable[[float], str]  # raises OverflowError or ValueError for an absurd number
Formats = dict[str, Writer]  # by a cell's style; "": of all other styles

_S = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_BUILT_IN = {  # without the currencies, which depend on the reader's country
    1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 9: "0%", 10: "0.00%", 11: "0.00E+00", 12: "# ?/?",
    13: "# ??/??", **dict.fromkeys((5, 6, 37, 38, 41, 42), "#,##0"),
    **dict.fromkeys((7, 8, 39, 40, 43, 44), "#,##0.00"), **dict.fromkeys((14, 15, 16), "yyyy-mm-dd"),
    17: "yyyy-mm", 18: "h:mm", 19: "h:mm:ss", 20: "h:mm", 21: "h:mm:ss", 22: "yyyy-mm-dd h:mm",
    45: "mm:ss", 46: "[h]:mm:ss", 47: "mm:ss", 48: "0.0E+0",
}  # fmt: skip
_TOKEN = re.compile(
    r"""(?P<literal>"[^"]*"?|\\.|\[\$[^\]]*\])|(?P<blank>[_*].)|\[(?P<elapsed>h+|m+|s+)\]"""
    r"""|\[(?P<condition>(?:<=|>=|<>|<|>|=)-?[\d.]+)\]|(?P<colour>\[[^\]]*\])|(?P<general>general)"""
    r"""|(?P<exponent>E[+-])|(?P<clock>AM/PM|A/P)|(?P<date>y+|m+|d+|h+|s+)|(?P<digit>[0#?])|(?P<sign>[.,/%@;])|(?P<other>.)""",
    re.IGNORECASE | re.DOTALL,
)
_EPOCH = datetime(1899, 12, 30)
_FROM_1904 = timedelta(days=1462)
_LONGEST = 255  # characters that Excel allows in a format
_DAYS = 2_958_466  # the year 10000
_LARGEST = 1e21  # beyond, a number is written with an exponent
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<": lambda a, b: a < b, ">": lambda a, b: a > b, "=": lambda a, b: a == b,
    "<=": lambda a, b: a <= b, ">=": lambda a, b: a >= b, "<>": lambda a, b: a != b,
}  # fmt: skip

Part = tuple[Literal["text", "digit", "point", "exponent", "slash"], str]


@dataclass(frozen=True, slots=True)
class _Section:
    """A section of a number format. ``dates``: its codes for parts of a date, such as "yyyymmdd".

    ``elapsed``: whether it shows a duration. ``scale``: factor of the number, such as 100 for a percentage.
    """

    parts: tuple[Part, ...]
    dates: str
    elapsed: bool
    condition: str
    scale: Decimal
    thousands: bool
    general: bool


def formats(styles: Element, from_1904: bool) -> Formats:
    """Return a function that writes a number, for each cell format of a workbook, by the format's index.

    The key "" has the function for cells without a format. ``styles``: root of the workbook's styles part.
    ``from_1904``: whether the workbook counts days from 1904.
    """
    own = {form.get("numFmtId", ""): form.get("formatCode", "") for form in styles.iter(f"{_S}numFmt")}
    cells = styles.find(f"{_S}cellXfs")
    ids = [form.get("numFmtId", "0") for form in cells] if cells is not None else []
    codes = [own.get(id_) or _BUILT_IN.get(parse_integer(id_, 0), "") for id_ in ids]
    return {str(at): writer(code, from_1904) for at, code in enumerate(codes)} | {"": writer("", from_1904)}


@lru_cache(1000)
def writer(code: str, from_1904: bool = False) -> Writer:
    """Return a function that writes a number in the number format ``code``.

    ``from_1904``: whether the workbook counts days from 1904, not from 1900.
    """
    sections = _sections(code) if code.strip() and len(code) <= _LONGEST else []
    if not sections or (len(sections) == 1 and sections[0].general and len(sections[0].parts) == 1):
        return "{:.15g}".format

    def write(value: float) -> str:
        if not isfinite(value):
            return f"{value:.15g}"
        section, shown = _choose(sections, value)
        if section.dates or section.elapsed:
            if section.elapsed:
                return _duration(value)
            if 0 <= value < _DAYS:
                return _date(section.dates, value, from_1904)
            return f"{value:.15g}"
        return " ".join(_number(section, shown).split())

    return write


def _choose(sections: list[_Section], value: float) -> tuple[_Section, float]:
    """Return the section that applies to a number, and the number as the section shows it.

    A section for negative numbers shows them without a minus.
    """
    for section in sections[:2]:
        if section.condition:
            operator = section.condition.rstrip("-.0123456789")
            if _COMPARE[operator](value, float(section.condition[len(operator) :] or 0)):
                return section, abs(value) if operator[:1] == "<" and value < 0 else value
    if any(section.condition for section in sections[:2]):
        return sections[min(2, len(sections) - 1)], value
    if value < 0 and len(sections) > 1:
        return sections[1], -value
    if value == 0 and len(sections) > 2:
        return sections[2], value
    return sections[0], value


def _sections(code: str) -> list[_Section]:
    groups: list[list[re.Match[str]]] = [[]]
    for token in _TOKEN.finditer(code):
        if token["sign"] == ";":
            groups.append([])
        else:
            groups[-1].append(token)
    return [_section(group) for group in groups[:3]]


def _section(tokens: list[re.Match[str]]) -> _Section:
    parts = list(filter(None, map(_part, tokens)))
    scale, commas, thousands = Decimal(1), 0, False
    for token in tokens:  # a comma between digits groups them; one behind all divides by a thousand
        if token["digit"]:
            thousands, commas = thousands or commas > 0, 0
        elif token["sign"] == ",":
            commas += any(kind == "digit" for kind, _ in parts)
        elif token["sign"] == ".":
            scale, commas = scale.scaleb(-3 * commas), 0
        elif token["sign"] == "%":
            scale *= 100
    return _Section(
        parts=tuple(parts),
        dates="".join(token["date"] or "" for token in tokens).lower(),
        elapsed=any(token["elapsed"] for token in tokens),
        condition=next((token["condition"] for token in tokens if token["condition"]), ""),
        scale=scale.scaleb(-3 * commas),
        thousands=thousands,
        general=any(token["general"] or token["sign"] == "@" for token in tokens),
    )


def _part(token: re.Match[str]) -> Part | None:
    kind, text = token.lastgroup, token[0]
    if kind == "literal":
        return "text", _literal(text)
    if kind == "general" or text == "@":
        return "digit", ""
    if kind == "digit":
        return "digit", text
    if kind == "exponent":
        return "exponent", text
    if kind == "other" or text == "%":
        return "text", text
    return {".": ("point", text), "/": ("slash", text)}.get(text)  # type: ignore[return-value]


def _literal(text: str) -> str:
    """Return the characters that a token shows: quoted text, or the currency sign of ``[$€-407]``."""
    if text.startswith("[$"):
        return text[2:-1].partition("-")[0]
    return text[1:] if text[0] == "\\" else text.strip('"')


def _number(section: _Section, value: float) -> str:
    parts = section.parts
    places = [at for at, (kind, _) in enumerate(parts) if kind == "digit"]
    if not places:
        sign = "-" if value < 0 else ""
        return sign + "".join(text for kind, text in parts if kind in ("text", "slash", "point"))
    before = "".join(text for _, text in parts[: places[0]])
    behind = "".join(text for kind, text in parts[places[-1] + 1 :] if kind != "point")
    inner = parts[places[0] : places[-1] + 1]
    number = Decimal(repr(value)) * section.scale
    sign = "-" if number < 0 else ""
    kinds = {kind for kind, _ in inner}
    if "exponent" in kinds:
        core = _scientific(inner, abs(number))
    elif section.general or abs(number) >= _LARGEST:
        core = f"{abs(float(number)):.15g}"
    elif "slash" in kinds:
        core = _fraction(inner, abs(number))
    else:
        core = _decimal(section, inner, abs(number))
    if sign and not core.strip("0.,"):
        sign = ""
    return f"{sign}{before}{core}{behind}"


def _decimal(section: _Section, parts: tuple[Part, ...], number: Decimal) -> str:
    """Write a number with the digits, separators and decimals of a section.

    ``parts``: parts of the section from its first to its last digit. The first digit placeholder also takes
    the digits for which there is no placeholder.
    """
    point = next((at for at, (kind, _) in enumerate(parts) if kind == "point"), len(parts))
    decimals = sum(kind == "digit" for kind, _ in parts[point:])
    try:
        rounded = f"{number.quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP):f}"
    except DecimalException:
        return f"{float(number):.15g}"
    digits, _, fraction = rounded.partition(".")
    places = [text for kind, text in parts[:point] if kind == "digit"]
    needed = len(places) - next((at for at, text in enumerate(places) if text == "0"), len(places))
    digits = digits.lstrip("0").rjust(needed, "0")
    if section.thousands:
        first = len(digits) % 3
        groups = (digits[:first], *(digits[at : at + 3] for at in range(first, len(digits), 3)))
        shown = ",".join(filter(None, groups)) + "".join(
            text for kind, text in parts[:point] if kind == "text"
        )
    else:
        shown, left, rest = "", len(places), digits
        for kind, text in parts[:point]:
            if kind != "digit":
                shown += text if kind == "text" else ""
                continue
            take = max(len(rest) - left + 1, 0)
            shown, rest, left = shown + rest[:take], rest[take:], left - 1
    kept = [text for kind, text in parts[point:] if kind == "digit"]
    while kept and kept[-1] != "0" and fraction.endswith("0"):
        kept, fraction = kept[:-1], fraction[:-1]
    return f"{shown}.{fraction}" if fraction else shown


def _scientific(parts: tuple[Part, ...], number: Decimal) -> str:
    exponent = next(at for at, (kind, _) in enumerate(parts) if kind == "exponent")
    point = next((at for at, (kind, _) in enumerate(parts[:exponent]) if kind == "point"), exponent)
    decimals = sum(kind == "digit" for kind, _ in parts[point:exponent])
    mantissa, _, power = f"{number:.{decimals}E}".partition("E")
    width = sum(kind == "digit" for kind, _ in parts[exponent:])
    sign = "-" if power.startswith("-") else "+" if parts[exponent][1].endswith("+") else ""
    return f"{mantissa}E{sign}{power.lstrip('+-').rjust(width, '0')}"


def _fraction(parts: tuple[Part, ...], number: Decimal) -> str:
    """Write a number as ``3/4``, or as ``1 3/4`` if the format has a place for the whole number."""
    slash = next(at for at, (kind, _) in enumerate(parts) if kind == "slash")
    above = "".join(text if kind == "digit" else " " for kind, text in parts[:slash]).split()
    below = "".join(text for _, text in parts[slash + 1 :])
    exact = Fraction(number)
    count = int(exact) if len(above) > 1 else 0
    rest = (exact - count).limit_denominator(10 ** max(len(below), 1) - 1)
    if rest.numerator == 0:
        return str(count)
    if rest == 1 and len(above) > 1:
        return str(count + 1)
    return f"{count or ''} {rest.numerator}/{rest.denominator}".strip()


def _date(codes: str, value: float, from_1904: bool) -> str:
    moment = _EPOCH + timedelta(seconds=round(value * 86400))
    moment = moment + _FROM_1904 if from_1904 else moment
    if "h" not in codes and "s" not in codes:
        if "d" in codes or "y" not in codes:
            return moment.date().isoformat()
        return moment.strftime("%Y-%m") if "m" in codes else str(moment.year)
    clock = "seconds" if "s" in codes else "minutes"
    if "y" in codes or "d" in codes:
        return moment.isoformat(" ", clock)
    return moment.time().isoformat(clock)


def _duration(value: float) -> str:
    seconds = round(abs(value) * 86400)
    return f"{'-' if value < 0 else ''}{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
