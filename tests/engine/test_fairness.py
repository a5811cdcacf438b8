"""Large, slow and hung work leaves workers to other documents and other listings."""

from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from ingestor.core.entries import Entry, Feed
from ingestor.engine import flight, protocol, workers
from ingestor.engine.flight import Attempts, InFlight, Phase
from ingestor.engine.workers import BEGUN, Pool
from ingestor.model import Item, SourceName
from ingestor.state.sources import LastListing, SourceRows
from tests.engine.listed import begun as begun_documents
from tests.memory_index import MemoryIndex
from tests.simulation.checks.at_rest import check
from tests.simulation.world import World
from tests.waiting import wait

LARGE = 3_000_000  # bytes


def test_heavy_documents_occupy_half_of_the_workers(tmp_path: Path) -> None:
    world = World(tmp_path, seed=1)
    for number in range(6):
        world.files.write(f"a{number}", "x")
    for number in range(3):
        world.files.write(f"b{number}", "y")
    [feed] = world.engine.sources
    changed = tuple(
        Item(key, "1", key, LARGE if key[0] == "a" else 1)
        for key in [*(f"a{n}" for n in range(6)), *(f"b{n}" for n in range(3))]
    )
    world.journal.observe(*feed, _changes(changed), 0.0)
    flight, dispatcher = world.engine.flight, world.engine.dispatcher
    assert _keys(dispatcher.due([feed], 4, ())) == ["a0", "a1", "b0", "b1"]
    rows = {entry.key: entry for entry in world.engine.backlog.due([feed], world.now, 9)}
    heavy = [InFlight(rows[key]) for key in ("a0", "a1")]
    for document in heavy:
        flight.begin(document)
    assert _keys(dispatcher.due([feed], 2, ())) == ["b0", "b1"]
    slow = InFlight(rows["b0"], attempts=Attempts(slow=True))
    flight.begin(slow)
    flight.land(slow)
    assert _keys(dispatcher.due([feed], 2, ())) == ["b1", "b2"]
    for document in heavy:
        flight.land(document)
    assert _keys(dispatcher.due([feed], 4, ())) == ["a0", "a1", "b1", "b2"]
    world.journal.close()


def test_small_documents_do_not_wait_for_the_slices_of_large_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flight, "BATCH", 4)
    monkeypatch.setattr(protocol, "SLICE", 4)
    world = World(tmp_path, seed=1)
    for name in ("large", "other"):
        world.files.write(name, "\n".join(f"{name} {number}" for number in range(40)))
    world.files.write("small", "x")
    settled: list[set[str]] = []
    while not settled or len(settled[-1]) < 3:
        world.now += 1
        world.engine_step()
        due = {entry.key for entry in world.engine.backlog.due(list(world.engine.sources), world.now, 9)}
        listed = LastListing(world.journal, next(iter(world.engine.sources))).below("")
        settled.append(set(listed) - due)
        if len(settled[-1]) == 1 and "late" not in listed:
            world.files.write("late", "y")
            world.engine.scanner.look_again()
        assert len(settled) < 100
    first = {name: at for at, names in reversed(list(enumerate(settled))) for name in names}
    assert first["small"] < first["late"] < min(first.get("large", 100), first.get("other", 100))
    world.settle()
    world.journal.close()


def test_documents_waiting_for_a_process_release_their_workers(tmp_path: Path) -> None:
    world, begun = World(tmp_path, seed=1), list[Any]()
    engine, [feed] = world.engine, world.engine.sources
    engine.pool.submit = lambda tag, work, scan=False, lane=None: begun.append(tag)  # type: ignore[method-assign]
    changed = tuple(Item(f"a{number}", "1", f"a{number}", 1) for number in range(30))
    world.journal.observe(*feed, _changes(changed), 0.0)
    engine._dispatch()
    engine._dispatch()
    assert len(begun) == engine.dispatcher.workers == 4
    for document in begun[:3]:
        document.take()
        document.wait()
    engine._dispatch()
    assert len(begun) == 7, "one worker is at work"
    for _ in range(9):
        for document in engine.flight.documents(Phase.BEGUN):
            document.take()
            document.wait()
        engine._dispatch()
    assert len(begun) == 4 * BEGUN, "those that wait hold what they fetched"
    world.journal.close()


def test_single_source_of_several_occupies_three_quarters_of_the_workers(tmp_path: Path) -> None:
    world = World(tmp_path, seed=1)
    [(_, edition)] = world.engine.sources
    hung, other = Feed(SourceName("files"), edition), Feed(SourceName("other"), edition)
    world.engine.sources[other] = world.engine.sources[hung]
    for feed in (hung, other):
        changed = tuple(Item(f"{feed[0]} {number}", "1", "", 1) for number in range(6))
        world.journal.observe(*feed, _changes(changed), 0.0)
    feeds, dispatcher = [hung, other], world.engine.dispatcher
    dispatcher.several = True
    assert _keys(dispatcher.due(feeds, 4, ())) == ["files 0", "files 1", "files 2", "other 0"]
    for entry in world.engine.backlog.due([hung], world.now, 3):
        world.engine.flight.begin(InFlight(entry))
    assert _keys(dispatcher.due(feeds, 2, ())) == ["other 0", "other 1"]
    assert _keys(dispatcher.due([hung], 2, ())) == []
    world.journal.close()


