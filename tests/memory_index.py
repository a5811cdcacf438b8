"""An index in memory that keeps the laws of ``Index``: for simulations, and to say what they mean."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import ge, gt, le, lt
from typing import Any

import numpy as np

from ingestor.model import Hit, Metadata, Record, RecordId, Scalar, Value, Vector, Vectors

_EMPTY = np.empty(0, dtype=np.float32)


_LARGEST = 2**63  # beyond it Chroma turns an integer into a float


def check_records(records: Sequence[Record]) -> None:
    """Raises ValueError, naming the record, if Chroma could not store it: a defect of ours."""
    check_ids([record.id for record in records])
    for record in records:
        if not np.isfinite(record.vector).all():
            raise ValueError(f"record {record.id!r}: the vector contains NaN or infinity")
        _check_text(record.id, record.text)
        _check_metadata(record.id, record.metadata)


def check_patches(patches: Sequence[tuple[RecordId, Metadata]]) -> None:
    """Raises ValueError, naming the record."""
    check_ids([name for name, _ in patches])
    for name, metadata in patches:
        _check_metadata(name, metadata)


def check_ids(ids: Sequence[RecordId]) -> None:
    """Raises ValueError if an id occurs twice: which one wins would depend on the batches."""
    if len(set(ids)) < len(ids):
        repeated = sorted({name for name in ids if ids.count(name) > 1})
        raise ValueError(f"records named twice in one call: {', '.join(map(repr, repeated))}")


def _check_metadata(name: RecordId, metadata: Metadata) -> None:
    _check_text(name, *metadata)
    _check_text(name, *[value for value in metadata.values() if isinstance(value, str)])
    for key, value in metadata.items():
        if value is None or isinstance(value, str):
            continue
        if isinstance(value, list) and value and all(isinstance(each, str) for each in value):
            _check_text(name, *value)
        elif not _storable(value):
            raise ValueError(f"record {name!r}: {key} = {value!r} can't be stored")


def _storable(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and -_LARGEST <= value < _LARGEST


def _check_text(name: RecordId, *texts: str) -> None:
    if "".join(texts).isascii():
        return
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"record {name!r}: lone surrogate at {error.start} of {text[:40]!r}") from error


@dataclass(slots=True)
class MemoryIndex:
    """Exact search; vectors are taken to have length one."""

    records: dict[RecordId, Record] = field(default_factory=dict)
    noted: dict[str, object] = field(default_factory=dict)

    def upsert(self, records: Sequence[Record]) -> None:
        check_records(records)
        for record in records:
            metadata = self._merged(record.id, record.metadata)
            self.records[record.id] = Record(record.id, record.text, metadata, record.vector.copy())

    def patch(self, metadata: Sequence[tuple[RecordId, Metadata]]) -> None:
        check_patches(metadata)
        for name, changes in metadata:
            if name in self.records:
                record = self.records[name]
                self.records[name] = Record(name, record.text, self._merged(name, changes), record.vector)

    def drop(self, ids: Sequence[RecordId]) -> None:
        for name in ids:
            self.records.pop(name, None)

    def count(self) -> int:
        return len(self.records)

    def read(self, ids: Sequence[RecordId], *, vectors: bool = False) -> list[Record]:
        found = [self.records[name] for name in dict.fromkeys(ids) if name in self.records]
        if vectors:
            return found
        return [Record(record.id, record.text, record.metadata, _EMPTY) for record in found]

    def ids(self) -> Iterator[RecordId]:
        return iter(tuple(self.records))

    def facts(self) -> Mapping[str, object]:
        return dict(self.noted)

    def note(self, facts: Mapping[str, str]) -> None:
        self.noted |= facts

    def query(self, vectors: Vectors, n: int, where: dict[str, object] | None = None) -> list[list[Hit]]:
        among = [record for record in self.records.values() if matches(where, record.metadata)]
        if not among:
            return [[] for _ in vectors]
        scores = vectors @ np.stack([record.vector for record in among]).T
        return [self._best(row, among, n) for row in scores]

    def nearest(
        self, vectors: Vectors | Sequence[Vector], n: int, where: dict[str, object] | None = None
    ) -> list[list[tuple[RecordId, float]]]:
        return [[(hit.id, hit.score) for hit in hits] for hits in self.query(np.asarray(vectors), n, where)]

    def _best(self, scores: Vectors, among: Sequence[Record], n: int) -> list[Hit]:
        order = np.argsort(-scores, kind="stable")[:n]
        return [Hit(among[i].id, float(scores[i]), among[i].text, among[i].metadata) for i in order]

    def _merged(self, name: RecordId, changes: Metadata) -> Metadata:
        """Chroma's rule: what is not named stays, and None removes."""
        before = self.records[name].metadata if name in self.records else {}
        return {key: value for key, value in {**before, **changes}.items() if value is not None}


@dataclass(slots=True)
class SearchedIndex(MemoryIndex):
    """An index that a search asks. As soon as it has compared vectors, it calls one of ``writes``, if any."""

    writes: list[Callable[[], object]] = field(default_factory=list)

    def query(self, vectors: Vectors, n: int, where: dict[str, object] | None = None) -> list[list[Hit]]:
        found = MemoryIndex.query(self, vectors, n, where)
        if self.writes:
            self.writes.pop()()
        return found

    def vectors(self, ids: Sequence[RecordId]) -> dict[RecordId, Vector]:
        return {record.id: record.vector for record in self.read(ids, vectors=True)}

    def filter_ids(self, ids: Sequence[RecordId], where: Mapping[str, object]) -> set[RecordId]:
        return {record.id for record in self.read(ids) if matches(where, record.metadata)}

    def select(self, where: Mapping[str, object], most: int = 2000) -> list[Record]:
        return [record for record in self.records.values() if matches(where, record.metadata)][:most]


def matches(where: Mapping[str, Any] | None, metadata: Metadata) -> bool:
    """Chroma's metadata filters: comparisons, ``$in``, ``$nin``, ``$contains``, ``$and`` and ``$or``."""
    return all(_matches(key, wanted, metadata) for key, wanted in (where or {}).items())


def _matches(key: str, wanted: Any, metadata: Metadata) -> bool:
    if key == "$and":
        return all(matches(part, metadata) for part in wanted)
    if key == "$or":
        return any(matches(part, metadata) for part in wanted)
    (operator, operand) = next(iter(wanted.items())) if isinstance(wanted, dict) else ("$eq", wanted)
    return _OPERATORS[operator](metadata.get(key), operand)


def _same(value: Value, other: Value) -> bool:
    """True is not 1, and "1" is not either; 1 and 1.0 are the same."""
    return isinstance(value, bool) == isinstance(other, bool) and value == other


def _among(value: Value, others: Sequence[Scalar]) -> bool:
    return any(_same(value, other) for other in others)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Value, Any], bool]:
    """Only numbers have an order; a key that is absent fails every comparison."""
    return lambda value, bound: (
        isinstance(value, int | float) and not isinstance(value, bool) and compare(value, bound)
    )


_OPERATORS: dict[str, Callable[[Value, Any], bool]] = {
    "$eq": _same,
    "$ne": lambda value, other: not _same(value, other),
    "$gt": _ordered(gt),
    "$gte": _ordered(ge),
    "$lt": _ordered(lt),
    "$lte": _ordered(le),
    "$in": _among,
    "$nin": lambda value, others: not _among(value, others),
    "$contains": lambda value, one: isinstance(value, list) and one in value,
}
