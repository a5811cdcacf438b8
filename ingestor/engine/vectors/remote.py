"""Vectors of an embedder that asks a server.

A server may become another one without a word: its address may lead to another machine, and some servers
ignore the model's name. So the vector of one word is kept in the cache, and compared at each start and after
each failure.
"""

from collections.abc import Callable, Sequence

import numpy as np

from ingestor.core.fingerprint import text_digest
from ingestor.engine.vectors.check import checked
from ingestor.model import Answered, Fingerprint, Vector
from ingestor.ports import Embedder, NeedsHuman, Remote, Stop, Transient
from ingestor.state.cache.store import VectorCache

HARMLESS = "word"  # a text that any model can take
ALIKE = 0.99  # cosine; that of unrelated models is near 0


class RemoteVectors:
    """An error is that of its texts alone. ``recipe``: of the embedder."""

    def __init__(self, embedder: Embedder, recipe: Fingerprint, cache: VectorCache) -> None:
        assert isinstance(embedder, Remote)
        self._remote: Remote = embedder
        self._embedder, self._recipe, self._cache = embedder, recipe, cache
        self._same = False  # as far as we know, the server is the one that made the cached vectors

    def load(self, texts: Sequence[str]) -> None:
        """Nothing is loaded here."""

    def __call__(self, texts: Sequence[str], stop: Stop, between_steps: Callable[[], None]) -> Answered:
        if (error := self._other_server(stop)) is not None:
            return Answered([error] * len(texts), 0)
        answered = self._remote.embed_each(texts, stop)
        self._same = not any(isinstance(vector, Transient) for vector in answered.vectors)
        self._check(answered, texts)
        return answered

    def _check(self, answered: Answered, texts: Sequence[str]) -> None:
        pairs = zip(texts, answered.vectors, strict=True)
        sound = [(text, vector) for text, vector in pairs if not isinstance(vector, Exception)]
        if sound:
            checked([vector for _, vector in sound], [text for text, _ in sound], self._embedder.dimensions)

    def _other_server(self, stop: Stop) -> Exception | None:
        if self._same:
            return None
        [now] = self._remote.embed_each([HARMLESS], stop).vectors
        if isinstance(now, Exception):
            return now
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
        self._same = True
        return None


def difference(before: Vector, now: Vector) -> str | None:
    """In words, between two vectors of length 1; None if one model may have made both. Pure."""
    if before.shape != now.shape:
        return f"{len(now)} numbers, not {len(before)}"
    cosine = float(before @ now)
    return None if cosine >= ALIKE else f"cosine {cosine:.2f}"
