"""What Chroma's arithmetic makes of a vector. Pure."""

import numpy as np

from ingestor.model import Vectors

_TINY = np.float32(1e-30)  # so that a vector of zeros stays one; it changes no other length


def as_returned(vectors: Vectors) -> Vectors:
    """Vectors that were written, as a collection with cosines returns them, bit for bit (1.5.9).

    Chroma keeps a vector's direction and length apart and returns their product. It adds up the squares one
    after another, in float32, which ``cumsum`` does and ``sum`` does not.
    """
    lengths = np.sqrt(np.cumsum(vectors * vectors, axis=1, dtype=np.float32)[:, -1:])
    returned: Vectors = vectors * (np.float32(1) / (lengths + _TINY)) * lengths
    return returned
