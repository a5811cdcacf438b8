"""Spans of a text: half-open pairs of code-point offsets. Pure.

A *boundary* is a place where a text may be cut without tearing a user-perceived character: not before a
combining mark, a variation selector, an emoji modifier or a tag, not at either side of a joiner, not
between CR and LF, and not inside a flag. This is the cheap part of Unicode's grapheme rules (UAX 29).
"""

import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

from ingestor.model import Chunk, Scalar

Span = tuple[int, int]

_JOINER = "\u200d"
_PATIENCE = 32  # code points; a longer run of joined ones is torn rather than searched


def trim(text: str, span: Span) -> Span:
    """The span less the whitespace at both ends; empty at its start when nothing else is there."""
    start, end = span
    part = text[start:end]
    body = part.lstrip()
    if not body:
        return start, start
    start += len(part) - len(body)
    return start, start + len(body.rstrip())


def trimmed(text: str, spans: Iterable[Span]) -> list[Span]:
    """Every span trimmed, those of whitespace only left out."""
    cut = (trim(text, span) for span in spans)
    return [(start, end) for start, end in cut if end > start]


def union(first: Span, second: Span) -> Span:
    """The span that reaches from the one to the end of both."""
    return min(first[0], second[0]), max(first[1], second[1])


def between(edges: Sequence[int]) -> list[Span]:
    """The spans that neighbouring edges enclose."""
    return list(pairwise(edges))


def split(span: Span, cuts: Iterable[int]) -> list[Span]:
    """The span cut at those of the ascending ``cuts`` that lie inside it."""
    inside = [cut for cut in cuts if span[0] < cut < span[1]]
    return between([span[0], *inside, span[1]])


def owner(starts: Sequence[int], at: int) -> int:
    """Which of the stretches that begin at the ascending ``starts`` holds ``at``; -1 before the first."""
    return bisect_left(starts, at + 1) - 1


def chunks(text: str, spans: Iterable[Span], extra: tuple[tuple[str, Scalar], ...] = ()) -> tuple[Chunk, ...]:
    """One chunk a span, in order."""
    return tuple(Chunk(start, end, text[start:end], extra=extra) for start, end in spans)


def is_boundary(text: str, at: int) -> bool:
    """Whether ``text`` may be cut before the code point ``at``; its ends are boundaries."""
    if not 0 < at < len(text):
        return True
    before, after = text[at - 1], text[at]
    if before.isascii() and after.isascii():
        return not (before == "\r" and after == "\n")
    if before == _JOINER or _extends(after):
        return False
    return not (_is_flag_half(before) and _is_flag_half(after) and _odd_halves_before(text, at))


def boundary(text: str, at: int, low: int) -> int:
    """The last boundary at or before ``at`` and above ``low``; ``at`` itself where none is near."""
    for place in range(at, max(low, at - _PATIENCE), -1):
        if is_boundary(text, place):
            return place
    return at


def clusters(text: str, span: Span) -> Iterator[int]:
    """The boundaries inside the span, its ends included; no two further apart than a patience."""
    start, end = span
    last = start
    yield start
    for at in range(start + 1, end):
        if is_boundary(text, at) or at - last >= _PATIENCE:
            last = at
            yield at
    yield end


@lru_cache(maxsize=4096)
def _extends(character: str) -> bool:
    """Whether this character belongs to the one before it."""
    point = ord(character)
    return (
        character == _JOINER
        or 0x1F3FB <= point <= 0x1F3FF  # skin tones
        or 0xE0020 <= point <= 0xE007F  # tags, as in the flag of Scotland
        or 0x1160 <= point <= 0x11FF  # Hangul vowels and finals
        or unicodedata.category(character).startswith("M")
    )


def _is_flag_half(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _odd_halves_before(text: str, at: int) -> bool:
    """Whether the half at ``at`` completes a flag. A longer run than the patience is torn anywhere."""
    halves = 0
    while halves < _PATIENCE and halves < at and _is_flag_half(text[at - 1 - halves]):
        halves += 1
    return halves % 2 == 1
