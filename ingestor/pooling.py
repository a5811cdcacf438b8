"""Vectors of chunks made without a second pass through the model, and the mixing of neighbours. Pure.

All of it is integer arithmetic up to one rounding, coordinate by coordinate: the same vectors bit for bit on
any machine, whatever the number of rows. They leave as embedders' vectors do: of unit length, in float16's
precision.
"""

from collections.abc import Sequence

import numpy as np

from ingestor.fixedpoint import Fixed, Integers, fixed, lengths
from ingestor.model import Vectors

_SHARES = 1024  # neighbours count in multiples of 1/1024


def pooled(units: Fixed, tokens: Integers, members: Sequence[tuple[int, int]]) -> Vectors:
    """The token-weighted mean of each chunk's units, scaled to unit length; one row a chunk.

    ``members``: the units [first, end) of each chunk. Where they cancel out the chunk takes the last one's.
    """
    weighted = units * tokens[:, None]
    sums = [weighted[first:end].sum(axis=0) for first, end in members]
    last = [units[end - 1] for _, end in members]
    shape = (len(members), units.shape[1])
    return _directions(np.array(sums, np.int64).reshape(shape), np.array(last, np.int64).reshape(shape))


def mix(vectors: Vectors, weight: float) -> Vectors:
    """Each vector plus ``weight`` of its neighbours' and half as much of the next ones', of unit length again.

    Where they cancel out a row stays as it was.
    """
    if not weight:
        return vectors
    own, share = fixed(vectors), round(weight * _SHARES)
    total = 2 * _SHARES * own
    for distance, part in ((1, 2 * share), (2, share)):
        total[distance:] += part * own[:-distance]
        total[:-distance] += part * own[distance:]
    return _directions(total, own)


def _directions(rows: Integers, otherwise: Integers) -> Vectors:
    found = np.where((rows != 0).any(axis=1, keepdims=True), rows, otherwise)
    unit: Vectors = (found / np.maximum(lengths(found), 1)[:, None]).astype(np.float16).astype(np.float32)
    return unit
