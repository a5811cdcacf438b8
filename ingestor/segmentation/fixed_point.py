"""Vectors as integers, whose sums and products are the same in any order and on any machine. Pure.

A coordinate is a multiple of 2^-14. The product of two unit vectors, and every partial sum of it, is then an
integer of 29 bits (Cauchy-Schwarz), so int32 is enough. BLAS is not used, because its float sums depend on
shapes and threads. Integers are exact, and just as fast for products of rows near one another.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from ingestor.model import Vectors

SCALE_BITS = 14
SCALE = 1 << SCALE_BITS

Fixed = npt.NDArray[np.int32]  # shape (n, dimensions): unit vectors, in units of 2^-14
Integers = npt.NDArray[np.int64]

_LONGEST = 1.05  # length of a unit vector whose coordinates were rounded, such as to float16
_BLOCK = 256  # rows that stay in the processor's cache


def to_fixed(vectors: Vectors) -> Fixed:
    """Return unit vectors, or zeros, in fixed point. Raises ValueError for longer vectors and NaN."""
    rows = np.empty(vectors.shape, np.int32)
    for part in blocks(len(vectors)):
        scaled = vectors[part] * np.float32(SCALE)
        np.rint(scaled, out=scaled)
        if not np.einsum("ij,ij->i", scaled, scaled).max(initial=0) <= (_LONGEST * SCALE) ** 2:
            raise ValueError("the embedder returned a vector whose length is not 1")
        rows[part] = scaled
    return rows


def blocks(rows: int) -> Iterator[slice]:
    """Yield slices that together cover ``rows`` rows, so that intermediate results stay small."""
    return (slice(first, min(first + _BLOCK, rows)) for first in range(0, rows, _BLOCK))


def squares(rows: Fixed | Integers) -> Integers:
    """Return the squared length of each row, which must fit in the type of ``rows``; shape (n,)."""
    sums: Integers = np.einsum("ij,ij->i", rows, rows).astype(np.int64)
    return sums


def lengths(rows: Fixed | Integers) -> npt.NDArray[np.float64]:
    """Return the length of each row, whose square must fit in the type of ``rows``; shape (n,)."""
    return np.sqrt(squares(rows).astype(np.float64))


def unit(rows: Integers) -> Fixed:
    """Return each row scaled to unit length, in fixed point; a row of zeros stays zero."""
    scaled_rows = np.empty(rows.shape, np.int32)
    for part in blocks(len(rows)):
        scaled_rows[part] = np.rint(directions(rows[part]) * SCALE)
    return scaled_rows


def directions(rows: Fixed | Integers) -> npt.NDArray[np.float64]:
    """Return each row scaled to unit length, as floats; a row of zeros stays zero.

    Coordinates are first shifted so that the largest has at most 24 bits, and no square overflows.
    """
    largest = np.abs(rows).max(axis=1, initial=0).astype(np.float64)
    excess = np.maximum(np.frexp(largest)[1] - 24, 0)
    narrow = rows.astype(np.int64) >> excess[:, None]
    result: npt.NDArray[np.float64] = narrow / np.maximum(lengths(narrow), 1)[:, None]
    return result


def products_by_lag(rows: Fixed | Integers, lags: int) -> Integers:
    """Return the product of each row with each of the ``lags`` rows before it; shape (n, lags).

    ``[i, t - 1]`` is ``rows[i] . rows[i - t]``, and 0 before the first row. Takes O(n lags dimensions) time
    and O(n lags) memory. Every product must fit in the type of ``rows``.
    """
    products = np.zeros((len(rows), lags), dtype=np.int64)
    for part in blocks(len(rows)):
        for lag in range(1, lags + 1):
            low, high = max(part.start, lag), part.stop
            if low < high:
                later, earlier = rows[low:high], rows[low - lag : high - lag]
                products[low:high, lag - 1] = np.einsum("ij,ij->i", later, earlier)
    return products


def sums_within(alone: Integers, lagged: Integers) -> Integers:
    """Return, for each segment, the sum over its rows and over the pairs of its rows; shape (n, lags + 1).

    ``[i, s - 1]`` is the sum for the s rows that end with row i. ``alone[i]``: addend of row i.
    ``lagged[i, t - 1]``: addend of the pair (i, i - t). Segments that would begin before row 0 are undefined.
    """
    n, lags = lagged.shape
    within = np.zeros((n, lags + 1), dtype=np.int64)
    within[:, 0] = alone
    added = alone[:, None] + np.cumsum(lagged, axis=1)
    for size in range(1, lags + 1):
        within[1:, size] = within[:-1, size - 1] + added[1:, size - 1]
    return within


def sums_of_runs(values: Integers, widest: int) -> Integers:
    """Return the sum of each run of 1 to ``widest`` consecutive values; shape (n, widest).

    ``[i, s - 1]`` is the sum of the s values that end with value i, or of all values up to i if there are
    fewer.
    """
    sums = np.concatenate([[0], np.cumsum(values)])
    ends = np.arange(1, len(values) + 1)[:, None]
    totals: Integers = sums[ends] - sums[np.maximum(ends - np.arange(1, widest + 1), 0)]
    return totals
