"""Work waits for its turn in lanes; and small documents are prepared while others are written."""

from collections.abc import Sequence
from pathlib import Path
from threading import Thread

import pytest

from ingestor.core.entries import Entry, Feed
from ingestor.engine.flight import AT_WORK, Attempts, InFlight, Start
from ingestor.engine.workers import Lane, Pool, WorkItem, WorkQueue
from ingestor.model import Item, Record, SourceName
from tests.memory_index import MemoryIndex
from tests.simulation.checks.at_rest import check
from tests.simulation.world import World
from tests.waiting import wait


def named(turns: WorkQueue, *lanes: Lane) -> None:
    for lane in lanes:
        turns.put(WorkItem("", lambda: None, lane))


def taken(turns: WorkQueue, number: int) -> list[object]:
    found = [turns.get() for _ in range(number)]
    return [task.lane.name for task in found if task is not None]


def test_lanes_take_turns_in_order() -> None:
    turns, a, b = WorkQueue(), Lane("a"), Lane("b")
    named(turns, a, a, a, b, b)
    assert taken(turns, 5) == ["a", "b", "a", "b", "a"]
    assert not turns.waits()


def test_hanging_lane_leaves_turns_to_other_lanes() -> None:
    turns, hung, other = WorkQueue(4), Lane("hung", 3), Lane("other", 3)
    named(turns, *[hung] * 9)
    assert taken(turns, 3) == ["hung"] * 3
    named(turns, other, other)
    assert taken(turns, 1) == ["other"]
    following = turns.get(WorkItem("", lambda: None, other))  # its thread goes on
    assert following is not None and following.lane == other


def test_queue_without_a_free_turn_hands_out_no_task() -> None:
    turns, lane, got = WorkQueue(1), Lane("a"), list[object]()
    named(turns, lane, lane, lane)
    first = turns.get()
    waiting = Thread(target=lambda: got.append(turns.get()), daemon=True)
    waiting.start()
    waiting.join(0.05)
    assert first is not None and not got
    with turns.resting(lane):
        waiting.join(30)
        assert len(got) == 1, "work that rests needs no turn"
    turns.close()
    assert turns.get(first) is None


def test_documents_are_prepared_during_a_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than there are workers; also of a strategy whose cuts depend on all documents."""
    for collective in (False, True):
        (tmp_path / f"{collective}").mkdir()
        world = World(tmp_path / f"{collective}", seed=1, ahead=30, collective=collective)
        with monkeypatch.context() as patch:
            assert max(prepared_meanwhile(world, patch)) > 4


def prepared_meanwhile(world: World, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return how many documents are prepared meanwhile, for each write.

    A request returns only when all are prepared that were begun before it.
    """
    meanwhile = list[int]()
    world.engine.pool = world.engine.scanner.pool = pool = Pool(4)
    upsert = MemoryIndex.upsert

    def wait_and_write(self: MemoryIndex, records: Sequence[Record]) -> None:
        begun = len(world.engine.flight.documents(*AT_WORK))
        wait(lambda: pool._inbox.qsize() >= begun)
        meanwhile.append(begun)
        upsert(self, records)

    monkeypatch.setattr(MemoryIndex, "upsert", wait_and_write)
    monkeypatch.setattr("ingestor.engine.flight.BATCH", 10)
    for number in range(80):
        world.files.write(f"{number}", "a line")

    def is_done() -> bool:
        world.engine.step(0.05)
        world.lexical.work()
        return bool(meanwhile and world.engine.is_resting() and world.lexical.complete)

    wait(is_done, every=0)
    pool.close()
    check(world)
    world.journal.close()
    return meanwhile


def test_large_unknown_and_failed_documents_are_not_begun_ahead(tmp_path: Path) -> None:
    world = World(tmp_path, seed=1, ahead=10)
    [feed] = world.engine.sources
    sizes: dict[str, int | None] = {"empty": 0, "large": 10**5, "small": 10, "unknown": None}
    _observe(world, feed, sizes)
    assert [entry.key for entry in world.engine.dispatcher.due_ahead([feed], ())] == ["small"]
    [small] = world.engine.dispatcher.due_ahead([feed], ())
    document = InFlight(small, attempts=Attempts(slow=True))
    world.engine.flight.begin(document)
    world.engine.flight.land(document)
    assert world.engine.dispatcher.due_ahead([feed], ()) == []
    world.journal.close()


def test_documents_begun_ahead_fill_at_most_two_batches(tmp_path: Path) -> None:
    world = World(tmp_path, seed=1, ahead=10)
    [feed] = world.engine.sources
    _observe(world, feed, {f"{number}": 10 for number in range(40)})
    dispatcher, flight = world.engine.dispatcher, world.engine.flight
    due = world.engine.backlog.due([feed], world.now, 40)
    assert len(dispatcher.due_ahead([feed], due[20:30])) == 10
    assert dispatcher.due_ahead([feed], due[20:]) == []
    documents = [InFlight(entry, Start.AHEAD) for entry in due[:5]]
    for document in documents:
        flight.begin(document)
    assert dispatcher.due_ahead([feed], ()) == [], "many at once or none"
    documents[0].take()
    flight.land(documents[0])
    assert len(dispatcher.due_ahead([feed], ())) == 6
    assert dispatcher.free() == dispatcher.workers, "those begun ahead occupy no worker"
    world.journal.close()


def test_single_source_of_several_fills_only_its_share_of_documents_begun_ahead(tmp_path: Path) -> None:
    world = World(tmp_path, seed=1, ahead=8)
    [(_, edition)] = world.engine.sources
    feeds = [Feed(SourceName(name), edition) for name in ("files", "other")]
    for feed in feeds:
        _observe(world, feed, {f"{feed[0]} {number}": 10 for number in range(8)})
    world.engine.dispatcher.several = True
    found: list[Entry] = world.engine.dispatcher.due_ahead(feeds, ())
    assert [entry.source for entry in found].count(SourceName("files")) == 6
    assert world.engine.dispatcher.lane(SourceName("files"), behind=False) == Lane("files", 3)
    world.journal.close()


def _observe(world: World, feed: Feed, sizes: dict[str, int | None]) -> None:
    from ingestor.core.decisions import Changes

    changed = tuple(Item(key, "1", key, size) for key, size in sizes.items())
    world.journal.observe(*feed, Changes(changed), 0.0)
