"""Data that is written in nested blocks (JSON, YAML, XML) as units, by indentation.

A block is a line and the deeper ones after it, with the line that closes it. One that does not fit is opened:
its first line goes with the first block inside, its last with the last.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from ingestor.spans import Span
from ingestor.syntax import Fits, Unit

INDENTED = frozenset({"json", "yaml", "xml"})
_DEEPEST = 50  # levels; what is nested deeper stays whole, to be split like any text
_LINE = re.compile(r"^([^\S\n]*)(?![\]})]|</)\S", re.MULTILINE)  # but lines that close

_Line = tuple[int, int]  # where it starts, and how far it is indented


def groups_by_indentation(text: str, fits: Fits) -> list[list[Unit]]:
    """Units that may share a chunk, in order. They cover the text; one without blocks inside may not fit."""
    lines = [(match.start(), len(match[1])) for match in _LINE.finditer(text)]
    return list(_groups(lines, (0, len(text)), fits, 0))


def _groups(lines: Sequence[_Line], span: Span, fits: Fits, depth: int) -> Iterator[list[Unit]]:
    """``lines``: those that begin in the span and may begin a block."""
    run: list[Unit] = []
    for block, inside in _blocks(lines, span):
        if fits(block) or not inside or depth == _DEEPEST:
            run.append(Unit(*block))
            continue
        if run:
            yield run
            run = []
        yield from _groups(inside, block, fits, depth + 1)
    if run:
        yield run


def _blocks(lines: Sequence[_Line], span: Span) -> Iterator[tuple[Span, Sequence[_Line]]]:
    """Each with the lines inside it."""
    least = min((indent for _, indent in lines), default=0)
    begins = [index for index, (_, indent) in enumerate(lines) if indent == least] or [0]
    starts = [span[0], *(lines[index][0] for index in begins[1:]), span[1]]
    for block, (first, after) in zip(pairwise(starts), pairwise([*begins, len(lines)]), strict=True):
        yield block, lines[first + 1 : after]
