"""Change points: the cuts of least scatter inside the chunks, under a penalty for every chunk. Pure.

Kernel change-point detection with a linear kernel [Harchaoui & Cappé 2007; Arlot, Celisse & Harchaoui 2019],
solved exactly by dynamic programming [as PELT does, Killick et al. 2012] under a greatest size. A unit i of
the text has a unit vector x_i, smoothed with its neighbours', and k_i tokens. A chunk of K tokens costs its
token-weighted scatter, sum of k_i |x_i|^2 - |sum of k_i x_i|^2 / K, plus the penalty. All in integers.

Each cut has a weight, by which its penalty is multiplied: a cut may cost less where the text's structure has
a border. All arithmetic is exact: a weight is a whole number of thousandths. A penalty times a weight is
rounded down once, the same in every run.

The penalty decides how large chunks are. It is taken from a geometric grid; its place there is the *level*. A
document contributes to its collection [its tokens, its chunks at level 0, at level 1, ...]: these add up in
any order and subtract again. The collection's level is the first at which its mean chunk has the target's
size, or the level before it, whichever is nearer. The level is a function of the set of documents alone. A
document is due again only when the level leaves the range of levels that cut it as it is cut. That range is
found by comparing its cuts, so it holds for any weights. (With equal weights, no count of chunks grows from
one level to the next. With others the sum of the weights does not, and a count may: two cheap cuts for a dear
one.)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from ingestor.model import Sums
from ingestor.segmentation.cluster import Cuts, walk_back
from ingestor.segmentation.fixed_point import (
    SCALE_BITS,
    Fixed,
    Integers,
    blocks,
    products_by_lag,
    squares,
    sums_of_runs,
    sums_within,
    unit,
)

LEVELS = 225
WHOLE = 1000  # the weight of a cut that costs the penalty itself
DOUBLING = 16  # levels in which the penalty doubles
_LOWEST = -8  # log2 of the penalty at level 0
_ONE = 30 << (2 * SCALE_BITS)  # the penalty 1 in the units of the scatter
_NEVER = 1 << 61
_AHEAD = 1024  # rows
_BOND = 16.0  # above the penalties of all usual targets: what is bound is parted where it does not fit
_SECTION = 0.3  # for each section but the first that a chunk touches


def penalties(*numbers: float) -> Integers:
    """Return penalties in the units of the scatter. 1 is the scatter of 30 tokens that sum to nothing."""
    return np.array([round(number * _ONE) for number in numbers], dtype=np.int64)


@cache
def grid() -> Integers:
    """The penalties of all levels."""
    prices = penalties(*(2.0 ** (_LOWEST + level / DOUBLING) for level in range(LEVELS)))
    prices.flags.writeable = False
    return prices


def smooth(units: Fixed) -> Fixed:
    """Add half of either neighbour to each vector, and scale it to unit length again."""
    result = np.empty(units.shape, np.int32)
    for part in blocks(len(units)):
        total = 2 * units[part].astype(np.int64)
        low, high = max(part.start, 1), min(part.stop, len(units) - 1)
        total[low - part.start :] += units[low - 1 : part.stop - 1]
        total[: high - part.start] += units[part.start + 1 : high + 1]
        result[part] = unit(total)
    return result


def scatter(vectors: Fixed, tokens: Integers, most: int) -> Integers:
    """Return ``[i, s - 1]``: the scatter of the s units that end with unit i, if they may make a chunk.

    They may where they have at most ``most`` tokens together, and one unit always may. Shape (n, widest).
    """
    widest = _widest(tokens, most)
    mass = sums_of_runs(tokens, widest)
    alone = squares(vectors) * tokens
    before = tokens[np.maximum(np.arange(len(tokens))[:, None] - np.arange(1, widest), 0)]
    pairs = products_by_lag(vectors, widest - 1) * before * tokens[:, None]
    costs = sums_of_runs(alone, widest) - sums_within(alone * tokens, 2 * pairs) // mass
    costs[:, 1:][mass[:, 1:] > most] = _NEVER
    return costs


def add_prices(costs: Integers, bound: Sequence[bool], begins: Sequence[bool]) -> Integers:
    """Return the costs with a price for parting bound units and for joining sections.

    ``bound``: whether a unit belongs to the next one. ``begins``: whether a section begins with it.
    """
    units, widest = costs.shape
    ends = np.array(bound, np.int64) * penalties(_BOND)
    sums = np.cumsum([0, *begins])
    last = np.arange(units)[:, None]
    first = np.maximum(last - np.arange(widest), 0)
    borders = sums[last + 1] - sums[first + 1]
    prices: Integers = costs + ends[:, None] + borders * penalties(_SECTION)
    return prices


def _widest(tokens: Integers, most: int) -> int:
    """The greatest number of neighbours with at most ``most`` tokens together; 1 at least."""
    sums = np.concatenate([[0], np.cumsum(tokens)])
    first = np.searchsorted(sums, sums[1:] - most)
    return max(1, int((np.arange(1, len(sums)) - first).max(initial=1)))


@dataclass(frozen=True, slots=True, eq=False)
class Solutions:
    """The best cuts for each of several penalties."""

    sizes: npt.NDArray[np.unsignedinteger]  # [i, p]: the size of the last chunk of the first i + 1 units

    def cuts(self, which: int) -> Cuts:
        return walk_back(self.sizes[:, which].tolist())

    def counts(self) -> Integers:
        """Number of chunks that each penalty makes."""
        units, several = self.sizes.shape
        if units == 1:
            return np.ones(several, np.int64)
        ends, counts = np.full(several, units), np.zeros(several, np.int64)
        while (going := np.flatnonzero(ends)).size:
            ends[going] -= self.sizes[ends[going] - 1, going].astype(np.int64)
            counts[going] += 1
        return counts


@cache
def solve_undivided() -> Solutions:
    """Return the solutions of a single unit: one chunk at every level, as ``solve`` finds at some cost."""
    sizes = np.ones((1, LEVELS), np.uint8)
    sizes.flags.writeable = False
    return Solutions(sizes)


def solve(costs: Integers, penalties: Integers, weights: Integers | None = None) -> Solutions:
    """Return the cuts of least total cost; on a tie the cuts with the shorter last chunk, and so on
    backwards.

    ``weights``: weight of a cut after each unit, in units of 1 / WHOLE; default: WHOLE.

    Only the last of the best totals are kept, and sizes in as few bytes as possible, because a long document
    has many thousand units.
    """
    units, widest = costs.shape
    each = [WHOLE] * units if weights is None else weights.tolist()
    prices = {weight: penalties * weight // WHOLE for weight in set(each)}
    rows = min(units + 1, widest + max(widest, _AHEAD))
    best = np.zeros((rows, len(penalties)), dtype=np.int64)
    sizes = np.zeros((units, len(penalties)), dtype=np.min_scalar_type(widest))
    at = 0  # the row of ``best`` for the first ``end`` units
    for end in range(units):
        totals = best[at::-1][:widest] + costs[end, : end + 1, None]
        sizes[end] = totals.argmin(axis=0) + 1
        if at + 1 == len(best):
            best[:widest] = best[-widest:]
            at = widest - 1
        best[at + 1] = totals.min(axis=0) + prices[each[end]]
        at += 1
    return Solutions(sizes)


def contribution(tokens: Integers, solutions: Solutions) -> Sums:
    """Return a document's addend to its collection's state, from every level; shape (1 + LEVELS,)."""
    return np.concatenate([[tokens.sum()], solutions.counts()])


def level(total: Sums, target: int) -> int:
    """Return the first level at which the mean chunk has ``target`` tokens, or the previous one if it is as
    near.
    """
    tokens, *counts = total.tolist()
    above = next((at for at, count in enumerate(counts) if tokens >= target * count), LEVELS - 1)
    below = max(above - 1, 0)
    # tokens / (target * count) is at least 1 above and less below: compare the one with the other's inverse.
    return below if target**2 * counts[below] * counts[above] <= tokens**2 and above else above


def interval(solutions: Solutions, at: int) -> tuple[int, int]:
    """Return the closed range of levels around this one that give the same cuts.

    Cuts are the same if each of these chunks, examined from the last one on, has the same size.
    """
    if len(solutions.sizes) == 1:
        return 0, solutions.sizes.shape[1] - 1
    lasts = np.array(solutions.cuts(at), dtype=np.intp) - 1
    sizes = solutions.sizes[lasts]
    others = np.flatnonzero((sizes != sizes[:, at, None]).any(axis=0))
    low = others[others < at].max(initial=-1) + 1
    high = others[others > at].min(initial=sizes.shape[1]) - 1
    return int(low), int(high)
