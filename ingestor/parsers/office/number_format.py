"""Numbers as a spreadsheet shows them: currencies, units, leading zeros, percentages, fractions, ISO dates.

The library anydoc writes them. It reads workbooks whole, which takes too much memory for large sheets, so it
gets a small workbook of the numbers that have a format.
"""

import io
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from math import isfinite
from typing import NamedTuple, TypeVar
from xml.etree.ElementTree import Element
from xml.sax.saxutils import quoteattr

from ingestor.parsers.shared.compose import clean
from ingestor.parsers.shared.library import read_by_library
from ingestor.parsers.shared.numbers import whole

_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"
_S = f"{{{_MAIN}}}"
_BUILT_IN = {  # without the currencies, which depend on the reader's country
    1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 9: "0%", 10: "0.00%", 11: "0.00E+00", 12: "# ?/?",
    13: "# ??/??", **dict.fromkeys((5, 6, 37, 38, 41, 42), "#,##0"),
    **dict.fromkeys((7, 8, 39, 40, 43, 44), "#,##0.00"), **dict.fromkeys((14, 15, 16), "yyyy-mm-dd"),
    17: "yyyy-mm", 18: "h:mm", 19: "h:mm:ss", 20: "h:mm", 21: "h:mm:ss", 22: "yyyy-mm-dd h:mm",
    45: "mm:ss", 46: "[h]:mm:ss", 47: "mm:ss", 48: "0.0E+0",
}  # fmt: skip
_LITERAL = re.compile(r'"[^"]*"?|\\.|[_*].|\[[^\]]*\]')
_LONGEST = 255  # characters that Excel allows in a format
_ROWS, _AT_ONCE = 2_000, 50_000  # rows, and numbers, that the library gets in one workbook

K = TypeVar("K")


class Number(NamedTuple):
    """A number as the file has it. ``style``: key of its format."""

    style: str
    value: str


class NumberFormats:
    """Formats of a workbook. ``codes``: format of each style; a style without one is General."""

    def __init__(self, codes: Mapping[str, str], from_1904: bool) -> None:
        self._codes = {style: code for style, code in codes.items() if _is_special(code)}
        self._from_1904 = from_1904

    def plain(self, number: Number) -> str | None:
        """Return the text of a number that needs no format; None if it needs one."""
        try:
            value = float(number.value)
        except ValueError:
            return number.value
        if not isfinite(value):
            return number.value
        return None if number.style in self._codes else f"{value:.15g}"

    def fill(self, rows: "Iterable[tuple[K, dict[int, str | Number]]]") -> Iterator[tuple[K, dict[int, str]]]:
        """Yield the rows with the texts of their numbers."""
        rows = iter(rows)
        while batch := list(islice(rows, _ROWS)):
            shown = self._show(
                {text for _, row in batch for text in row.values() if isinstance(text, Number)}
            )
            for key, row in batch:
                yield (
                    key,
                    {at: shown[text] if isinstance(text, Number) else text for at, text in row.items()},
                )

    def _show(self, numbers: set[Number]) -> dict[Number, str]:
        shown: dict[Number, str] = {}
        left = list(numbers)
        while left:
            batch, left = left[:_AT_ONCE], left[_AT_ONCE:]
            styles = {style: at for at, style in enumerate({number.style for number in batch})}
            texts = _read([self._codes[style] for style in styles], batch, styles, self._from_1904)
            for number, text in zip(batch, texts, strict=True):
                shown[number] = text[: _exactness(self._codes[number.style])]
        return shown


def codes_of(styles: Element) -> dict[str, str]:
    """Return the formats of a workbook's cell styles by index. ``styles``: the part of that name."""
    own = {form.get("numFmtId", ""): form.get("formatCode", "") for form in styles.iter(f"{_S}numFmt")}
    ids = [form.get("numFmtId", "0") for form in styles.findall(f"{_S}cellXfs/*")]
    return {str(at): own.get(id_) or _BUILT_IN.get(whole(id_, 0), "") for at, id_ in enumerate(ids)}


def _is_special(code: str) -> bool:
    return code.lower() not in ("", "general", "@") and len(code) <= _LONGEST


@lru_cache(1000)
def _exactness(code: str) -> int | None:
    """Return the length of an ISO date that is as exact as its format: a year, or a year and a month."""
    letters = set(_LITERAL.sub("", code).lower()) & set("ymdhs")
    return {frozenset("y"): 4, frozenset("ym"): 7}.get(frozenset(letters))


def _read(
    codes: list[str], numbers: Iterable[Number], styles: Mapping[str, int], from_1904: bool
) -> list[str]:
    rows = "".join(
        f'<row><c t="str"><v>x</v></c><c s="{styles[style]}"><v>{float(value)!r}</v></c></row>'
        for style, value in numbers
    )
    forms = "".join(
        f'<numFmt numFmtId="{200 + at}" formatCode={quoteattr(clean(code))}/>'
        for at, code in enumerate(codes)
    )
    cells = "".join(f'<xf numFmtId="{200 + at}"/>' for at in range(len(codes)))
    link = f'<Relationship Id="{{0}}" Type="{_OFFICE}/{{0}}" Target="{{1}}.xml"/>'
    links = f'<Relationships xmlns="{_PACKAGE}">{{}}</Relationships>'
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("_rels/.rels", links.format(link.format("officeDocument", "xl/book")))
        archive.writestr(
            "xl/_rels/book.xml.rels",
            links.format(link.format("worksheet", "sheet") + link.format("styles", "styles")),
        )
        archive.writestr(
            "xl/book.xml",
            f'<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}"><workbookPr date1904="{from_1904:d}"/>'
            '<sheets><sheet name="s" sheetId="1" r:id="worksheet"/></sheets></workbook>',
        )
        archive.writestr(
            "xl/styles.xml",
            f'<styleSheet xmlns="{_MAIN}"><numFmts>{forms}</numFmts><cellXfs>{cells}</cellXfs></styleSheet>',
        )
        archive.writestr(
            "xl/sheet.xml", f'<worksheet xmlns="{_MAIN}"><sheetData>{rows}</sheetData></worksheet>'
        )
    (table,) = (block.table for block in read_by_library(file.getvalue(), "xlsx").blocks if block.table)
    contents = (row[1].cell.blocks if len(row) > 1 and row[1].cell else () for row in table.grid)
    return [
        " ".join("".join(part.text or "" for block in content for part in block.content or ()).split())
        for content in contents
    ]
