"""A collection of several shards in Chroma, written and searched as a single collection.

Records are divided by ``core.shards``. A question goes to all shards, and the best hits of all are kept: the
distance of a record to a question does not depend on the other records. The lexical index counts over the
whole collection, so scores equal the scores of a collection in one piece.

Readers ask all shards at the same time: they wait for the slowest, and not for the sum.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

from ingestor.chroma.index import ChromaIndex
from ingestor.core.backend import Backend, Model
from ingestor.core.entries import ChromaName
from ingestor.core.shards import join, shard_names, shard_of
from ingestor.model import Hit, Metadata, Record, RecordId
from ingestor.ports import Gone, Index, Torn, Transient

if TYPE_CHECKING:
    from ingestor.model import Vector, Vectors

T = TypeVar("T")
Ask = tuple[int, Callable[[], T]]  # a shard, and what is asked of it

_AT_ONCE = 32  # requests of readers that are under way in this process


class ShardedIndex:
    """``parts``: the shards in their order."""

    def __init__(self, parts: Sequence[Index]) -> None:
        self.parts = tuple(parts)

    def upsert(self, records: Sequence[Record]) -> None:
        for number, some in self._divided(records, lambda record: record.id):
            with blamed(number):
                self.parts[number].upsert(some)

    def patch(self, metadata: Sequence[tuple[RecordId, Metadata]]) -> None:
        for number, some in self._divided(metadata, lambda row: row[0]):
            with blamed(number):
                self.parts[number].patch(some)

    def drop(self, ids: Sequence[RecordId]) -> None:
        for number, some in self._divided(ids, lambda id_: id_):
            with blamed(number):
                self.parts[number].drop(some)

    def count(self) -> int:
        return sum(self._each(lambda part: part.count()))

    def read(self, ids: Sequence[RecordId], *, vectors: bool = False) -> list[Record]:
        asks = [
            (number, partial(self.parts[number].read, some, vectors=vectors))
            for number, some in self._divided(ids, lambda id_: id_)
        ]
        return [record for found in self._answers(asks) for record in found]

    def ids(self) -> Iterator[RecordId]:
        for number, part in enumerate(self.parts):
            with blamed(number):
                yield from part.ids()

    def facts(self) -> Mapping[str, object]:
        """Return the facts of the first shard: all shards are on one server, and are restored together."""
        with blamed(0):
            return self.parts[0].facts()

    def note(self, facts: Mapping[str, str]) -> None:
        with blamed(0):
            self.parts[0].note(facts)

    def query(self, vectors: Vectors, n: int, where: dict[str, object] | None = None) -> list[list[Hit]]:
        answers = self._each(lambda part: part.query(vectors, n, where))
        return [
            sorted((hit for hits in row for hit in hits), key=lambda hit: (-hit.score, hit.id))[:n]
            for row in zip(*answers, strict=True)
        ]

    def nearest(
        self, vectors: Vectors | Sequence[Vector], n: int, where: dict[str, object] | None = None
    ) -> list[list[tuple[RecordId, float]]]:
        answers = self._each(lambda part: part.nearest(vectors, n, where))
        return [
            sorted((hit for hits in row for hit in hits), key=lambda hit: (-hit[1], hit[0]))[:n]
            for row in zip(*answers, strict=True)
        ]

    def _divided(self, items: Sequence[T], id_of: Callable[[T], str]) -> list[tuple[int, list[T]]]:
        """The items by shard."""
        return divided(items, id_of, len(self.parts))

    def _each(self, ask: Callable[[Index], T]) -> list[T]:
        """The answer of every shard."""
        return self._answers([(number, partial(ask, part)) for number, part in enumerate(self.parts)])

    def _answers(self, asks: Sequence[Ask[T]]) -> list[T]:
        return [_answer(ask) for ask in asks]


class ShardedStore(ShardedIndex):
    """The same, with what a search asks of a collection in Chroma."""

    def __init__(self, parts: Sequence[ChromaIndex]) -> None:
        super().__init__(parts)
        self.stores = tuple(parts)

    @property
    def uuid(self) -> str:
        return join([store.uuid for store in self.stores])

    def vectors(self, ids: Sequence[RecordId]) -> dict[RecordId, Vector]:
        shares = divided(ids, str, len(self.stores))
        asks = [(number, partial(self.stores[number].vectors, some)) for number, some in shares]
        return {id_: vector for found in self._answers(asks) for id_, vector in found.items()}

    def matching(self, ids: Sequence[RecordId], where: Mapping[str, Any]) -> set[RecordId]:
        shares = divided(ids, str, len(self.stores))
        asks = [(number, partial(self.stores[number].matching, some, where)) for number, some in shares]
        return set().union(*self._answers(asks))

    def select(self, where: Mapping[str, Any], most: int = 2000) -> list[Record]:
        document = _document_of(where)
        if document is not None:
            return self.stores[shard_of(document, len(self.stores))].select(where, most)
        return [record for store in self.stores for record in store.select(where, most)][:most]

    def check_filter(self, where: dict[str, object]) -> None:
        self.stores[0].check_filter(where)

    def _answers(self, asks: Sequence[Ask[T]]) -> list[T]:
        """The error is that of the first shard that has one."""
        if len(asks) < 2:
            return super()._answers(asks)
        return [answer.result() for answer in [_threads().submit(_answer, ask) for ask in asks]]


Store = ChromaIndex | ShardedStore


def as_one(parts: Sequence[ChromaIndex]) -> Store:
    """The collection that these shards are."""
    return ShardedStore(parts) if len(parts) > 1 else parts[0]


def parts_of(store: Store) -> Sequence[ChromaIndex]:
    """Return the shards of a store in their order."""
    return store.stores if isinstance(store, ShardedStore) else (store,)


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_AT_ONCE, "shard")


os.register_at_fork(after_in_child=_threads.cache_clear)  # a fork has none of the threads


def _answer(ask: Ask[T]) -> T:
    number, question = ask
    with blamed(number):
        return question()


@contextmanager
def blamed(shard: int) -> Iterator[None]:
    """Errors say over which shard they came: it alone is damaged, or crashed the server."""
    try:
        yield
    except (Torn, Gone, Transient) as error:
        error.shard = shard
        raise


def divided(items: Sequence[T], id_of: Callable[[T], str], shards: int) -> list[tuple[int, list[T]]]:
    """The items by shard, in the order of the shards that have any."""
    found: dict[int, list[T]] = {}
    for item in items:
        found.setdefault(shard_of(id_of(item), shards), []).append(item)
    return sorted(found.items())


def _document_of(where: Mapping[str, Any]) -> str | None:
    """The document that a filter asks for, if it asks for one."""
    conditions = [where, *where.get("$and", ())]
    named = (one.get("document_id") for one in conditions)
    return next((document for document in named if isinstance(document, str)), None)


class ShardedBackend:
    """A store of collections in which one name may stand for several collections in Chroma.

    Collections are opened, examined and deleted by the name of the whole; UUIDs and renames are those of the
    shards, since Chroma knows no others. ``shards``: how many the collection of that name has.
    """

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
        return ShardedIndex([index for index, _ in opened]), join([uuid for _, uuid in opened])

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
