"""Checks that an embedder's vectors keep its protocol (ports.Embedder). Pure."""

from collections.abc import Sequence

import numpy as np

from ingestor.model import Vectors
from ingestor.units import counted

_TOLERANCE = 0.01  # of a unit vector's length; rounding to float16 moves it by 0.0005, to bfloat16 by 0.004
_QUOTED = 60  # code points of a text


class BadVectors(Exception):
    """The embedder's vectors break its protocol, so they are neither cached nor written."""


def checked(answer: object, texts: Sequence[str], dimensions: int) -> Vectors:
    """The vectors as (n, dimensions) float32, copied: an embedder may reuse its memory.

    Raises BadVectors for a wrong shape, and for vectors that are not finite or not of length 1.
    """
    try:
        with np.errstate(over="ignore"):
            vectors: Vectors = np.array(answer, np.float32)
    except (TypeError, ValueError) as error:
        raise BadVectors(f"the embedder gave no array of numbers: {error}") from error
    if vectors.shape != (len(texts), dimensions):
        raise BadVectors(
            f"the embedder gave an array of shape {vectors.shape} for {counted(len(texts), 'text')}; "
            f"of {dimensions} dimensions it must be {(len(texts), dimensions)}"
        )
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
    off = np.flatnonzero(~(np.abs(lengths - 1) <= _TOLERANCE))  # so that nan is off, too
    if off.size:
        text = texts[int(off[0])]
        raise BadVectors(
            f"the embedder gave a vector of length {lengths[off[0]]:.4g}, which must be 1, "
            f"for the text that begins with {text[:_QUOTED]!r}"
        )
    return vectors
