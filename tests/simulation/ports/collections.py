"""Chroma: collections that outlive the process, and writes that die, fail or lie."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Any
from uuid import UUID

from ingestor.chroma.client import DescribedCollection
from ingestor.chroma.settings import new_configuration, right_settings
from ingestor.core.entries import name_for_readers
from ingestor.core.generations import Home, Model
from ingestor.model import Hit, Record, Vector, Vectors
from ingestor.ports import BadDocument, Foreign, Index, Torn, Transient
from tests.memory_index import MemoryIndex
from tests.simulation.ports.chaos import Chaos
from tests.simulation.ports.files import UNWRITABLE

FEW = 5  # records of a deleted edition that a step deletes


@dataclass
class CrashingIndex:
    """Dies before, within and after a write, and at times raises although it wrote.

    ``copies``: how many records of all collections have a text.
    """

    inner: MemoryIndex
    chaos: Chaos
    copies: Callable[[str], int]
    settings: dict[str, Any] = field(default_factory=dict)  # as Chroma's JSON has them
    torn: bool = False
    away: bool = False  # its disk takes no writes just now
    hidden: set[str] = field(default_factory=set)  # records that search misses until they are written again

    def require_room(self) -> None:
        if self.away:
            raise Transient("the collection takes no writes just now")

    def _apply(self, name: str, write: Callable[[list], None], batch: Sequence) -> None:
        if self.torn:
            raise Torn("injected")
        self.require_room()
        self.chaos.strike(f"before {name}")
        half = len(batch) // 2
        for when, part in (("within", batch[:half]), ("after", batch[half:])):
            write(list(part))
            self.chaos.asked()
            self.chaos.strike(f"{when} {name}")

    def count(self) -> int:
        if self.torn:
            raise Torn("injected")
        self.chaos.request("count")
        return self.inner.count()

    def upsert(self, records: Sequence[Record]) -> None:
        if any(UNWRITABLE in record.text for record in records):
            raise BadDocument(UNWRITABLE)
        ids, known = [record.id for record in records], self.inner.records
        moved = {r.id for r in records if r.id in known and (known[r.id].vector != r.vector).any()}
        self._apply("upsert", self.inner.upsert, records)
        self.hidden.difference_update(ids)
        if moved:  # the first of the others was reached from these alone
            self.hidden.update([id_ for id_ in ids if id_ not in moved][:1])

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
        self.require_room()
        self.chaos.strike("before note")
        self.inner.note(facts)
        self.chaos.strike("after note")

    def query(self, vectors: Vectors, n: int, where: dict[str, object] | None = None) -> list[list[Hit]]:
        return self.inner.query(vectors, n, where)

    def nearest(
        self, vectors: Vectors | Sequence[Vector], n: int, where: dict[str, object] | None = None
    ) -> list[list[tuple[str, float]]]:
        known = self.inner.records  # whoever finds a twin misses nothing
        self.hidden = {id_ for id_ in self.hidden & known.keys() if self.copies(known[id_].text) == 1}
        found = self.inner.nearest(vectors, n + len(self.hidden), where)
        return [[hit for hit in hits if hit[0] not in self.hidden][:n] for hits in found]


@dataclass
class Shelves:
    """The backend: collections that outlive the process."""

    address, server, restarts = "", None, 0  # nobody else is served

    chaos: Chaos
    serial: Iterator[int] = field(default_factory=count)
    collections: dict[str, tuple[CrashingIndex, str]] = field(default_factory=dict)
    owner: str = ""  # mark of the state whose process runs
    marks: dict[str, str] = field(default_factory=dict)  # of the state that created a collection, by UUID
    restored: bool = False  # somebody restored it or the journal, or replaced metadata
    models: dict[str, Model] = field(default_factory=dict)  # by UUID, of collections that the process opened

    def tick(self) -> None:
        """Do nothing: no server of ours runs."""

    def open(self, name: str, model: Model) -> tuple[Index, str]:
        self.chaos.request("open")
        self._refuse_others(name)
        if name not in self.collections:
            settings = deepcopy(new_configuration(model.reader))
            index = CrashingIndex(MemoryIndex(), self.chaos, self._copies, settings)
            self.collections[name] = index, f"uuid-{next(self.serial)}"
            self.marks[self.collections[name][1]] = self.owner
            self.chaos.point("after create")
        self._restore(name, model)
        index, uuid = self.collections[name]
        self.models[uuid] = model
        return index, uuid

    def _refuse_others(self, name: str) -> None:
        """Refuse a name that readers take for a collection of another state."""
        for other in [name] if name in self.collections else self.collections:
            if name_for_readers(other) == name_for_readers(name) and not self._is_ours(other):
                raise Foreign(f"collection {other} was written by another ingestor")

    def _is_ours(self, name: str) -> bool:
        return self.marks[self.collections[name][1]] == self.owner

    def adopt(self) -> list[str]:
        """A person has the collections of other states deleted. Return their names."""
        others = [name for name in self.collections if not self._is_ours(name)]
        for name in others:
            del self.collections[name]
        return others

    def _copies(self, text: str) -> int:
        indexes = (index.inner for index, _ in self.collections.values())
        return sum(record.text == text for index in indexes for record in index.records.values())

    def _restore(self, name: str, model: Model) -> None:
        settings = self.collections[name][0].settings
        found = DescribedCollection(UUID(int=0), name, {}, None, deepcopy(settings))
        if right := right_settings(found, model):
            self.chaos.strike("before reconfigure", "reconfigure")
            settings["hnsw"] |= right.pop("hnsw", {})
            settings |= right

    def empty(self, name: str, most: int) -> bool:
        if name not in self.collections or not self._is_ours(name):
            return False
        index = self.collections[name][0]
        with suppress(Torn, Transient):
            ids = [*islice(index.ids(), min(most, FEW))]
            index.drop(ids)
            return len(ids) == min(most, FEW)
        return False

    def delete(self, name: str) -> None:
        if name in self.collections:
            if not self._is_ours(name):
                return
            self.collections[name][0].require_room()
        self.chaos.strike("before delete", "delete")
        self.collections.pop(name, None)
        self.chaos.asked()
        self.chaos.point("after delete")

    def reach_problem(self, name: str) -> None:
        if name in self.collections:
            index, uuid = self.collections[name]
            if uuid in self.models:
                self._restore(name, self.models[uuid])
            index.count()

    @property
    def connection(self) -> "Shelves":
        """Nobody supervises a server."""
        return self

    def trouble(self, name: str, error: Exception) -> None:
        pass

    def names(self) -> dict[str, str]:
        self.chaos.request("names")
        return self._names()

    def own_names(self, home: Home) -> dict[str, str]:
        return {uuid: name for uuid, name in self.names().items() if self._is_ours(name)}

    def heal(self) -> None:
        """All collections take writes again."""
        for index, _ in self.collections.values():
            index.away = False

    def _names(self) -> dict[str, str]:
        return {uuid: name for name, (_, uuid) in self.collections.items()}

    def rename(self, uuid: str, name: str) -> bool:
        self.chaos.strike("before rename", "rename")
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
        return list(self.all(name).values())

    def all(self, name: str) -> Mapping[str, Record]:
        """Return the records of a collection by id; none if it does not exist."""
        return self.collections[name][0].inner.records if name in self.collections else {}
