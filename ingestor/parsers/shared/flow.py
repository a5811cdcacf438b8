"""Turns the paragraphs of a word processor's document into blocks. Pure.

Neighbouring list items become one block, and so do lines of code. A footnote or a comment follows the block
that refers to it. A caption makes one block with the picture above it. If the document has pages, each block
has the page of its first character.
"""

import re
from collections.abc import Iterable, Sequence

from ingestor.parsers.shared.compose import Composer

# Names of styles, in lower case, of what is said below or above a picture.
CAPTION = re.compile(r"caption|beschriftung|légende|figure|illustration|abbildung")
_INDENT = 8  # levels
_NO_DESCRIPTION = re.compile(
    r"\S+\.\w{3,4}|(?:picture|image|graphic|object|shape|chart|diagram|figure|grafik|bild|objekt|imagen?)\s*\d*",
    re.IGNORECASE,
)


class Flow:
    def __init__(self) -> None:
        self.composer = Composer()
        self.title: str | None = None  # set as such
        self._kind, self._lines = "", list[str]()
        self._notes: list[tuple[str, str]] = []  # kind and text
        self._figures: list[tuple[str, str]] = []  # name and description, while a caption may follow
        self._marks = 0

    def begin_page(self, page: int) -> None:
        """Begin a page of the document, counted from 0. Its label counts from 1."""
        self.flush()
        self.composer.page, self.composer.page_label = page, str(page + 1)

    def cite(self, note: str) -> str:
        """Record a footnote to be added after the current block; return its mark, such as ``[^1]``."""
        self._marks += 1
        mark = f"[^{self._marks}]"
        self._notes.append(("footnote", f"{mark}: {' '.join(note.split())}"))
        return mark

    def comment(self, author: str, text: str) -> None:
        words = " ".join(text.split())
        self._notes.append(("comment", f"{author}: {words}" if author and words else words))

    def figure(self, name: str, description: str) -> None:
        """Add a picture, for which a caption may follow. ``name``: its part in the document."""
        self._flush_lines()
        self._figures.append((name, clean_description(description)))

    def caption(self, text: str) -> None:
        """Add the caption of the pictures directly above; a paragraph if there is no picture."""
        figures, self._figures = self._figures, []
        self._flush_lines()
        if figures:
            words = [description for _, description in figures if description not in ("", text.strip())]
            self.composer.add("figure", "\n".join([*words, text]), figure=figures[0][0] or None)
        else:
            self.composer.add("paragraph", text)
        self._flush_notes()

    def add(self, kind: str, text: str) -> None:
        if kind == "code":
            self._gather(kind, text)
            return
        self._flush_lines()
        self.composer.add(kind, text)
        self._flush_notes()

    def blank(self) -> None:
        """Add an empty paragraph. It becomes a blank line inside code, and has no effect elsewhere."""
        if self._kind == "code":
            self._lines.append("")

    def heading(self, text: str, level: int, number: str = "") -> None:
        """Add a heading. ``number``: the number printed in front of its text, such as "2.1."."""
        self._flush_lines()
        self.composer.heading(f"{number} {text}" if number else text, level, number.strip(".():") or None)
        self._flush_notes()

    def main_title(self, text: str) -> None:
        self.title = self.title or " ".join(text.split())
        self.heading(text, 1)

    def item(self, text: str, level: int, marker: str) -> None:
        """Add a list item; ``level`` 0 is the outermost, ``marker`` its number or bullet."""
        self._gather("list", f"{'  ' * min(level, _INDENT)}{marker} {' '.join(text.split())}")

    def chart(self, titles: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Add a chart: a figure with its titles, and a table with its numbers."""
        self._flush_lines()
        self.composer.add("figure", "\n".join(titles))
        self.composer.table(rows)
        self._flush_notes()

    def table(self, rows: Iterable[Sequence[str]]) -> None:
        self._flush_lines()
        self.composer.table(rows)
        self._flush_notes()

    def flush(self) -> None:
        """End the current block and add its notes, so that later lines begin a new block."""
        self._flush_lines()
        self._flush_notes()

    def _gather(self, kind: str, line: str) -> None:
        if kind != self._kind:
            self.flush()
        self._kind = kind
        self._lines.append(line)

    def _flush_lines(self) -> None:
        """Add the collected lines, and the pictures without a caption, as blocks.

        Notes are kept back, to follow the block that is added next.
        """
        if not self._lines and not self._figures:  # as between most blocks
            return
        figures, self._figures = self._figures, []
        for name, description in figures:
            self.composer.add("figure", description, figure=name or None)
        lines, kind = "\n".join(self._lines), self._kind
        self._kind, self._lines = "", []
        self.composer.add(kind, lines)

    def _flush_notes(self) -> None:
        for kind, note in self._notes:
            self.composer.add(kind, note)
        self._notes = []


def clean_description(text: str) -> str:
    """Return the description of a picture; "" if a program made it up, such as a file name or "Picture 3"."""
    words = " ".join(text.split())
    return "" if _NO_DESCRIPTION.fullmatch(words) else words
