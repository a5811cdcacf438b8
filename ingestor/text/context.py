"""Text that is embedded in front of a chunk's own: the document's title and headings. Pure."""

from collections.abc import Sequence
from typing import Literal

from ingestor.model import Chunk, Document

Context = Literal["none", "title", "headings"]


def contexts(document: Document, chunks: Sequence[Chunk], context: Context) -> list[str]:
    """Return the text embedded in front of each chunk's text; "" for nothing.

    ``title``: the document's own title (not its file's name: a rename embeds nothing). ``headings``:
    the title, and the headings above the chunk unless the first of them is the title.
    """
    from ingestor.text.outline import LONGEST_TITLE, outline

    title = (document.title or "")[:LONGEST_TITLE]
    if context != "headings":
        return [title if context == "title" else ""] * len(chunks)
    lines = outline(document)
    paths = (lines.sections[lines.section_of(chunk)].path or "" for chunk in chunks)
    return [path if _begins_with(path, title) else " > ".join(filter(None, (title, path))) for path in paths]


def _begins_with(path: str, title: str) -> bool:
    return path == title or path.startswith(f"{title} > ")
