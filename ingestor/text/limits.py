"""Applies limits in tokens to spans, and finds borders between tokens. Pure.

``maximum`` holds for every span, counted by its own text. A longer span is cut after a sentence, else at
whitespace, if possible in the second half of the text that fits. ``minimum`` is a best effort: a smaller span
joins the next span, else the previous one, unless both exceed the maximum.

A text is counted by itself, because token counts of its parts do not add up. A code point has at most four
tokens, so a maximum of four or more can be kept. Every tiktoken encoding has a border of tokens before a
space between two words, and after the newline that ends a line. The text between two borders has the same
tokens in any context.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from ingestor.text.spans import Span, boundary, break_before, trim, trim_all, union

_PIECE = 4096  # code points
_BORDER = re.compile(r"(?<=\S)(?= \S)|(?<=\S\n)(?=[^\W_])")


def pieces(text: str) -> Iterator[str]:
    """Yield the text in parts that are fast to encode; parts end at borders unless borders are rare."""
    start = 0
    while len(text) - start > _PIECE:
        border = _BORDER.search(text, start + _PIECE // 2, start + _PIECE)
        end = border.start() if border else start + _PIECE
        yield text[start:end]
        start = end
    yield text[start:]


if TYPE_CHECKING:
    from ingestor.text.tokens import Tokens

_Sized = tuple[Span, int]

SMALLEST = 4  # tokens that one code point can have


def limit(
    text: str, spans: Iterable[Span], tokens: "Tokens", minimum: int | None, maximum: int | None
) -> list[Span]:
    """Return the spans, trimmed and within the limits.

    Spans are ordered; a span inside the previous span is omitted.
    """
    kept = _beyond(trim_all(text, spans))
    if maximum is not None:
        kept = _cut(text, kept, tokens, maximum)
    if minimum is not None:
        kept = _join(text, kept, tokens, minimum, maximum)
    if minimum is not None and maximum is not None:
        kept = _cut(text, kept, tokens, maximum)  # first cut: joining relies on sums of small counts
    return kept


def count(text: str, span: Span, tokens: "Tokens") -> int:
    """Count the tokens of the span's text."""
    return tokens.count(text[span[0] : span[1]])


def windows(
    text: str, span: Span, tokens: "Tokens", size: int, overlap: int = 0, *, soft: bool = False
) -> Iterator[Span]:
    """Yield trimmed windows of at most ``size`` tokens; each repeats ``overlap`` tokens of the previous
    window.

    ``soft``: windows preferably end at whitespace. A window shrinks if its own text counts more tokens, or if
    it would split a user-perceived character.
    """
    span = trim(text, span)
    ruler = Ruler(text, span, tokens)
    start, covered = span[0], span[0]
    while start < span[1]:
        end = ruler.fit(start, size, soft)
        if end <= covered:  # the overlap left no room for new text
            start = covered
            continue
        window = trim(text, (start, end))
        if window[0] < window[1]:
            yield window
        covered = end
        again = ruler.back(end, overlap) if end < span[1] else end
        start = again if again > start else end  # an overlap as long as its window repeats nothing


