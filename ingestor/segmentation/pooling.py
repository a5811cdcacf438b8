"""Pools vectors of chunks from vectors of their parts, and mixes in neighbours. Pure.

All arithmetic is in integers up to one rounding of each coordinate. So vectors are equal bit for bit on any
machine, for any number of rows. Results are like embedders' vectors: of unit length, exact in float16.
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
    """Return the token-weighted mean of each chunk's units, scaled to unit length; one row for each chunk.

    ``members``: units of each chunk, at least one. ``besides``: weighted vectors to add, one row for each
    chunk. If everything cancels out, a chunk gets the vector of its last unit.
    """
    sums = sum_by_weight(units, tokens, members)
    if besides is not None:
        sums += besides
    return _round(sums, units[[end - 1 for _, end in members]])


def sum_by_weight(units: Fixed, tokens: Integers, members: Sequence[Segment]) -> Integers:
    """Sum the vectors of each chunk's units, times the unit's tokens; one row for each chunk."""
    sums = np.empty((len(members), units.shape[1]), np.int64)
    for row, (first, end) in enumerate(members):
        np.matmul(tokens[first:end], units[first:end], out=sums[row])
    return sums


def mix(vectors: Vectors, weight: float, apart: Sequence[tuple[object, object]] = ()) -> Vectors:
    """Add ``weight`` times its neighbours to each vector, and half of that of the next neighbours; rescale.

    A row stays unchanged if the sum cancels out. ``apart``: for each row, the places of its start and end.
    Nothing is added from a neighbour in another place.
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
    """Return the share, in 1 / _SHARES, that two rows at ``distance`` take from each other."""
    weights = np.full(max(pairs, 0), round(weight * _SHARES), np.int32)
    parted = [before[1] != after[0] for before, after in zip(apart, apart[distance:], strict=False)]
    weights[np.flatnonzero(parted)] = 0
    return weights


def _round(rows: Fixed | Integers, otherwise: Fixed) -> Vectors:
    rounded = np.empty(rows.shape, np.float32)
    for part in blocks(len(rows)):
        row = np.where(rows[part].any(axis=1, keepdims=True), rows[part], otherwise[part])
        rounded[part] = directions(row).astype(np.float16)
    return rounded
