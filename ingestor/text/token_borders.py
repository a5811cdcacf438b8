"""Borders of tokens: cuts there leave the parts with the tokens of the whole text. Pure.

Every tiktoken encoding has a border of tokens before a space between two words, and after the newline that
ends a line. The text between two borders has the same tokens alone and in any text around it.
"""

import re
from collections.abc import Iterator

from ingestor.text.spans import Span

_PIECE = 4096  # code points
_BORDER = re.compile(r"(?<=\S)(?= \S)|(?<=\S\n)(?=[^\W_])")


def pieces(text: str) -> Iterator[str]:
    """The text in order, in parts that are quick to encode; they end at borders where those are not rare."""
    start = 0
    while len(text) - start > _PIECE:
        border = _BORDER.search(text, start + _PIECE // 2, start + _PIECE)
        end = border.start() if border else start + _PIECE
        yield text[start:end]
        start = end
    yield text[start:]


def is_torn(text: str) -> bool:
    """Whether some piece ends at no border."""
    return any(len(piece) == _PIECE for piece in pieces(text))


def certain(text: str, span: Span) -> Span | None:
    """Return the part of a span from its first border between words to its last, which may be the span's end.

    None if there is none, or if the span is more than a piece.
    """
    start, end = span
    first = text.find(" ", start + 1, end) if end - start <= _PIECE else -1
    while first >= 0 and not _between_words(text, first):
        first = text.find(" ", first + 1, end)
    if first < 0:
        return None
    last = end
    while not _between_words(text, last):
        last = text.rfind(" ", first, last)
    return first, last


def _between_words(text: str, at: int) -> bool:
    """Whether there is a space at a position, between two other characters."""
    around = text[at - 1 : at + 2]
    return len(around) == 3 and around[1] == " " and not (around[0].isspace() or around[2].isspace())
