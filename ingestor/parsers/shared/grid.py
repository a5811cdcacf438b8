"""Tables whose cells span columns and rows, laid out as the reader of the page sees them. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

_MOST_COLUMNS = 100


class SpannedCell(NamedTuple):
    """A cell. ``columns``, ``rows``: number that the cell covers; 0 rows reach down to the last row."""

    text: str
    columns: int = 1
    rows: int = 1


def grid(rows: Sequence[Sequence[SpannedCell]]) -> list[list[str]]:
    """Put each cell into its column; further places that a cell covers are blank.

    Cells of a row skip the places that an earlier row covers. Columns beyond the hundredth are dropped.
    """
    covered: dict[int, int] = {}  # column -> rows below that a cell above still covers
    laid_out = []
    for at, row in enumerate(rows):
        line: list[str] = []
        below = {column: left - 1 for column, left in covered.items() if left > 1}
        for cell in row:
            while len(line) in covered:
                line.append("")
            if len(line) >= _MOST_COLUMNS:
                break
            height = min(cell.rows or len(rows), len(rows) - at)
            first = len(line)
            line.append(cell.text)
            while len(line) < min(first + max(cell.columns, 1), _MOST_COLUMNS) and len(line) not in covered:
                line.append("")
            if height > 1:
                below.update(dict.fromkeys(range(first, len(line)), height - 1))
        covered = below
        laid_out.append(line)
    return laid_out
