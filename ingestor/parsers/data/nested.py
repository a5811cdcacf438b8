"""Cut nested data into blocks: a part that is too large for one block is opened, and its parts become blocks.

The reader of a format says where nodes begin and end. Nothing here recurses, and nodes deeper than a few
levels are never opened, so any nesting is linear. Small neighbours share a block.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from ingestor.model import Block
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
    parts: int = 0  # how many it has had so far, for those who count

    @property
    def path(self) -> str:
        names, node = [self.name], self.parent
        while node is not None:
            names.append(node.name)
            node = node.parent
        return "".join(reversed(names))


class Cutter:
    """Cuts nodes into blocks; gets them in the order of the text."""

    def __init__(self) -> None:
        self.node = Node(0, "")
        self._deeper = 0

    def enter(self, start: int, name: str) -> None:
        if self._deeper or self.depth >= _DEEPEST:
            self._deeper += 1
        else:
            self.node = Node(start, name, self.node)

    def leave(self, end: int) -> None:
        """End the innermost node; more ends than beginnings are ignored."""
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
        """Number of nodes that are open and seen."""
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
    """Yield the blocks between cuts. ``cuts``: start and path of each block, ascending."""
    kept = cuts if cuts and not text[: cuts[0][0]].strip() else [(0, ""), *cuts]
    for (begin, path), (end, _) in pairwise([*kept, (len(text), "")]):
        for start, last in trim(text, begin, end):
            yield Block("code", start, last, language=language, symbol=path.strip("./") or None)
