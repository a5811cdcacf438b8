"""Finds the blocks of markup languages in which the beginning of a line shows the structure.

The document's text is the source, and a block is a range of lines. A format has a rule: a function that
returns the block that begins at a line, or None. Lines in no such block are paragraphs, which end at a blank
line. The rule is called once for each line. A rule that reads ahead returns all lines that it has read as a
block, so parsing takes linear time.
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
    """The lines of a text. ``rows``: the beginning of each line without trailing white space; "" if blank.

    ``starts``: the offset at which each line starts, then the length of the text.
    """

    text: str
    rows: list[str]
    starts: list[int]

    def row(self, at: int) -> str:
        """Return the beginning of line ``at``; "" if the text has no such line."""
        return self.rows[at] if 0 <= at < len(self.rows) else ""

    def line(self, position: int) -> int:
        """Return the number of the line that holds the character at ``position``."""
        return bisect_right(self.starts, position) - 1

    def while_(self, at: int, holds: Callable[[str], bool]) -> int:
        """Return the number of the first line, from line ``at`` on, for which ``holds`` returns false."""
        while at < len(self.rows) and holds(self.rows[at]):
            at += 1
        return at

    def past_indented(self, at: int, more_than: int) -> int:
        """Skip lines indented by more than ``more_than``, and blank lines between them, from line ``at`` on.

        Return the number of the line after the last line skipped.
        """
        end = at
        while at < len(self.rows) and (not self.rows[at] or indent(self.rows[at]) > more_than):
            at += 1
            end = at if self.rows[at - 1] else end
        return end

    def past_blank(self, at: int) -> int:
        return self.while_(at, lambda row: not row)


@dataclass(frozen=True, slots=True)
class FoundBlock:
    """A block that a rule found at the line that it examined. ``end``: number of the line after the block.

    ``stop``: offset at which the block ends in its last line, if a paragraph follows on that line.
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

    ``about``: metadata by name (title, author, date, language). ``title``: used if ``about`` has no title.
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
    """Yield the blocks that ``rule`` finds, and paragraphs of all other lines, in order."""
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
