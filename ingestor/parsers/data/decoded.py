r"""Data as it reads: the source with its escapes decoded, and blocks where the decoded text has them.

An edit is (start, end, text in place of it). A line break that an escape means (``\n`` in JSON) breaks
a line of the text but none of the file; ``inner_breaks`` lists these, so that line numbers stay the file's.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import accumulate

from ingestor.model import Document
from ingestor.parsers.text import trim

Edit = tuple[int, int, str]

_ESCAPE = re.compile(
    r"\\(?:u([0-9a-fA-F]{4})(?:\\u([dD][c-fC-F][0-9a-fA-F]{2}))?|U([0-9a-fA-F]{8})|x([0-9a-fA-F]{2})"
    r"|(r\\n)|(.))",
    re.DOTALL,
)
_SIGNS = {sign: sign for sign in "\"'\\/ "} | dict.fromkeys("nrLP", "\n") | dict.fromkeys("bfave0N", " ")
_SIGNS |= {"t": "\t", "_": "\xa0", "\n": "\n", "\r": "\r"}


def escapes(text: str, start: int, end: int) -> Iterator[Edit]:
    """Yield the escapes of JSON, YAML and TOML in a string that lies between ``start`` and ``end``."""
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
    """Return the character of that number; a space for a control, U+FFFD where there is no character."""
    if point in (0x0A, 0x0D):
        return "\n"
    if point < 0x20 or 0x7F <= point < 0xA0:
        return " "
    return chr(point) if point <= 0x10FFFF and not 0xD800 <= point < 0xE000 else "\ufffd"


def unescape(text: str) -> str:
    return _edit(text, [*escapes(text, 0, len(text))])


def apply_edits(document: Document, edits: Iterable[Edit]) -> Document:
    """Return the document with these edits, which are in order and apart. Emptied blocks are dropped."""
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
