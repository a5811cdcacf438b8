"""Histories of what comes from outside: changed settings, writes and keys that are refused, growing logs.

Every random history has such deeds (play.meddle). These have nothing else, so that each law is held alone.
"""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from ingestor.connectors.folder.connector import Growing
from ingestor.engine import flight
from ingestor.engine.flight import Attempts
from ingestor.engine.health import CollectionHealth
from ingestor.engine.writer import Writer
from ingestor.state.sources import SourceRows
from tests.simulation.checks.at_rest import check
from tests.simulation.histories import Variants, show
from tests.simulation.laws import BEGUN, GROWS, HELD, REST, SETTINGS, hold
from tests.simulation.play import change_settings
from tests.simulation.ports import collections as shelves
from tests.simulation.ports.files import Log
from tests.simulation.world import FILES, World

PROMISED = 30.0  # seconds


def run(world: World, seconds: float, step: float = 5.0) -> None:
    for _ in range(int(seconds / step)):
        world.now += step
        world.engine_step()


def begin(folder: Path, **settings: object) -> World:
    world = World(folder, 1, mode="swap", **settings)  # type: ignore[arg-type]
    for number in range(6):
        world.files.write(f"{number}.txt", f"alpha {number}\nbeta")
    world.settle()
    return world


def end(world: World) -> None:
    hold(REST, not world.resting() and "there is work left")
    check(world)
    world.end()


def texts(world: World) -> set[str]:
    return {record.text for record in world.readers.seen()}


def change_while_it_runs(folder: Path) -> None:
    world = begin(folder)
    for seed in range(4):
        change_settings(world.shelves.collections["docs"][0], Random(seed))
    run(world, 60.0)
    end(world)


def change_while_it_is_stopped(folder: Path) -> None:
    world = begin(folder, watched=True)
    world.end()
    for seed in range(4):
        change_settings(world.shelves.collections["docs"][0], Random(seed))
    world.start()
    run(world, 60.0)
    end(world)


def refuse_the_key(folder: Path) -> None:
    """The server of a new model refuses the key, so only a person can go on with the rebuild."""
    world = begin(folder)
    world.embedder, world.refused = "sour", {"sour"}
    world.configure()
    run(world, 60.0)
    world.files.write("0.txt", "an edit meanwhile")
    world.files.delete("1.txt")
    run(world, 120.0)
    hold(HELD, {"an edit meanwhile", "alpha 1"} & texts(world) ^ {"an edit meanwhile"})
    world.settle()
    end(world)


def grow(folder: Path) -> None:
    """An app writes a line twice a second; the watcher sees each."""
    world = begin(folder, watched=True)
    world.files.write("app.txt", "started")
    world.files.logs = {"app.txt": Log(lambda: world.now)}
    before, since = 0, world.now
    for number in range(200):
        world.files.write("app.txt", f"{world.files.contents['app.txt']}\nline {number}")
        run(world, 0.5, 0.5)
        lines = sum(text.startswith("line ") for text in texts(world))
        if lines != before:
            before, since = lines, world.now
        hold(GROWS, world.now - since > PROMISED and f"{before} lines are seen after {number}")
    world.files.logs.clear()
    world.settle()
    end(world)


def refuse_writes(folder: Path) -> None:
    """Readers' collection takes no writes, while documents that fill a batch wait for it."""
    world = begin(folder, several=True)
    world.per_chunk = 2
    world.shelves.collections["docs"][0].away = True
    for files in world.places.values():
        for number in range(20):
            files.write(f"{number}.txt", f"gamma {number}\n" * 5)
    world.engine.scanner.request_listing()
    run(world, 10.0, 0.5)
    world.configure()
    run(world, 60.0, 0.5)
    world.shelves.heal()
    world.settle()
    end(world)


HISTORIES = change_while_it_runs, change_while_it_is_stopped, refuse_the_key, refuse_writes, grow


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some documents of five records fill a batch."""
    for name in ("BATCH", "BACKGROUND_BATCH"):
        monkeypatch.setattr(flight, name, 6)


@pytest.mark.parametrize("history", HISTORIES)
def test_unusual_actions_equal_a_fresh_run(history: Callable[[Path], None], tmp_path: Path) -> None:
    history(tmp_path)


def _full_of_any(self):
    queues = self._flight.queues.values()
    full = [queue for queue in queues if queue.is_full]
    return [document.entry for queue in full for document in queue.documents.values()]


def _hold_the_source(self, collection, reason):
    SourceRows(self._collections._journal).hold(FILES, reason)


BROKEN: Variants = {
    "settings that were changed stay": (
        shelves, "right_settings", lambda *args: {}, {SETTINGS},
    ),
    "settings are compared at the start only": (
        CollectionHealth, "mark", lambda self, name: None, {SETTINGS},
    ),
    "a rebuild holds its source": (CollectionHealth, "hold", _hold_the_source, {HELD}),
    "documents of a collection that is away count": (Writer, "full", _full_of_any, {BEGUN}),
    "a log is read when it rests": (Growing, "lines", lambda *args: None, {GROWS}),
    "attempts at a log become ever rarer": (Attempts, "forget_failures", lambda self: None, {GROWS}),
}  # fmt: skip
SHOWN_BY = (
    change_while_it_is_stopped, change_while_it_runs, refuse_the_key, refuse_writes, grow, grow,
)  # fmt: skip


@pytest.mark.parametrize(("name", "history"), [*zip(BROKEN, SHOWN_BY, strict=True)])
def test_broken_variants_are_detected(name: str, history: Callable[[Path], None], tmp_path: Path) -> None:
    show(BROKEN[name], history, tmp_path)
