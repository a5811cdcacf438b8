"""Spans of a text: half-open pairs of code-point offsets. Pure.

A *boundary* is a place where a text may be cut without tearing a user-perceived character: not before a
combining mark, a variation selector, an emoji modifier or a tag, not at either side of a joiner, not
between CR and LF, and not inside a flag. This is the cheap part of Unicode's grapheme rules (UAX 29).
"""

import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from operator import itemgetter

from ingestor.model import Chunk, Scalar

Span = tuple[int, int]

_JOINER = "\u200d"
_PATIENCE = 32  # code points; a longer run of joined ones is torn rather than searched
_MANY_FLAGS = 1000  # halves
_STOPS = frozenset("。！？．，、；：")  # scripts without spaces are cut after these
_ENDS = frozenset(".!?…")


def trim(text: str, span: Span) -> Span:
    """The span less the whitespace at both ends; empty at its start when nothing else is there."""
    start, end = span
    if start < end and not (text[start].isspace() or text[end - 1].isspace()):
        return span
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


def inside(spans: Sequence[Span], whole: Span) -> list[Span]:
    """Those of the ordered spans that meet ``whole``, clipped to it."""
    start, end = whole
    first = bisect_right(spans, start, key=itemgetter(1))
    last = bisect_left(spans, end, key=itemgetter(0))
    return [(max(low, start), min(high, end)) for low, high in spans[first:last]]


def owner(starts: Sequence[int], at: int) -> int:
    """Which of the stretches that begin at the ascending ``starts`` holds ``at``; -1 before the first."""
    return bisect_right(starts, at) - 1


def chunks(text: str, spans: Iterable[Span], extra: tuple[tuple[str, Scalar], ...] = ()) -> tuple[Chunk, ...]:
    """One chunk a span, in order."""
    return tuple(Chunk(start, end, text[start:end], extra=extra) for start, end in spans)


def is_boundary(text: str, at: int) -> bool:
    """Whether ``text`` may be cut before the code point ``at``; its ends are boundaries."""
    if not 0 < at < len(text):
        return True
    before, after = text[at - 1], text[at]
    return not (_joined(before, after) or (_is_flag_half(after) and _odd_halves_before(text, at)))


def boundary(text: str, at: int, low: int) -> int:
    """The last boundary at or before ``at`` and above ``low``; ``at`` itself where none is near."""
    for place in range(at, max(low, at - _PATIENCE), -1):
        if is_boundary(text, place):
            return place
    return at


def break_before(text: str, end: int, low: int) -> int | None:
    """At or before ``end``, above ``low``: the last sentence's end, else the last place between words."""
    between_words = None
    for at in range(end, low, -1):
        before = text[at - 1]
        if before in _STOPS or (text[at].isspace() and before in _ENDS):
            return at
        if between_words is None and (text[at].isspace() or before.isspace()):
            between_words = at
    return between_words


def by_characters(
    text: str, span: Span, size: int, overlap: int = 0, *, soft: bool = False
) -> Iterator[Span]:
    """Windows of at most ``size`` code points, untrimmed; ``soft`` ones end between words where they can."""
    start, covered = span[0], span[0]
    while covered < span[1]:
        end = min(start + size, span[1])
        place = break_before(text, end, (start + end) // 2) if soft and end < span[1] else None
        end = place or boundary(text, end, start)
        if end > covered:
            yield start, end
            start, covered = max(boundary(text, end - overlap, start), start + 1), end
        else:  # the overlap left no room for anything new
            start = covered


def clusters(text: str, span: Span) -> Iterator[int]:
    """The boundaries inside the span, its ends included; no two further apart than a patience."""
    start, end = span
    last = start
    yield start
    for at in range(start + 1, end):
        before, after = text[at - 1], text[at]
        flag = at - 1 == last and _is_flag_half(before) and _is_flag_half(after)
        if not (flag or _joined(before, after)) or at - last >= _PATIENCE:
            last = at
            yield at
    yield end


def _joined(before: str, after: str) -> bool:
    if before.isascii() and after.isascii():
        return before == "\r" and after == "\n"
    return before == _JOINER or _extends(after)


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
    """Whether the half at ``at`` completes a flag. Beyond many flags in a row it is a guess."""
    start = at
    while start > max(0, at - _MANY_FLAGS) and _is_flag_half(text[start - 1]):
        start -= 1
    return (at - start) % 2 == 1
