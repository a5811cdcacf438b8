"""Vectors made of other vectors, without embedding again. Pure.

Sums are element by element in a fixed order and in float64, so that a vector is the same to the last bit
wherever and in whatever company it is made; then it is rounded to what float16 holds, as an embedder's is.
"""

import numpy as np

from ingestor.embedders.rounding import unit
from ingestor.model import Vectors


def mix(vectors: Vectors, share: float) -> Vectors:
    """Every chunk's vector with ``share`` of its neighbours' and half that of the next ones', unit length.

    (n, d) -> (n, d). Row i depends on rows i - 2 to i + 2 alone.
    """
    base = vectors.astype(np.float64)
    mixed = base.copy()
    for distance, weight in ((1, share), (2, share / 2)):
        mixed[distance:] += weight * base[:-distance]
        mixed[:-distance] += weight * base[distance:]
    return unit(mixed)
