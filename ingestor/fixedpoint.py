"""Vectors as integers: sums and products that come out the same in any order, on any machine. Pure.

A coordinate is a multiple of 2^-14, so the product of two unit vectors is an integer of 29 bits. Nothing
here goes through BLAS, whose sums depend on shapes and threads; int64 is exact, and as fast along a band.
"""

import numpy as np
import numpy.typing as npt

from ingestor.model import Vectors

SCALE_BITS = 14
SCALE = 1 << SCALE_BITS

Fixed = npt.NDArray[np.int64]  # shape (n, dimensions): coordinates in units of 2^-14
Integers = npt.NDArray[np.int64]

_LONGEST = 1.05  # a unit vector whose coordinates were rounded, say to float16, may be this long
_BLOCK = 256  # rows that stay in the processor's cache while they are multiplied at every lag


def fixed(vectors: Vectors) -> Fixed:
    """Round unit vectors (or zero ones) to fixed point. Raises ValueError for longer ones and for NaN."""
    scaled = np.rint(vectors.astype(np.float64) * SCALE)
    if len(scaled) and not float(np.einsum("ij,ij->i", scaled, scaled).max()) <= (_LONGEST * SCALE) ** 2:
        raise ValueError("the embedder returned a vector that is not of unit length")
    return scaled.astype(np.int64)


def squares(rows: Fixed) -> Integers:
    """The squared length of each row, exactly; shape (n,)."""
    found: Integers = np.einsum("ij,ij->i", rows, rows)
    return found


def lengths(rows: Integers) -> npt.NDArray[np.float64]:
    """Of each row: the root of an exact sum, which must fit in 64 bits; shape (n,)."""
    found: npt.NDArray[np.float64] = np.sqrt(squares(rows).astype(np.float64))
    return found


def unit(rows: Integers) -> Fixed:
    """Each row scaled to unit length; a zero row stays zero."""
    scaled = rows * (SCALE / np.maximum(lengths(rows), 1))[:, None]
    return np.rint(scaled, out=scaled).astype(np.int64)


def lagged_products(rows: Integers, lags: int) -> Integers:
    """``[i, t - 1] = rows[i] . rows[i - t]`` for t = 1..lags, 0 before the first row; shape (n, lags).

    O(n lags dimensions) time, O(n lags) memory. Every product must fit in 64 bits.
    """
    products = np.zeros((len(rows), lags), dtype=np.int64)
    for first in range(0, len(rows), _BLOCK):
        for lag in range(1, lags + 1):
            low, high = max(first, lag), min(first + _BLOCK, len(rows))
            if low < high:
                later, earlier = rows[low:high], rows[low - lag : high - lag]
                products[low:high, lag - 1] = np.einsum("ij,ij->i", later, earlier)
    return products


def sums_within(alone: Integers, lagged: Integers) -> Integers:
    """Sums over segments, from what single rows and pairs of rows add.

    ``alone[i]`` is what row i adds, ``lagged[i, t - 1]`` what the pair (i, i - t) does. Returns
    ``[i, s - 1]``: the sum over the segment of s rows that ends with row i, shape (n, lags + 1); where that
    would begin before row 0 the entry means nothing.
    """
    n, lags = lagged.shape
    within = np.zeros((n, lags + 1), dtype=np.int64)
    within[:, 0] = alone
    added = alone[:, None] + np.cumsum(lagged, axis=1)
    for size in range(1, lags + 1):
        within[1:, size] = within[:-1, size - 1] + added[1:, size - 1]
    return within


def running_sums(values: Integers, widest: int) -> Integers:
    """``[i, s - 1]``: the sum of the s values that end with value i, or of all up to i; shape (n, widest)."""
    sums = np.concatenate([[0], np.cumsum(values)])
    ends = np.arange(1, len(values) + 1)[:, None]
    found: Integers = sums[ends] - sums[np.maximum(ends - np.arange(1, widest + 1), 0)]
    return found
