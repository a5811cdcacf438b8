"""Numbers as a spreadsheet shows them: percentages, decimals, thousands, dates. Pure.

A format such as ``#,##0.00`` or ``dd.mm.yyyy`` is looked at only as far as that needs.
"""

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from xml.etree.ElementTree import Element

from ingestor.parsers.shared.whole import whole

Shown = Callable[[str, str], str]  # (value, style) -> text

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


def shown(styles: Element, from_1904: bool) -> Shown:
    """``styles``: the workbook's part of that name."""
    own = {form.get("numFmtId", ""): form.get("formatCode", "") for form in styles.iter(f"{_S}numFmt")}
    cells = styles.find(f"{_S}cellXfs")
    ids = [form.get("numFmtId", "0") for form in cells] if cells is not None else []
    formats = [bare(own.get(id_) or _BUILT_IN.get(whole(id_, 0), "")) for id_ in ids]

    def show(value: str, style: str) -> str:
        index = whole(style, len(formats))
        form = formats[index] if index < len(formats) else ""
        try:
            return number(float(value), form, from_1904)
        except (ValueError, OverflowError):
            return value

    return show


def number(value: float, form: str, from_1904: bool = False) -> str:
    """``form``: a format's first section without literals. Raises OverflowError for an absurd date."""
    if re.search(r"[ymdhs]", form) and 0 <= value < _DAYS:
        return _date(value, form, from_1904)
    decimals = re.search(r"\.(0+)", form)
    if "%" in form:
        return f"{value * 100:.{len(decimals[1]) if decimals else 0}f}%"
    if "E" in form.upper() or not re.search(r"[0#]", form):
        return f"{value:.15g}"
    thousands = "," if ",#" in form or ",0" in form else ""
    return f"{value:{thousands}.{len(decimals[1]) if decimals else 0}f}"


def bare(form: str) -> str:
    if len(form) > _LONGEST:
        return ""
    first = _LITERAL.sub("", form).partition(";")[0].lower()
    return "" if first == "general" else first


def _date(value: float, form: str, from_1904: bool) -> str:
    """ISO 8601, as exact as the format is; a duration of hours as such."""
    if "[h" in form:
        seconds = round(value * 86400)
        return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    moment = _EPOCH + timedelta(seconds=round(value * 86400))
    if from_1904:
        moment += _FROM_1904
    has_date, has_time = re.search(r"[yd]", form), re.search(r"[hs]", form)
    if not has_time and "d" not in form and "y" in form:
        return f"{moment:%Y-%m}"
    clock = f"{moment:%H:%M:%S}" if "s" in form else f"{moment:%H:%M}"
    day = moment.date().isoformat()
    return " ".join([day] * (has_date is not None or not has_time) + [clock] * (has_time is not None))
