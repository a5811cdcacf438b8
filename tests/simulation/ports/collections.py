"""Chroma: collections that outlive the process, and writes that die, fail or lie."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from ingestor.core.backend import Model
from ingestor.model import Hit, Record, Vector, Vectors
from ingestor.ports import BadDocument, Index, Torn
from tests.memory_index import MemoryIndex
from tests.simulation.ports.chaos import Chaos
from tests.simulation.ports.files import UNWRITABLE


@dataclass
class CrashingIndex:
    """Dies before, within and after a write, and at times raises although it wrote."""

    inner: MemoryIndex
    chaos: Chaos
    torn: bool = False

    def _apply(self, name: str, write: Callable[[list], None], batch: Sequence) -> None:
        if self.torn:
            raise Torn("injected")
        self.chaos.point(f"before {name}")
        self.chaos.request(f"before {name}")
        half = len(batch) // 2
        write(list(batch[:half]))
        self.chaos.asked()
        self.chaos.point(f"within {name}")
        self.chaos.request(f"within {name}")
        write(list(batch[half:]))
        self.chaos.asked()
        self.chaos.point(f"after {name}")
        self.chaos.request(f"after {name}")

    def count(self) -> int:
        if self.torn:
            raise Torn("injected")
        self.chaos.request("count")
        return self.inner.count()

    def upsert(self, records: Sequence[Record]) -> None:
        if any(UNWRITABLE in record.text for record in records):
            raise BadDocument(UNWRITABLE)
        self._apply("upsert", self.inner.upsert, records)

    def patch(self, metadata: Sequence) -> None:
        self._apply("patch", self.inner.patch, metadata)

    def drop(self, ids: Sequence) -> None:
        self._apply("drop", self.inner.drop, ids)

    def read(self, ids: Sequence, *, vectors: bool = False) -> list[Record]:
        return self.inner.read(ids, vectors=vectors)

    def ids(self) -> Iterator[str]:
        return self.inner.ids()

    def facts(self) -> Mapping[str, object]:
        if self.torn:
            raise Torn("injected")
        self.chaos.request("facts")
        return self.inner.facts()

    def note(self, facts: Mapping[str, str]) -> None:
        self.chaos.point("before note")
        self.chaos.request("before note")
        self.inner.note(facts)
        self.chaos.point("after note")
        self.chaos.request("after note")

    def query(self, vectors: Vectors, n: int, where: dict[str, object] | None = None) -> list[list[Hit]]:
        return self.inner.query(vectors, n, where)

    def nearest(
        self, vectors: Vectors | Sequence[Vector], n: int, where: dict[str, object] | None = None
    ) -> list[list[tuple[str, float]]]:
        return self.inner.nearest(vectors, n, where)


@dataclass
class Shelves:
    """The backend: collections that outlive the process."""

    address = guard = ""  # nobody else is served
    restarts = 0

    chaos: Chaos
    serial: Iterator[int] = field(default_factory=count)
    collections: dict[str, tuple[CrashingIndex, str]] = field(default_factory=dict)
    restored: bool = False  # somebody restored it or the journal, or replaced metadata

    def open(self, name: str, model: Model) -> tuple[Index, str]:
        self.chaos.request("open")
        if name not in self.collections:
            self.collections[name] = (CrashingIndex(MemoryIndex(), self.chaos), f"uuid-{next(self.serial)}")
        return self.collections[name]

    def delete(self, name: str) -> None:
        self.chaos.point("before delete")
        self.chaos.request("delete")
        self.collections.pop(name, None)
        self.chaos.asked()
        self.chaos.point("after delete")

    def look(self, name: str) -> None:
        if name in self.collections:
            self.collections[name][0].count()

    def trouble(self, name: str, error: Exception) -> None:
        pass

    def names(self) -> dict[str, str]:
        self.chaos.request("names")
        return self._names()

    def _names(self) -> dict[str, str]:
        return {uuid: name for name, (_, uuid) in self.collections.items()}

    def rename(self, uuid: str, name: str) -> bool:
        self.chaos.point("before rename")
        self.chaos.request("rename")
        if name in self.collections:
            return False
        self.collections[name] = self.collections.pop(self._names()[uuid])
        self.chaos.asked()
        self.chaos.point("after rename")
        return True

    def evict(self, name: str) -> str:
        del self.collections[name]
        return "deleted"

    def uuid(self, name: str) -> str | None:
        return self.collections[name][1] if name in self.collections else None

    def records(self, name: str) -> list[Record]:
        if name not in self.collections:
            return []
        inner = self.collections[name][0].inner
        return inner.read(list(inner.ids()), vectors=True)
