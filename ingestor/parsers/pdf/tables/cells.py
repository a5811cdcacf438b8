"""The words of a PDF's page in the cells of a grid. Pure.

A word belongs to the cell that holds its middle, whole: a rule that passes through it does not cut it. Lines
of short entries between two rules far apart are rows of their own.
"""

from collections.abc import Callable, Iterable, Sequence

from ingestor.parsers.pdf.lines import Word
from ingestor.parsers.pdf.tables.ruled import Box, Grid

Rows = tuple[tuple[str, ...], ...]
Divided = Callable[[Word, float], tuple[Word, ...]]  # a word through which a wall passes -> it, or its parts
_RISE = 1.5  # points above the baseline: where a word counts
_SAME_LINE = 4.0  # points between baselines
_LINES = 3  # in a row, to be rows of their own
_SHORT = 30  # characters of a cell on average
_FULL = 0.8  # share of the cells of such lines


def cells(grid: Grid, words: Sequence[Word], divided: Divided) -> Rows:
    """The text of each cell, row by row."""
    left, bottom, right, top = grid.box
    inside = [
        word for word in words
        if bottom <= word.baseline + _RISE <= top and left <= (word.left + word.right) / 2 <= right
    ]  # fmt: skip
    rows: list[tuple[str, ...]] = []
    for boxes in grid.rows:
        low, high = next((box[1], box[3]) for box in boxes if box)
        held = [word for word in inside if low <= word.baseline + _RISE < high]
        rows += _rows(boxes, held, divided)
    return tuple(rows)


def _rows(boxes: Sequence[Box | None], words: Iterable[Word], divided: Divided) -> list[tuple[str, ...]]:
    """The rows between two rules: one, or one for each line."""
    held: list[list[Word]] = [[] for _ in boxes]
    places = [at for at, box in enumerate(boxes) if box]
    for word in words:
        for part in _parts(word, [box[0] for box in boxes[1:] if box], divided):
            middle = (part.left + part.right) / 2
            at = max((at for at in places if boxes[at][0] <= middle), default=places[0])  # type: ignore[index]
            held[at].append(part)
    lines = _lines(held)
    return lines if len(places) == len(boxes) and _are_rows(lines) else [tuple(map(joined, held))]


def _parts(word: Word, walls: Iterable[float], divided: Divided) -> tuple[Word, ...]:
    crossed = next((wall for wall in walls if word.left + 1 < wall < word.right - 1), None)
    return (word,) if crossed is None else divided(word, crossed)


def _lines(held: Sequence[Sequence[Word]]) -> list[tuple[str, ...]]:
    placed = sorted(
        ((word.baseline, at, word) for at, words in enumerate(held) for word in words), key=lambda p: -p[0]
    )
    lines: list[list[list[Word]]] = []
    last = 0.0
    for baseline, at, word in placed:
        if not lines or last - baseline > _SAME_LINE:
            lines.append([[] for _ in held])
        lines[-1][at].append(word)
        last = baseline
    return [tuple(joined(sorted(cell, key=lambda word: word.left)) for cell in line) for line in lines]


def _are_rows(lines: Sequence[tuple[str, ...]]) -> bool:
    said = [cell for line in lines for cell in line if cell]
    return (
        len(lines) >= _LINES
        and all(line[0] for line in lines)
        and len(said) >= _FULL * len(lines) * len(lines[0])
        and sum(map(len, said)) <= _SHORT * len(said)
    )


def joined(words: Sequence[Word]) -> str:
    """Words of a cell, those of one line together; a divided one goes on without a space."""
    text = ""
    for word in words:
        text += word.text if word.divided else f"{word.text} "
    return text.strip()
