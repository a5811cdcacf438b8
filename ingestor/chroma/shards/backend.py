"""A store of collections in which one name may stand for several collections in Chroma.

Collections are opened, examined and deleted by the name of the whole; UUIDs and renames are those of the
shards, since Chroma knows no others.
"""

from collections.abc import Callable, Mapping

from ingestor.chroma.shards.index import ShardedIndex, blamed
from ingestor.core.backend import Backend, Model
from ingestor.core.entries import ChromaName
from ingestor.core.shards import joined, shard_names
from ingestor.ports import Index


class ShardedBackend:
    """``shards``: how many the collection of that name has."""

    def __init__(self, inner: Backend, shards: Callable[[ChromaName], int]) -> None:
        self._inner, self._shards = inner, shards

    def open(self, name: ChromaName, model: Model) -> tuple[Index, str]:
        names = self._parts(name)
        if len(names) == 1:
            return self._inner.open(name, model)
        opened = []
        for number, part in enumerate(names):
            with blamed(number):
                opened.append(self._inner.open(part, model))
        return ShardedIndex([index for index, _ in opened]), joined([uuid for _, uuid in opened])

    def delete(self, name: ChromaName) -> None:
        for part in self._parts(name):
            self._inner.delete(part)

    def look(self, name: ChromaName) -> str | None:
        names, found = self._parts(name), []
        if len(names) == 1:
            return self._inner.look(name)
        for number, part in enumerate(names):
            with blamed(number):
                reason = self._inner.look(part)
            found += [f"{part}: {reason}"] if reason else []
        return "; ".join(found) or None

    def refill(self, uuid: str) -> None:
        self._inner.refill(uuid)

    def trouble(self, name: ChromaName, error: Exception) -> None:
        """Report the failing shard only: by the next one the server may have been restarted."""
        parts, at = self._parts(name), getattr(error, "shard", None) or 0
        self._inner.trouble(parts[min(at, len(parts) - 1)], error)

    def names(self) -> Mapping[str, str]:
        return self._inner.names()

    def rename(self, uuid: str, name: str) -> bool:
        return self._inner.rename(uuid, name)

    def evict(self, name: str) -> str:
        return self._inner.evict(name)

    def _parts(self, name: ChromaName) -> list[ChromaName]:
        return [ChromaName(part) for part in shard_names(name, self._shards(name))]
