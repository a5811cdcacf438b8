"""Vectors of chunks made without a second pass through the model, and the mixing of neighbours. Pure.

All of it is integer arithmetic up to one rounding, coordinate by coordinate: the same vectors bit for bit on
any machine, whatever the number of rows. They leave as embedders' vectors do: of unit length, in float16's
precision.
"""

from collections.abc import Sequence

import numpy as np

from ingestor.cluster import Segment
from ingestor.fixedpoint import Fixed, Integers, directions, fixed
from ingestor.model import Vectors

_SHARES = 1024  # neighbours count in multiples of 1/1024


def pooled(
    units: Fixed, tokens: Integers, members: Sequence[Segment], besides: Integers | None = None
) -> Vectors:
    """The token-weighted mean of each chunk's units, scaled to unit length; one row a chunk.

    ``members``: the units of each chunk, one or more. ``besides``: weighted vectors to be added, one row a
    chunk. Where all cancel out, a chunk takes the vector of its last unit.
    """
    sums = np.zeros((len(members), units.shape[1]), np.int64) if besides is None else besides.copy()
    for row, (first, end) in enumerate(members):
        sums[row] += tokens[first:end] @ units[first:end]
    return _rounded(sums, units[[end - 1 for _, end in members]])


def mix(vectors: Vectors, weight: float) -> Vectors:
    """Each vector plus ``weight`` of its neighbours' and half as much of the next ones', at unit length.

    Where they cancel out a row stays as it was.
    """
    if not weight:
        return vectors
    own, share = fixed(vectors).astype(np.int64), round(weight * _SHARES)
    total = 2 * _SHARES * own
    for distance, part in ((1, 2 * share), (2, share)):
        total[distance:] += part * own[:-distance]
        total[:-distance] += part * own[distance:]
    return _rounded(total, own)


def _rounded(rows: Integers, otherwise: Fixed | Integers) -> Vectors:
    found = np.where((rows != 0).any(axis=1, keepdims=True), rows, otherwise)
    rounded: Vectors = directions(found).astype(np.float16).astype(np.float32)
    return rounded
