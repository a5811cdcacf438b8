"""Finds the tables on a page of a PDF that its tags name, or that are drawn with lines.

A drawn table is a net of horizontal and vertical lines that cross, with at least two rows and two columns. If
the line between two cells is missing, they are one cell.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from ctypes import c_float
from dataclasses import dataclass
from itertools import pairwise, repeat
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from pypdfium2 import raw

from ingestor.parsers.pdf.lines import Word, is_columns, is_units

if TYPE_CHECKING:
    from pypdfium2 import PdfPage

    from ingestor.parsers.pdf.structure import Cell

_NEAR = 3.0  # points within which lines meet, or are one
_SHORTEST = 6.0  # points; what is shorter is no line
_MOST = 600  # lines each way; a page with more is a drawing
_MOST_PATHS = 3000  # of a page
_SIMPLE = 5  # segments: of a line or a rectangle; a path with more is a drawing
_THIN = 2.5  # points: a line that is an area

_CUT = 0.3  # share of a drawn table's lines that go on outside of it, at most
_LEAST = 3  # lines between two rules that are rows by themselves
_HEADER = 6  # rows of a header at most
NUMBER = re.compile(r"\d|^[-–—]+$")
_DATED = re.compile(r"(?:19|20)\d\d")

Row = tuple[str, ...]
Box = tuple[float, float, float, float]  # left, bottom, right, top


@dataclass(frozen=True, slots=True)
class Edge:
    """A horizontal or vertical line from ``low`` to ``high``; ``at`` is its position on the other axis."""

    at: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Grid:
    """A table drawn with lines. ``rows``: box of each cell, from the top row to the bottom row.

    A cell that is merged with the cell on its left has None.
    """

    box: Box
    rows: tuple[tuple[Box | None, ...], ...]


Segments = Any  # an array of x, y, to x, to y


def edges(segments: "Segments") -> tuple[list[Edge], list[Edge]]:
    """Return the horizontal lines and the vertical lines among segments (x, y, to x, to y)."""
    x, y, to_x, to_y = np.asarray(segments, float).reshape(-1, 4).T
    directions = []
    for at, to_at, low, high in ((y, to_y, x, to_x), (x, to_x, y, to_y)):
        straight = (abs(at - to_at) < 1) & (abs(low - high) >= _SHORTEST)
        lines = np.stack((at, np.minimum(low, high), np.maximum(low, high)), 1)[straight].round()
        directions.append(join_edges(map(Edge, *np.unique(lines, axis=0).T.tolist())))
    return directions[0], directions[1]


def join_edges(across: Iterable[Edge]) -> list[Edge]:
    """Join lines that continue each other."""
    joined: list[Edge] = []
    for edge in sorted(across, key=attrgetter("at", "low")):
        last = joined[-1] if joined else None
        if last and last.at == edge.at and edge.low <= last.high + _NEAR:
            joined[-1] = Edge(last.at, last.low, max(last.high, edge.high))
        else:
            joined.append(edge)
    return joined


def grids(across: Sequence[Edge], upright: Sequence[Edge]) -> list[Grid]:
    """Return the tables that lines form, from the top of the page down. ``across``: the horizontal lines."""
    if not across or not upright or max(len(across), len(upright)) > _MOST:
        return []
    tables = []
    for rows, columns in _nets(across, upright):
        ys = _places(rows, columns)[::-1]
        xs = _places(columns, rows)
        if len(xs) > 2 and len(ys) > 2:
            cells = tuple(_row(top, bottom, xs, columns) for top, bottom in pairwise(ys))
            tables.append(Grid((xs[0], ys[-1], xs[-1], ys[0]), cells))
    return sorted(tables, key=lambda grid: -grid.box[3])


def _nets(across: Sequence[Edge], upright: Sequence[Edge]) -> list[tuple[list[Edge], list[Edge]]]:
    """Return groups of horizontal and vertical lines that cross, directly or through other lines."""
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
    """Return the positions of parallel lines, and of the ends of the lines that cross them.

    The ends count because a table may have no line at its sides.
    """
    ends = [min(edge.low for edge in others), max(edge.high for edge in others)]
    return distinct([*(edge.at for edge in lines), *ends])


def distinct(places: Iterable[float]) -> list[float]:
    """Return the positions in ascending order; of positions closer than ``_NEAR``, only the first."""
    merged: list[float] = []
    for place in sorted(places):
        if not merged or place - merged[-1] > _NEAR:
            merged.append(place)
    return merged


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
    """Return the straight lines on a page, and the borders of its rectangles, as rows (x, y, to x, to y).

    ``upright``: turns coordinates of the file into those of the page as it is read.
    """
    objects = map(raw.FPDFPage_GetObject, repeat(page), range(raw.FPDFPage_CountObjects(page)))
    paths = [each for each in objects if raw.FPDFPageObj_GetType(each) == raw.FPDF_PAGEOBJ_PATH]
    boxes = list[tuple[float, ...]]()
    left, bottom, right, top = places = c_float(), c_float(), c_float(), c_float()
    for path in paths if len(paths) <= _MOST_PATHS else ():
        number = raw.FPDFPath_CountSegments(path)
        if number <= _SIMPLE:
            raw.FPDFPageObj_GetBounds(path, left, bottom, right, top)
            boxes.append((*(place.value for place in places), number))
    x, y, to_x, to_y, number = np.array(boxes).reshape(-1, 5).T
    (x, y), (to_x, to_y) = upright(x, y), upright(to_x, to_y)
    wide, high = abs(x - to_x), abs(y - to_y)
    thin = (wide < _THIN) | (high < _THIN)
    level, area = thin & (wide >= high), ~thin & (number > 2)  # what has one segment is slanted
    mx, my = np.where(thin & ~level, (x + to_x) / 2, x), np.where(level, (y + to_y) / 2, y)
    return np.concatenate((
        np.stack((x, my, to_x, my), 1)[level | area],
        np.stack((mx, y, mx, to_y), 1)[(thin & ~level) | area],
        np.stack((x, to_y, to_x, to_y), 1)[area],
        np.stack((to_x, y, to_x, to_y), 1)[area],
    ))  # fmt: skip


# --- cells ---------------------------------------------------------------------------------------------


@dataclass(slots=True)
class PageTable:
    rows: list[Row]
    header: int
    words: list[Word]


def tables_by_tags(
    words: Sequence[Word], cells: Mapping[int, "Cell"], mark: Mapping[int, int]
) -> Iterator[PageTable]:
    """Yield the tables that a page's tags describe. ``cells``: cell of each marked content.

    ``mark``: number of the marked content that holds a word, by the position of the word's first character.
    """
    of: dict[int, list[tuple[Cell, Word]]] = defaultdict(list)
    for word in words:
        if cell := cells.get(mark.get(word.first, -1)):
            of[cell.table].append((cell, word))
    for placed in of.values():
        words_by_cell: dict[tuple[int, int], list[Word]] = defaultdict(list)
        for cell, word in placed:
            words_by_cell[cell.row, cell.column].append(word)
        wide = max(column for _, column in words_by_cell) + 1
        numbers = sorted({row for row, _ in words_by_cell})
        if wide < 2 or len(numbers) < 2:
            continue
        rows = [
            tuple(_join(words_by_cell.get((row, column), ())) for column in range(wide)) for row in numbers
        ]
        heads = {cell.row for cell, _ in placed} - {cell.row for cell, _ in placed if not cell.head}
        header = next((at for at, row in enumerate(numbers) if row not in heads), len(numbers))
        yield PageTable(rows, header if 0 < header < len(rows) else header_rows(rows), [w for _, w in placed])


def without_overlaps(tables: Iterable[PageTable]) -> list[PageTable]:
    """Return tables that share no word.

    If tags and lines describe the same table, the version with more words is kept.
    """
    taken, kept = set[int](), list[PageTable]()
    for table in sorted(tables, key=lambda table: -len(table.words)):
        own = {word.first for word in table.words}
        if not own & taken:
            kept.append(table)
            taken |= own
    return kept


def tables_by_lines(words: Sequence[Word], grids: Iterable["Grid"]) -> Iterator[PageTable]:
    """Yield the tables that are drawn with lines, if enough of their cells hold words."""
    for grid in grids:
        left, bottom, right, top = grid.box
        inside = [
            word for word in words
            if bottom <= word.baseline + 1.5 <= top and left <= (word.left + word.right) / 2 <= right
        ]  # fmt: skip
        levels = {round(word.baseline) for word in inside}
        cut = {round(word.baseline) for word in words if word.right < left or word.left > right}
        if len(levels & cut) > _CUT * len(levels):
            continue  # rules below figures, whose labels stand outside
        rows: list[Row] = []
        for boxes in grid.rows:
            low, high = next((box[1], box[3]) for box in boxes if box)
            rows += _cells(boxes, [word for word in inside if low <= word.baseline + 1.5 < high])
        filled = sum(bool(cell) for row in rows for cell in row)
        if rows and filled >= max(4, 0.3 * len(rows) * len(rows[0])):
            yield PageTable(rows, header_rows(rows), inside)


def _cells(boxes: Sequence[tuple[float, ...] | None], words: Iterable[Word]) -> list[Row]:
    """Return the rows between two horizontal lines.

    They are one row, unless every line of text there has a short entry in most cells; then each line is a
    row.
    """
    held: list[list[Word]] = [[] for _ in boxes]
    begins = [(at, box[0]) for at, box in enumerate(boxes) if box]
    for word in words:
        middle = (word.left + word.right) / 2
        held[max((at for at, x in begins if x <= middle), default=begins[0][0])].append(word)
    levels: list[float] = []
    for baseline in sorted({word.baseline for cell in held for word in cell}, reverse=True):
        if not levels or levels[-1] - baseline > 4:
            levels.append(baseline)
    lines = [
        tuple(_join([word for word in cell if level - 4 <= word.baseline <= level]) for cell in held)
        for level in levels
    ]
    filled = [cell for line in lines for cell in line if cell]
    own = (
        len(begins) == len(boxes)
        and len(lines) >= _LEAST
        and all(line[0] for line in lines)
        and len(filled) >= 0.8 * len(lines) * len(boxes)
        and sum(map(len, filled)) <= 30 * len(filled)
    )
    return lines if own else [tuple(map(_join, held))]


def _join(words: Iterable[Word]) -> str:
    return "".join(word.text + ("" if word.divided else " ") for word in words).strip()


def header_rows(rows: Sequence[Row]) -> int:
    """Count the rows at the top of a table that name columns, years and units."""
    count = 0
    for row in rows[:_HEADER]:
        filled = [cell for cell in row if cell]
        rest = filled[1:] if len(filled) > 1 else filled
        if any(NUMBER.search(cell) and not is_columns(cell) and not _DATED.search(cell) for cell in rest):
            break
        count += 1
    if count == len(rows[:_HEADER]):  # a table of texts
        return 1 if len(rows) > 2 and all(rows[0][1:]) else 0
    while count and sum(map(bool, rows[count - 1])) == 1 and rows[count - 1][0]:
        if is_units(rows[count - 1][0]) or is_columns(rows[count - 1][0]):
            break
        count -= 1  # a label: "Current assets:"
    return count
