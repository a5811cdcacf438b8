"""CSV and TSV: the rows become Markdown tables of a few rows each, and every table repeats the header.

A checksum of a row decides whether a table ends with that row. So an inserted row changes only the table
around it. Rows of one cell above the table are paragraphs. The first row of the table is its header, unless
it holds a number; then columns are numbered. A text that is no table (quotes that never close, a megabyte in
a cell) is read as paragraphs.
"""

import csv
import re
from collections.abc import Iterator, Sequence
from zlib import crc32

from ingestor.core.completeness import words
from ingestor.model import Blob, Document
from ingestor.parsers.shared.compose import Composer
from ingestor.parsers.shared.decode import decode
from ingestor.parsers.shared.detect import content_type
from ingestor.parsers.shared.plugin import parser_plugin
from ingestor.parsers.text import paragraphs

_SEPARATOR = re.compile(r"\"?sep=([^\r\n\"\w])\"?[^\S\r\n]*(?:\r\n?|\n|\Z)", re.IGNORECASE)
_DELIMITERS = ",;\t|"
_SAMPLE = 16_384  # characters that decide the delimiter
_SMALL, _LARGE = 300, 1200  # characters of a table: it may end from the one on, and ends at the other
_RAGGED = 5  # times as many cells with the empty ones that are missing
_ONE_IN = 3  # rows at which a table that may end does


def parse(blob: Blob) -> Document:
    """Read CSV or TSV as a document of Markdown tables. Raises BadDocument if the content is not text."""
    text, kind = decode(blob.data), content_type(blob)
    composer = Composer()
    named = _SEPARATOR.match(text)  # Excel's own line, before the header
    text = text[named.end() :] if named else text
    tabs = "\t" if kind.endswith("tab-separated-values") else None
    try:
        rows = list(_rows(text, named[1] if named else tabs or _delimiter(text)))
    except csv.Error:
        rows = []
    cells = max(map(len, rows), default=0) * len(rows)
    if not rows or cells > _RAGGED * sum(map(len, rows)) + _SAMPLE:  # filling rows up would be most of it
        rows = []
        for start, end in paragraphs(text):
            composer.add("paragraph", text[start:end])
    first = _first_row(rows)
    for row in rows[:first]:
        composer.add("paragraph", " ".join(row))
    for table in _tables(rows[first:]):
        composer.table(table)
    return composer.document(kind, raw_words=words(text.replace("\0", "").replace('"', "")))


def _rows(text: str, delimiter: str) -> Iterator[list[str]]:
    """Return the rows of the text without blank rows. Iterating raises csv.Error if the text is not CSV."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "").split("\n")
    reader = csv.reader((f"{line}\n" for line in lines), delimiter=delimiter, skipinitialspace=True)
    return (row for row in reader if any(cell.strip() for cell in row))


def _delimiter(text: str) -> str:
    """Return the delimiter that splits the largest share of the first rows into equally many cells.

    Of delimiters with the same share, the one that gives the most cells wins.
    """
    cut = text[:_SAMPLE]
    sample = cut[: cut.rfind("\n") + 1] or cut

    def rate(delimiter: str) -> tuple[float, int]:
        try:
            widths = [len(row) for row in _rows(sample, delimiter)]
        except csv.Error:
            return 0.0, 0
        usual = max(set(widths), key=widths.count, default=0)
        return (widths.count(usual) / len(widths) if usual > 1 else 0.0), usual

    return max(_DELIMITERS, key=rate)


def _first_row(rows: list[list[str]]) -> int:
    """Return the number of rows above the table, such as a title.

    They have one cell, and most rows have more.
    """
    filled = [sum(bool(cell.strip()) for cell in row) for row in rows]
    if filled.count(1) * 2 > len(rows):
        return 0
    return next((at for at, cells in enumerate(filled) if cells > 1), 0)


def _tables(rows: list[list[str]]) -> Iterator[list[Sequence[str]]]:
    """Yield each table as its rows, the header first. The tables divide ``rows`` in order."""
    if not rows:
        return
    width = max(map(len, rows))
    if any(map(_is_number, rows[0])):
        rows = [[f"column {n}" for n in range(1, width + 1)], *rows]
    header, body = rows[0], rows[1:]
    large = max(_LARGE, 3 * sum(map(len, header)))
    part: list[Sequence[str]] = []
    size = 0
    for row in body:
        part.append(row)
        size += sum(map(len, row)) + 3 * len(row)
        ends = crc32("\0".join(row).encode("utf-8", "replace")) % _ONE_IN == 0
        if size >= large or (size >= _SMALL and ends):
            yield [header, *part]
            part, size = [], 0
    if part or not body:
        yield [header, *part]


def _is_number(cell: str) -> bool:
    try:
        float(cell.replace(",", "."))
    except ValueError:
        return False
    return True


PLUGIN = parser_plugin("csv", 3, parse, isolated="large")
