"""A stream of batches for each embedder in use."""

from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from time import monotonic

from ingestor.engine.vectors.embedding import Embedding, Resting
from ingestor.model import Fingerprint
from ingestor.ports import Embedder, Remote
from ingestor.state.cache.store import VectorCache


class Embeddings:
    """An ``Embedding`` for each embedder: two exist while a collection moves to another embedder."""

    def __init__(
        self,
        cache: VectorCache,
        count_tokens: Callable[[Sequence[str]], list[int]],
        resting: Resting = nullcontext,
    ) -> None:
        self._cache, self._count_tokens, self._resting = cache, count_tokens, resting
        self._by_recipe: dict[Fingerprint, Embedding] = {}
        self._settings: dict[Fingerprint, object] = {}
        self._asked = set[Fingerprint]()  # since the last ``keep``
        self._before = (0, 0, 0.0)  # texts, tokens, seconds of those that were closed
        self._cached_before = 0

    def of(self, recipe: Fingerprint, embedder: Callable[[], Embedder], setting: object = None) -> Embedding:
        """Return the stream of this recipe.

        ``setting``: how its embedder is set. A stream to a server is replaced once between two calls of
        ``keep`` if the setting differs, since the key may be another now. So several askers get the same.
        """
        known, asked = self._by_recipe.get(recipe), recipe in self._asked
        self._asked.add(recipe)
        other = not asked and self._settings.get(recipe) != setting
        if known is None or (other and isinstance(known.embedder, Remote)):
            self._close(self._by_recipe.keys() & {recipe})
            self._settings[recipe] = setting
            self._by_recipe[recipe] = Embedding(
                embedder(), recipe, self._cache, self._count_tokens, self._resting
            )
        return self._by_recipe[recipe]

    def asking(self, recipe: str) -> Embedding | None:
        """The open embedding of that recipe. Any thread."""
        return self._by_recipe.get(Fingerprint(recipe))

    def keep(self, recipes: Collection[Fingerprint]) -> None:
        """Close those of all other recipes, after a config was taken over."""
        self._asked.clear()
        self._close(self._by_recipe.keys() - recipes)

    def _close(self, recipes: Collection[Fingerprint]) -> None:
        for recipe in recipes:
            closed = self._by_recipe.pop(recipe)
            closed.close()
            texts, tokens, seconds = self._before
            self._before = (texts + closed.texts, tokens + closed.tokens, seconds + closed.seconds)
            self._cached_before += closed.cached

    @property
    def texts(self) -> int:
        return self._before[0] + sum(one.texts for one in list(self._by_recipe.values()))

    @property
    def tokens(self) -> int:
        return self._before[1] + sum(one.tokens for one in list(self._by_recipe.values()))

    @property
    def seconds(self) -> float:
        return self._before[2] + sum(one.seconds for one in list(self._by_recipe.values()))

    @property
    def cached(self) -> int:
        return self._cached_before + sum(one.cached for one in list(self._by_recipe.values()))

    @property
    def waiting(self) -> int:
        """Texts of documents that wait, or are embedded now."""
        return sum(one.waiting for one in list(self._by_recipe.values()))

    @property
    def known(self) -> tuple[int, int]:
        """Return texts that models have embedded, rounds under way included, and those left."""
        each = [one.known for one in list(self._by_recipe.values())]
        return self._before[0] + sum(done for done, _ in each), sum(left for _, left in each)

    @property
    def loading(self) -> bool:
        """Whether a model is being loaded."""
        return any(one.loading for one in list(self._by_recipe.values()))

    @property
    def busy_for(self) -> float:
        """Seconds that the oldest batch under way has taken so far."""
        since = [one.busy_since for one in list(self._by_recipe.values())]
        return max((monotonic() - begun for begun in since if begun is not None), default=0.0)

    def stop(self) -> None:
        for one in list(self._by_recipe.values()):
            one.stop()

    def close(self) -> None:
        self.keep(())
