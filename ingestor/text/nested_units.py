"""Divides nested data (JSON, YAML, XML) into units by indentation.

A block is a line with the more indented lines after it, and the line that closes it. A block that is too
large is divided: its first line goes with the first block inside, its last line with the last block. A long
line of JSON or XML, as programs write them, is divided at its elements in the same way. Each element counts
as a line.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from ingestor.text.code_units import Fits, Unit
from ingestor.text.spans import Span

_DEEPEST = 50  # levels; deeper blocks stay whole, to be split like any text
_LINE = re.compile(r"^([^\S\n]*)(?![\]})]|</)\S", re.MULTILINE)  # all lines except closing lines
_JSON = re.compile(r'"(?:[^"\\]|\\.)*+"?|[{\[,](?=(\s*+)([^\s\]}]?))|[}\]]', re.DOTALL)
_XML = re.compile(
    r"<!--(?:.*?-->|.*)|<!\[CDATA\[(?:.*?\]\]>|.*)|<\?(?:.*?\?>|.*)"
    r"|<(/?)\w(?:[^<>\"']++|\"[^\"]*\"|'[^']*')*+>",
    re.DOTALL,
)

_Line = tuple[int, int]  # start and indentation of a line
_Open = Callable[[str, Span], Iterator[_Line]]  # returns the elements of a line


def groups_by_indentation(text: str, language: str, fits: Fits) -> list[list[Unit]]:
    """Return the units of a text in groups, in order; only units of the same group may share a chunk.

    ``fits``: returns whether a span is small enough for one unit. A larger unit remains if it has no inner
    blocks. Units leave no gaps.
    """
    lines = [(match.start(), len(match[1])) for match in _LINE.finditer(text)]
    return list(_Walk(text, fits, INDENTED[language]).groups(lines, (0, len(text)), 0))


class _Walk:
    def __init__(self, text: str, fits: Fits, opened: _Open) -> None:
        self._text, self._fits, self._open = text, fits, opened

    def groups(
        self, lines: Sequence[_Line], span: Span, depth: int, *, within: bool = False
    ) -> Iterator[list[Unit]]:
        """Yield groups of neighbouring blocks; a block that is too large is divided into groups of its own.

        ``lines``: lines in the span that may begin a block. ``within``: whether they are elements of one long
        line.
        """
        run: list[Unit] = []
        for block, inside in _blocks(lines, span):
            fits = self._fits(block)
            opens = not (inside or fits or within)
            inner = list(self._open(self._text, block)) if opens else inside
            if fits or not inner or depth == _DEEPEST:
                run.append(Unit(*block))
                continue
            if run:
                yield run
                run = []
            yield from self.groups(inner, block, depth + 1, within=within or opens)
        if run:
            yield run


def _blocks(lines: Sequence[_Line], span: Span) -> Iterator[tuple[Span, Sequence[_Line]]]:
    """Yield the span of each least indented line with the lines inside it, and these lines."""
    least = min((indent for _, indent in lines), default=0)
    begins = [index for index, (_, indent) in enumerate(lines) if indent == least] or [0]
    starts = [span[0], *(lines[index][0] for index in begins[1:]), span[1]]
    for block, (first, after) in zip(pairwise(starts), pairwise([*begins, len(lines)]), strict=True):
        yield block, lines[first + 1 : after]


def _of_json(text: str, span: Span) -> Iterator[_Line]:
    """Yield (start, depth) of each value, or key with its value, in a line of JSON."""
    depth = 0
    for mark in _JSON.finditer(text, *span):
        sign = text[mark.start()]
        depth += (sign in "{[") - (sign in "}]")
        if mark[2] and depth <= _DEEPEST:
            yield mark.end() + len(mark[1]), depth


def _of_xml(text: str, span: Span) -> Iterator[_Line]:
    """Yield (start, depth) of each XML element that begins directly after another tag.

    An element between words is part of a sentence, and is not a block.
    """
    depth = 0
    for tag in _XML.finditer(text, *span):
        start, end = tag.span()
        if tag[1] is None:
            continue
        if not tag[1] and depth <= _DEEPEST and (start == span[0] or text[start - 1] == ">"):
            yield start, depth
        if not text.endswith("/>", start, end):
            depth += -1 if tag[1] else 1


def _no_lines(text: str, span: Span) -> Iterator[_Line]:
    return iter(())


INDENTED = {"json": _of_json, "jsonl": _of_json, "xml": _of_xml, "yaml": _no_lines}
