"""Reads the tags of a PDF: headings, cells of tables, items of lists, descriptions of pictures.

Tags form a tree of elements. A piece of text carries the number of its marked content, and elements contain
these numbers [ISO 32000-1, 14.7].
"""

from collections.abc import Callable, Iterator, Mapping
from ctypes import byref, c_float
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pypdfium2 import raw

from ingestor.parsers.pdf.page import text_of
from ingestor.parsers.shared.compose import SpannedCell, grid
from ingestor.parsers.shared.flow import clean_description

if TYPE_CHECKING:
    from pypdfium2 import PdfPage

_LEVELS = {b"Title": 1, b"H": 1, **{f"H{level}".encode(): level for level in range(1, 7)}}
_CELLS = (b"TH", b"TD")
_DEEPEST = 60  # elements inside each other
_MOST = 20_000  # elements of a page
_WIDEST = 50  # columns of a cell
_LONGEST = 20_000  # bytes of what is said of a picture


@dataclass(frozen=True, slots=True)
class Cell:
    """The table, row and column of a table cell. ``head``: whether it is a header of a row or column."""

    table: int
    row: int
    column: int
    head: bool


@dataclass(frozen=True, slots=True)
class Tags:
    """The tags of a page, by number of marked content. ``headings``: (element, level); ``items``: element.

    ``figures``: descriptions of the page's pictures.
    """

    headings: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    cells: Mapping[int, Cell] = field(default_factory=dict)
    items: Mapping[int, int] = field(default_factory=dict)
    figures: tuple[str, ...] = ()

    @property
    def has_tags(self) -> bool:
        return bool(self.headings or self.cells or self.items)


def tags(page: "PdfPage") -> Tags:
    """Return the tags of a page; empty if the page is not tagged."""
    tree = raw.FPDF_StructTree_GetForPage(page)
    if not tree:
        return Tags()
    try:
        reader = _Reader()
        for at in range(raw.FPDF_StructTree_CountChildren(tree)):
            reader.read(raw.FPDF_StructTree_GetChildAtIndex(tree, at), 0)
        return Tags(reader.headings, reader.cells, reader.items, tuple(filter(None, reader.figures)))
    finally:
        raw.FPDF_StructTree_Close(tree)


def content_number(handle: Any, at: int) -> int:
    """Return the number of the marked content with the character at ``at``; -1 if it is in none."""
    object_ = raw.FPDFText_GetTextObject(handle, at)
    return raw.FPDFPageObj_GetMarkedContentID(object_) if object_ else -1


class _Reader:
    def __init__(self) -> None:
        self.headings: dict[int, tuple[int, int]] = {}
        self.cells: dict[int, Cell] = {}
        self.items: dict[int, int] = {}
        self.figures: list[str] = []
        self._elements = self._tables = 0

    def read(self, element: Any, depth: int) -> None:
        self._elements += 1
        if not element or depth > _DEEPEST or self._elements > _MOST:
            return
        kind = _type(element)
        if level := _LEVELS.get(kind):
            self.headings.update(dict.fromkeys(_contents(element, depth), (self._elements, level)))
        elif kind == b"Table":
            self._table(element, depth)
        else:
            if kind == b"LI":  # an inner item has its own number
                self.items.update(dict.fromkeys(_contents(element, depth), self._elements))
            elif kind == b"Figure":
                self.figures.append(
                    clean_description(text_of(raw.FPDF_StructElement_GetAltText, element, most=_LONGEST))
                )
            for child in _children(element):
                self.read(child, depth + 1)

    def _table(self, element: Any, depth: int) -> None:
        """Collect the cells of a table element. A table inside a cell counts as text of the cell."""
        self._tables += 1
        rows = [list(_below(row, _CELLS.__contains__, depth)) for row in _below(element, b"TR".__eq__, depth)]
        named = {str(number): cell for number, cell in enumerate(cell for row in rows for cell in row)}
        names = iter(named)
        spans = [
            [SpannedCell(next(names), _span(cell, b"ColSpan"), _span(cell, b"RowSpan")) for cell in row]
            for row in rows
        ]
        for row, line in enumerate(grid(spans)):
            for column, name in enumerate(line):
                if cell := named.get(name):
                    place = Cell(self._tables, row, column, _type(cell) == b"TH")
                    self.cells.update(dict.fromkeys(_contents(cell, depth), place))


def _below(element: Any, wanted: Callable[[bytes], bool], depth: int) -> Iterator[Any]:
    for child in _children(element) if depth <= _DEEPEST else ():
        if wanted(_type(child)):
            yield child
        else:
            yield from _below(child, wanted, depth + 1)


def _contents(element: Any, depth: int) -> Iterator[int]:
    """Yield the numbers of all marked contents in an element and in the elements inside it."""
    if depth > _DEEPEST:
        return
    for at in range(raw.FPDF_StructElement_CountChildren(element)):
        number = raw.FPDF_StructElement_GetChildMarkedContentID(element, at)
        if number >= 0:
            yield number
        elif child := raw.FPDF_StructElement_GetChildAtIndex(element, at):
            yield from _contents(child, depth + 1)


def _children(element: Any) -> Iterator[Any]:
    for at in range(raw.FPDF_StructElement_CountChildren(element)):
        if child := raw.FPDF_StructElement_GetChildAtIndex(element, at):
            yield child


def _type(element: Any) -> bytes:
    return text_of(raw.FPDF_StructElement_GetType, element).encode()


def _span(cell: Any, name: bytes) -> int:
    """Return the number of columns or rows that a cell covers. ``name``: the attribute that states it."""
    value = c_float()
    for at in range(raw.FPDF_StructElement_GetAttributeCount(cell)):
        attributes = raw.FPDF_StructElement_GetAttributeAtIndex(cell, at)
        attribute = raw.FPDF_StructElement_Attr_GetValue(attributes, name)
        if attribute and raw.FPDF_StructElement_Attr_GetNumberValue(attribute, byref(value)):
            return min(max(int(value.value), 1), _WIDEST)
    return 1
