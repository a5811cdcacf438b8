"""Packing neighbouring units into spans of a limited size. Pure.

Sizes are sums over the units, each with the whitespace before it. Counts do not quite add up, so a caller
that promises a limit passes the result through ``limits.limit``.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from ingestor.text.spans import Span

if TYPE_CHECKING:
    from ingestor.text.tokens import Tokens


def pack(
    text: str,
    units: Sequence[Span],
    tokens: "Tokens",
    max_tokens: int | None,
    most: int | None = None,
    overlap: int = 0,
) -> Iterator[Span]:
    """Windows of up to ``most`` units, each beginning ``overlap`` units before the last one's end.

    A window ends early rather than exceed ``max_tokens``, and repeats fewer units if the new unit needs the
    room. A unit that alone exceeds the limit is a window.
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
    """Tokens of each unit with the whitespace before it, for that is how words are encoded in a text."""
    starts = [start for start, _ in units[:1]] + [end for _, end in units[:-1]]
    return tokens.counts([text[start:end] for start, (_, end) in zip(starts, units, strict=True)])
