"""Exact mean similarity of the pieces of a collection, and the best cuts of a document for this mean. Pure.

The method is ClusterSemanticChunker [Smith & Troynikov, "Evaluating Chunking Strategies for Retrieval",
Chroma technical report, 2024]. A segment of s <= L consecutive pieces has the reward 2 (sum of e_i . e_j - m)
over its pairs. Here m is the mean of e_i . e_j over all pairs of the collection. The segmentation with the
greatest total reward is chosen. The report does not define how m changes when documents are added or removed.
This module defines:

*State.* A document contributes [N, sum of |e_i|^2, sum of e_i] in integers (segmentation/fixed_point.py).
Contributions add up to [N, Q, S] in any order, and can be subtracted. So the state depends only on the set of
documents.

*Value.* m = (|S|^2 - Q) / (N (N - 1)), an exact rational, rounded down to a multiple of 2^-36. M is this
number of multiples.

*Cuts.* Rewards are integers. With A = 2 (sum of products) and B = sum of s (s - 1), a segmentation has the
reward A 2^8 - M B. Of equal totals, the shorter last segment wins, then the shorter segment before it.

*Interval.* As a function of M, the reward of each segmentation is a straight line. So the best total is the
upper envelope of these lines, which is convex, and one segmentation stays best on a closed interval of
integers. Newton steps from outside find the interval.

The same cuts are best on all of the interval. Strictly inside, the current line touches no other line. Among
segmentations with one line, the order does not depend on M.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import add

import numpy as np
import numpy.typing as npt

from ingestor.model import Sums
from ingestor.segmentation.fixed_point import (
    SCALE_BITS,
    Fixed,
    Integers,
    products_by_lag,
    squares,
    sums_within,
)

MEAN_BITS = 36  # the mean is a multiple of 2^-36
FARTHEST = 1 << (MEAN_BITS + 1)  # beyond any mean of products of unit vectors
_SHIFT = MEAN_BITS - 2 * SCALE_BITS
_NEVER = -(1 << 62)
_LARGEST = 1 << 25  # of n L: totals of all segmentations then fit in 64 bits

Segment = tuple[int, int]  # pieces [first, end)
Cuts = tuple[int, ...]  # the exclusive ends of the segments, ascending; the last is the number of pieces


def contribution(pieces: Fixed) -> Sums:
    """Return a document's addend to its collection's sums (see *State* above); shape (2 + dimensions,)."""
    return np.concatenate([[len(pieces), squares(pieces).sum()], pieces.sum(axis=0)])


def mean(total: Sums) -> int:
    """Return the mean product of two different pieces, in units of 2^-36, rounded down; 0 for fewer than two.

    ``total``: sum of all contributions.
    """
    pieces, square = int(total[0]), int(total[1])
    if pieces < 2:
        return 0
    length = sum(x * x for x in total[2:].tolist())  # exceeds 64 bits in a large collection
    value: int = ((length - square) << _SHIFT) // (pieces * (pieces - 1))
    return max(-FARTHEST, min(FARTHEST, value))


def segments(cuts: Cuts) -> Iterator[Segment]:
    """Return the segments between the cuts, in order."""
    return zip((0, *cuts), cuts, strict=False)


@dataclass(frozen=True, slots=True, eq=False)
class Programme:
    """The dynamic programme for the best cuts of a document, which takes O(n L) memory.

    It takes O(n L) time for each mean. ``gains[i, s - 1]``: the value A of the segment of s pieces that ends
    with piece i. ``allowed``: in the same shape, whether the segment may be chosen; a single piece always
    may.
    """

    gains: Integers
    allowed: npt.NDArray[np.bool_]

    def cuts(self, value: int) -> Cuts:
        """Return the best cuts if the mean is ``value``, in units of 2^-36."""
        return walk_back(self._last_sizes(value))

    def interval(self, value: int, cuts: Cuts) -> tuple[int, int]:
        """Return the least and the greatest mean for which the same cuts are the best.

        ``cuts``: the best cuts for the mean ``value``.
        """
        if not cuts:
            return -FARTHEST, FARTHEST
        below, above = self._outer_bounds(value, cuts)
        return self._edge(below, value, cuts), self._edge(above, value, cuts)

    def _edge(self, bound: int, value: int, cuts: Cuts) -> int:
        """Return the mean farthest from ``value``, towards ``bound``, for which ``cuts`` are the best."""
        gain, pairs = self._line(cuts)
        while (rival := self.cuts(bound)) != cuts:
            assert bound != value, "these are not the cuts of value"
            rival_gain, rival_pairs = self._line(rival)
            # The two lines cross between value and bound; beyond the crossing the rival earns more.
            rise, run = (gain - rival_gain) << _SHIFT, pairs - rival_pairs
            if bound > value:
                bound = max(value, min(rise // run, bound - 1))
            else:
                bound = min(value, max(-(-rise // run), bound + 1))
        return bound

    def _outer_bounds(self, value: int, cuts: Cuts) -> tuple[int, int]:
        """Return bounds below and above the interval of ``cuts``, so that ``_edge`` starts near its result.

        They follow from rivals of ``cuts``. A rival equals ``cuts`` from the end of some segment on. There it
        has a segment of any other size, and before that the best cuts.
        """
        ends, sizes = np.array(cuts)[:, None], np.arange(1, self.gains.shape[1] + 1)
        gain, pairs = self._prefix_lines(value)
        before = np.maximum(ends - sizes, 0)
        rise = (gain[ends] - gain[before] - self.gains[ends[:, 0] - 1]) << _SHIFT
        run = pairs[ends] - pairs[before] - sizes * (sizes - 1)
        possible = (sizes <= ends) & self.allowed[ends[:, 0] - 1]
        above, below = possible & (run > 0), possible & (run < 0)
        return (
            int(np.max(-(rise[below] // -run[below]), initial=-FARTHEST)),
            int(np.min(rise[above] // run[above], initial=FARTHEST)),
        )

    def _prefix_lines(self, value: int) -> tuple[Integers, Integers]:
        """Return A and B of the best segmentation of the first i pieces, for each i; shapes (n + 1,)."""
        sizes = self._last_sizes(value)
        gains = self.gains[np.arange(len(sizes)), np.array(sizes) - 1].tolist()
        gain, pairs = [0], [0]
        for end, (size, last) in enumerate(zip(sizes, gains, strict=True), start=1):
            gain.append(gain[end - size] + last)
            pairs.append(pairs[end - size] + size * (size - 1))
        return np.array(gain), np.array(pairs)

    def _line(self, cuts: Cuts) -> tuple[int, int]:
        """Return A and B of a segmentation, which give its reward for any mean (see *Cuts* above)."""
        ends = np.array(cuts)
        sizes = np.diff(ends, prepend=0)
        return int(self.gains[ends - 1, sizes - 1].sum()), int((sizes * (sizes - 1)).sum())

    def _last_sizes(self, value: int) -> list[int]:
        sizes = np.arange(1, self.gains.shape[1] + 1)
        rewards = np.where(self.allowed, (self.gains << _SHIFT) - value * (sizes * (sizes - 1)), _NEVER)
        return last_sizes(rewards.tolist())


def programme(pieces: Fixed, longest: int, allowed: npt.NDArray[np.bool_] | None = None) -> Programme:
    """Return the dynamic programme of a document. Raises ValueError if n L is 2^25 or more.

    ``longest``: L, the most pieces of a segment. ``allowed``: segments that may be chosen, shape (n, at least
    L); None for all.
    """
    longest = max(1, min(longest, len(pieces)))
    if len(pieces) * longest >= _LARGEST:
        raise ValueError(
            f"{len(pieces)} text units are too many to compare in chunks of up to {longest} units"
        )
    gains = 2 * sums_within(np.zeros(len(pieces), dtype=np.int64), products_by_lag(pieces, longest - 1))
    return Programme(gains, np.ones(gains.shape, dtype=np.bool_) if allowed is None else allowed[:, :longest])


def last_sizes(rewards: Sequence[Sequence[int]]) -> list[int]:
    """Return, for i = 1 to n, the size of the last segment in the best segmentation of the first i pieces.

    The greatest total reward is best. Of equal totals, the shorter last segment wins, then the shorter one
    before. ``rewards[i][s - 1]``: reward of the segment of s pieces that ends with piece i.
    """
    best, sizes = [0], []
    for row in rewards:
        totals = list(map(add, best[: -len(row) - 1 : -1], row))
        best.append(max(totals))
        sizes.append(totals.index(best[-1]) + 1)
    return sizes


def walk_back(sizes: Sequence[int]) -> Cuts:
    """Return the ends of all segments, found from the last one back. ``sizes``: result of ``last_sizes``."""
    ends, end = [], len(sizes)
    while end:
        ends.append(end)
        end -= sizes[end - 1]
    return tuple(reversed(ends))
