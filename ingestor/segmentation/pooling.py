"""Vectors of chunks: averages of the vectors of their parts, mixed with those of neighbouring chunks. Pure.

All arithmetic is in integers until each coordinate is rounded once at the end. So vectors are equal bit for
bit on any machine, for any number of rows. Results are like those of embedders: of unit length, exact in
float16.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ingestor.model import Vectors
from ingestor.segmentation.cluster import Segment
from ingestor.segmentation.fixed_point import Fixed, Integers, blocks, directions, to_fixed

_SHARES = 1024  # neighbours count in multiples of 1/1024


def pool(
    units: Fixed, tokens: Integers, members: Sequence[Segment], besides: Integers | None = None
) -> Vectors:
    """Return the mean of each chunk's units, weighted by tokens, as unit vectors.

    ``members``: units of each chunk, at least one. ``besides``: a weighted vector to add for each chunk; None
    to add nothing. A chunk whose sum is zero gets the vector of its last unit.
    """
    sums = sum_by_weight(units, tokens, members)
    if besides is not None:
        sums += besides
    return _round(sums, units[[end - 1 for _, end in members]])


def sum_by_weight(units: Fixed, tokens: Integers, members: Sequence[Segment]) -> Integers:
    """Return the sum of each chunk's unit vectors, times their tokens; shape (chunks, dimensions)."""
    sums = np.empty((len(members), units.shape[1]), np.int64)
    for row, (first, end) in enumerate(members):
        np.matmul(tokens[first:end], units[first:end], out=sums[row])
    return sums


def mix(vectors: Vectors, weight: float, apart: Sequence[tuple[object, object]] = ()) -> Vectors:
    """Return each vector with a share of its neighbours added, scaled to unit length.

    Direct neighbours are added ``weight`` times, and those beyond them half as much. A row whose sum is zero
    stays unchanged. ``apart``: the place, such as (section, page), of each row's start and of its end. A
    neighbour in another place is not added.
    """
    if not weight:
        return vectors
    own = to_fixed(vectors)
    total = 2 * _SHARES * own  # fits into 28 bits, with all addends
    for distance, part in ((1, 2), (2, 1))[: len(own) - 1]:
        shares = part * _between(apart, distance, len(own) - distance, weight)[:, None]
        total[distance:] += shares * own[:-distance]
        total[:-distance] += shares * own[distance:]
    return _round(total, own)


def _between(
    apart: Sequence[tuple[object, object]], distance: int, pairs: int, weight: float
) -> npt.NDArray[np.int32]:
    """Return the share that each two rows at ``distance`` add to each other; shape (pairs,).

    The unit is 1 / _SHARES. The share is 0 for rows in different places.
    """
    weights = np.full(max(pairs, 0), round(weight * _SHARES), np.int32)
    parted = [before[1] != after[0] for before, after in zip(apart, apart[distance:], strict=False)]
    weights[np.flatnonzero(parted)] = 0
    return weights


def _round(rows: Fixed | Integers, otherwise: Fixed) -> Vectors:
    """Return rows as unit vectors that are exact in float16.

    ``otherwise``: rows to use in place of rows of zeros.
    """
    rounded = np.empty(rows.shape, np.float32)
    for part in blocks(len(rows)):
        row = np.where(rows[part].any(axis=1, keepdims=True), rows[part], otherwise[part])
        rounded[part] = directions(row).astype(np.float16)
    return rounded
