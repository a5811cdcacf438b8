"""The rows of an OpenDocument table, in a text as in a sheet. Pure."""

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from ingestor.parsers.odf.inline import DRAW, OFFICE, TABLE, TEXT, OdfInline, paragraphs
from ingestor.parsers.odf.plain import MOST, PlainRow
from ingestor.parsers.shared.plain_rows import MARK, PlainRows
from ingestor.parsers.shared.sheets import Row
from ingestor.parsers.shared.whole import whole

_CELLS = (f"{TABLE}table-cell", f"{TABLE}covered-table-cell")
_GROUPS = (f"{TABLE}table-row-group", f"{TABLE}table-rows", f"{TABLE}table-header-rows")
_PARAGRAPH = f"{TEXT}p"
_ROWS, _COLUMNS = f"{TABLE}number-rows-repeated", f"{TABLE}number-columns-repeated"


def row_texts(
    table: Element, inline: OdfInline, *, shapes: bool = True, plain: PlainRows[PlainRow] | None = None
) -> Iterator[Row]:
    """Each row that holds something, with its number from 1.

    ``shapes``: with the text of those in cells; ``plain``: rows whose placeholders are in the tree.
    """
    number = 1
    for row in _rows(table):
        run = plain.of(row.get(MARK)) if plain is not None else []
        if not run:
            run = [(_count(row, _ROWS), dict(_cells(row, inline, shapes=shapes)), "")]
        for repeated, texts, _ in run:
            for at in range(min(repeated, MOST) if texts else 0):
                yield number + at, texts
            number += repeated


def _rows(element: Element) -> Iterator[Element]:
    for child in element:
        if child.tag == f"{TABLE}table-row":
            yield child
        elif child.tag in _GROUPS:
            yield from _rows(child)


def _cells(row: Element, inline: OdfInline, *, shapes: bool) -> Iterator[tuple[int, str]]:
    column, left_out = 0, "" if shapes else DRAW
    for cell in row:
        if cell.tag not in _CELLS:
            continue
        repeated = _count(cell, _COLUMNS)
        if not len(cell):
            column += repeated
            continue
        if len(cell) == 1 and cell[0].tag == _PARAGRAPH:  # nearly always
            text = inline.plain(cell[0])
        else:
            text = " ".join(inline.plain(paragraph) for paragraph in paragraphs(cell, left_out))
            for annotation in cell.findall(f"{OFFICE}annotation"):
                inline.say_comment(annotation)
        for at in range(min(repeated, MOST) if text.strip() else 0):
            yield column + at, text
        column += repeated


def _count(element: Element, name: str) -> int:
    text = element.get(name)
    return 1 if text is None else max(whole(text, 1), 1)
