"""Change points: cuts with the least variance inside the chunks, under a penalty for every chunk. Pure.

The method is kernel change-point detection with a linear kernel [Harchaoui & Cappé 2007; Arlot, Celisse &
Harchaoui 2019]. Dynamic programming [as in PELT, Killick et al. 2012] solves it exactly, with a limit on the
size of a chunk. Unit i of the text has k_i tokens and a unit vector x_i, which is smoothed with its
neighbours'. A chunk of K tokens costs its token-weighted scatter, sum of k_i |x_i|^2 - |sum of k_i x_i|^2 /
K, plus the penalty. All numbers are integers.

Each cut has a weight that multiplies its penalty, so that a cut costs less at a border of the text's
structure. A weight is a whole number of thousandths. A penalty times a weight is rounded down once, the same
in every run.

The penalty decides how large chunks are. It is a point of a geometric grid; the index of the point is the
*level*. A document contributes [its tokens, its chunks at level 0, at level 1, ...] to its collection.
Contributions add up in any order and can be subtracted. The collection's level is the first at which its mean
chunk has the target size, or the previous level, whichever is nearer to the target. So the level depends only
on the set of documents. A document is cut again only when the level leaves the range in which its cuts stay
the same. This range is found by comparing cuts, so it is right for any weights.

With equal weights, the number of chunks never grows from one level to the next. With other weights it may:
two cheap cuts can replace an expensive one.
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
WHOLE = 1000  # weight of a cut that costs exactly the penalty
DOUBLING = 16  # levels in which the penalty doubles
_LOWEST = -8  # log2 of the penalty at level 0
_ONE = 30 << (2 * SCALE_BITS)  # the penalty 1 in the units of the scatter
_NEVER = 1 << 61
_AHEAD = 1024  # rows
_BOND = (
    16.0  # above the penalties of usual targets, so that bound units are separated only if they do not fit
)
_SECTION = 0.3  # price for each further section that a chunk touches


def penalties(*numbers: float) -> Integers:
    """Return penalties in units of the scatter.

    The penalty 1 is the scatter of 30 tokens whose vectors sum to zero.
    """
    return np.array([round(number * _ONE) for number in numbers], dtype=np.int64)


@cache
def grid() -> Integers:
    """Return the penalty of each level."""
    prices = penalties(*(2.0 ** (_LOWEST + level / DOUBLING) for level in range(LEVELS)))
    prices.flags.writeable = False
    return prices


def smooth(units: Fixed) -> Fixed:
    """Return each vector plus half of each neighbour, scaled to unit length; shape (n, dimensions)."""
    result = np.empty(units.shape, np.int32)
    for part in blocks(len(units)):
        total = 2 * units[part].astype(np.int64)
        low, high = max(part.start, 1), min(part.stop, len(units) - 1)
        total[low - part.start :] += units[low - 1 : part.stop - 1]
        total[: high - part.start] += units[part.start + 1 : high + 1]
        result[part] = unit(total)
    return result


def scatter(vectors: Fixed, tokens: Integers, most: int) -> Integers:
    """Return the scatter of each possible chunk; shape (n, number of units in the widest chunk).

    ``[i, s - 1]`` is the scatter of the s units that end with unit i. A chunk of several units with over
    ``most`` tokens is impossible, and costs more than any other.
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
    """Return the costs of chunks, plus prices for separating bound units and for crossing sections.

    ``costs``: result of ``scatter``. ``bound``: for each unit, whether it belongs to the next. ``begins``:
    for each unit, whether a section begins with it.
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
    """Return the largest number of consecutive units with at most ``most`` tokens together; at least 1."""
    sums = np.concatenate([[0], np.cumsum(tokens)])
    first = np.searchsorted(sums, sums[1:] - most)
    return max(1, int((np.arange(1, len(sums)) - first).max(initial=1)))


@dataclass(frozen=True, slots=True, eq=False)
class Solutions:
    """The best cuts of a document for each of several penalties.

    ``sizes[i, p]``: number of units in the last chunk, if the first i + 1 units are cut with penalty p.
    """

    sizes: npt.NDArray[np.unsignedinteger]

    def cuts(self, which: int) -> Cuts:
        return walk_back(self.sizes[:, which].tolist())

    def counts(self) -> Integers:
        """Return the number of chunks for each penalty."""
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
    """Return the solutions for a document of one unit: a single chunk at every level."""
    sizes = np.ones((1, LEVELS), np.uint8)
    sizes.flags.writeable = False
    return Solutions(sizes)


def solve(costs: Integers, penalties: Integers, weights: Integers | None = None) -> Solutions:
    """Return, for each penalty, the cuts of least total cost.

    Of equal costs, the shorter last chunk wins, then the shorter chunk before it. ``costs``: see ``scatter``.
    ``weights``: weight of a cut after each unit, in thousandths (1 / WHOLE); None for 1. A long document has
    many thousand units, so only recent totals are kept, and sizes take as few bytes as possible.
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
    """Return a document's contribution to the sums of its collection; shape (1 + LEVELS,).

    It consists of the number of tokens, and the number of chunks at each level.
    """
    return np.concatenate([[tokens.sum()], solutions.counts()])


def level(total: Sums, target: int) -> int:
    """Return the level at which the collection's mean chunk is nearest to ``target`` tokens.

    Two levels are compared: the first at which the mean chunk has the target size, and the one before.
    ``total``: sum of all contributions.
    """
    tokens, *counts = total.tolist()
    above = next((at for at, count in enumerate(counts) if tokens >= target * count), LEVELS - 1)
    below = max(above - 1, 0)
    # tokens / (target * count) is at least 1 above and less below: compare the one with the other's inverse.
    return below if target**2 * counts[below] * counts[above] <= tokens**2 and above else above


def interval(solutions: Solutions, at: int) -> tuple[int, int]:
    """Return the first and last level, around level ``at``, between which the cuts stay the same."""
    if len(solutions.sizes) == 1:
        return 0, solutions.sizes.shape[1] - 1
    lasts = np.array(solutions.cuts(at), dtype=np.intp) - 1
    sizes = solutions.sizes[lasts]
    others = np.flatnonzero((sizes != sizes[:, at, None]).any(axis=0))
    low = others[others < at].max(initial=-1) + 1
    high = others[others > at].min(initial=sizes.shape[1]) - 1
    return int(low), int(high)
