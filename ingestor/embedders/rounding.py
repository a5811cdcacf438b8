"""The form in which every vector leaves an embedder. Pure."""

import numpy as np
import numpy.typing as npt

from ingestor.model import Vectors


def unit(vectors: npt.NDArray[np.floating]) -> Vectors:
    """Rows of length 1, rounded to float16 and returned as float32.

    So a cache keeps them in half the space and gives them back bit for bit. Rounding moves a row's length by
    at most 0.05 %. A row of zeros (a text without a token) becomes the first axis. Raises ValueError for a
    row that is infinite or not a number.
    """
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    if not np.isfinite(lengths).all():
        raise ValueError("the embedding model gave a vector that is infinite or not a number")
    scaled = vectors / np.where(lengths, lengths, 1.0)
    scaled[lengths[:, 0] == 0, :1] = 1.0
    rounded: Vectors = scaled.astype(np.float16).astype(np.float32)
    return rounded
