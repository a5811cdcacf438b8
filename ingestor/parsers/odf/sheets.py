"""Sheets of OpenDocument (ODS), read row by row: the library would hold all cells of a sheet at once.

Most rows are written in one plain form: paragraphs of plain text in cells. They are read by patterns.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from xml.etree.ElementTree import Element

from ingestor.parsers.odf.marking import DRAW, OFFICE, TABLE, TEXT
from ingestor.parsers.shared import plain_rows
from ingestor.parsers.shared.plain_rows import MARK, SPACE, PlainRows, unescaped
from ingestor.parsers.shared.sheets import Row
from ingestor.parsers.shared.whole import whole

_TAG = "table:table-row"
_NAMESPACES = (f'xmlns:table="{TABLE[1:-1]}"', f'xmlns:text="{TEXT[1:-1]}"')
_ROW = re.compile(rf"{SPACE}<{_TAG}([^>]*+)(?<!/)>")
_CELL = re.compile(  # the attributes, and the text; or something else, then both are empty
    rf"<table:(?:covered-)?table-cell([^>]*+)>(?:(?<=/>)|<text:p>({plain_rows.TEXT})</text:p>"
    r"</table:(?:covered-)?table-cell>)|[^ \t\r\n]"
)
_REPEATED = {name: f"{TABLE}number-{name}-repeated" for name in ("rows", "columns")}
_REPEATED_MARK = {
    name: re.compile(f' table:number-{name}-repeated="([^"]*)"') for name in ("rows", "columns")
}
_CELLS = (f"{TABLE}table-cell", f"{TABLE}covered-table-cell")
_GROUPS = (f"{TABLE}table-row-group", f"{TABLE}table-rows", f"{TABLE}table-header-rows")
_MOST = 1000  # times that a cell or a row which holds something is repeated
_MOST_SPACES = 100
_VALUES = ("string-value", "date-value", "time-value", "boolean-value", "value")

PlainRow = tuple[
    int, dict[int, str], str
]  # how often it stands there, its texts by column, and these once each


def plain_sheets() -> PlainRows[PlainRow]:
    return PlainRows(_TAG, _NAMESPACES, _read)


def rows_of(table: Element, plain: PlainRows[PlainRow] | None = None) -> Iterator[Row]:
    """Yield each row that holds something, with its number from 1.

    ``plain``: rows whose placeholders are in the tree.
    """
    number = 1
    for row in _rows(table):
        run = plain.of(row.get(MARK)) if plain is not None else []
        if not run:
            run = [(_count(row, "rows"), dict(_cells(row)), "")]
        for repeated, texts, _ in run:
            for at in range(min(repeated, _MOST) if texts else 0):
                yield number + at, texts
            number += repeated


def plain_text(element: Element) -> str:
    """Return the text of a paragraph, or of paragraphs that stand in no frame, in one line."""
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
        text = plain_text(cell) if len(cell) else ""
        if not text:
            text = _value(cell)
        for at in range(min(repeated, _MOST) if text else 0):
            yield column + at, text
        column += repeated


def _value(cell: Element) -> str:
    """Return the value of a cell whose program did not write how it is shown."""
    value = next((found for name in _VALUES if (found := cell.get(f"{OFFICE}{name}"))), "")
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


def _read(text: str) -> PlainRow | None:
    head = _ROW.match(text)
    if not head or "xmlns" in text:
        return None
    column, texts, all_said = 0, dict[int, str](), list[str]()
    for attributes, said in _CELL.findall(text, head.end()):
        if said:
            shown = said if said.isalnum() else " ".join(unescaped(said).split())
            if shown:
                all_said.append(shown)
                texts[column] = shown
        elif attributes and "value" not in attributes:
            shown = ""
        else:
            return None
        if "-repeated" not in attributes:  # as in nearly all
            column += 1
            continue
        repeated = _marked("columns", attributes)
        if shown:
            texts.update(dict.fromkeys(range(column + 1, column + min(repeated, _MOST)), shown))
        column += repeated
    return _marked("rows", head[1]) if "-repeated" in head[1] else 1, texts, " ".join(all_said)


@lru_cache(1000)
def _marked(name: str, attributes: str) -> int:
    found = _REPEATED_MARK[name].search(attributes)
    return max(whole(found[1], 1), 1) if found else 1
