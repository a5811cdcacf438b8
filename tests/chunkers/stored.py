"""The packaged model's vectors of the golden texts, stored beside them, so that golden tests need no model.

    INGESTOR_GOLDEN=write .venv/bin/python -m pytest tests/chunkers/test_semantic_golden.py

adds those that are missing (delete ``golden/vectors.npz`` first to be rid of those that nobody asks for).
Vectors leave an embedder in float16's precision, so float16 keeps them whole.
"""

import os
from collections.abc import Sequence

import numpy as np

from ingestor.core.fingerprint import text_digest
from ingestor.model import Vectors
from tests.chunkers.golden import FOLDER
from tests.minilm import CachedModel

FILE = FOLDER / "vectors.npz"


class StoredModel:
    """all-MiniLM-L6-v2, as far as it was ever asked here."""

    def __init__(self) -> None:
        self.known: dict[str, Vectors] = {}
        if FILE.is_file():
            with np.load(FILE) as kept:
                vectors = kept["vectors"].astype(np.float32)
                self.known = dict(zip(kept["texts"].tolist(), vectors, strict=True))

    def embed(self, texts: Sequence[str]) -> Vectors:
        names = [text_digest(text) for text in texts]
        missing = {name: text for name, text in zip(names, texts, strict=True) if name not in self.known}
        if missing and os.environ.get("INGESTOR_GOLDEN") == "write":
            self._learn(missing)
        return np.array([self.known[name] for name in names])

    def _learn(self, missing: dict[str, str]) -> None:
        self.known |= zip(missing, CachedModel().embed(list(missing.values())), strict=True)
        names = sorted(self.known)
        vectors = np.array([self.known[name] for name in names])
        assert (vectors.astype(np.float16) == vectors).all()
        np.savez_compressed(FILE, texts=np.array(names), vectors=vectors.astype(np.float16))
