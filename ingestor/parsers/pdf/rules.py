"""Tables of a PDF's page that are drawn with lines: where they are, and the boxes of their cells.

A table is a net of horizontal and vertical lines that cross, with two rows and two columns or more. Where a
line between two cells is missing they are one cell.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from ctypes import byref, c_float
from dataclasses import dataclass
from itertools import pairwise, repeat
from operator import attrgetter
from typing import TYPE_CHECKING

from pypdfium2 import raw

if TYPE_CHECKING:
    from pypdfium2 import PdfPage

_NEAR = 3.0  # points within which lines meet, or are one
_SHORTEST = 6.0  # points; what is shorter is no line
_MOST = 600  # lines each way; a page with more is a drawing
_MOST_PATHS = 3000  # of a page
_MOST_SEGMENTS = 5000  # of all its paths but simple ones
_SIMPLE = 5  # segments: of a line or a rectangle
_THIN = 2.5  # points: a line that is an area

Box = tuple[float, float, float, float]  # left, bottom, right, top


@dataclass(frozen=True, slots=True)
class Edge:
    """A line along one axis: at ``at`` on the other, from ``low`` to ``high``."""

    at: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Grid:
    """``rows``: from the top; each cell's box, None where it belongs to the one on its left."""

    box: Box
    rows: tuple[tuple[Box | None, ...], ...]


Point = tuple[float, float]


def edges(segments: Iterable[tuple[Point, Point]]) -> tuple[list[Edge], list[Edge]]:
    """The horizontal and the vertical ones among the segments."""
    across: set[Edge] = set()
    upright: set[Edge] = set()
    for (x, y), (to_x, to_y) in segments:
        if abs(y - to_y) < 1 and abs(x - to_x) >= _SHORTEST:
            across.add(Edge(round(y), round(min(x, to_x)), round(max(x, to_x))))
        elif abs(x - to_x) < 1 and abs(y - to_y) >= _SHORTEST:
            upright.add(Edge(round(x), round(min(y, to_y)), round(max(y, to_y))))
    return whole(across), whole(upright)


def whole(across: Iterable[Edge]) -> list[Edge]:
    """Pieces of a line put together."""
    found: list[Edge] = []
    for edge in sorted(across, key=attrgetter("at", "low")):
        last = found[-1] if found else None
        if last and last.at == edge.at and edge.low <= last.high + _NEAR:
            found[-1] = Edge(last.at, last.low, max(last.high, edge.high))
        else:
            found.append(edge)
    return found


def grids(across: Sequence[Edge], upright: Sequence[Edge]) -> list[Grid]:
    """Every table, from the top of the page down."""
    if not across or not upright or max(len(across), len(upright)) > _MOST:
        return []
    found = []
    for rows, columns in _nets(across, upright):
        ys = _places(rows, columns)[::-1]
        xs = _places(columns, rows)
        if len(xs) > 2 and len(ys) > 2:
            cells = tuple(_row(top, bottom, xs, columns) for top, bottom in pairwise(ys))
            found.append(Grid((xs[0], ys[-1], xs[-1], ys[0]), cells))
    return sorted(found, key=lambda grid: -grid.box[3])


def _nets(across: Sequence[Edge], upright: Sequence[Edge]) -> list[tuple[list[Edge], list[Edge]]]:
    """Lines that cross each other, or others that do."""
    nets: list[tuple[list[Edge], list[Edge]]] = []
    for row in across:
        crossing = [column for column in upright if _cross(row, column)]
        if not crossing:
            continue
        joined: tuple[list[Edge], list[Edge]] = ([row], crossing)
        for net in [net for net in nets if any(column in net[1] for column in crossing)]:
            nets.remove(net)
            joined = (net[0] + joined[0], list(dict.fromkeys(net[1] + joined[1])))
        nets.append(joined)
    return nets


def _cross(row: Edge, column: Edge) -> bool:
    return (
        row.low - _NEAR <= column.at <= row.high + _NEAR
        and column.low - _NEAR <= row.at <= column.high + _NEAR
    )


def _places(lines: Sequence[Edge], others: Sequence[Edge]) -> list[float]:
    """Where lines are, and where those that cross them end: a table may be open at its sides."""
    ends = [min(edge.low for edge in others), max(edge.high for edge in others)]
    return distinct([*(edge.at for edge in lines), *ends])


def distinct(places: Iterable[float]) -> list[float]:
    """Positions, ascending; near ones are merged."""
    found: list[float] = []
    for place in sorted(places):
        if not found or place - found[-1] > _NEAR:
            found.append(place)
    return found


def _row(top: float, bottom: float, xs: Sequence[float], columns: Sequence[Edge]) -> tuple[Box | None, ...]:
    middle = (top + bottom) / 2
    walls = [edge.at for edge in columns if edge.low - _NEAR <= middle <= edge.high + _NEAR]
    inner = [any(abs(wall - x) <= _NEAR for wall in walls) for x in xs[1:-1]]
    begins = [0, *(at for at, wall in enumerate(inner, 1) if wall)]
    ends = [*begins[1:], len(xs) - 1]
    cells: list[Box | None] = [None] * (len(xs) - 1)
    for begin, end in zip(begins, ends, strict=True):
        cells[begin] = (xs[begin], bottom, xs[end], top)
    return tuple(cells)


def segments(page: "PdfPage", upright: Callable[[float, float], Point]) -> Iterator[tuple[Point, Point]]:
    """Yield the lines that are drawn or that border an area, on the page as it is read."""
    objects = map(raw.FPDFPage_GetObject, repeat(page), range(raw.FPDFPage_CountObjects(page)))
    paths = [found for found in objects if raw.FPDFPageObj_GetType(found) == raw.FPDF_PAGEOBJ_PATH]
    left, bottom, right, top = c_float(), c_float(), c_float(), c_float()
    count = _MOST_SEGMENTS
    for path in paths if len(paths) <= _MOST_PATHS else ():
        number = raw.FPDFPath_CountSegments(path)
        if number > _SIMPLE:
            count -= number
            if count < 0:
                return
            yield from _of_path(path, number, upright)
            continue
        raw.FPDFPageObj_GetBounds(path, byref(left), byref(bottom), byref(right), byref(top))
        (x, y), (to_x, to_y) = upright(left.value, bottom.value), upright(right.value, top.value)
        if abs(x - to_x) < _THIN or abs(y - to_y) < _THIN:
            across = abs(x - to_x) >= abs(y - to_y)
            middle = (y + to_y) / 2 if across else (x + to_x) / 2
            yield ((x, middle), (to_x, middle)) if across else ((middle, y), (middle, to_y))
        elif number > 2:  # a rectangle; what has one segment is slanted
            yield from (
                ((x, y), (to_x, y)),
                ((x, to_y), (to_x, to_y)),
                ((x, y), (x, to_y)),
                ((to_x, y), (to_x, to_y)),
            )


def _of_path(
    path: object, count: int, upright: Callable[[float, float], Point]
) -> Iterator[tuple[Point, Point]]:
    matrix = raw.FS_MATRIX()
    raw.FPDFPageObj_GetMatrix(path, byref(matrix))
    begin: Point = (0.0, 0.0)
    last = begin
    for at in range(count):
        segment = raw.FPDFPath_GetPathSegment(path, at)
        x, y = c_float(), c_float()
        raw.FPDFPathSegment_GetPoint(segment, byref(x), byref(y))
        point = upright(
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
