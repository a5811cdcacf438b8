r"""Turns nested data (JSON, XML, YAML, TOML) into blocks, and decodes the escapes in its text.

A node is a value, an element or a table, with its text. A node that is too large for one block is opened: its
children become blocks. The parser of a format reports where nodes begin and end. Nothing here recurses, and
nodes deeper than a few levels are never opened, so any nesting takes linear time. Small neighbours share a
block.

An edit is (start, end, replacement) and replaces a part of the source, such as an escape. A decoded escape
may be a line break (``\n`` in JSON), which is no line break of the file. ``Document.inner_breaks`` lists
these, so that line numbers remain those of the file.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise

from ingestor.model import Block, Document
from ingestor.parsers.text import trim

_LARGE = 1500  # characters of a node that is opened
_SMALL = 300  # characters of neighbours that share a block
_HEADER = 60  # characters before a node's first part that are no block of their own
_DEEPEST = 8  # levels that are opened


@dataclass(slots=True, eq=False)
class Node:
    start: int
    name: str
    parent: "Node | None" = None
    cuts: list["Node"] = field(default_factory=list)
    opened: bool = False
    parts: int = 0  # children so far, by which a format numbers them

    @property
    def path(self) -> str:
        names, node = [self.name], self.parent
        while node is not None:
            names.append(node.name)
            node = node.parent
        return "".join(reversed(names))


class Cutter:
    """Builder of blocks. A parser calls ``enter`` and ``leave`` for each node in the order of the text."""

    def __init__(self) -> None:
        self.node = Node(0, "")
        self._deeper = 0

    def enter(self, start: int, name: str) -> None:
        if self._deeper or self.depth >= _DEEPEST:
            self._deeper += 1
        else:
            self.node = Node(start, name, self.node)

    def leave(self, end: int) -> None:
        """End the innermost open node at offset ``end``. The call has no effect if no node is open."""
        node, parent = self.node, self.node.parent
        if self._deeper:
            self._deeper -= 1
        elif parent is not None:
            self.node = parent
            last = parent.cuts[-1] if parent.cuts else None
            if end - node.start > _LARGE:
                node.opened = True
                parent.cuts += [node, *node.cuts]
            elif last is None or last.parent is not parent or end - last.start > _SMALL:
                parent.cuts.append(node)
            node.cuts = []

    @property
    def depth(self) -> int:
        """Return the number of open nodes, not counting those nested too deep to be opened."""
        depth, node = 0, self.node
        while node.parent is not None:
            depth, node = depth + 1, node.parent
        return depth

    def blocks(self, text: str, language: str) -> Iterator[Block]:
        while self.node.parent is not None or self._deeper:
            self.leave(len(text))
        cuts: list[tuple[int, str]] = []
        head: Node | None = Node(0, "")
        for node in self.node.cuts:
            # What stands before the first part of an opened node is no block of its own, unless it is long.
            at = head.start if head and node.start - head.start <= _HEADER else node.start
            cuts[-1:] = [(at, node.path)] if cuts and cuts[-1][0] == at else [*cuts[-1:], (at, node.path)]
            head = Node(at, "") if node.opened else None
        yield from blocks(text, cuts, language)


def blocks(text: str, cuts: list[tuple[int, str]], language: str) -> Iterator[Block]:
    """Divide a text into blocks. ``cuts``: (start, path) of each block, in ascending order.

    Text before the first cut is a block without a path.
    """
    kept = cuts if cuts and not text[: cuts[0][0]].strip() else [(0, ""), *cuts]
    for (begin, path), (end, _) in pairwise([*kept, (len(text), "")]):
        for start, last in trim(text, begin, end):
            yield Block("code", start, last, language=language, symbol=path.strip("./") or None)


# --- escapes -----------------------------------------------------------------------------------------------

Edit = tuple[int, int, str]

_ESCAPE = re.compile(
    r"\\(?:u([0-9a-fA-F]{4})(?:\\u([dD][c-fC-F][0-9a-fA-F]{2}))?|U([0-9a-fA-F]{8})|x([0-9a-fA-F]{2})"
    r"|(r\\n)|(.))",
    re.DOTALL,
)
_SIGNS = {sign: sign for sign in "\"'\\/ "} | dict.fromkeys("nrLP", "\n") | dict.fromkeys("bfave0N", " ")
_SIGNS |= {"t": "\t", "_": "\xa0", "\n": "\n", "\r": "\r"}


def escapes(text: str, start: int, end: int) -> Iterator[Edit]:
    """Yield an edit for each escape of JSON, YAML or TOML in the string from ``start`` to ``end``."""
    for match in _ESCAPE.finditer(text, start, end):
        four, low, eight, two, new_line, sign = match.groups()
        if four and low and 0xD800 <= int(four, 16) < 0xDC00:
            point = 0x10000 + ((int(four, 16) & 0x3FF) << 10) + (int(low, 16) & 0x3FF)
            yield *match.span(), character(point)
        elif number := four or eight or two:
            yield *match.span(), character(int(number, 16)) + ("\ufffd" if low else "")
        elif new_line or sign in _SIGNS:
            yield *match.span(), "\n" if new_line else _SIGNS[sign]


def character(point: int) -> str:
    """Return the character with a code point, or a harmless substitute.

    A line break becomes a newline, another control character a space, and a number that is no character
    U+FFFD.
    """
    if point in (0x0A, 0x0D):
        return "\n"
    if point < 0x20 or 0x7F <= point < 0xA0:
        return " "
    return chr(point) if point <= 0x10FFFF and not 0xD800 <= point < 0xE000 else "\ufffd"


def unescape(text: str) -> str:
    return _edit(text, [*escapes(text, 0, len(text))])


def apply_edits(document: Document, edits: Iterable[Edit]) -> Document:
    """Return the document with its text edited and its blocks moved accordingly.

    ``edits``: in ascending order, without overlap. Blocks that become empty are dropped.
    """
    made = [edit for edit in edits if document.text[edit[0] : edit[1]] != edit[2]]
    if not made:
        return document
    starts = [start for start, _, _ in made]
    shifts = [0, *accumulate(len(words) - (end - start) for start, end, words in made)]

    def place(position: int) -> int:
        at = bisect_right(starts, position)
        if at and position < made[at - 1][1]:  # inside of an edit, or where it begins
            return starts[at - 1] + shifts[at - 1]
        return position + shifts[at]

    text = _edit(document.text, made)
    blocks = [
        replace(block, start=start, end=end)
        for block in document.blocks
        for start, end in trim(text, place(block.start), place(block.end))
    ]
    breaks = (
        start + shifts[at] + offset
        for at, (start, end, words) in enumerate(made)
        if words.count("\n") != document.text.count("\n", start, end)
        for offset, sign in enumerate(words)
        if sign == "\n"
    )
    return replace(document, text=text, blocks=tuple(blocks), inner_breaks=tuple(breaks))


def _edit(text: str, edits: list[Edit]) -> str:
    parts, at = list[str](), 0
    for start, end, words in edits:
        parts += text[at:start], words
        at = end
    return "".join([*parts, text[at:]])
