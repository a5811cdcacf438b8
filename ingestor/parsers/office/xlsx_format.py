"""Numbers as a spreadsheet shows them: percentages, decimals, thousands, dates. Pure.

A format such as ``#,##0.00`` or ``dd.mm.yyyy`` is looked at only as far as that needs.
"""

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import lru_cache
from xml.etree.ElementTree import Element

from ingestor.parsers.shared.whole import whole

Formats = dict[str, Callable[[float], str]]  # writers of numbers by a cell's style; "": of all other styles

_S = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_BUILT_IN = {
    1: "0",
    2: "0.00",
    3: "#,##0",
    4: "#,##0.00",
    9: "0%",
    10: "0.00%",
    37: "#,##0",
    38: "#,##0",
    39: "#,##0.00",
    40: "#,##0.00",
    14: "yyyy-mm-dd",
    15: "yyyy-mm-dd",
    16: "yyyy-mm-dd",
    17: "yyyy-mm",
    18: "h:mm",
    19: "h:mm:ss",
    20: "h:mm",
    21: "h:mm:ss",
    22: "yyyy-mm-dd h:mm",
    45: "h:mm:ss",
    46: "[h]:mm:ss",
    47: "h:mm:ss",
}
_LITERAL = re.compile(r'"[^"]*"|\\.|_.|\*.|\[(?!h+\]|m+\]|s+\])[^\]]*\]', re.IGNORECASE)
_EPOCH = datetime(1899, 12, 30)
_FROM_1904 = timedelta(days=1462)
_LONGEST = 255  # characters that Excel allows in a format
_DAYS = 2_958_466  # the year 10000


def formats(styles: Element, from_1904: bool) -> Formats:
    """``styles``: the workbook's part of that name."""
    own = {form.get("numFmtId", ""): form.get("formatCode", "") for form in styles.iter(f"{_S}numFmt")}
    cells = styles.find(f"{_S}cellXfs")
    ids = [form.get("numFmtId", "0") for form in cells] if cells is not None else []
    codes = [own.get(id_) or _BUILT_IN.get(whole(id_, 0), "") for id_ in ids]
    return {str(at): writer(bare(code), from_1904) for at, code in enumerate(codes)} | {
        "": writer("", from_1904)
    }


@lru_cache(1000)
def writer(form: str, from_1904: bool = False) -> Callable[[float], str]:
    """Gives the text of a number; that raises OverflowError for an absurd date.

    ``form``: a format's first section without literals.
    """
    number = _number(form)
    if not re.search(r"[ymdhs]", form):
        return number
    date = _date(form, from_1904)
    return lambda value: date(value) if 0 <= value < _DAYS else number(value)


def _number(form: str) -> Callable[[float], str]:
    found = re.search(r"\.(0+)", form)
    decimals = len(found[1]) if found else 0
    if "%" in form:
        return lambda value: f"{value * 100:.{decimals}f}%"
    if "E" in form.upper() or not re.search(r"[0#]", form):
        return "{:.15g}".format
    thousands = "," if ",#" in form or ",0" in form else ""
    return f"{{:{thousands}.{decimals}f}}".format


def bare(form: str) -> str:
    if len(form) > _LONGEST:
        return ""
    first = _LITERAL.sub("", form).partition(";")[0].lower()
    return "" if first == "general" else first


def _date(form: str, from_1904: bool) -> Callable[[float], str]:
    """ISO 8601, as exact as the format is; a duration of hours as such."""
    if "[h" in form:
        return _duration
    has_time = bool(re.search(r"[hs]", form))
    if not has_time and "d" not in form and "y" in form:
        return lambda value: _moment(value, from_1904).strftime("%Y-%m")
    if not has_time:
        return lambda value: _moment(value, from_1904).date().isoformat()
    clock = "seconds" if "s" in form else "minutes"
    if re.search(r"[yd]", form):
        return lambda value: _moment(value, from_1904).isoformat(" ", clock)
    return lambda value: _moment(value, from_1904).time().isoformat(clock)


def _duration(value: float) -> str:
    seconds = round(value * 86400)
    return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _moment(value: float, from_1904: bool) -> datetime:
    moment = _EPOCH + timedelta(seconds=round(value * 86400))
    return moment + _FROM_1904 if from_1904 else moment
