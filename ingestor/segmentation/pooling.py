"""Vectors of chunks made without a second pass through the model, and the mixing of neighbours. Pure.

All arithmetic is with integers up to one rounding, coordinate by coordinate. So the vectors are the same bit
for bit on any machine, for any number of rows. They leave as embedders' vectors do: of unit length, in
float16's precision.
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
    """The token-weighted mean of each chunk's units, scaled to unit length; one row a chunk.

    ``members``: the units of each chunk, one or more. ``besides``: weighted vectors to be added, one row a
    chunk. Where all cancel out, a chunk takes the vector of its last unit.
    """
    sums = sum_by_weight(units, tokens, members)
    if besides is not None:
        sums += besides
    return _round(sums, units[[end - 1 for _, end in members]])


def sum_by_weight(units: Fixed, tokens: Integers, members: Sequence[Segment]) -> Integers:
    """Sum the vectors of each chunk's units, each times the unit's tokens; one row a chunk."""
    sums = np.empty((len(members), units.shape[1]), np.int64)
    for row, (first, end) in enumerate(members):
        np.matmul(tokens[first:end], units[first:end], out=sums[row])
    return sums


def mix(vectors: Vectors, weight: float, apart: Sequence[tuple[object, object]] = ()) -> Vectors:
    """Add ``weight`` of its neighbours to each vector, and half of the next ones, at unit length.

    A row stays unchanged if they cancel out. ``apart``: for each row, the places of its start and end.
    Nothing is taken from a neighbour in another place.
    """
    if not weight:
        return vectors
    own = to_fixed(vectors)
    total = 2 * _SHARES * own  # 28 bits hold it, and what is added
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
