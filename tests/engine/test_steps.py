"""Documents wait for each other to be written together, and a step costs as much however many wait."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ingestor.engine import flight
from ingestor.engine.flight import BEING_PREPARED, BEING_WRITTEN
from ingestor.engine.workers import BEGUN
from tests.memory_index import MemoryIndex
from tests.simulation.checks.at_rest import check
from tests.simulation.world import World


def test_documents_waiting_to_be_written_release_their_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write of few records costs as much as one of many: a batch must not end where the workers end."""
    batches: list[int] = []
    upsert = MemoryIndex.upsert
    monkeypatch.setattr(
        MemoryIndex, "upsert", lambda self, records: (batches.append(len(records)), upsert(self, records))
    )
    world = World(tmp_path, seed=1)
    for number in range(60):
        world.files.write(f"{number}", "a line")
    while not batches or not world.engine.is_resting():
        world.engine_step()
    assert batches == [30, 30], "the simulation's index applies a request by halves"
    check(world)
    world.journal.close()


def test_documents_are_not_begun_while_full_batches_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else all the text of a first pass would gather in memory."""
    monkeypatch.setattr(flight, "BATCH", 40)
    world = World(tmp_path, seed=1)
    for number in range(40):
        world.files.write(f"{number}", "\n".join(f"{number} {line}" for line in range(45)))
    most = 0
    for _ in range(30):
        world.engine_step()
        most = max(most, len(world.engine.flight.documents()))
    workers = world.engine.parts.workers
    assert BEGUN * workers <= most < BEGUN * workers + workers
    world.journal.close()


def _rest(world: World) -> None:
    world.engine_step()
    while not world.engine.is_resting():
        world.engine_step()


@pytest.mark.parametrize("collective", [False, True])
def test_cost_of_a_step_does_not_grow_with_waiting_documents(tmp_path: Path, collective: bool) -> None:
    few, many = (_calls(tmp_path / f"{number}", number, collective=collective) for number in (20, 200))
    assert many <= few


def _calls(folder: Path, documents: int, *, collective: bool) -> int:
    """Of functions, in two steps that each take one more prepared document."""
    folder.mkdir()
    world, withheld = World(folder, seed=1, collective=collective), list[tuple[Any, Callable[[], object]]]()
    for number in range(documents):
        world.files.write(f"{number:03}", "a line")
    for name in ("late 1", "late 2", "late 3"):
        world.files.write(name, "a line")
    submit = world.engine.pool.submit

    def submitted(tag: Any, work: Callable[[], object], *, scan: bool = False, lane: Any = None) -> None:
        if not scan and tag.entry.key.startswith("late"):
            withheld.append((tag, work))
        else:
            submit(tag, work, scan=scan)

    world.engine.pool.submit = submitted  # type: ignore[method-assign]
    while len(withheld) < 3:
        world.engine_step()
    world.engine_step()
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    for tag, work in withheld[:2]:
        submit(tag, work)
        sys.setprofile(count)
        world.engine.step(0)
        sys.setprofile(None)
    flight = world.engine.flight
    assert (len(flight.documents(*BEING_WRITTEN)), len(flight.documents(*BEING_PREPARED))) == (
        documents + 2,
        1,
    )
    world.journal.close()
    return calls


@pytest.mark.parametrize("collective", [False, True])
def test_documents_prepared_by_a_clock_that_is_put_back_are_written_at_once(
    tmp_path: Path, collective: bool
) -> None:
    """Another document is prepared all the while, so that batches wait for it."""
    world = World(tmp_path, seed=1, collective=collective)
    for name in ("a", "b", "c", "late"):
        world.files.write(name, f"line {name}")
    submit = world.engine.pool.submit

    def submitted(tag: Any, work: Callable[[], object], *, scan: bool = False, lane: Any = None) -> None:
        if scan or tag.entry.key != "late":
            submit(tag, work, scan=scan)

    world.engine.pool.submit = submitted  # type: ignore[method-assign]
    world.now += 172_800.0
    while len(world.engine.flight.documents(*BEING_WRITTEN)) < 3:
        world.engine_step()
    world.now -= 172_800.0
    for _ in range(2):
        world.now += 1.0
        world.engine_step()
    assert {record.text for record in world.readers.seen()} == {"line a", "line b", "line c"}
    world.journal.close()
