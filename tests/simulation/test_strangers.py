"""Histories of what comes from outside: changed settings, writes and keys that are refused, growing logs.

Every random history has such deeds (play.meddle). These have nothing else, so that each law is held alone.
"""

from pathlib import Path
from random import Random

import pytest

from ingestor.connectors.folder.connector import Growing
from ingestor.engine import flight
from ingestor.engine.flight import Attempts
from ingestor.engine.health import CollectionHealth
from ingestor.engine.writer import Writer
from ingestor.state.sources import SourceRows
from tests.simulation.directed import begin, end, end_at_rest, run, run_listing
from tests.simulation.histories import Bounds, History, Variants, detect, within
from tests.simulation.laws import BEGUN, GROWS, HELD, SETTINGS, hold
from tests.simulation.play import change_settings
from tests.simulation.ports import collections as shelves
from tests.simulation.ports.files import Log
from tests.simulation.world import FILES, World

PROMISED = 30.0  # seconds
# some documents of five records fill a batch
SMALL_BATCHES: Bounds = ((flight, "BATCH", 6), (flight, "BACKGROUND_BATCH", 6))


def texts(world: World) -> set[str]:
    return {record.text for record in world.readers.seen()}


def change_while_it_runs(folder: Path) -> None:
    world = begin(folder, mode="swap")
    for seed in range(4):
        change_settings(world.shelves.collections["docs"][0], Random(seed))
    run(world, 12, 5.0)
    end_at_rest(world)


def change_while_it_is_stopped(folder: Path) -> None:
    world = begin(folder, mode="swap", watched=True)
    world.end()
    for seed in range(4):
        change_settings(world.shelves.collections["docs"][0], Random(seed))
    world.start()
    run(world, 12, 5.0)
    end_at_rest(world)


def refuse_the_key(folder: Path) -> None:
    """The server of a new model refuses the key, so only a person can go on with the rebuild."""
    world = begin(folder, mode="swap")
    world.embedder, world.refused = "sour", {"sour"}
    world.configure()
    run(world, 12, 5.0)
    world.files.write("0.txt", "an edit meanwhile")
    world.files.delete("1.txt")
    run(world, 24, 5.0)
    hold(HELD, {"an edit meanwhile", "alpha 1"} & texts(world) ^ {"an edit meanwhile"})
    end(world)


def grow(folder: Path) -> None:
    """An app writes a line each second; the watcher sees each."""
    world = begin(folder, mode="swap", watched=True)
    world.files.write("app.txt", "started")
    world.files.logs = {"app.txt": Log(lambda: world.now)}
    before, since = 0, world.now
    for number in range(100):
        world.files.write("app.txt", f"{world.files.contents['app.txt']}\nline {number}")
        run(world, 1)
        lines = sum(text.startswith("line ") for text in texts(world))
        if lines != before:
            before, since = lines, world.now
        hold(GROWS, world.now - since > PROMISED and f"{before} lines are seen after {number}")
    world.files.logs.clear()
    end(world)


@within(SMALL_BATCHES)
def refuse_writes(folder: Path) -> None:
    """Readers' collection takes no writes, while documents that fill a batch wait for it."""
    world = begin(folder, mode="swap", several=True)
    world.per_chunk = 2
    world.shelves.collections["docs"][0].away = True
    for files in world.places.values():
        for number in range(20):
            files.write(f"{number}.txt", f"gamma {number}\n" * 5)
    run_listing(world, 20, 0.5)
    world.configure()
    run(world, 120, 0.5)
    world.shelves.heal()
    end(world)


def _full_of_any(self):
    queues = self._flight.queues.values()
    full = [queue for queue in queues if queue.is_full]
    return [document.entry for queue in full for document in queue.documents.values()]


def _hold_the_source(self, collection, reason):
    SourceRows(self._store._journal).hold(FILES, reason)


BROKEN: Variants = {
    "settings that were changed stay": (
        shelves, "right_settings", lambda *args: {}, {SETTINGS}, change_while_it_is_stopped,
    ),
    "settings are compared at the start only": (
        CollectionHealth, "mark", lambda self, name: None, {SETTINGS}, change_while_it_runs,
    ),
    "a rebuild holds its source": (CollectionHealth, "hold", _hold_the_source, {HELD}, refuse_the_key),
    "documents of a collection that is away count": (Writer, "full", _full_of_any, {BEGUN}, refuse_writes),
    "a log is read when it rests": (Growing, "lines", lambda *args: None, {GROWS}, grow),
    "attempts at a log become ever rarer": (
        Attempts, "forget_failures", lambda self: None, {GROWS}, grow,
    ),
}  # fmt: skip


@pytest.mark.parametrize("history", dict.fromkeys(variant[-1] for variant in BROKEN.values()))
def test_unusual_actions_equal_a_fresh_run(history: History, tmp_path: Path) -> None:
    history(tmp_path)


@pytest.mark.parametrize("name", BROKEN)
def test_broken_variants_are_detected(name: str, tmp_path: Path) -> None:
    detect(BROKEN[name], tmp_path)
