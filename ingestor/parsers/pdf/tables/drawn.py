"""The ruled tables on a PDF's page: their lines, and the text in their cells."""

from collections.abc import Iterable, Iterator, Sequence
from ctypes import byref, c_float
from typing import TYPE_CHECKING

from pypdfium2 import raw

from ingestor.parsers.pdf.lines import Line, Word
from ingestor.parsers.pdf.page_text import PageText, pieces, words
from ingestor.parsers.pdf.tables.cells import Rows, cells
from ingestor.parsers.pdf.tables.columns import stacks
from ingestor.parsers.pdf.tables.columns import tables as between_rules
from ingestor.parsers.pdf.tables.ruled import Box, Point, edges, grids

if TYPE_CHECKING:
    from pypdfium2 import PdfPage

_MOST_PATHS = 3000  # a page with more is a drawing
_MOST_SEGMENTS = 5000  # of them all
_MOST_RULES = 200  # of a page, that are in no table of lines; one with more is a drawing
_LEAST_RULES = 3
_KEPT = 0.97  # share of the letters in its place that a table must have
_FILLED = 0.3  # share of the cells; a net with fewer is no table, but a chart

Table = tuple[Box, Rows]


def tables(page: "PdfPage", text: PageText, filled: Sequence[Word]) -> list[Table]:
    """Those that are drawn with lines: where, and their rows. ``filled``: values of a form's fields."""
    across, upright = edges(_segments(page))
    nets = grids(across, upright)
    if not nets and len(across) < _LEAST_RULES:
        return []
    said = [*words(text), *filled]
    found = [
        (grid.box, rows)
        for grid in nets
        if _is_filled(rows := cells(grid, said, lambda word, wall: pieces(text, word, wall)))
    ]
    boxes = [box for box, _ in found]
    rules = [edge for edge in across if not any(box[1] - 1 <= edge.at <= box[3] + 1 for box in boxes)]
    ruled = stacks(rules) if len(rules) <= _MOST_RULES else []
    return found + [table for stack in ruled for table in between_rules(stack, said)]


def _is_filled(rows: Rows) -> bool:
    filled = sum(bool(cell) for row in rows for cell in row)
    return bool(rows) and filled >= max(4, _FILLED * len(rows) * len(rows[0]))


def with_tables(lines: Sequence[Line], found: Sequence[Table]) -> Iterator[Line]:
    """The lines, those inside of a table replaced by it, unless it says less than they do."""
    inside = [next((at for at, (box, _) in enumerate(found) if _inside(line, box)), None) for line in lines]
    told = {
        at for at, (_, rows) in enumerate(found)
        if _letters(cell for row in rows for cell in row)
        >= _KEPT * _letters(line.text for line, where in zip(lines, inside, strict=True) if where == at)
    }  # fmt: skip
    first = dict(reversed(list(zip(inside, lines, strict=True))))
    for line, at in zip(lines, inside, strict=True):
        if at is None or at not in told:
            yield line
        elif first[at] is line:
            yield Line(line.text, line.left, line.right, line.baseline, line.size, rows=found[at][1])


def _letters(texts: Iterable[str]) -> int:
    return sum(character.isalnum() for text in texts for character in text)


def _inside(line: Line, box: Box) -> bool:
    left, bottom, right, top = box
    centre = (line.left + line.right) / 2
    return not line.slanted and left <= centre <= right and bottom <= line.baseline <= top


def _segments(page: "PdfPage") -> Iterator[tuple[Point, Point]]:
    """DirectAnswers lines that are drawn or that border an area."""
    count = raw.FPDFPage_CountObjects(page)
    objects = (raw.FPDFPage_GetObject(page, at) for at in range(count))
    paths = [found for found in objects if raw.FPDFPageObj_GetType(found) == raw.FPDF_PAGEOBJ_PATH]
    left = _MOST_SEGMENTS
    for path in paths if len(paths) <= _MOST_PATHS else ():
        number = raw.FPDFPath_CountSegments(path)
        left -= number
        if left < 0:
            return
        yield from _of_path(path, number)


def _of_path(path: object, count: int) -> Iterator[tuple[Point, Point]]:
    matrix = raw.FS_MATRIX()
    raw.FPDFPageObj_GetMatrix(path, byref(matrix))
    begin: Point = (0.0, 0.0)
    last = begin
    for at in range(count):
        segment = raw.FPDFPath_GetPathSegment(path, at)
        x, y = c_float(), c_float()
        raw.FPDFPathSegment_GetPoint(segment, byref(x), byref(y))
        point = (
            matrix.a * x.value + matrix.c * y.value + matrix.e,
            matrix.b * x.value + matrix.d * y.value + matrix.f,
        )
        kind = raw.FPDFPathSegment_GetType(segment)
        if kind == raw.FPDF_SEGMENT_MOVETO:
            begin = point
        elif kind == raw.FPDF_SEGMENT_LINETO:
            yield last, point
        if raw.FPDFPathSegment_GetClose(segment):
            yield point, begin
        last = point
