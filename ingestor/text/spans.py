r"""Operations on spans of a text, which are half-open pairs of code-point offsets. Pure.

A *boundary* is a place between two extended grapheme clusters of Unicode (UAX 29), found by the ``\X`` of the
library ``regex``. A cut at a boundary splits no user-perceived character, except a cluster longer than 32
code points.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from operator import itemgetter

from ingestor.model import Chunk, Scalar

Span = tuple[int, int]

_PATIENCE = 32  # code points; a longer cluster is split
_MANY_FLAGS = 1000  # halves
_HALF = "[\U0001f1e6-\U0001f1ff]"  # of a flag
# The first alternative only saves time: within a run of flags, each ``\X`` reads the run from its start.
_CLUSTER = rf"{_HALF}{{2}}(?={_HALF})|\X"
_STOPS = frozenset("。！？．，、；：")  # scripts without spaces are cut after these
_ENDS = frozenset(".!?…")


def trim(text: str, span: Span) -> Span:
    """Return a span without white space at its ends; an empty one at its start if nothing is left."""
    start, end = span
    if start < end and not (text[start].isspace() or text[end - 1].isspace()):
        return span
    part = text[start:end]
    body = part.lstrip()
    if not body:
        return start, start
    start += len(part) - len(body)
    return start, start + len(body.rstrip())


def trim_all(text: str, spans: Iterable[Span]) -> list[Span]:
    """Return the spans trimmed, without those of white space only."""
    cut = (trim(text, span) for span in spans)
    return [(start, end) for start, end in cut if end > start]


def union(first: Span, second: Span) -> Span:
    """Return the smallest span that contains two spans."""
    return min(first[0], second[0]), max(first[1], second[1])


def between(edges: Sequence[int]) -> list[Span]:
    """Return the spans between consecutive offsets."""
    return list(pairwise(edges))


def split(span: Span, cuts: Iterable[int]) -> list[Span]:
    """Return the parts of a span, cut at those of the ascending ``cuts`` that lie inside it."""
    inside = [cut for cut in cuts if span[0] < cut < span[1]]
    return between([span[0], *inside, span[1]])


def inside(spans: Sequence[Span], whole: Span) -> list[Span]:
    """Return the spans that overlap with ``whole``, cut off at its ends. ``spans``: in order."""
    start, end = whole
    first = bisect_right(spans, start, key=itemgetter(1))
    last = bisect_left(spans, end, key=itemgetter(0))
    return [(max(low, start), min(high, end)) for low, high in spans[first:last]]


def owner(starts: Sequence[int], at: int) -> int:
    """Return the number of the range that contains the offset ``at``; -1 before the first range.

    ``starts``: starts of the ranges, ascending.
    """
    return bisect_right(starts, at) - 1


def chunks(text: str, spans: Iterable[Span], extra: tuple[tuple[str, Scalar], ...] = ()) -> tuple[Chunk, ...]:
    """Return a chunk for each span, in order, with the metadata ``extra``."""
    return tuple(Chunk(start, end, text[start:end], extra=extra) for start, end in spans)


def is_boundary(text: str, at: int) -> bool:
    """Return whether a text may be cut before the code point at ``at``; its ends are boundaries."""
    if not 0 < at < len(text):
        return True
    before, after = text[at - 1], text[at]
    if before.isascii() and after.isascii():
        return not (before == "\r" and after == "\n")
    start = max(0, at - _PATIENCE)
    if _is_flag_half(after):  # flags are pairs, counted from the first half of a run
        start = at
        while start > max(0, at - _MANY_FLAGS) and _is_flag_half(text[start - 1]):
            start -= 1
    return any(end == at for _, end in _grapheme_clusters(text, start, at + 1))


def _grapheme_clusters(text: str, start: int, end: int) -> Iterator[Span]:
    import regex  # here, since most commands cut no text

    return (match.span() for match in regex.compile(_CLUSTER).finditer(text, start, end))


def boundary(text: str, at: int, low: int) -> int:
    """Return the last boundary at or before ``at`` and after ``low``; ``at`` itself if none is near."""
    for place in range(at, max(low, at - _PATIENCE), -1):
        if is_boundary(text, place):
            return place
    return at


def break_before(text: str, end: int, low: int) -> int | None:
    """Return the last end of a sentence after ``low`` and at or before ``end``; else the last end of a word.

    The result is a boundary; None if the range has no end of a word.
    """
    between_words = None
    for at in range(end, low, -1):
        before = text[at - 1]
        if before in _STOPS or (text[at].isspace() and before in _ENDS):
            if is_boundary(text, at):
                return at
        elif between_words is None and (text[at].isspace() or before.isspace()) and is_boundary(text, at):
            between_words = at
    return between_words


def by_characters(
    text: str, span: Span, size: int, overlap: int = 0, *, soft: bool = False
) -> Iterator[Span]:
    """Yield windows of at most ``size`` code points, not trimmed. Each repeats the last ``overlap`` ones.

    ``soft``: whether windows end between words if possible.
    """
    start, covered = span[0], span[0]
    while covered < span[1]:
        end = min(start + size, span[1])
        place = break_before(text, end, (start + end) // 2) if soft and end < span[1] else None
        end = place or boundary(text, end, start)
        if end > covered:
            yield start, end
            again = boundary(text, end - overlap, start)
            start, covered = (again if again > start else end), end
        else:  # the overlap left no room for new text
            start = covered


def clusters(text: str, span: Span) -> Iterator[int]:
    """Yield the boundaries in a span, and its ends. A cluster over 32 code points is divided."""
    start, end = span
    yield start
    for first, last in _grapheme_clusters(text, start, end):
        yield from range(first + _PATIENCE, last, _PATIENCE)
        if last < end:
            yield last
    yield end


def _is_flag_half(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"
