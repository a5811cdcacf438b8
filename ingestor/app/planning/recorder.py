"""Substitutes for the embedder and the chunkers while a plan is made."""

from collections.abc import Sequence

import numpy as np

from ingestor.core.fingerprint import text_digest
from ingestor.model import Chunking, Document, Fingerprint, Sums, Vectors
from ingestor.ports import Chunker, Embed
from ingestor.state.cache.store import VectorCache


class Recorder:
    """Replaces the embedder: returns cached vectors, and notes the texts that would be embedded.

    For other texts it returns the vectors of ``guess``, which must differ as the texts do: equal vectors
    would give no cuts. ``blind``: the current document got a guessed vector. ``guessed``: another text was
    requested after that, and might differ with the true vector.
    """

    def __init__(self, cache: VectorCache | None, recipe: Fingerprint, dimensions: int, guess: Embed) -> None:
        self._cache, self._recipe, self._dimensions, self._guess = cache, recipe, dimensions, guess
        self.missing: dict[str, str] = {}  # text by digest
        self.blind = self.guessed = False

    def __call__(self, texts: Sequence[str]) -> Vectors:
        if not texts:
            return np.zeros((0, self._dimensions), np.float32)
        digests = [text_digest(text) for text in texts]
        found = self._cache.get(self._recipe, digests) if self._cache is not None else {}
        missing = {str(d): text for d, text in zip(digests, texts, strict=True) if d not in found}
        self.missing.update(missing)
        self.guessed |= self.blind
        self.blind |= bool(missing)
        guesses = dict(zip(missing, self._guess(list(missing.values())), strict=True)) if missing else {}
        vectors = [found[d] if d in found else guesses[str(d)] for d in digests]
        return np.array(vectors, np.float32).reshape(-1, self._dimensions)


class WatchedChunker:
    """A chunker that records what its chunks depend on."""

    def __init__(self, chunker: Chunker, recorder: Recorder) -> None:
        self._chunker, self._recorder = chunker, recorder
        self.blind = False  # some document was cut by guessed vectors
        self.encoded = False  # the texts of some document's chunks are embedded

    def chunk(self, document: Document, embed: Embed, others: Sums | None) -> Chunking:
        self._recorder.blind = False
        made = self._chunker.chunk(document, embed, others)
        self.blind |= self._recorder.blind
        self.encoded |= made.vectors is None
        return made
