"""A collection whose records are divided among shards in Chroma, written and searched as a single index.

``entries.shard_of`` decides the shard of a record. A query goes to all shards, and the best hits of all are
returned. The scores are those of a collection without shards. The distance of a record to a query does not
depend on other records, and the lexical index counts words over the whole collection.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ingestor.chroma.index import ChromaIndex
from ingestor.core.entries import shard_of
from ingestor.model import Hit, Metadata, Record, RecordId
from ingestor.ports import Gone, Index, Torn, Transient

if TYPE_CHECKING:
    from ingestor.model import Vector, Vectors

T = TypeVar("T")
Part = TypeVar("Part", bound=Index)
Answer = TypeVar("Answer")
Asks = Mapping[int, Callable[[], T]]  # by number of a shard, functions that send it a request

_AT_ONCE = 32  # requests of readers to shards at the same time, in this process


@contextmanager
def blame(shard: int, shards: int) -> Iterator[None]:
    """Store in errors that the context raises which shard failed, so that only that shard is repaired.

    ``shard``: its number. ``shards``: number of shards; if there is one, nothing is stored.
    """
    try:
        yield
    except (Torn, Gone, Transient) as error:
        error.shard = shard if shards > 1 else None
        raise


class Shards(Generic[Part]):
    """The shards of a collection as a single ``Index``. ``parts``: the shards, ordered by number."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = tuple(parts)

    def upsert(self, records: Sequence[Record]) -> None:
        self._ask_by_shard(records, lambda record: record.id, lambda part, some: part.upsert(some))

    def patch(self, metadata: Sequence[tuple[RecordId, Metadata]]) -> None:
        self._ask_by_shard(metadata, lambda row: row[0], lambda part, some: part.patch(some))

    def drop(self, ids: Sequence[RecordId]) -> None:
        self._ask_by_shard(ids, str, lambda part, some: part.drop(some))

    def count(self) -> int:
        return sum(self._each(lambda part: part.count()))

    def read(self, ids: Sequence[RecordId], *, vectors: bool = False) -> list[Record]:
        answers = self._ask_by_shard(ids, str, lambda part, some: part.read(some, vectors=vectors))
        return [record for answer in answers for record in answer]

    def ids(self) -> Iterator[RecordId]:
        for number, part in enumerate(self.parts):
            with blame(number, len(self.parts)):
                yield from part.ids()

    def facts(self) -> Mapping[str, object]:
        """Return the collection's own metadata, as the first shard stores it.

        One shard suffices, since all shards are on one server and a backup restores them together.
        """
        return self._answers({0: self.parts[0].facts})[0]

    def note(self, facts: Mapping[str, str]) -> None:
        self._answers({0: partial(self.parts[0].note, facts)})

    def query(self, vectors: Vectors, n: int, where: dict[str, object] | None = None) -> list[list[Hit]]:
        answers = self._each(lambda part: part.query(vectors, n, where))
        return _best(answers, n, lambda hit: (-hit.score, hit.id))

    def nearest(
        self, vectors: Vectors | Sequence[Vector], n: int, where: dict[str, object] | None = None
    ) -> list[list[tuple[RecordId, float]]]:
        answers = self._each(lambda part: part.nearest(vectors, n, where))
        return _best(answers, n, lambda hit: (-hit[1], hit[0]))

    def _divide(self, items: Sequence[T], id_of: Callable[[T], str]) -> list[tuple[int, list[T]]]:
        """Divide items by shard. Return pairs of a shard's number and its items, in the order of the numbers.

        ``id_of``: returns the id by which the shard of an item is decided.
        """
        by_shard: dict[int, list[T]] = {}
        for item in items:
            by_shard.setdefault(shard_of(id_of(item), len(self.parts)), []).append(item)
        return sorted(by_shard.items())

    def _ask_by_shard(
        self, items: Sequence[T], id_of: Callable[[T], str], ask: Callable[[Part, list[T]], Answer]
    ) -> list[Answer]:
        """Return the results of ``ask`` for each shard that has any of the items, and its items."""
        divided = self._divide(items, id_of)
        return self._answers({number: partial(ask, self.parts[number], some) for number, some in divided})

    def _each(self, ask: Callable[[Part], T]) -> list[T]:
        """Call ``ask`` with each shard, and return the results in the order of the shards."""
        return self._answers({number: partial(ask, part) for number, part in enumerate(self.parts)})

    def _answers(self, asks: Asks[T]) -> list[T]:
        return [self._answer(*ask) for ask in asks.items()]

    def _answer(self, number: int, ask: Callable[[], T]) -> T:
        with blame(number, len(self.parts)):
            return ask()


class SearchedShards(Shards[ChromaIndex]):
    """The shards of a collection for readers, with the queries that a search needs.

    Requests go to all shards at the same time, so that a reader waits only as long as the slowest shard
    takes.
    """

    def vectors(self, ids: Sequence[RecordId]) -> dict[RecordId, Vector]:
        answers = self._ask_by_shard(ids, str, lambda part, some: part.vectors(some))
        return {id_: vector for answer in answers for id_, vector in answer.items()}

    def filter_ids(self, ids: Sequence[RecordId], where: Mapping[str, Any]) -> set[RecordId]:
        return set().union(*self._ask_by_shard(ids, str, lambda part, some: part.filter_ids(some, where)))

    def select(self, where: Mapping[str, Any], most: int = 2000) -> list[Record]:
        """Return the first ``most`` records that match a filter.

        If the filter names a document, only one shard is asked, because all records of a document are in one
        shard.
        """
        conditions = [where, *where.get("$and", ())]
        named = (one.get("document_id") for one in conditions)
        document = next((document for document in named if isinstance(document, str)), None)
        parts = self.parts if document is None else [self.parts[shard_of(document, len(self.parts))]]
        return [record for part in parts for record in part.select(where, most)][:most]

    def _answers(self, asks: Asks[T]) -> list[T]:
        """Make all requests at the same time, and return their results.

        Raises the error of the first shard that fails.
        """
        if len(asks) < 2:
            return super()._answers(asks)
        answers = [_threads().submit(self._answer, number, ask) for number, ask in asks.items()]
        return [answer.result() for answer in answers]


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_AT_ONCE, "shard")


os.register_at_fork(after_in_child=_threads.cache_clear)  # a forked process has none of these threads


def _best(answers: Sequence[list[list[T]]], n: int, order: Callable[[T], Any]) -> list[list[T]]:
    """Merge the hits of all shards: return for each vector the first ``n`` hits in the given order."""
    if len(answers) == 1:
        return answers[0]
    rows = zip(*answers, strict=True)
    return [sorted((hit for hits in row for hit in hits), key=order)[:n] for row in rows]
