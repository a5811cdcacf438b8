"""Finds the header of a table for each chunk that begins further down in the table. Pure.

A row of a long table means little without the names of its columns. So the embedded text of such a chunk has
the header in front, while the chunk's own text is the bare span.
"""

import re
from collections.abc import Sequence

from ingestor.model import Block, Chunk, Document
from ingestor.text.spans import owner

_LONGEST = 400  # characters of a header; a longer header would outweigh the rows
_LINES = 5  # lines in which a header must end
_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n)?")
_RULE = re.compile(r"[\s|+:]*[-=][\s|+:=-]*")  # between a header and its rows, or above a header


def headers(document: Document, chunks: Sequence[Chunk]) -> list[str]:
    """Return the header of the table in which each chunk begins; "" for other chunks."""
    tables = [block for block in document.blocks if block.kind == "table"]
    starts = [table.start for table in tables]
    places = [owner(starts, chunk.start) for chunk in chunks]
    known = {place: _header(document.text, tables[place]) for place in set(places) if place >= 0}
    return [
        _above(tables[place], *known[place], chunk) if place >= 0 else ""
        for place, chunk in zip(places, chunks, strict=True)
    ]


def _above(table: Block, end: int, header: str, chunk: Chunk) -> str:
    """Return the header if the chunk begins inside the table and below its header; "" otherwise.

    ``end``: end of the header. Chunks of several spans and rewritten chunks get no header.
    """
    below = end <= chunk.start < table.end
    return header if below and not (chunk.spans or chunk.rewritten) else ""


def _header(text: str, table: Block) -> tuple[int, str]:
    """Return the end of a table's header, and the text of the header; "" if the text is too long."""
    end = header_end(text, table)
    header = text[table.start : end].rstrip()
    return end, header if len(header) <= _LONGEST else ""


def header_end(text: str, table: Block) -> int:
    """Return the end of a table's header.

    The parser may have counted its rows. Otherwise, it ends after the first rule among the first lines, or
    after one line.
    """
    if table.header_rows is not None:
        at = table.start
        for _ in range(table.header_rows):
            at = _LINE.match(text, at, table.end).end()  # type: ignore[union-attr]
        return at
    first = at = _LINE.match(text, table.start, table.end).end()  # type: ignore[union-attr]
    for _ in range(_LINES):
        end = _LINE.match(text, at, table.end).end()  # type: ignore[union-attr]
        if end > at and _RULE.fullmatch(text, at, end):
            return end
        at = end
    return first
