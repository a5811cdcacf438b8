"""Blocks of markup whose structure shows at the beginning of lines.

The document's text is the source, and blocks are ranges of its lines. A format is a rule that returns the
block that begins at a line, if any. Other lines are paragraphs up to a blank line. The rule is called once
for each line. A rule that reads ahead returns all that it has read as a block, so parsing takes linear time.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from ingestor.model import Block, Document
from ingestor.parsers.shared.compose import build_document
from ingestor.parsers.text import trim
from ingestor.text.outline import heading_number, line_starts

_LONGEST = 1000  # characters of a line that can mean something


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines of a text. ``rows``: their beginnings, without trailing white space; "" is a blank line.

    ``starts``: offsets of the lines, and the end of the text.
    """

    text: str
    rows: list[str]
    starts: list[int]

    def row(self, at: int) -> str:
        """Return a line's beginning; "" beyond both ends."""
        return self.rows[at] if 0 <= at < len(self.rows) else ""

    def line(self, position: int) -> int:
        """Return the line that holds the character at ``position``."""
        return bisect_right(self.starts, position) - 1

    def while_(self, at: int, holds: Callable[[str], bool]) -> int:
        """Return the first line from ``at`` on for which ``holds`` is false."""
        while at < len(self.rows) and holds(self.rows[at]):
            at += 1
        return at

    def past_indented(self, at: int, more_than: int) -> int:
        """Return the line after the further indented ones from ``at`` on; blank ones may lie between."""
        end = at
        while at < len(self.rows) and (not self.rows[at] or indent(self.rows[at]) > more_than):
            at += 1
            end = at if self.rows[at - 1] else end
        return end

    def past_blank(self, at: int) -> int:
        return self.while_(at, lambda row: not row)


@dataclass(frozen=True, slots=True)
class FoundBlock:
    """A block that begins at the examined line and ends before the line ``end``.

    ``stop``: end of the block in its last line, if a paragraph follows on the same line.
    """

    kind: str
    end: int
    level: int = 0
    title: str | None = None
    language: str | None = None
    symbol: str | None = None
    stop: int | None = None


Rule = Callable[[int], FoundBlock | None]


def markup_document(
    text: str, blocks: Iterable[Block], content_type: str, about: Mapping[str, str], title: str | None = None
) -> Document:
    """Return a document whose text is the source.

    ``about``: metadata by name (title, author, date, language). ``title``: for a document without that name.
    """
    return build_document(
        text,
        blocks,
        content_type,
        title=about.get("title") or title,
        language=about.get("language"),
        extra={key: about.get(key) for key in ("author", "date")},
    )


def lines_of(text: str) -> Lines:
    starts = [*line_starts(text), len(text)]
    rows = [
        text[start : min(end, start + _LONGEST)].rstrip() or text[start:end].strip()[:_LONGEST]
        for start, end in pairwise(starts)
    ]
    return Lines(text, rows, starts)


def blocks(lines: Lines, rule: Rule) -> Iterator[Block]:
    """Yield the blocks in order; together they hold all visible text."""
    at, block = 0, None
    while at < len(lines.rows):
        if not lines.rows[at]:
            at += 1
            continue
        block = block or rule(at)
        following = None
        end = block.end if block else at + 1
        if block is None or block.stop is not None:
            while lines.row(end) and (following := rule(end)) is None:
                end += 1
        if block is not None:
            yield from _block(lines, lines.starts[at], block)
        begin = lines.starts[at] if block is None else block.stop
        if begin is not None:
            for start, stop in trim(lines.text, begin, lines.starts[end]):
                yield Block("paragraph", start, stop)
        at, block = end, following


def _block(lines: Lines, begin: int, block: FoundBlock) -> Iterator[Block]:
    number = heading_number(block.title) if block.title else None
    stop = lines.starts[block.end] if block.stop is None else block.stop
    for start, end in trim(lines.text, begin, stop):
        yield Block(
            block.kind, start, end, block.level, block.title or None, number,
            language=block.language, symbol=block.symbol,
        )  # fmt: skip


def indent(row: str) -> int:
    return len(row) - len(row.lstrip())
