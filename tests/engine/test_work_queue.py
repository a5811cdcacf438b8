"""Work waits for its turn in lanes; and small documents are prepared while others are written."""

from collections.abc import Sequence
from pathlib import Path
from threading import Thread

import pytest

from ingestor.engine.flight import BEING_PREPARED
from ingestor.engine.workers import Lane, Pool, WorkItem, WorkQueue
from ingestor.model import Record
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
    with turns.release_permit(lane):
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
        begun = len(world.engine.flight.documents(*BEING_PREPARED))
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
