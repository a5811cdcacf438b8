"""An embedder of somebody else's that offers what it must, and nothing more. Tests install it as ``plain``.

Vectors depend on ``flavour`` and ``model``, so options that are mixed up show in every vector.
"""

from collections.abc import Sequence
from hashlib import shake_256

import numpy as np
from pydantic import Field

from ingestor.model import Vectors
from ingestor.ports import BadDocument
from ingestor.registry import Options, Plugin, tuning

BUILT: list[str] = []  # flavours, of every embedder that was built


class PlainOptions(Options):
    flavour: str = "sweet"
    model: str = Field(default="none-that-readers-could-load", description="not sentence-transformers'")
    dimensions: int = 16
    threads: int = tuning(1)


class PlainEmbedder:
    window = 2**31 - 1

    def __init__(self, options: PlainOptions) -> None:
        BUILT.append(options.flavour)
        self._options, self.dimensions = options, options.dimensions

    def embed(self, texts: Sequence[str]) -> Vectors:
        if any("poison" in text for text in texts):
            raise BadDocument("the model can't take this text")
        rows = [vector(text, self._options.flavour + self._options.model, self.dimensions) for text in texts]
        return np.array(rows, np.float32).reshape(-1, self.dimensions)

    def count(self, texts: Sequence[str]) -> list[int]:
        return [len(text) for text in texts]


def vector(text: str, flavour: str, dimensions: int = 16) -> Vectors:
    raw = np.frombuffer(shake_256(f"{flavour}: {text}".encode()).digest(dimensions), np.int8) + 0.5
    return (raw / np.linalg.norm(raw)).astype(np.float32)


PLUGIN = Plugin(kind="plain", version=1, options=PlainOptions, build=PlainEmbedder)
