"""The rows of an OpenDocument table, in a text as in a sheet. Pure."""

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from ingestor.parsers.odf.inline import DRAW, OFFICE, TABLE, OdfInline, paragraphs
from ingestor.parsers.shared.sheets import Row
from ingestor.parsers.shared.whole import whole

_CELLS = (f"{TABLE}table-cell", f"{TABLE}covered-table-cell")
_GROUPS = (f"{TABLE}table-row-group", f"{TABLE}table-rows", f"{TABLE}table-header-rows")
_MOST = 1000  # times that a cell or a row which holds something is repeated


def row_texts(table: Element, inline: OdfInline, *, shapes: bool = True) -> Iterator[Row]:
    """Each row that holds something, with its number from 1; ``shapes``: with the text of those in cells."""
    number = 1
    for row in _rows(table):
        repeated = _count(row, "number-rows-repeated")
        texts = dict(_cells(row, inline, shapes=shapes))
        for at in range(min(repeated, _MOST) if texts else 0):
            yield number + at, texts
        number += repeated


def _rows(element: Element) -> Iterator[Element]:
    for child in element:
        if child.tag == f"{TABLE}table-row":
            yield child
        elif child.tag in _GROUPS:
            yield from _rows(child)


def _cells(row: Element, inline: OdfInline, *, shapes: bool) -> Iterator[tuple[int, str]]:
    column = 0
    for cell in row:
        if cell.tag not in _CELLS:
            continue
        repeated = _count(cell, "number-columns-repeated")
        left_out = "" if shapes else DRAW
        text = " ".join(inline.plain(paragraph) for paragraph in paragraphs(cell, left_out))
        for annotation in cell.findall(f"{OFFICE}annotation"):
            inline.say_comment(annotation)
        for at in range(min(repeated, _MOST) if text.strip() else 0):
            yield column + at, text
        column += repeated


def _count(element: Element, name: str) -> int:
    text = element.get(f"{TABLE}{name}", "1")
    return max(whole(text, 1), 1)
