"""A collection in Chroma that many search at once: their reads are made together.

A request costs Chroma and us several milliseconds, whatever it asks for; eight questions in one take half the
time of eight requests.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ingestor.model import Hit, Record, RecordId, Vector, Vectors
from ingestor.search.combined_calls import CombinedCalls
from ingestor.search.observed import Store

_MOST = 16  # questions in a request
_KEPT = 32  # collections

_Where = dict[str, object] | None
_Query = tuple[Vectors, int, _Where]


class SharedStore:
    """``opened``: the collection as it is now. Any thread."""

    def __init__(self, opened: Callable[[], Store]) -> None:
        self._opened = opened
        self._queries = CombinedCalls(self._query, _MOST)
        self._nearest = CombinedCalls(self._find_nearest, _MOST)
        self._vectors = CombinedCalls(self._read_vectors, _MOST)
        self._records = CombinedCalls(self._read_records, _MOST)

    def query(self, vectors: Vectors, n: int, where: _Where = None) -> list[list[Hit]]:
        return self._queries.ask(_kind(n, where), (vectors, n, where))

    def nearest(self, vectors: Vectors, n: int, where: _Where = None) -> list[list[tuple[RecordId, float]]]:
        return self._nearest.ask(_kind(n, where), (vectors, n, where))

    def vectors(self, ids: Sequence[RecordId]) -> Mapping[RecordId, Vector]:
        return self._vectors.ask(None, ids) if ids else {}

    def read(self, ids: Sequence[RecordId]) -> list[Record]:
        return self._records.ask(None, ids) if ids else []

    def matching(self, ids: Sequence[RecordId], where: Mapping[str, Any]) -> set[RecordId]:
        return self._opened().matching(ids, where)

    def select(self, where: Mapping[str, Any], most: int = 2000) -> list[Record]:
        return self._opened().select(where, most)

    def count(self) -> int:
        return self._opened().count()

    def check_filter(self, where: dict[str, object]) -> None:
        self._opened().check_filter(where)

    def _query(self, asked: Sequence[_Query]) -> list[list[list[Hit]]]:
        _, n, where = asked[0]
        return _divided(asked, self._opened().query(_joined(asked), n, where))

    def _find_nearest(self, asked: Sequence[_Query]) -> list[list[list[tuple[RecordId, float]]]]:
        _, n, where = asked[0]
        return _divided(asked, self._opened().nearest(_joined(asked), n, where))

    def _read_vectors(self, asked: Sequence[Sequence[RecordId]]) -> list[dict[RecordId, Vector]]:
        found = self._opened().vectors(_every(asked))
        return [{id_: found[id_] for id_ in ids if id_ in found} for ids in asked]

    def _read_records(self, asked: Sequence[Sequence[RecordId]]) -> list[list[Record]]:
        found = {record.id: record for record in self._opened().read(_every(asked))}
        return [[found[id_] for id_ in dict.fromkeys(ids) if id_ in found] for ids in asked]


def shared_stores(opened: Callable[[str], Store]) -> Callable[[str], SharedStore]:
    """Collections by UUID, each the same for all who ask."""
    return lru_cache(_KEPT)(lambda uuid: SharedStore(partial(opened, uuid)))


def _kind(n: int, where: _Where) -> str:
    return json.dumps([n, where], sort_keys=True)


def _joined(asked: Sequence[_Query]) -> Vectors:
    return np.concatenate([vectors for vectors, _, _ in asked])


def _divided(asked: Sequence[_Query], rows: list[Any]) -> list[list[Any]]:
    """The rows of each one's vectors."""
    rest = iter(rows)
    return [[next(rest) for _ in vectors] for vectors, _, _ in asked]


def _every(asked: Sequence[Sequence[RecordId]]) -> list[RecordId]:
    return list(dict.fromkeys(id_ for ids in asked for id_ in ids))
