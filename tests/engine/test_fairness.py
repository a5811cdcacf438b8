"""Large, slow and hung work leaves workers to other documents and other listings."""

import time
from pathlib import Path
from threading import Event

import pytest

from ingestor.core.entries import Entry
from ingestor.engine import workers
from ingestor.engine.workers import Pool
from ingestor.model import Item
from tests.simulation.world import World

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
    assert _keys(world.engine._fair([feed], 4)) == ["a0", "a1", "b0", "b1"]
    rows = {entry.key: entry for entry in world.journal.due([feed], world.now, 9)}
    world.engine.in_flight = {rows["a0"].row: rows["a0"], rows["a1"].row: rows["a1"]}
    assert _keys(world.engine._fair([feed], 2)) == ["b0", "b1"]
    world.engine.slow = {rows["b0"].row}
    assert _keys(world.engine._fair([feed], 2)) == ["b1", "b2"]
    world.engine.in_flight = {}
    assert _keys(world.engine._fair([feed], 4)) == ["a0", "a1", "b1", "b2"]
    world.journal.close()


def _keys(entries: list[Entry]) -> list[str]:
    return [entry.key for entry in entries]


def _changes(changed: tuple[Item, ...]):  # type: ignore[no-untyped-def]
    from ingestor.core.decisions import Changes

    return Changes(changed, appeared=len(changed), listed=len(changed))


def test_listings_that_never_return_do_not_hold_up_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "STUCK", 0.2)
    monkeypatch.setattr(workers, "PATIENCE", 0.2)
    never, threads = Event(), Pool(1)
    for number in range(6):
        threads.submit(f"hung {number}", never.wait, scan=True)
    threads.submit("sound", lambda: "listed", scan=True)
    until = time.monotonic() + 20
    found = None
    while found is None and time.monotonic() < until:
        found = threads.next(0.05)
    assert found is not None and (found.tag, found.value) == ("sound", "listed")
    begun = time.monotonic()
    threads.close()
    assert time.monotonic() - begun < 5
    never.set()
