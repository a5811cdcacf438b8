"""The part of a collection in Chroma that a search needs, and a record of what one search was told."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ingestor.model import Hit, Record, RecordId, Vector, Vectors


class Store(Protocol):
    def query(self, vectors: Vectors, n: int, where: dict[str, object] | None = None) -> list[list[Hit]]: ...

    def nearest(
        self, vectors: Vectors, n: int, where: dict[str, object] | None = None
    ) -> list[list[tuple[RecordId, float]]]: ...

    def vectors(self, ids: Sequence[RecordId]) -> Mapping[RecordId, Vector]: ...

    def read(self, ids: Sequence[RecordId]) -> list[Record]: ...

    def matching(self, ids: Sequence[RecordId], where: Mapping[str, Any]) -> set[RecordId]: ...

    def select(self, where: Mapping[str, Any], most: int = 2000) -> list[Record]: ...

    def check_filter(self, where: dict[str, object]) -> None: ...

    def count(self) -> int: ...


@dataclass(slots=True)
class Observed:
    """A store that notes the records which it returns.

    ``texts``: their texts; None if only their ids or vectors were returned. ``steady``: no record was gone or
    changed between two calls.
    """

    store: Store
    texts: dict[RecordId, str | None] = field(default_factory=dict)
    steady: bool = True

    def query(self, vectors: Vectors, n: int, where: dict[str, object] | None = None) -> list[list[Hit]]:
        rows = self.store.query(vectors, n, where)
        for hit in (hit for hits in rows for hit in hits):
            self._note(hit.id, hit.text)
        return rows

    def nearest(
        self, vectors: Vectors, n: int, where: dict[str, object] | None = None
    ) -> list[list[tuple[RecordId, float]]]:
        rows = self.store.nearest(vectors, n, where)
        for id_, _ in (hit for hits in rows for hit in hits):
            self._note(id_, None)
        return rows

    def vectors(self, ids: Sequence[RecordId]) -> Mapping[RecordId, Vector]:
        found = self.store.vectors(ids)
        for id_ in ids:
            self.steady &= id_ in found
            self._note(id_, None)
        return found

    def read(self, ids: Sequence[RecordId]) -> list[Record]:
        found = self._noted(self.store.read(ids))
        self.steady &= {record.id for record in found} == set(ids)
        return found

    def matching(self, ids: Sequence[RecordId], where: Mapping[str, Any]) -> set[RecordId]:
        return self.store.matching(ids, where)

    def select(self, where: Mapping[str, Any], most: int = 2000) -> list[Record]:
        return self._noted(self.store.select(where, most))

    def check_filter(self, where: dict[str, object]) -> None:
        self.store.check_filter(where)

    def count(self) -> int:
        return self.store.count()

    def _noted(self, records: list[Record]) -> list[Record]:
        for record in records:
            self._note(record.id, record.text)
        return records

    def _note(self, id_: RecordId, text: str | None) -> None:
        known = self.texts.setdefault(id_, text)
        if known is None:
            self.texts[id_] = text
        elif text is not None:
            self.steady &= text == known