class Ruler:
    """The token edges of a span, measured once."""

    def __init__(self, text: str, span: Span, tokens: "Tokens") -> None:
        start, self.end = span
        self.edges: Sequence[int] = (start + tokens.offsets(text[start : self.end])).tolist()
        self.text, self.tokens = text, tokens

    def index(self, at: int) -> int:
        """Count the tokens that begin before ``at``."""
        return bisect_left(self.edges, at)

    def size(self, span: Span) -> int:
        """Count the tokens of a span, as the whole text is tokenized."""
        return self.index(span[1]) - self.index(span[0])

    def at(self, index: int) -> int:
        """Return where the token of an index begins; the text's end for an index beyond the last."""
        return self.edges[index] if index < len(self.edges) else self.end

    def past(self, start: int, size: int) -> int:
        """Return the first token edge at least ``size`` tokens after ``start``; else the end.

        Several tokens may begin at one character, so an index is no distance.
        """
        edge = self.at(self.index(start) + size)
        enough = self.size((start, edge)) >= size
        return edge if enough or edge == self.end else self.at(bisect_right(self.edges, edge))

    def fit(self, start: int, size: int, soft: bool) -> int:
        """Return the furthest good end for a window of ``size`` tokens from ``start``."""
        end = self._edge(self.index(start) + size, start, soft)
        while end > start + 1:
            excess = count(self.text, trim(self.text, (start, end)), self.tokens) - size
            if excess <= 0:
                break
            end = self._edge(self.index(end) - excess, start, soft)
        return end

    def back(self, end: int, overlap: int) -> int:
        """Return the start of a window that repeats ``overlap`` tokens before ``end``."""
        if not overlap:
            return end
        edge = self.at(max(self.index(end) - overlap, 0))
        return boundary(self.text, edge, -1)

    def _edge(self, index: int, start: int, soft: bool) -> int:
        """Return the token edge of that index, moved back to a good place to cut above ``start``."""
        if index >= len(self.edges):
            return self.end
        edge = max(self.at(max(index, 0)), start + 1)
        if soft and (place := break_before(self.text, edge, (start + edge) // 2)):
            return place
        return boundary(self.text, edge, start)


def _beyond(spans: list[Span]) -> list[Span]:
    """Return the spans that end after all previous spans."""
    reached = accumulate((end for _, end in spans), max, initial=-1)
    return [span for span, before in zip(spans, reached, strict=False) if span[1] > before]


def _cut(text: str, spans: list[Span], tokens: "Tokens", maximum: int) -> list[Span]:
    """Cut spans over the maximum, then drop nested parts: overlapping spans may give nested parts."""
    counts = tokens.counts([text[start:end] for start, end in spans])
    kept: list[Span] = []
    for span, size in zip(spans, counts, strict=True):
        kept.extend([span] if size <= maximum else windows(text, span, tokens, maximum, soft=True))
    return _beyond(sorted(kept))


def _join(text: str, spans: list[Span], tokens: "Tokens", minimum: int, maximum: int | None) -> list[Span]:
    kept: list[_Sized] = []
    for now in zip(spans, tokens.counts([text[start:end] for start, end in spans]), strict=True):
        if kept and kept[-1][1] < minimum:
            both = _join_if_fits(text, kept[-1], now, tokens, minimum, maximum)
            if both:
                kept[-1] = both
                continue
            _join_back(text, kept, tokens, minimum, maximum)
        kept.append(now)
    if kept and kept[-1][1] < minimum:
        _join_back(text, kept, tokens, minimum, maximum)
    return [span for span, _ in kept]


def _join_back(text: str, kept: list[_Sized], tokens: "Tokens", minimum: int, maximum: int | None) -> None:
    if len(kept) > 1 and (both := _join_if_fits(text, kept[-2], kept[-1], tokens, minimum, maximum)):
        kept[-2:] = [both]


def _join_if_fits(
    text: str, first: _Sized, second: _Sized, tokens: "Tokens", minimum: int, maximum: int | None
) -> _Sized | None:
    """Join two spans if the result keeps the maximum; return it with its size."""
    both = union(first[0], second[0])
    size = first[1] + second[1] + max(second[0][0] - first[0][1], 0)  # rarely below the real count
    if size >= minimum:
        size = count(text, both, tokens)
    return (both, size) if maximum is None or size <= maximum else None


def pack(
    text: str,
    units: Sequence[Span],
    tokens: "Tokens",
    max_tokens: int | None,
    most: int | None = None,
    overlap: int = 0,
) -> Iterator[Span]:
    """Yield windows of up to ``most`` units; each begins ``overlap`` units before the previous window's end.

    Sizes are sums over the units with the whitespace before each. Sums are not exact: pass the result through
    ``limit`` to enforce a limit.

    A window ends early rather than exceed ``max_tokens``, and repeats fewer units if the new unit needs the
    room. A unit that exceeds the limit is a window by itself.
    """
    sums = list(accumulate(sizes(text, units, tokens), initial=0))
    room = sums[-1] if max_tokens is None else max_tokens
    count = len(units) if most is None else most
    first, end = 0, 0  # the window is units[first:end]
    while end < len(units):
        while first < end and sums[end + 1] - sums[first] > room:
            first += 1
        end += 1
        while end < len(units) and end - first < count and sums[end + 1] - sums[first] <= room:
            end += 1
        yield units[first][0], units[end - 1][1]
        first = max(end - overlap, first + 1)


def sizes(text: str, units: Sequence[Span], tokens: "Tokens") -> list[int]:
    """Count the tokens of each unit with the whitespace before it, as words are encoded in a text."""
    starts = [start for start, _ in units[:1]] + [end for _, end in units[:-1]]
    return tokens.counts([text[start:end] for start, (_, end) in zip(starts, units, strict=True)])
