"""Tables of a PDF's page that are drawn with lines: where they are, and the boxes of their cells.

A table is a net of horizontal and vertical lines that cross, with two rows and two columns or more. Where a
line between two cells is missing they are one cell.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from ctypes import byref, c_float
from dataclasses import dataclass
from itertools import pairwise, repeat
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
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
Segments = Any  # an array of x, y, to x, to y


def edges(segments: "Segments") -> tuple[list[Edge], list[Edge]]:
    """Return the horizontal and the vertical ones among segments (x, y, to x, to y)."""
    x, y, to_x, to_y = np.asarray(segments, float).reshape(-1, 4).T
    found = []
    for at, to_at, low, high in ((y, to_y, x, to_x), (x, to_x, y, to_y)):
        straight = (abs(at - to_at) < 1) & (abs(low - high) >= _SHORTEST)
        lines = np.stack((at, np.minimum(low, high), np.maximum(low, high)), 1)[straight].round()
        found.append(whole(map(Edge, *np.unique(lines, axis=0).T.tolist())))
    return found[0], found[1]


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
    """Return the lines that cross each other, or others that do."""
    rows, columns = (
        np.array([(e.at, e.low - _NEAR, e.high + _NEAR) for e in some]).T for some in (across, upright)
    )
    over = np.greater_equal.outer(rows[2], columns[0]) & np.less_equal.outer(rows[1], columns[0])
    over &= np.greater_equal.outer(rows[0], columns[1]) & np.less_equal.outer(rows[0], columns[2])
    nets: list[tuple[set[int], set[int]]] = []
    for row, crossed in enumerate(over):
        own = set(np.flatnonzero(crossed).tolist())
        touched = [net for net in nets if net[1] & own]
        nets = [net for net in nets if not net[1] & own]
        if own:
            nets.append(({row}.union(*(net[0] for net in touched)), own.union(*(net[1] for net in touched))))
    return [([across[at] for at in sorted(net[0])], [upright[at] for at in sorted(net[1])]) for net in nets]


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


def segments(page: "PdfPage", upright: Callable[[Any, Any], tuple[Any, Any]]) -> "Segments":
    """Return the lines that are drawn or that border an area, on the page as it is read."""
    objects = map(raw.FPDFPage_GetObject, repeat(page), range(raw.FPDFPage_CountObjects(page)))
    paths = [found for found in objects if raw.FPDFPageObj_GetType(found) == raw.FPDF_PAGEOBJ_PATH]
    boxes, found = list[tuple[float, ...]](), list[tuple[float, ...]]()
    left, bottom, right, top = places = c_float(), c_float(), c_float(), c_float()
    count = _MOST_SEGMENTS
    for path in paths if len(paths) <= _MOST_PATHS else ():
        number = raw.FPDFPath_CountSegments(path)
        if number <= _SIMPLE:
            raw.FPDFPageObj_GetBounds(path, left, bottom, right, top)
            boxes.append((*(place.value for place in places), number))
            continue
        count -= number
        if count < 0:
            break
        found += _of_path(path, number, upright)
    x, y, to_x, to_y, number = np.array(boxes).reshape(-1, 5).T
    (x, y), (to_x, to_y) = upright(x, y), upright(to_x, to_y)
    wide, high = abs(x - to_x), abs(y - to_y)
    thin = (wide < _THIN) | (high < _THIN)
    level, area = thin & (wide >= high), ~thin & (number > 2)  # what has one segment is slanted
    mx, my = np.where(thin & ~level, (x + to_x) / 2, x), np.where(level, (y + to_y) / 2, y)
    return np.concatenate((
        np.array(found).reshape(-1, 4),
        np.stack((x, my, to_x, my), 1)[level | area],
        np.stack((mx, y, mx, to_y), 1)[(thin & ~level) | area],
        np.stack((x, to_y, to_x, to_y), 1)[area],
        np.stack((to_x, y, to_x, to_y), 1)[area],
    ))  # fmt: skip


def _of_path(
    path: object, count: int, upright: Callable[[float, float], Point]
) -> Iterator[tuple[float, ...]]:
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
            yield (*last, *point)
        if raw.FPDFPathSegment_GetClose(segment):
            yield (*point, *begin)
        last = point
