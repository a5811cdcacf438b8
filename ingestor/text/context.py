"""Builds the context lines in front of a chunk: title, section or table, and a table's header. Pure.

Models and the index of words read these lines with the chunk's text; the stored text is the bare span. The
lines come from the document, not from the name of its file, so that renaming a file embeds nothing again.
"""

from collections.abc import Sequence
from typing import Literal

from ingestor.model import Block, Chunk, Document
from ingestor.text.spans import owner
from ingestor.text.table_headers import headers

Context = Literal["none", "title", "headings"]
Lines = tuple[str, ...]

VERSION = 2  # raised whenever the same chunk gets other lines, or another count of them
_LONGEST = 240  # characters of a line; a longer line would outweigh the chunk


def contexts(document: Document, chunks: Sequence[Chunk], context: Context) -> list[Lines]:
    """Return the context lines of each chunk, the most general line first.

    ``context``: which lines. ``title`` gives the document's title. ``headings`` adds the signatures around a
    chunk of code, else the caption of its table, else the headings above it. In any case, a chunk that begins
    below the header of a table gets this header.
    """
    if not chunks:
        return []
    sections = _sections(document, chunks) if context == "headings" else [""] * len(chunks)
    title = "" if context == "none" else " ".join((document.title or "").split())
    return [
        tuple(filter(None, (title[:_LONGEST], _without(title, section), header)))
        for section, header in zip(sections, headers(document, chunks), strict=True)
    ]


def in_front(lines: Lines, text: str) -> str:
    """Return a text with the context lines in front, each on a line of its own."""
    return "\n".join((*lines, text))


def _sections(document: Document, chunks: Sequence[Chunk]) -> list[str]:
    from ingestor.text.outline import outline

    has_headings = any(block.kind == "heading" for block in document.blocks)
    outlined = outline(document) if has_headings else None
    tables = [block for block in document.blocks if block.kind == "table"]
    starts = [table.start for table in tables]

    def section(chunk: Chunk) -> str:
        at = owner(starts, chunk.start)
        table = tables[at] if at >= 0 and chunk.start < tables[at].end else None
        if signature := dict(chunk.extra).get("signature"):
            return str(signature)
        path = outlined.sections[outlined.section_of(chunk)].path if outlined else None
        return _caption(table) or path or ""

    return list(map(section, chunks))


def _caption(table: Block | None) -> str:
    return " ".join((table.caption or "").split()) if table else ""


def _without(title: str, section: str) -> str:
    """Return the path of headings without the document's title at its start, shortened to fit into a line.

    The outermost headings are dropped first. ``section``: the path, such as "A > B".
    """
    if section == title or section.startswith(f"{title} > "):
        section = section[len(title) + 3 :]
    parts = section.split(" > ")
    while len(parts) > 1 and len(" > ".join(parts)) > _LONGEST:
        parts = parts[1:]
    return " > ".join(parts)[:_LONGEST]
