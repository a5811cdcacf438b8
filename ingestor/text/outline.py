"""The outline of a document: it finds the section, the lines and the blocks of any span. Pure.

A section begins with its heading, or with the labels and comments directly before the heading. A position
belongs to the last section that begins at or before it. An ``Outline`` is built once for each document, in
linear time; each query is a binary search.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ingestor.model import Block, Chunk, Document

LEADING = frozenset(("label", "comment"))  # kinds of blocks that belong to the block after them
_LINE_END = re.compile(r"\r\n?|\n")
_VISIBLE = re.compile(r"\S")
LONGEST_TITLE, LONGEST_PATH = 1_000, 4_000  # characters; each chunk of a section carries both
# "2.1", "A.3", "4." or "12 " before a title; a lone year or quantity ("2024 in review") is no number.
_NUMBER = re.compile(r"((?:[A-Z]|\d{1,3})(?:\.\d{1,3})+|\d{1,2})[.)]?\s+\S")


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, with the path of headings down to it; without values before the first heading.

    ``number``: the number in the heading ("2.1"); else the number of the section above, and a count within
    that section.
    """

    title: str | None = None
    number: str | None = None
    titles: tuple[str, ...] = ()  # from the outermost section to this one
    path: str | None = None  # the same as one text: "A > B > C"


@dataclass(frozen=True, slots=True)
class Outline:
    """The starts of a document's lines, blocks and sections, prepared for binary search."""

    text: str
    blocks: Sequence[Block]
    lines: Sequence[int]  # where each line begins
    block_starts: Sequence[int]
    section_starts: Sequence[int]  # starts of all sections except the first
    sections: Sequence[Section]  # the section before all headings, then one for each heading

    def line(self, position: int) -> int:
        """Return the number, from 1, of the line that contains a position."""
        return bisect_right(self.lines, position)

    def section(self, position: int) -> int:
        """Return the index, in ``sections``, of the section that contains a position."""
        return bisect_right(self.section_starts, position)

    def shares(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the index of each section that a span touches, and how much of the span it has.

        The second number is in characters.
        """
        for index in range(self.section(start), self.section(max(start, end - 1)) + 1):
            low = self.section_starts[index - 1] if index else 0
            high = self.section_starts[index] if index < len(self.section_starts) else len(self.text)
            yield index, min(end, high) - max(start, low)

    def between(self, start: int, end: int) -> Iterator[Block]:
        """Yield the blocks that overlap with a span, in order. The span must not be empty."""
        first = max(0, bisect_right(self.block_starts, start) - 1)
        for index in range(first, len(self.blocks)):
            block = self.blocks[index]
            if block.start >= end:
                return
            if block.end > start:
                yield block

    def first_visible(self, start: int, end: int) -> int:
        """Return the first position in a span that is no white space; ``start`` if there is none."""
        match = _VISIBLE.search(self.text, start, end)
        return match.start() if match else start

    def section_of(self, chunk: Chunk) -> int:
        """Return the index of the section with most of a chunk's characters; the first of several."""
        shares = self.shares_of(chunk)
        return max(shares, key=lambda index: (shares[index], -index))

    def shares_of(self, chunk: Chunk) -> Counter[int]:
        """Count the characters of a chunk in each section, by the index of the section."""
        shares = Counter[int]()
        for start, end in chunk.spans or ((chunk.start, chunk.end),):
            for index, characters in self.shares(self.first_visible(start, end), end):
                shares[index] += characters
        return shares


def outline(document: Document) -> Outline:
    headings = [
        (_visible_start(document.text, first), block) for first, block in section_openings(document.blocks)
    ]
    return Outline(
        text=document.text,
        blocks=document.blocks,
        lines=_lines(document),
        block_starts=[block.start for block in document.blocks],
        section_starts=[start for start, _ in headings],
        sections=[Section(), *sections(heading for _, heading in headings)],
    )


def _lines(document: Document) -> list[int]:
    """Return the offset of each line of the file. Line breaks that decoding an escape made do not count."""
    inner = frozenset(document.inner_breaks)
    return [start for start in line_starts(document.text) if start - 1 not in inner]


def section_openings(blocks: Iterable[Block]) -> Iterator[tuple[Block, Block]]:
    """Yield each section's first block (a label, a comment or the heading itself) and its heading."""
    first: Block | None = None
    for block in blocks:
        first = first or block
        if block.kind == "heading":
            yield first, block
        if block.kind not in LEADING:
            first = None


def line_starts(text: str) -> list[int]:
    r"""Return the offset of each line. Lines end with ``\n``, ``\r\n`` or ``\r``, as editors count them."""
    return [0, *(end.end() for end in _LINE_END.finditer(text))]


def heading_number(title: str) -> str | None:
    """Return the number at the start of a title, such as "2.1" in "2.1 Methods"; None if it has none."""
    match = _NUMBER.match(title)
    return match[1] if match else None


def sections(headings: Iterable[Block]) -> Iterator[Section]:
    """Yield a section for each heading. Skipped levels (1, then 3) make no difference."""
    enclosing: list[tuple[int, Section]] = []  # (level, section), outermost first
    children = [0]  # number of headings in each of them up to now; children[0] is the document's
    for heading in headings:
        while enclosing and enclosing[-1][0] >= heading.level:
            enclosing.pop()
            children.pop()
        children[-1] += 1
        above = enclosing[-1][1] if enclosing else Section()
        title = heading.title and heading.title[:LONGEST_TITLE]
        titles = (*above.titles, title) if title else above.titles
        section = Section(
            title=title,
            number=heading.number or ".".join(filter(None, (above.number, str(children[-1])))),
            titles=titles,
            path=" > ".join(titles)[:LONGEST_PATH] or None,
        )
        enclosing.append((heading.level, section))
        children.append(0)
        yield section


def _visible_start(text: str, block: Block) -> int:
    """Return the start of a block's visible text, because a chunk may begin after a heading's indentation."""
    match = _VISIBLE.search(text, block.start, block.end)
    return match.start() if match else block.start
