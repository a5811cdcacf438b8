"""Documents wait for each other to be written together, and a step costs as much however many wait."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ingestor.engine import flight, writer
from ingestor.engine.flight import Phase
from ingestor.engine.workers import BEGUN, Pool
from ingestor.model import Record, RecordId, Vector, Vectors
from ingestor.state.sources import LastListing, SourceRows
from tests.engine.worlds import end, settled_world, with_records, withhold, world_of
from tests.memory_index import MemoryIndex
from tests.simulation.ports.workers import BEING_WRITTEN
from tests.simulation.world import FILES
from tests.waiting import wait


def lines(name: object, number: int) -> str:
    return "\n".join(f"{name} {line}" for line in range(number))


def test_documents_waiting_to_be_written_release_their_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write of few records costs as much as one of many: a batch must not end where the workers end."""
    batches, upsert = list[int](), MemoryIndex.upsert
    monkeypatch.setattr(
        MemoryIndex, "upsert", lambda self, records: (batches.append(len(records)), upsert(self, records))
    )
    world = world_of(tmp_path, {f"{number}": "a line" for number in range(60)})
    while not batches or not world.engine.is_resting():
        world.engine_step()
    assert batches == [30, 30], "the simulation's index applies a request by halves"
    end(world)


def test_documents_are_not_begun_while_full_batches_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else all the text of a first pass would gather in memory."""
    monkeypatch.setattr(flight, "BATCH", 40)
    monkeypatch.setattr(writer, "SLICE", 40)  # a large document has several requests
    world, most = world_of(tmp_path, {f"{number}": lines(number, 45) for number in range(40)}), 0
    for _ in range(30):
        world.engine_step()
        most = max(most, len(world.engine.flight.documents()))
    workers = world.engine.parts.workers
    assert BEGUN * workers <= most < BEGUN * workers + workers
    world.end()


def test_due_documents_are_not_queried_while_nothing_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, queries = world_of(tmp_path, {"hangs": "a line"}), list[object]()
    withhold(world, lambda key: True)
    for _ in range(4):
        world.engine_step()
    monkeypatch.setattr(world.engine.backlog, "queue", lambda *given: (queries.append(given), [])[1])
    for _ in range(4):
        world.engine_step()
    assert queries == []
    world.end()


@pytest.mark.parametrize("collective", [False, True])
def test_cost_of_a_step_does_not_grow_with_waiting_documents(tmp_path: Path, collective: bool) -> None:
    few, many = (_calls(tmp_path / f"{number}", number, collective=collective) for number in (20, 100))
    assert many <= few


def _calls(folder: Path, documents: int, *, collective: bool) -> int:
    """Return how many functions are called in two steps that each take one more prepared document."""
    files = dict.fromkeys((*map(str, range(documents)), "late 1", "late 2", "late 3"), "a line")
    world, withheld = world_of(folder, files, collective=collective), list[tuple[Any, Callable[[], object]]]()
    submit, calls = world.engine.pool.submit, 0
    withhold(world, lambda key: key.startswith("late"), lambda *work: withheld.append(work))
    while len(withheld) < 3:
        world.engine_step()
    world.engine_step()

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    for tag, work in withheld[:2]:
        submit(tag, work)
        sys.setprofile(count)
        world.engine.step(0)
        sys.setprofile(None)
    found = [len(world.engine.flight.documents(*phases)) for phases in (BEING_WRITTEN, [Phase.PREPARING])]
    assert found == [documents + 2, 1]
    world.end()
    return calls


@pytest.mark.parametrize("collective", [False, True])
def test_documents_prepared_by_a_clock_that_is_put_back_are_written_at_once(
    tmp_path: Path, collective: bool
) -> None:
    """Another document is prepared all the while, so that batches wait for it."""
    world = world_of(tmp_path, {name: f"line {name}" for name in "abc"} | {"late": ""}, collective=collective)
    withhold(world, lambda key: key == "late")
    world.now += 172_800.0
    while len(world.engine.flight.documents(*BEING_WRITTEN)) < 3:
        world.engine_step()
    world.now -= 172_800.0
    for _ in range(2):
        world.now += 1.0
        world.engine_step()
    assert {record.text for record in world.readers.seen()} == {"line a", "line b", "line c"}
    world.end()


def test_small_documents_do_not_wait_for_the_slices_of_large_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flight, "BATCH", 4)
    monkeypatch.setattr(writer, "SLICE", 4)
    world = world_of(tmp_path, {"large": lines("l", 40), "other": lines("o", 40), "small": "x"})
    settled: list[set[str]] = []
    while not settled or len(settled[-1]) < 3:
        world.now += 1
        world.engine_step()
        queue = world.engine.backlog.queue(list(world.engine.sources), world.now, 9)
        due = {entry.key for entry in world.journal.of_rows([each.row for each in queue])}
        listed = LastListing(world.journal, next(iter(world.engine.sources))).below("")
        settled.append(set(listed) - due)
        if len(settled[-1]) == 1 and "late" not in listed:
            world.files.write("late", "y")
            world.engine.scanner.request_listing()
        assert len(settled) < 100
    first = {name: at for at, names in reversed(list(enumerate(settled))) for name in names}
    assert first["small"] < first["late"] < min(first.get("large", 100), first.get("other", 100))
    end(world)


def test_records_of_removed_documents_are_deleted_a_slice_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "SLICE", 60)
    files = {f"{number:02}": lines(number, 10) for number in range(30)}
    world = settled_world(tmp_path, {**files, "large": lines("l", 200), "other": "x"})
    for key in (*files, "large"):
        world.files.delete(key)
    world.files.accepted = True
    SourceRows(world.journal).hold(FILES, "many vanished", loss=True)
    SourceRows(world.journal).accept(FILES)
    drop, dropped, slices = MemoryIndex.drop, list[RecordId](), list[int]()
    monkeypatch.setattr(MemoryIndex, "drop", lambda self, ids: (dropped.extend(ids), drop(self, ids)))
    world.engine.scanner.request_listing()
    for _ in range(12):
        before = len(dropped)
        world.engine_step()
        slices.append(len(dropped) - before)
    assert max(slices) <= writer.SLICE
    assert len(dropped) == 500
    assert world.engine.writer.counts.tally()["removed"] == 31
    assert world.engine.writer.counts.records["dropped"] == 500
    end(world)


@pytest.mark.parametrize("collective", [False, True])
def test_documents_are_prepared_during_a_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, collective: bool
) -> None:
    """More than there are workers; also of a strategy whose cuts depend on all documents."""
    world = world_of(tmp_path, dict.fromkeys(map(str, range(40)), "a line"), ahead=30, collective=collective)
    meanwhile, upsert = list[int](), MemoryIndex.upsert
    world.engine.pool = world.engine.scanner.pool = pool = Pool(4)

    def wait_and_write(self: MemoryIndex, records: Sequence[Record]) -> None:
        """Return only when all are prepared that were begun before the request."""
        begun = len(world.engine.flight.documents(Phase.PREPARING))
        wait(lambda: pool._inbox.qsize() >= begun)
        meanwhile.append(begun)
        upsert(self, records)

    monkeypatch.setattr(MemoryIndex, "upsert", wait_and_write)
    monkeypatch.setattr(flight, "BATCH", 10)

    def is_done() -> bool:
        world.engine.step(0.05)
        return len(with_records(world)) == 40

    wait(is_done, every=0)
    pool.close()
    world.end()
    assert max(meanwhile) > 4


@dataclass(slots=True)
class Losing(MemoryIndex):
    """Search misses the last new record of each write, until the record is written again."""

    lost: set[RecordId] = field(default_factory=set)
    searched: int = 0

    def upsert(self, records: Sequence[Record]) -> None:
        new = [record.id for record in records if record.id not in self.records]
        self.lost = {*self.lost - {record.id for record in records}, *new[-1:]}
        MemoryIndex.upsert(self, records)

    def nearest(
        self, vectors: Vectors | Sequence[Vector], n: int, where: dict[str, object] | None = None
    ) -> list[list[tuple[RecordId, float]]]:
        self.searched += 1
        answers = MemoryIndex.nearest(self, vectors, n, where)
        return [[hit for hit in hits if hit[0] not in self.lost] for hits in answers]


def test_record_lost_to_search_while_others_are_replaced_is_written_again(tmp_path: Path) -> None:
    world = settled_world(tmp_path, {"a": "one\ntwo"})
    collection = world.shelves.collections["docs"][0]
    collection.inner = index = Losing(collection.inner.records, collection.inner.noted)
    world.files.write("b", "five\nsix")
    world.settle()
    assert (len(index.lost), index.searched) == (2, 0), "a write of new records alone is not checked"
    world.files.write("a", "three\nfour\nseven")
    world.settle()
    assert (len(index.lost), index.searched > 0) == (2, True), "the new record of a was written twice"
    end(world)
