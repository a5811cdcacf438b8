"""Sheets of OpenDocument (ODS), read row by row: the library would hold all cells of a sheet at once."""

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from ingestor.parsers.odf.marking import DRAW, OFFICE, TABLE, TEXT
from ingestor.parsers.shared.numbers import whole
from ingestor.parsers.shared.sheets import Row

_REPEATED = {name: f"{TABLE}number-{name}-repeated" for name in ("rows", "columns")}
_CELLS = (f"{TABLE}table-cell", f"{TABLE}covered-table-cell")
_PARAGRAPH = f"{TEXT}p"
_GROUPS = (f"{TABLE}table-row-group", f"{TABLE}table-rows", f"{TABLE}table-header-rows")
_MOST = 1000  # times that a cell or a row which holds something is repeated
_MOST_SPACES = 100
_VALUES = ("string-value", "date-value", "time-value", "boolean-value", "value")


def rows_of(table: Element) -> Iterator[Row]:
    """Yield each row that holds something, with its number from 1."""
    number = 1
    for row in _rows(table):
        repeated, texts = _count(row, "rows"), dict(_cells(row))
        for at in range(min(repeated, _MOST) if texts else 0):
            yield number + at, texts
        number += repeated


def plain_text(element: Element) -> str:
    """Return the text of a paragraph, or of paragraphs outside frames, in one line."""
    return " ".join("".join(_pieces(element)).split())


def _pieces(element: Element) -> Iterator[str]:
    yield element.text or ""
    for child in element:
        if child.tag == f"{TEXT}s":
            yield " " * min(whole(child.get(f"{TEXT}c", "1"), 1), _MOST_SPACES)
        elif child.tag in (f"{TEXT}tab", f"{TEXT}line-break"):
            yield " "
        elif child.tag != f"{OFFICE}annotation" and (
            not child.tag.startswith(DRAW) or child.tag == f"{DRAW}a"
        ):
            yield from _pieces(child)
        yield child.tail or ""
    if element.tag in (f"{TEXT}p", f"{TEXT}h"):
        yield " "


def _rows(element: Element) -> Iterator[Element]:
    for child in element:
        if child.tag == f"{TABLE}table-row":
            yield child
        elif child.tag in _GROUPS:
            yield from _rows(child)


def _cells(row: Element) -> Iterator[tuple[int, str]]:
    column = 0
    for cell in row:
        if cell.tag not in _CELLS:
            continue
        repeated = _count(cell, "columns")
        if len(cell) == 1 and cell[0].tag == _PARAGRAPH and not len(cell[0]):  # as in nearly all
            text = " ".join((cell[0].text or "").split())
        else:
            text = plain_text(cell) if len(cell) else ""
        if not text:
            text = _value(cell)
        for at in range(min(repeated, _MOST) if text else 0):
            yield column + at, text
        column += repeated


def _value(cell: Element) -> str:
    """Return the value of a cell whose program did not write how it is shown."""
    value = next((text for name in _VALUES if (text := cell.get(f"{OFFICE}{name}"))), "")
    kind = cell.get(f"{OFFICE}value-type")
    if kind == "percentage":
        try:
            return f"{float(value) * 100:.10g}%"
        except (ValueError, OverflowError):
            return value
    if kind == "boolean":
        return value.upper()
    return f"{value} {cell.get(f'{OFFICE}currency', '')}".strip()


def _count(element: Element, name: str) -> int:
    text = element.get(_REPEATED[name])
    return 1 if text is None else max(whole(text, 1), 1)