def test_documents_waiting_for_a_process_leave_turns_to_other_sources(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, seed=1)
    [(_, edition)] = world.engine.sources
    parsed, other = Feed(SourceName("files"), edition), Feed(SourceName("other"), edition)
    world.engine.sources[other] = world.engine.sources[parsed]
    world.engine.dispatcher.several = True
    changed = tuple(Item(f"a{number}", "1", "", 1) for number in range(30))
    world.journal.observe(*parsed, _changes(changed), 0.0)
    begun: list[Any] = []
    world.engine.pool.submit = lambda tag, work, scan=False, lane=None: begun.append(tag)  # type: ignore[method-assign]
    for _ in range(9):
        world.engine._dispatch()
        for document in world.engine.flight.documents(Phase.BEGUN):
            document.take()
            document.wait()
    assert len(begun) == 3 * BEGUN
    world.journal.observe(*other, _changes((Item("b", "1", "", 1),)), 0.0)
    world.engine._dispatch()
    assert begun[-1].entry.key == "b"
    world.journal.close()


def test_work_that_rests_leaves_its_thread_to_other_work() -> None:
    pool, over = Pool(1), Event()

    def rest() -> None:
        with pool.resting():
            over.wait(60)

    documents = begun_documents(range(BEGUN - 1))
    for document in documents:
        pool.submit(document, rest)
    pool.submit("quick", lambda: "done")
    found = pool.next(30)
    assert found is not None and (found.tag, found.value) == ("quick", "done")
    wait(lambda: all(document.phase is Phase.WAITING for document in documents))
    over.set()
    for _ in range(BEGUN - 1):
        assert pool.next(30) is not None
    assert all(document.phase is Phase.PREPARING for document in documents)
    pool.close()


def _keys(entries: list[Entry]) -> list[str]:
    return [entry.key for entry in entries]


def _changes(changed: tuple[Item, ...]):  # type: ignore[no-untyped-def]
    from ingestor.core.decisions import Changes

    return Changes(changed)


def test_hanging_listings_do_not_delay_other_listings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "STUCK", 0.2)
    monkeypatch.setattr(workers, "PATIENCE", 0.2)
    never, threads = Event(), Pool(1)
    for number in range(6):
        threads.submit(f"hung {number}", never.wait, scan=True)
    threads.submit("sound", lambda: "listed", scan=True)
    found = wait(lambda: threads.next(0.05))
    assert (found.tag, found.value) == ("sound", "listed")
    threads.close()
    never.set()


def test_failing_watch_restarts_after_growing_waits() -> None:
    waits = list[float]()

    class Stop:
        def is_set(self) -> bool:
            return len(waits) == 10

        def wait(self, seconds: float) -> None:
            waits.append(seconds)

    def hints(stop: object) -> Iterator[object]:
        if len(waits) == 8:
            return iter(())
        raise OSError("too many watches")

    workers.follow(lambda outcome: None, "a source", hints, Stop())  # type: ignore[arg-type]
    assert waits == [30, 60, 120, 240, 480, 960, 1920, 3600, 30, 60]


def test_records_of_removed_documents_are_deleted_a_slice_at_a_time(tmp_path: Path) -> None:
    world, drops = World(tmp_path, seed=1), list[int]()
    world.files.write("large", "\n".join(f"line {number}" for number in range(1000)))
    for number in range(30):
        world.files.write(f"{number:02}", "\n".join(f"{number} line {line}" for line in range(50)))
    world.files.write("other", "x")
    world.settle()
    for key in [key for key in world.files.contents if key != "other"]:
        world.files.delete(key)
    world.files.accepted = True
    SourceRows(world.journal).hold(SourceName("files"), "many vanished", loss=True)
    SourceRows(world.journal).accept(SourceName("files"))
    world.engine.scanner.look_again()
    drop = MemoryIndex.drop
    before = len(world.readers.seen())
    for _ in range(12):
        dropped = list[str]()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(MemoryIndex, "drop", lambda self, ids: (dropped.extend(ids), drop(self, ids)))  # noqa: B023
            world.engine_step()
        drops.append(len(dropped))
    assert max(drops) <= protocol.SLICE
    assert (sum(drops), before) == (2500, 2501)
    assert world.engine.writer.tally["removed"] == 31
    assert world.engine.writer.tally["records_dropped"] == 2500
    world.settle()
    check(world)
    world.journal.close()
