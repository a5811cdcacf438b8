"""Tables of a PDF's page that have lines above and below only, as in books and papers. Pure.

Three rules of one width or more, one above the other, the first two close: between those is the header.
Columns are where hardly a row has a word; what has none, or cells as long as prose, is no table. Further
rules divide its rows, as long as what stands between them keeps to the columns.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import attrgetter

from ingestor.parsers.pdf.lines import Word
from ingestor.parsers.pdf.tables.cells import Rows
from ingestor.parsers.pdf.tables.ruled import Box, Edge, distinct

_NEAR = 3.0  # points
_WIDEST = 5000.0  # points; larger than any paper
_HEADER = 45.0  # points between the first two rules
_GUTTER = 5  # points between columns
_SAME_LINE = 4.0  # points between baselines
_CROSSED = 0.1  # share of the rows that may have a word between columns
_LONGEST = 30  # characters of a cell on average
_NAME = 40  # characters of a column's name
_FILLED = 0.5  # share of the cells of a column
_LEAST = 3  # rows


@dataclass(frozen=True, slots=True)
class Stack:
    """Rules of one width, from the top down."""

    left: float
    right: float
    rules: tuple[float, ...]


def stacks(across: Iterable[Edge]) -> list[Stack]:
    """``across``: horizontal lines."""
    found: list[list[Edge]] = []
    for edge in sorted(across, key=attrgetter("low", "high")):
        near = (s for s in found if abs(s[0].low - edge.low) <= _NEAR and abs(s[0].high - edge.high) <= _NEAR)
        stack = next(near, None)
        if stack is None:
            found.append([edge])
        else:
            stack.append(edge)
    made = [
        Stack(min(e.low for e in s), max(e.high for e in s), tuple(distinct(e.at for e in s)[::-1]))
        for s in found
    ]
    return [stack for stack in made if len(stack.rules) >= 3 and stack.right - stack.left <= _WIDEST]


def tables(stack: Stack, words: Sequence[Word]) -> list[tuple[Box, Rows]]:
    """Where each is, and its rows; ``words``: those of the page."""
    left, right = stack.left - _NEAR, stack.right + _NEAR
    inside = [word for word in words if left <= word.left <= word.right <= right]
    found, at = [], 0
    while at + 2 < len(stack.rules):
        rows, end = _table(inside, stack.rules[at:])
        if rows:
            found.append(((stack.left, stack.rules[at + end], stack.right, stack.rules[at]), rows))
        at += end + 1 if rows else 1
    return found


def _table(words: Sequence[Word], rules: Sequence[float]) -> tuple[Rows, int]:
    """The table that begins at the first rule, and the rule at which it ends; no rows where there is none."""
    top, under, bottom = rules[:3]
    head, lines = _between(words, top, under), _lines(_between(words, under, bottom))
    if top - under > _HEADER or not head or len(lines) < _LEAST - 1:
        return (), 0
    walls = _walls([head, *lines])
    header = _cells(sorted(head, key=lambda word: (-word.baseline, word.left)), walls)
    body = _joined([_cells(line, walls) for line in lines])
    if not walls or not _are_rows(header, body):
        return (), 0
    end = 2
    for above, below in pairwise(rules[2:]):
        more = _lines(_between(words, above, below))
        if not more or any(word.left < wall < word.right for line in more for word in line for wall in walls):
            break
        body += _joined([_cells(line, walls) for line in more])
        end += 1
    return (header, *body), end


def _between(words: Sequence[Word], top: float, bottom: float) -> list[Word]:
    return [word for word in words if bottom <= word.baseline < top]


def _are_rows(header: Sequence[str], body: Sequence[Sequence[str]]) -> bool:
    """Whether all columns have a name (the first needs none), and most of their cells something short."""
    said = [cell for row in body for cell in row if cell]
    return (
        len(body) >= _LEAST - 1
        and all(any(map(str.isalnum, name)) for name in header[1:])
        and max(map(len, header)) <= _NAME
        and all(sum(map(bool, column)) >= _FILLED * len(body) for column in zip(*body, strict=True))
        and sum(map(len, said)) <= _LONGEST * len(said)
    )


def _lines(words: Iterable[Word]) -> list[list[Word]]:
    """From the top down, each from left to right."""
    lines: list[list[Word]] = []
    for word in sorted(words, key=lambda word: -word.baseline):
        if lines and lines[-1][-1].baseline - word.baseline <= _SAME_LINE:
            lines[-1].append(word)
        else:
            lines.append([word])
    return [sorted(line, key=attrgetter("left")) for line in lines]


def _walls(lines: Sequence[Sequence[Word]]) -> list[float]:
    """The middles of the gutters."""
    begin = round(min(word.left for line in lines for word in line))
    end = round(max(word.right for line in lines for word in line))
    crossed = [0] * (end - begin + 2)
    for line in lines:
        for at in {at for word in line for at in range(round(word.left), round(word.right) + 1)}:
            crossed[at - begin] += 1
    most, walls, at = _CROSSED * len(lines), list[float](), begin
    for free, run in groupby(crossed, lambda count: count <= most):
        width = len(list(run))
        if free and width >= _GUTTER and begin < at < end - width:
            walls.append(at + width / 2)
        at += width
    return walls


def _cells(line: Iterable[Word], walls: Sequence[float]) -> tuple[str, ...]:
    cells: list[list[str]] = [[] for _ in range(len(walls) + 1)]
    for word in line:
        cells[sum(wall < _middle(word) for wall in walls)].append(word.text)
    return tuple(map(" ".join, cells))


def _joined(rows: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """A line with hardly a cell filled, and not the first, goes on with the row above."""
    found: list[tuple[str, ...]] = []
    for row in rows:
        if found and not row[0] and 2 * sum(map(bool, row)) <= len(row):
            above = found[-1]
            found[-1] = tuple(f"{one} {other}".strip() for one, other in zip(above, row, strict=True))
        else:
            found.append(row)
    return found


def _middle(word: Word) -> float:
    return (word.left + word.right) / 2
