"""Vectors as integers: sums and products that come out the same in any order, on any machine. Pure.

A coordinate is a multiple of 2^-14. The product of two unit vectors, and every partial sum of it, is then an
integer below 2^29 in magnitude (Cauchy-Schwarz), far below 2^53: float64 arithmetic on it is exact, so BLAS
may add in whatever order and with whatever threads it likes.
"""

import numpy as np
import numpy.typing as npt

from ingestor.model import Vectors

SCALE_BITS = 14
SCALE = 1 << SCALE_BITS

Fixed = npt.NDArray[np.int64]  # shape (n, dimensions): coordinates in units of 2^-14
Integers = npt.NDArray[np.int64]

_LONGEST = 1.05  # a unit vector whose coordinates were rounded, say to float16, may be this long
_BLOCK = 128  # rows multiplied at once: the unwanted half of a block's products stays cheap


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
    return np.rint(rows * SCALE / np.maximum(lengths(rows), 1)[:, None]).astype(np.int64)


def lagged_products(rows: Fixed, lags: int) -> Integers:
    """``[i, t - 1] = rows[i] . rows[i - t]`` for t = 1..lags, 0 before the first row; shape (n, lags).

    O(n (lags + 128) dimensions) time, O(n lags) memory. Every product must be below 2^53.
    """
    n = len(rows)
    products = np.zeros((n, lags), dtype=np.int64)
    for first in range(0, n if lags else 0, _BLOCK):
        block = rows[first : first + _BLOCK].astype(np.float64)
        before = max(first - lags, 0)
        table = block @ rows[before : first + len(block)].astype(np.float64).T
        row = np.arange(len(block))[:, None]
        column = first - before + row - np.arange(1, lags + 1)
        found = np.take_along_axis(table, np.maximum(column, 0), axis=1)
        products[first : first + len(block)] = np.where(column < 0, 0, found)
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
