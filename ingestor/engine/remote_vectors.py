"""What an embedder answers, whether it computes vectors here or asks a server.

A server may become another one without a word: its address may lead to another machine, and some servers
ignore the model's name. So the vector of one word is kept in the cache, and compared at each start and after
each failure.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import closing

import numpy as np

from ingestor.core.fingerprint import text_digest
from ingestor.core.interruptions import Stopped
from ingestor.engine.vector_check import BadVectors, checked
from ingestor.model import Answered, EmbeddedPart, Fingerprint, Vector
from ingestor.ports import Embedder, Gradual, NeedsHuman, Remote, Stop, Transient
from ingestor.state.cache.store import VectorCache

STEP = 16  # texts of documents that a model which is not gradual embeds before questions have their turn
HARMLESS = "word"  # a text that any model can take
ALIKE = 0.99  # cosine; that of unrelated models is near 0


class LocalVectors:
    """Raises what the embedder raises, for all texts together."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._loaded = False

    def load(self, texts: Sequence[str]) -> None:
        """Load the model, which does not count as embedding."""
        if not self._loaded:
            self._embedder.embed(texts[:1])
            self._loaded = True

    def __call__(self, texts: Sequence[str], stop: Stop, between_steps: Callable[[], None]) -> Answered:
        """Raises Stopped, too."""
        vectors: list[Vector | Exception] = [BadVectors("the embedder gave this text no vector")] * len(texts)
        model, left = self._embedder, len(texts)
        with closing(
            model.embed_gradually(texts) if isinstance(model, Gradual) else self._steps(texts)
        ) as parts:
            for part in parts:
                chosen = [texts[position] for position in part.positions]
                rows = checked(part.vectors, chosen, model.dimensions)
                for position, vector in zip(part.positions, rows, strict=True):
                    vectors[position] = vector
                left -= len(rows)
                between_steps()
                if left and stop.is_set():
                    raise Stopped
        return Answered(vectors)

    def _steps(self, texts: Sequence[str]) -> Generator[EmbeddedPart]:
        """Each holds texts of similar lengths, as embedders batch them."""
        longest_first = sorted(range(len(texts)), key=lambda position: -len(texts[position]))
        for start in range(0, len(texts), STEP):
            step = longest_first[start : start + STEP]
            yield EmbeddedPart(step, self._embedder.embed([texts[position] for position in step]))


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
