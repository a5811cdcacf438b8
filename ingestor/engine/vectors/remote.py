"""Vectors of an embedder that asks a server.

A server may become another one without a word: its address may lead to another machine, and some servers
ignore the model's name. So the vector of one word is kept in the cache, and compared with each batch.
"""

from collections.abc import Callable, Sequence

import numpy as np

from ingestor.core.fingerprint import text_digest
from ingestor.engine.vectors.check import checked
from ingestor.model import Answered, Fingerprint, Vector
from ingestor.ports import Embedder, NeedsHuman, Remote, Stop
from ingestor.state.cache.store import VectorCache

HARMLESS = "word"  # a text that any model can take
ALIKE = 0.99  # cosine; that of unrelated models is near 0


class RemoteVectors:
    """Each error is that of its texts alone. ``recipe``: of the embedder.

    The word goes along with every batch, so no batch of another model is kept.
    """

    def __init__(self, embedder: Embedder, recipe: Fingerprint, cache: VectorCache) -> None:
        assert isinstance(embedder, Remote)
        self._remote: Remote = embedder
        self._embedder, self._recipe, self._cache = embedder, recipe, cache

    def load(self, texts: Sequence[str]) -> None:
        """Do nothing: no model is loaded in this process."""

    def __call__(self, texts: Sequence[str], stop: Stop, between_steps: Callable[[int], None]) -> Answered:
        answered = self._remote.embed_each([HARMLESS, *texts], stop)
        now, *vectors = answered.vectors
        error = now if isinstance(now, Exception) else self._other_server(now)
        if error is not None:
            return Answered([error] * len(texts), answered.tokens)
        pairs = zip(texts, vectors, strict=True)
        sound = [(text, vector) for text, vector in pairs if not isinstance(vector, Exception)]
        if sound:
            checked([vector for _, vector in sound], [text for text, _ in sound], self._embedder.dimensions)
        return Answered(vectors, answered.tokens)

    def _other_server(self, now: Vector) -> NeedsHuman | None:
        """Compare the word's vector with the one that is kept, or keep it."""
        digest = text_digest(HARMLESS)
        before = self._cache.get(self._recipe, [digest]).get(digest)
        if before is None:
            self._cache.put(self._recipe, [digest], np.array([now]))
        elif (why := difference(before, now)) is not None:
            return NeedsHuman(
                f"the embedding server gives other vectors for the same text than before ({why}): it runs"
                " another model. Let base_url lead to the former model, or set embedding.revision to another"
                " word, which embeds everything again"
            )
        return None


def difference(before: Vector, now: Vector) -> str | None:
    """In words, between two vectors of length 1; None if one model may have made both. Pure."""
    if before.shape != now.shape:
        return f"{len(now)} numbers, not {len(before)}"
    cosine = float(before @ now)
    return None if cosine >= ALIKE else f"cosine {cosine:.2f}"
