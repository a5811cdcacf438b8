"""The packaged model, with every vector kept under ``.cache/``, so that a second run embeds nothing."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ingestor.core.fingerprint import fingerprint, text_digest
from ingestor.embedders.sentence_transformers import SentenceTransformersEmbedder, SentenceTransformersOptions
from ingestor.model import Vectors
from ingestor.pipeline.limits import exceeds_window
from ingestor.state.cache import VectorCache

CACHE = Path(__file__).parents[1] / ".cache" / "vectors.sqlite"


class CachedModel:
    """all-MiniLM-L6-v2. ``embedded`` counts the texts that it had to read."""

    def __init__(self, path: Path = CACHE) -> None:
        path.parent.mkdir(exist_ok=True)
        self._cache = VectorCache(path, 2**31)
        self._model = SentenceTransformersEmbedder(SentenceTransformersOptions())
        self._key = fingerprint(self._model.identity)
        self.embedded = 0

    def embed(self, texts: Sequence[str]) -> Vectors:
        digests = [text_digest(text) for text in texts]
        known = self._cache.get(self._key, digests)
        missing = {digest: text for digest, text in zip(digests, texts, strict=True) if digest not in known}
        if missing:
            made = self._model.embed(list(missing.values()))
            self._cache.put(self._key, list(missing), made)
            known |= zip(missing, made, strict=True)
            self.embedded += len(missing)
        rows = [known[digest] for digest in digests]
        return np.array(rows, np.float32).reshape(-1, self._model.dimensions)

    def exceeds_window(self, texts: Sequence[str]) -> list[bool]:
        return exceeds_window(self._model, texts)

    def fresh(self, texts: Sequence[str]) -> Vectors:
        """Embeds them in any case."""
        return self._model.embed(texts)
