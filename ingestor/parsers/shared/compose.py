"""Builds a document block by block, for formats whose text is not the file itself. Pure.

Blocks are separated by a blank line. Their offsets are recorded as they are added, so they are exact.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ingestor.model import Block, Document, Scalar

_GAP = "\n\n"
_NEWLINE = re.compile(r"[\r\v\f\x85\u2028\u2029](?:(?<=\r)\n)?")
_APART = re.compile(r"(?<=[$€£¥(])[ ](?=[\d(.—–-])|(?<=[\d).])[ ](?=[%)](?:\W|$))")
_UNSEEN = re.compile("[\x00-\x08\x0e-\x1f\x7f\xad\ufffe\uffff\ud800-\udfff]")


class Composer:
    """Builder of a document's text and blocks. ``page``, ``page_label``: page of blocks added next."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.page: int | None = None
        self.page_label: str | None = None
        self._parts: list[str] = []
        self._length = 0
        self.left_out = Counter[str]()  # words that are left out on purpose, by their kind in plural

    def add(self, kind: str, text: str, *, close: bool = False, **facts: Any) -> None:
        """Append a block, unless its text is blank. ``close``: put no blank line before it.

        ``facts``: other fields of the block.
        """
        self._append(kind, clean(text), facts, close)

    def _append(self, kind: str, body: str, facts: Mapping[str, Any], close: bool = False) -> None:
        """Append a block, unless ``body`` is empty; ``body`` must be a text that ``clean`` returned."""
        if not body:
            return
        if self._parts:
            gap = "\n" if close else _GAP
            self._parts.append(gap)
            self._length += len(gap)
        start, self._length = self._length, self._length + len(body)
        self._parts.append(body)
        self.blocks.append(
            Block(kind, start, self._length, page=self.page, page_label=self.page_label, **facts)
        )

    def include(self, text: str, blocks: Iterable[Block]) -> None:
        """Append the blocks of a document that is inside this one. ``text``: text of that document."""
        for block in blocks:
            self.add(
                block.kind, text[block.start : block.end], level=block.level, title=block.title,
                number=block.number, language=block.language, symbol=block.symbol, figure=block.figure,
            )  # fmt: skip

    def heading(self, text: str, level: int, number: str | None = None, *, close: bool = False) -> None:
        """Append a heading; ``level`` 1 is the outermost. ``number``: as printed, such as "2.1"."""
        title = " ".join(clean(text).split())
        self.add("heading", title, close=close, level=level, title=title, number=number)

    def bare_table(
        self, rows: Iterable[Sequence[str]], header: int, caption: str | None = None, *, close: bool = False
    ) -> None:
        """Append a table as plain text: a line for each row, with spaces between its cells.

        ``header``: number of rows at the top that are its header.
        """
        lines = [bare_row(row) for row in rows]
        facts = {"header_rows": sum(map(bool, lines[:header])), "caption": caption}
        self._append("table", "\n".join(filter(None, lines)), facts, close)

    def table(self, rows: Iterable[Sequence[str]]) -> None:
        self._append("table", markdown_table(rows), {})  # its cells are clean, and so are its lines

    def document(self, content_type: str, **facts: Any) -> Document:
        """Return the document that the blocks form. ``facts``: arguments of ``build_document``."""
        left_out = tuple(sorted((rule, count) for rule, count in self.left_out.items() if count))
        return build_document(self.text, self.blocks, content_type, left_out=left_out, **facts)

    @property
    def text(self) -> str:
        return "".join(self._parts)

    @property
    def last(self) -> str:
        """Return the text of the last block, without building the whole text."""
        return self._parts[-1] if self._parts else ""

    @property
    def title(self) -> str | None:
        """Return the title of the first heading if its level is 1; else None."""
        first = next((block for block in self.blocks if block.kind == "heading"), None)
        return first.title if first and first.level == 1 else None


def build_document(
    text: str,
    blocks: Iterable[Block],
    content_type: str,
    *,
    title: str | None = None,
    language: str | None = None,
    extra: Mapping[str, Scalar | None] | None = None,
    **facts: Any,
) -> Document:
    """Return a document whose metadata has no empty values. ``facts``: other fields of Document."""
    known = tuple((key, value) for key, value in (extra or {}).items() if value not in (None, ""))
    return Document(text, tuple(blocks), content_type, title or None, language or None, known, **facts)


def clean(text: str) -> str:
    """Return a text without blank lines around it, and without spaces at the ends of lines.

    Every line end becomes a newline. Control characters and soft hyphens are dropped.
    """
    if text.isprintable():  # so it is one line
        return text.rstrip()
    lines = _UNSEEN.sub("", _NEWLINE.sub("\n", text)).rstrip().split("\n")
    while lines and not lines[0].strip():
        del lines[0]
    return "\n".join(line.rstrip() for line in lines)


def bare_row(cells: Iterable[str]) -> str:
    """Return a row as a line, without a space between a number and its currency, "%" or bracket."""
    row = " ".join(_UNSEEN.sub("", " ".join(cells)).split())
    return _APART.sub("", row)


def markdown_table(rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown; its first row is the header.

    Empty rows, and empty columns on the right, are left out.
    """
    filled = [(width, line) for width, line in map(_join, rows) if width]
    most = max((width for width, _ in filled), default=0)
    lines = [f"| {line}{' | ' * (most - width)} |" for width, line in filled]
    return "\n".join([*lines[:1], f"| {' | '.join(['---'] * most)} |", *lines[1:]]) if lines else ""


def _join(row: Sequence[str]) -> tuple[int, str]:
    """Return the number of cells up to the last filled one, and the row in Markdown without outer bars."""
    line = "|".join(row)
    if line.count("|") == len(row) - 1 and _is_tidy(line):
        line = line.rstrip("|")
        return line.count("|") + 1 if line else 0, line.replace("|", " | ")
    cells = [_cell(text) for text in row]
    while cells and not cells[-1]:
        del cells[-1]
    return len(cells), " | ".join(cells)


def _is_tidy(line: str) -> bool:
    """Return whether the cells can be used unchanged: single spaces only, none at their ends, all printable.

    ``line``: the cells, joined by bars.
    """
    spaced = " " in line and ("  " in line or " |" in line or "| " in line or line.strip() != line)
    return not spaced and line.isprintable()


def _cell(text: str) -> str:
    if not text.isprintable():
        text = _UNSEEN.sub("", text)
    return " ".join(text.split()).replace("|", "\\|")


# --- cells that span columns and rows ----------------------------------------------------------------------

_MOST_COLUMNS = 100


class SpannedCell(NamedTuple):
    """A table cell. ``columns``, ``rows``: numbers of columns and rows that it covers.

    With 0 rows it covers all rows down to the last one.
    """

    text: str
    columns: int = 1
    rows: int = 1


def grid(rows: Sequence[Sequence[SpannedCell]]) -> list[list[str]]:
    """Return the rows of a table with every cell in its column.

    A cell that covers several columns or rows leaves the further places blank. Cells of later rows skip these
    places. Columns beyond the hundredth are dropped.
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
