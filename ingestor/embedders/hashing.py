"""Embedder ``hashing``: vectors by feature hashing, for tests only. They reflect spelling, not meaning.

Words, pairs of words and three-letter parts of words are counted in ``dimensions`` signed buckets (Weinberger
et al. 2009), so texts with common words have similar vectors. A small vector of the exact text is added, so
that different texts have different vectors, and the empty text has a vector, too.
"""

import re
from collections.abc import Sequence
from hashlib import shake_256
from itertools import pairwise
from math import sqrt
from zlib import crc32

import numpy as np
import numpy.typing as npt

from ingestor.embedders.exact import unit
from ingestor.model import Vectors
from ingestor.registry import Options, Plugin, pinned

Floats = npt.NDArray[np.float64]

_TOKEN = re.compile(r"\w+|[^\w\s]")
_TRACE = 0.05  # length of the vector of the exact text, which is added to a unit vector of features


class HashingOptions(Options):
    dimensions: int = pinned(64, ge=8, le=4096, description="length of the vectors")


class HashingEmbedder:
    """Embedder by feature hashing, for tests (see ports.Embedder)."""

    window = 2**31 - 1

    def __init__(self, options: HashingOptions) -> None:
        self.dimensions = options.dimensions
        self.identity: dict[str, object] = {"dimensions": self.dimensions}

    def embed(self, texts: Sequence[str]) -> Vectors:
        return unit(np.array([self._vector(text) for text in texts]).reshape(-1, self.dimensions))

    def count(self, texts: Sequence[str]) -> list[int]:
        return [len(_TOKEN.findall(text)) for text in texts]

    def _vector(self, text: str) -> Floats:
        hashes = np.array([crc32(feature.encode()) for feature in _features(text)], np.int64)
        signs = np.where(hashes & (1 << 31), 1.0, -1.0)
        counts = np.asarray(np.bincount(hashes % self.dimensions, signs, self.dimensions), np.float64)
        trace = np.frombuffer(shake_256(text.encode()).digest(self.dimensions), np.int8)
        return _scale(counts, 1.0) + _scale(trace.astype(np.float64), _TRACE)


def _features(text: str) -> list[str]:
    words = _TOKEN.findall(text.lower())
    parts = [padded[at : at + 3] for padded in map("<{}>".format, words) for at in range(len(padded) - 2)]
    return [*words, *map(" ".join, pairwise(words)), *parts]


def _scale(vector: Floats, length: float) -> Floats:
    """Return a vector of whole numbers scaled to ``length``. The result is the same on every machine."""
    return vector * (length / sqrt(max(float(np.square(vector).sum()), 1.0)))


PLUGIN = Plugin(kind="hashing", version=1, options=HashingOptions, build=HashingEmbedder)
