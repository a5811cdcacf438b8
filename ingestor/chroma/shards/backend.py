"""A store of collections in which one name may stand for several collections in Chroma.

Collections are opened, examined and deleted by the name of the whole; UUIDs and renames are those of the
shards, since Chroma knows no others.
"""

from collections.abc import Callable, Mapping

from ingestor.chroma.shards.index import ShardedIndex
from ingestor.core.backend import Backend, Model
from ingestor.core.entries import ChromaName
from ingestor.core.shards import joined, shard_names
from ingestor.ports import Index


class ShardedBackend:
    """``shards``: how many the collection of that name has."""

    def __init__(self, inner: Backend, shards: Callable[[ChromaName], int]) -> None:
        self._inner, self._shards = inner, shards

    def open(self, name: ChromaName, model: Model) -> tuple[Index, str]:
        opened = [self._inner.open(part, model) for part in self._parts(name)]
        if len(opened) == 1:
            return opened[0]
        return ShardedIndex([index for index, _ in opened]), joined([uuid for _, uuid in opened])

    def delete(self, name: ChromaName) -> None:
        for part in self._parts(name):
            self._inner.delete(part)

    def look(self, name: ChromaName) -> str | None:
        reasons = [(part, self._inner.look(part)) for part in self._parts(name)]
        found = [reason if part == name else f"{part}: {reason}" for part, reason in reasons if reason]
        return "; ".join(found) or None

    def trouble(self, name: ChromaName, error: Exception) -> None:
        for part in self._parts(name):
            self._inner.trouble(part, error)

    def names(self) -> Mapping[str, str]:
        return self._inner.names()

    def rename(self, uuid: str, name: str) -> bool:
        return self._inner.rename(uuid, name)

    def evict(self, name: str) -> str:
        return self._inner.evict(name)

    def _parts(self, name: ChromaName) -> list[ChromaName]:
        return [ChromaName(part) for part in shard_names(name, self._shards(name))]
