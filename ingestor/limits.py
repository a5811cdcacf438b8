"""Limits in tokens for any list of spans. Pure.

``maximum`` always holds, for the text of every span as it is counted by itself: an over-long span is cut,
at whitespace where there is some in the second half of what fits. ``minimum`` is a best effort: a
smaller span joins the next one, else the one before it, unless the two together exceed the maximum.

A count is that of the very text (token counts do not add up: a text may have more or fewer tokens than its
parts have together). A code point has at most four tokens, so a maximum of four or more can be kept.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from ingestor.spans import Span, boundary, trim, trimmed, union

if TYPE_CHECKING:
    from ingestor.tokens import Tokens

SMALLEST = 4  # tokens that one code point can have

_STOPS = frozenset("。！？．，、；：")  # after these a text without spaces is best cut


def limit(
    text: str, spans: Iterable[Span], tokens: "Tokens", minimum: int | None, maximum: int | None
) -> list[Span]:
    """The spans, trimmed and ordered as given, with the limits held."""
    kept = trimmed(text, spans)
    if maximum is not None:
        kept = _cut(text, kept, tokens, maximum)
    if minimum is not None:
        kept = _joined(text, kept, tokens, minimum, maximum)
    return kept


def count(text: str, span: Span, tokens: "Tokens") -> int:
    """Tokens of the span's text."""
    return tokens.count(text[span[0] : span[1]])


def windows(
    text: str, span: Span, tokens: "Tokens", size: int, overlap: int = 0, *, soft: bool = False
) -> Iterator[Span]:
    """Trimmed windows of at most ``size`` tokens, each repeating ``overlap`` tokens of the one before.

    ``soft`` windows rather end at whitespace. A window shrinks where the tokens at its edges count
    for more than they did inside the text, and where it would tear a user-perceived character.
    """
    ruler = _Ruler(text, span, tokens)
    start, covered = span[0], span[0]
    while start < span[1]:
        end = ruler.fit(start, size, soft)
        if end <= covered:  # the overlap left no room for anything new
            start = covered
            continue
        yield from trimmed(text, [(start, end)])
        covered = end
        start = max(ruler.back(end, overlap), start + 1) if end < span[1] else end


class _Ruler:
    """The token edges of a span, measured once."""

    def __init__(self, text: str, span: Span, tokens: "Tokens") -> None:
        start, self.end = span
        starts: Iterable[int] = tokens.offsets(text[start : self.end])
        self.edges: Sequence[int] = [start + int(at) for at in starts]
        self.text, self.tokens = text, tokens

    def fit(self, start: int, size: int, soft: bool) -> int:
        """The furthest good end for a window of ``size`` tokens from ``start``."""
        end = self._edge(bisect_left(self.edges, start) + size, start, soft)
        while end > start + 1 and (excess := self._count(start, end) - size) > 0:
            end = self._edge(bisect_left(self.edges, end) - excess, start, soft)
        return end

    def back(self, end: int, overlap: int) -> int:
        """Where a window begins that repeats ``overlap`` tokens before ``end``."""
        if not overlap:
            return end
        edge = self.edges[max(bisect_left(self.edges, end) - overlap, 0)]
        return boundary(self.text, edge, edge - 8)

    def _count(self, start: int, end: int) -> int:
        return count(self.text, trim(self.text, (start, end)), self.tokens)

    def _edge(self, index: int, start: int, soft: bool) -> int:
        """Above ``start``: the token edge of that index, moved back to a good place to cut."""
        if index >= len(self.edges):
            return self.end
        edge = max(self.edges[max(index, 0)], start + 1)
        if soft and (place := _break_before(self.text, edge, start)):
            return place
        return boundary(self.text, edge, start)


def _break_before(text: str, end: int, start: int) -> int | None:
    """The last place between words in the second half of the stretch."""
    for at in range(end, start + (end - start) // 2, -1):
        if text[at].isspace() or text[at - 1].isspace() or text[at - 1] in _STOPS:
            return at
    return None


def _cut(text: str, spans: list[Span], tokens: "Tokens", maximum: int) -> list[Span]:
    counts = tokens.counts([text[start:end] for start, end in spans])
    kept: list[Span] = []
    for span, size in zip(spans, counts, strict=True):
        kept.extend([span] if size <= maximum else windows(text, span, tokens, maximum, soft=True))
    return kept


def _joined(text: str, spans: list[Span], tokens: "Tokens", minimum: int, maximum: int | None) -> list[Span]:
    kept: list[tuple[Span, int]] = []
    for span, size in zip(spans, tokens.counts([text[start:end] for start, end in spans]), strict=True):
        if kept and kept[-1][1] < minimum:
            both = _fitting(text, kept[-1][0], span, tokens, maximum)
            if both:
                kept[-1] = both
                continue
            _join_back(text, kept, tokens, maximum)
        kept.append((span, size))
    if kept and kept[-1][1] < minimum:
        _join_back(text, kept, tokens, maximum)
    return [span for span, _ in kept]


def _join_back(text: str, kept: list[tuple[Span, int]], tokens: "Tokens", maximum: int | None) -> None:
    if len(kept) > 1 and (both := _fitting(text, kept[-2][0], kept[-1][0], tokens, maximum)):
        kept[-2:] = [both]


def _fitting(
    text: str, first: Span, second: Span, tokens: "Tokens", maximum: int | None
) -> tuple[Span, int] | None:
    """The two as one, with its size, if that keeps the maximum."""
    both = union(first, second)
    size = count(text, both, tokens)
    return (both, size) if maximum is None or size <= maximum else None
