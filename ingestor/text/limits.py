"""Applies limits in tokens to spans, and finds places at which a text can be tokenized in parts. Pure.

``maximum`` holds for every span, by the tokens of its own text. A longer span is cut after a sentence, else
at white space, if possible in the second half of the text that fits. ``minimum`` is a best effort: a smaller
span is joined with the next span, else with the previous one, unless both together exceed the maximum.

The text of a span is counted by itself, because the counts of its parts do not add up. A code point has at
most four tokens, so any maximum from four on can be kept. In every tiktoken encoding, a token ends before a
space between two words, and after the newline that ends a line. Such a place is a *border*: the text between
two borders has the same tokens in any context.
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
    """Yield pieces of a text that are fast to tokenize. They end at borders, unless these are far apart."""
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
    """Return the spans trimmed and within the limits, by dividing and joining them.

    ``spans``: in order; a span inside the previous span is omitted.
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
    """Count the tokens of a span's text."""
    return tokens.count(text[span[0] : span[1]])


def windows(
    text: str, span: Span, tokens: "Tokens", size: int, overlap: int = 0, *, soft: bool = False
) -> Iterator[Span]:
    """Yield trimmed windows of at most ``size`` tokens; each repeats ``overlap`` tokens of the previous one.

    ``soft``: whether windows end at white space if possible. A window shrinks if its own text has more tokens
    than in its context, or if it would split a user-perceived character.
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
    """The token edges of a span: the offsets at which its tokens begin, computed once."""

    def __init__(self, text: str, span: Span, tokens: "Tokens") -> None:
        start, self.end = span
        self.edges: Sequence[int] = (start + tokens.offsets(text[start : self.end])).tolist()
        self.text, self.tokens = text, tokens

    def index(self, at: int) -> int:
        """Count the tokens that begin before offset ``at``."""
        return bisect_left(self.edges, at)

    def size(self, span: Span) -> int:
        """Count the tokens of a span as they are in the whole text."""
        return self.index(span[1]) - self.index(span[0])

    def at(self, index: int) -> int:
        """Return the offset at which token ``index`` begins; the text's end beyond the last token."""
        return self.edges[index] if index < len(self.edges) else self.end

    def past(self, start: int, size: int) -> int:
        """Return the first token edge at least ``size`` tokens after ``start``, or the end of the text.

        Several tokens may begin inside one character, so the difference of two indices is not a number of
        tokens.
        """
        edge = self.at(self.index(start) + size)
        enough = self.size((start, edge)) >= size
        return edge if enough or edge == self.end else self.at(bisect_right(self.edges, edge))

    def fit(self, start: int, size: int, soft: bool) -> int:
        """Return the best end, as far as possible from ``start``, of a window with at most ``size`` tokens.

        ``soft``: whether a window ends at white space if possible.
        """
        end = self._edge(self.index(start) + size, start, soft)
        while end > start + 1:
            excess = count(self.text, trim(self.text, (start, end)), self.tokens) - size
            if excess <= 0:
                break
            end = self._edge(self.index(end) - excess, start, soft)
        return end

    def back(self, end: int, overlap: int) -> int:
        """Return the start of a window that repeats the ``overlap`` tokens before ``end``."""
        if not overlap:
            return end
        edge = self.at(max(self.index(end) - overlap, 0))
        return boundary(self.text, edge, -1)

    def _edge(self, index: int, start: int, soft: bool) -> int:
        """Return the offset of token ``index``, moved back to a good place to cut after ``start``."""
        if index >= len(self.edges):
            return self.end
        edge = max(self.at(max(index, 0)), start + 1)
        if soft and (place := break_before(self.text, edge, (start + edge) // 2)):
            return place
        return boundary(self.text, edge, start)


def _beyond(spans: list[Span]) -> list[Span]:
    """Return the spans that end after all previous spans, so that no span is inside another."""
    reached = accumulate((end for _, end in spans), max, initial=-1)
    return [span for span, before in zip(spans, reached, strict=False) if span[1] > before]


def _cut(text: str, spans: list[Span], tokens: "Tokens", maximum: int) -> list[Span]:
    """Cut the spans that exceed the maximum into windows, and drop windows that are inside another span."""
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
    """Return two spans joined, with the number of tokens; None if together they exceed the maximum."""
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
    """Yield windows of up to ``most`` units and ``max_tokens`` tokens; each repeats ``overlap`` units.

    ``overlap``: number of units to repeat; fewer are repeated if a new unit needs the room. A unit over the
    limit is a window by itself.

    Tokens are summed over units, each with the white space before it. Such a sum is not exact: pass the
    result through ``limit`` to enforce a limit.
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
    """Count the tokens of each unit, with the white space before it, as in running text."""
    starts = [start for start, _ in units[:1]] + [end for _, end in units[:-1]]
    return tokens.counts([text[start:end] for start, (_, end) in zip(starts, units, strict=True)])
