"""Tables of a tagged PDF: its structure tree says which words stand in which cell."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ingestor.parsers.pdf.lines import Word
from ingestor.parsers.pdf.page_text import PageText, words
from ingestor.parsers.pdf.structure import Cell, marked
from ingestor.parsers.pdf.tables.cells import Rows, joined
from ingestor.parsers.pdf.tables.ruled import Box

_RISE = 1.5  # points above and below a baseline that a table's box reaches
_KEPT = 0.97  # share of the letters in its place that a table must have


def tables(text: PageText, cells: Mapping[int, Cell]) -> Iterator[tuple[Box, Rows]]:
    """Those of two rows and columns or more, unless other text stands among theirs."""
    said = list(words(text)) if cells else []
    of: dict[int, list[tuple[Cell, Word]]] = defaultdict(list)
    for word in said:
        if cell := cells.get(marked(text.handle, word.first)):
            of[cell[0]].append((cell, word))
    for placed in of.values():
        box, rows = _box([word for _, word in placed]), _rows(placed)
        inside = (word for word in said if _inside(word, box))
        whole = _letters(word for _, word in placed) >= _KEPT * _letters(inside)
        if whole and len(rows) > 1 and len(rows[0]) > 1:
            yield box, rows


def _rows(placed: Sequence[tuple[Cell, Word]]) -> Rows:
    said: dict[tuple[int, int], list[Word]] = defaultdict(list)
    for (_, row, column), word in placed:
        said[row, column].append(word)
    wide = max(column for _, column in said) + 1
    return tuple(
        tuple(joined(said.get((row, column), ())) for column in range(wide))
        for row in sorted({row for row, _ in said})
    )


def _box(placed: Sequence[Word]) -> Box:
    return (
        min(word.left for word in placed),
        min(word.baseline for word in placed) - _RISE,
        max(word.right for word in placed),
        max(word.baseline for word in placed) + _RISE,
    )


def _inside(word: Word, box: Box) -> bool:
    left, bottom, right, top = box
    return left <= (word.left + word.right) / 2 <= right and bottom <= word.baseline <= top


def _letters(placed: Iterable[Word]) -> int:
    return sum(character.isalnum() for word in placed for character in word.text)
