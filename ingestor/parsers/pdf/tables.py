"""Puts the lines of a PDF's page into reading order, and finds tables that are not drawn with lines.

Such tables have figures in columns, or texts between clear gutters. A table becomes one line with rows. Its
words are removed from their lines, so no word is lost or read twice. Before that, lines side by side are put
into reading order.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from statistics import median

from ingestor.parsers.pdf.drawn import NUMBER, PageTable, Row, header_rows
from ingestor.parsers.pdf.lines import LEADER, Line, Word, is_columns, is_level, is_units, parts
from ingestor.parsers.pdf.page import PageText
from ingestor.parsers.pdf.words import line_of

_PART = 0.9  # sizes of the type between two parts of a line
_CLEAR = 0.5  # sizes of the type: a gutter between columns of texts
_EDGE = 4.0  # points between the ends of figures of one column
_ROW = 3.5  # sizes of the type between two rows of texts
_STEP = 3.0  # times the usual distance between lines: the end of a table
_BETWEEN = 6  # lines without figures between two rows
_MOST = 200  # lines of a table of texts
_HEADER = 6  # lines above the first row of figures
_LEAST = 3  # rows of a table of texts, and lines side by side
_CELL = 60  # characters of a cell of such a table, on average
_PROSE = 18  # characters of a line of a column of prose, on average
_GAP = 12.0  # points: wider than prose has between words
_GUTTER = 4  # lines that a gutter between columns of prose divides
_FIGURE = re.compile(
    r"[^\w\s]{0,3}\d[\d.,:/'’]*[%)\]]{0,2}(?:\(\w{1,2}\))?[*†‡]?|[-–—]+%?|\(?[$€£¥]\)?|[%)]+|N/?[AM]|nm|\("
)
_MARK = re.compile(r"[•‣▪■●○◦∙·–—*▶►➢❖◆✓\uf0b7\uf0a7-]|\(?\w{1,4}[.)]")


# --- lines in the order in which they are read -------------------------------------------------------------


def arrange(text: PageText, lines: Sequence[Sequence[Word]], tables: Sequence[PageTable]) -> list[Line]:
    """Return the lines of a page in reading order, with each table as one line.

    ``lines``: words of each line in the order of the file. ``tables``: tables already found by tags or drawn
    lines.
    """
    owner = {word.first: table for table in tables for word in table.words}
    placed = set[int]()
    arranged: list[Line] = []
    for words in lines:
        rest = list[Word]()
        for word in words:
            table = owner.get(word.first)
            if table is None:
                rest.append(word)
            elif id(table) not in placed:
                placed.add(id(table))
                arranged += [line_of(text, rest)] if rest else []
                rest = []
                arranged.append(table_line(line_of(text, table.words), table.rows, table.header))
        arranged += [line_of(text, rest)] if rest else []
    return align(list(_columns(text, _rows(text, arranged))))


def table_line(like: Line, rows: Sequence[Row], header: int) -> Line:
    return replace(like, rows=tuple(rows), header=header, words=(), hyphen=False)


def _level(line: Line, other: Line) -> bool:
    """Return whether two lines may be parts of one row: same height, no table, both slanted or neither."""
    return is_level(line, other) and not line.rows and not other.rows and line.slanted == other.slanted


def _rows(text: PageText, lines: Sequence[Line]) -> list[Line]:
    """Join consecutive lines that are parts of one row."""
    rows: list[list[Line]] = []
    for line in lines:
        if rows and _level(rows[-1][-1], line) and line.left >= rows[-1][-1].right - 0.5:
            rows[-1].append(line)
        else:
            rows.append([line])
    return [
        line_of(text, [word for line in row for word in line.words]) if len(row) > 1 else row[0]
        for row in rows
    ]


def _columns(text: PageText, lines: Sequence[Line]) -> Iterator[Line]:
    """Yield the lines, with columns of prose one after the other where the file has them side by side."""
    at = 0
    while at < len(lines):
        end, gutter = _gutter(lines, at)
        if not gutter:
            yield lines[at]
            at += 1
            continue
        sides: tuple[list[Line], list[Line]] = [], []
        for line in lines[at:end]:
            for side, words in zip(sides, _sides(line, gutter), strict=True):
                side.extend([line_of(text, words)] if words else [])
        yield from (*sides[0], *sides[1])
        at = end


def _sides(line: Line, wall: float) -> tuple[list[Word], list[Word]]:
    """Return the words of a line on the left and on the right of a gutter, whose middle is at ``wall``."""
    left = [word for word in line.words if word.left + word.right <= 2 * wall]
    return left, [word for word in line.words if word.left + word.right > 2 * wall]


def _gutter(lines: Sequence[Line], begin: int) -> tuple[int, float]:
    """Find two columns of prose that begin with line ``begin``.

    Return the number of the line after them, and the middle of the gutter between them; 0 for no columns.
    """
    best, wall = begin + 1, 0.0
    for one, other in pairwise(parts(lines[begin])):
        if not any(word.text.isalpha() for word in other):
            continue  # figures
        low, high, end, both = one[-1].right, other[0].left, begin, 0
        for line in lines[begin:]:
            left, right = _sides(line, (low + high) / 2)
            inner = max([low, *(word.right for word in left)]), min([high, *(word.left for word in right)])
            if line.rows or not line.words or inner[1] - inner[0] < 0.6 * line.size:
                break
            (low, high), end, both = inner, end + 1, both + bool(left and right)
        if both >= _GUTTER and end > best and _are_prose(lines[begin:end], (low + high) / 2):
            best, wall = end, (low + high) / 2
    return best, wall


def _are_prose(lines: Sequence[Line], wall: float) -> bool:
    """Return whether the text on both sides of a gutter is prose: long lines of letters without wide gaps.

    ``wall``: the x position of the gutter, in points.
    """
    for side in zip(*(_sides(line, wall) for line in lines), strict=True):
        filled = [words for words in side if words]
        text = "".join(word.text for words in filled for word in words)
        if len(text) + sum(map(len, filled)) < _PROSE * len(filled):
            return False
        wide = [words[-1].right - words[0].left for words in filled]
        gaps = sum(any(b.left - a.right > _GAP for a, b in pairwise(words)) for words in filled)
        if (
            sum(w >= 0.6 * max(wide) for w in wide) < 0.5 * len(wide)
            or sum(map(str.isalpha, text)) < 0.7 * len(text)
            or gaps > 0.4 * len(filled)
        ):
            return False
    return True


# --- tables without lines ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Figures:
    """A row of a table of figures. ``edges``: right ends of the figures. ``left``: left end of the first."""

    cells: Row
    edges: tuple[float, ...]
    left: float


def _figures(line: Line) -> _Figures | None:
    words = [word for word in line.words if word.text.strip("._… ") or not word.text.strip()]
    at = len(words)
    while at and _FIGURE.fullmatch(words[at - 1].text):
        at -= 1
    wide = [
        n for n in range(max(at, 1), len(words)) if words[n].left - words[n - 1].right > _PART * line.size
    ]
    if at and wide and NUMBER.search(" ".join(word.text for word in words[wide[0] :])):
        at = wide[0]  # what stands close behind the label belongs to it: "(Note 14)"
    tail = words[at:]
    numbers = [word for word in tail if NUMBER.search(word.text)]
    if not numbers or line.rows or line.slanted:
        return None
    label = words[:at]
    gap = tail[0].left - label[-1].right if label else 99.0
    led = len(words) < len(line.words) or bool(label and LEADER.search(label[-1].text))
    if len(numbers) < 2 and gap <= _PART * line.size and not led:
        return None
    cells: list[str] = []
    open_ = False  # whether a currency sign or a bracket waits for its number
    for word in tail:
        closes = bool(cells) and word.text in ("%", ")", ")%", "%)")
        if closes or (open_ and cells):
            cells[-1] += word.text
        else:
            cells.append(word.text)
        open_ = not NUMBER.search(word.text) and not closes
    label_text = LEADER.sub(" ", " ".join(word.text for word in label)).strip()
    return _Figures((label_text, *cells), tuple(word.right for word in numbers), tail[0].left)


def align(lines: Sequence[Line]) -> list[Line]:
    """Turn the lines of each table that is not drawn into one line with rows, and return all lines.

    A table has figures in columns, or else texts between gutters.
    """
    figures = [_figures(line) for line in lines]
    placed: list[Line] = []
    at, leading = 0, _median_leading(lines)
    figures_end = cache(lambda number: _figures_end(lines, figures, number, leading))
    while at < len(lines):
        end = figures_end(at)
        rows = [_row(lines[n], figures[n]) for n in range(at, end)]
        if not end:
            most = min(at + _MOST, len(lines))
            below = next((number for number in range(at, most) if figures_end(number)), most)
            rows, end = _grid(lines[at:below], leading)
            end += at
        if not rows:
            placed.append(lines[at])
            at += 1
            continue
        own = figures[at]
        left = own.left if own else max(part[0].left for part in parts(lines[at]))
        farthest = 2.2 * leading if own else max(2.2 * leading, _ROW * lines[at].size)
        above = _header_above(placed, lines[at], left, farthest)
        head = placed[len(placed) - above :] if above else []
        del placed[len(placed) - len(head) :]
        rows = [*(_row(line, _figures(line)) for line in head), *rows]
        whole = [*head, *lines[at:end]]
        like = replace(
            whole[0], left=min(line.left for line in whole), right=max(line.right for line in whole)
        )
        placed.append(table_line(like, rows, max(header_rows(rows), above)))
        at = end
    return placed


def _median_leading(lines: Sequence[Line]) -> float:
    steps = [
        a.baseline - b.baseline
        for a, b in pairwise(lines)
        if 0.5 * a.size < a.baseline - b.baseline < 3 * a.size
    ]
    return sorted(steps)[len(steps) // 4] if steps else 12.0


def _row(line: Line, figures: _Figures | None) -> Row:
    if figures:
        return figures.cells
    return tuple(LEADER.sub(" ", _text(part)).strip() for part in parts(line))


def _text(words: Iterable[Word]) -> str:
    return " ".join(word.text for word in words)


def _figures_end(lines: Sequence[Line], figures: Sequence[_Figures | None], at: int, leading: float) -> int:
    """Return the number of the line after the table of figures at line ``at``; 0 if no table is there.

    ``figures``: the figures of each line; None for a line without. ``leading``: usual distance between lines.
    """
    first = figures[at]
    if not first:
        return 0
    end, shared, count, edges, left = at + 1, 0, 1, list(first.edges), first.left
    for number in range(at + 1, len(lines)):
        line, own = lines[number], figures[number]
        step = lines[number - 1].baseline - line.baseline
        between = number - end > _BETWEEN or line.rows or line.slanted or not line.words
        if between or not -0.5 * line.size < step <= _STEP * leading:
            break
        matches = own is not None and any(abs(edge - other) <= _EDGE for edge in own.edges for other in edges)
        if own and not matches and (own.left < left - 60 or len(line.words) == 1):
            own = None
        if own:
            shared, count, end = shared + matches, count + 1, number + 1
            edges += own.edges
            left = min(left, own.left)
        elif line.right > left + 0.1 * (max(edges) - left) and len(parts(line)) < 2 and len(line.text) > 40:
            break  # prose
        elif line.size > 1.3 * lines[at].size:
            break
    return end if count >= 2 and shared >= 0.5 * (count - 1) else 0


def _header_above(placed: Sequence[Line], first: Line, left: float, farthest: float) -> int:
    """Count the lines directly above a table that name its columns and units.

    ``placed``: lines above the table. ``left``: left edge of the table's second column.
    """
    count = labels = 0
    below = first
    for number, line in enumerate(reversed(placed[-_HEADER:]), 1):
        step = line.baseline - below.baseline
        if line.rows or line.slanted or not line.words or not -0.5 * line.size < step <= farthest:
            break
        runs, near = parts(line), left - 6 * line.size
        over = line.left > max(near, first.left + 2 * line.size) and len(line.text) <= 90
        some = len(runs) > 1 and runs[-1][0].left > near and len(line.text) <= 120
        names = (over or some or is_units(line.text) or is_columns(line.text)) and not line.text.endswith(".")
        labels += not names
        if labels > 2 or not (names or len(line.text) <= _CELL):
            break
        count, below = number if names else count, line
    return count


# --- texts between gutters ---------------------------------------------------------------------------------


def _grid(lines: Sequence[Line], leading: float) -> tuple[list[Row], int]:
    """Return the rows of a table of texts that begins with the first line, and the number of its lines.

    Return ([], 0) if no table begins there. In such a table the gutters are clear from the first row to the
    last, and columns are aligned and mostly filled.
    """
    if len(parts(lines[0])) < 2 or _MARK.fullmatch(lines[0].words[0].text):
        return [], 0
    region = _region(lines, leading)
    places = {id(line): number for number, line in enumerate(region)}
    levels = _levels(region)
    clear, gutters = _clear(levels, 0)
    if len(_clear(levels, 1)[1]) > len(gutters):
        return [], 0  # a title above some of the columns: the table begins below it
    count, last, end = 0, -1, 0
    for number, level in enumerate(levels[:clear], 1):
        count, last = count + len(level), max(last, *(places[id(line)] for line in level))
        end = number if last + 1 == count else end  # no line of them stands behind others
    rows = _in_columns(levels[:end], gutters, leading) if end else []
    return rows, sum(map(len, levels[:end])) if rows else 0


def _region(lines: Sequence[Line], leading: float) -> list[Line]:
    """Return the lines that may belong to one table, from the first line on.

    In the file's order, a cell may begin higher on the page than the last line of the cell to its left.
    """
    first, lowest = lines[0], lines[0].baseline
    region = [first]
    for line in lines[1:]:
        if line.rows or line.slanted or line.mono or not line.words:
            break
        if lowest - line.baseline > max(2.5 * leading, _ROW * first.size):
            break
        higher = line.baseline - region[-1].baseline
        if higher > 0.5 * line.size and (higher > _BETWEEN * line.size or line.left < region[-1].right):
            break
        if not 0.75 < line.size / (first.size or 1.0) < 1.34:
            break
        region.append(line)
        lowest = min(lowest, line.baseline)
    return region


def _levels(region: Sequence[Line]) -> list[list[Line]]:
    """Return the lines grouped by their heights, from the top of the page down."""
    levels: list[list[Line]] = []
    for line in sorted(region, key=lambda line: (-line.baseline, line.left)):
        if levels and is_level(levels[-1][0], line):
            levels[-1].append(line)
        else:
            levels.append([line])
    return levels


def _clear(levels: Sequence[Sequence[Line]], begin: int) -> tuple[int, list[tuple[float, float]]]:
    """Return the end of the levels, from ``begin`` on, that share clear gutters, and these gutters.

    A level has the lines at one height.
    """
    gutters: list[tuple[float, float]] = []
    end = begin
    for number in range(begin, len(levels)):
        words = sorted((word for line in levels[number] for word in line.words), key=lambda word: word.left)
        size = levels[number][0].size
        free = [(float("-inf"), words[0].left), *((a.right, b.left) for a, b in pairwise(words)),
                (max(word.right for word in words), float("inf"))]  # fmt: skip
        if number == begin:
            left = [(low, high) for low, high in free[1:-1] if high - low > _PART * size]
        else:
            both = ((max(low, a), min(high, b)) for low, high in gutters for a, b in free)
            left = [(low, high) for low, high in both if high - low > _CLEAR * size]
        if not left or (len(left) < len(gutters) and number - begin > _LEAST):
            break
        gutters, end = left, number + 1
    return end, gutters


def _in_columns(
    levels: Sequence[Sequence[Line]], gutters: Sequence[tuple[float, float]], leading: float
) -> list[Row]:
    """Return the rows of a table with columns between ``gutters``; none if it looks like no table.

    ``levels``: lines by height. A level without a first cell continues the row above it.
    """
    steps = [one[0].baseline - other[0].baseline for one, other in pairwise(levels)]
    apart = 1.2 * min(steps, default=0.0)
    padded = (
        len([step for step in steps if step > apart]) >= _LEAST - 1 and min(steps) < 1.4 * levels[0][0].size
    )
    rows: list[list[list[Word]]] = []
    for number, level in enumerate(levels):
        cells: list[list[Word]] = [[] for _ in range(len(gutters) + 1)]
        for word in sorted((word for line in level for word in line.words), key=lambda word: word.left):
            cells[sum(word.left >= high - 1 for _, high in gutters)].append(word)
        step = steps[number - 1] if number else leading
        goes_on = not all(cells) and step <= apart if padded else not cells[0] and step <= 1.4 * leading
        if rows and goes_on:
            for cell, more in zip(rows[-1], cells, strict=True):
                cell += more
        else:
            rows.append(cells)
    if sum(map(bool, rows[-1])) < 2:
        return []
    return [tuple(map(_text, row)) for row in rows] if _is_table(rows) else []


def _is_table(rows: Sequence[Sequence[Sequence[Word]]]) -> bool:
    """Return whether most cells are filled and short, and aligned with the other cells of their column."""
    filled = [cell for row in rows for cell in row if cell]
    wide = len(rows[0]) if rows else 0
    if (
        len(rows) < _LEAST
        or len(filled) < 0.5 * wide * len(rows)
        or sum(bool(row[0]) for row in rows) < 0.7 * len(rows)
    ):
        return False
    if sum(len(_text(cell)) for cell in filled) > _CELL * len(filled):
        return False
    for column in zip(*rows, strict=True):
        cells = [cell for cell in column if cell]
        for edge in (
            [cell[0].left for cell in cells], [max(word.right for word in cell) for cell in cells],
            [min(word.left for word in cell) + max(word.right for word in cell) for cell in cells],
        ):  # fmt: skip
            if sum(abs(place - median(edge)) < _EDGE for place in edge) >= 0.6 * len(edge):
                break
        else:
            return False
    return True
