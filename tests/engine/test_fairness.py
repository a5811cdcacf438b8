"""Large, slow and hung work leaves workers to other documents and other listings."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from threading import Event

import pytest

from ingestor.engine import flight, workers, writer
from ingestor.engine.flight import Phase
from ingestor.engine.loop import choose
from ingestor.engine.workers import BEGUN, Lane, Pool, WorkItem, WorkQueue
from ingestor.model import SourceName
from ingestor.state.backlog import Queued
from ingestor.state.sources import LastListing, SourceRows
from tests.engine.listed import begun as begun_documents
from tests.memory_index import MemoryIndex
from tests.simulation.checks.at_rest import check
from tests.simulation.world import World
from tests.waiting import wait

LARGE = 3_000_000  # bytes


MOST = {"small": 8, "large": 2, "": 4}


def queued(*sizes: int, source: str = "files", attempts: int = 0) -> list[Queued]:
    first = 1000 * sum(map(ord, source))
    return [Queued(row, SourceName(source), size, attempts) for row, size in enumerate(sizes, first)]


def chosen(
    queue: Sequence[Queued], begun: Sequence[Queued] = (), full: Sequence[Queued] = (), share: float = 1.0
) -> list[int]:
    """Return the positions in the queue of the documents that are begun."""
    rows = choose(queue, begun, full, MOST, share, 10 * LARGE)
    return [at for at, each in enumerate(queue) if each.row in rows]


def test_large_documents_occupy_half_of_the_workers() -> None:
    queue = queued(LARGE, LARGE, LARGE, 100_000, 100_000)
    assert chosen(queue) == [0, 1, 3, 4]
    assert chosen(queue, begun=queued(LARGE, source="x")) == [0, 3, 4]


def test_small_documents_are_begun_ahead_of_free_workers() -> None:
    small = queued(*[10] * 20)
    assert len(chosen(small)) == 8
    assert len(chosen(small, begun=queued(*[100_000] * 4, source="x"))) == 8, "others take no room of theirs"
    assert len(chosen(small, begun=queued(*[10] * 5, source="x"))) == 3
    assert chosen(queued(*[10] * 20, attempts=1)) == [0, 1, 2, 3], "one that failed is not begun ahead"
    assert chosen(queued(*[0] * 20)) == [0, 1, 2, 3], "one of unknown size is not begun ahead"


def test_documents_begun_ahead_fill_at_most_two_batches() -> None:
    small = queued(*[10] * 20)
    assert len(chosen(small, full=queued(*[10] * 8, source="x"))) == 8
    assert chosen(small, full=queued(*[10] * 16, source="x")) == []
    assert chosen(queued(100_000), full=queued(*[100_000] * 4, source="x")) == []


def test_single_source_of_several_has_three_quarters_of_each_kind() -> None:
    hung, other = queued(*[10] * 9), queued(*[10] * 9, source="other")
    assert chosen([*hung, *other], share=3 / 4) == [*range(6), 9, 10]
    assert chosen([*queued(*[100_000] * 9), *queued(100_000, source="other")], share=3 / 4) == [0, 1, 2, 9]
    assert chosen(hung, begun=hung[:6], share=3 / 4) == []


def test_document_larger_than_all_bytes_goes_alone_but_for_small_ones() -> None:
    queue = queued(11 * LARGE, 100_000, 10)
    assert chosen(queue) == [0, 2]
    assert chosen(queue, begun=queued(100_000, source="x")) == [1, 2]
    assert chosen(queue[1:], begun=queue[:1]) == [1]


def test_small_documents_do_not_wait_for_the_slices_of_large_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flight, "BATCH", 4)
    monkeypatch.setattr(writer, "SLICE", 4)
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
            world.engine.scanner.request_listing()
        assert len(settled) < 100
    first = {name: at for at, names in reversed(list(enumerate(settled))) for name in names}
    assert first["small"] < first["late"] < min(first.get("large", 100), first.get("other", 100))
    world.settle()
    world.journal.close()


def test_source_whose_documents_rest_leaves_threads_to_other_sources() -> None:
    turns, parsed, other = WorkQueue(4), Lane("files", 3), Lane("other", 3)
    for _ in range(30):
        turns.put(WorkItem("", lambda: None, parsed))
    with ExitStack() as stack:
        for _ in range(3 * BEGUN):
            assert turns.get() is not None
            stack.enter_context(turns.release_permit(parsed))
        turns.put(WorkItem("", lambda: None, other))
        task = turns.get()
    assert task is not None and task.lane == other


def test_work_that_rests_leaves_its_thread_to_other_work() -> None:
    pool, over = Pool(1), Event()

    def rest() -> None:
        with pool.release_permit():
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
    world.engine.scanner.request_listing()
    drop = MemoryIndex.drop
    before = len(world.readers.seen())
    for _ in range(12):
        dropped = list[str]()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(MemoryIndex, "drop", lambda self, ids: (dropped.extend(ids), drop(self, ids)))  # noqa: B023
            world.engine_step()
        drops.append(len(dropped))
    assert max(drops) <= writer.SLICE
    assert (sum(drops), before) == (2500, 2501)
    assert world.engine.writer.counts.tally()["removed"] == 31
    assert world.engine.writer.counts.records["dropped"] == 2500
    world.settle()
    check(world)
    world.journal.close()
