"""A step that fails half-way, since the journal cannot be read, strands no document."""

import sqlite3
from pathlib import Path

import pytest

from ingestor.engine.flight import BATCH, BEING_WRITTEN, Flight
from ingestor.engine.writer import Writer
from ingestor.state.backlog import Backlog
from tests.simulation.checks.at_rest import check
from tests.simulation.ports.files import UNWRITABLE
from tests.simulation.world import World


@pytest.mark.parametrize(
    ("owner", "method", "collective"),
    [
        (Backlog, "any_gone", False),  # when a document is begun
        (Flight, "sums_of_others", True),  # when a document of a collective strategy is begun
        (Writer, "_write_slice", False),  # when a batch was written just now
    ],
)
def test_failed_step_resumes_at_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: type, method: str, collective: bool
) -> None:
    sound, struck = getattr(owner, method), list[str]()

    def failing(*args: object) -> object:
        if not struck:
            struck.append(method)
            raise sqlite3.OperationalError("disk I/O error")
        return sound(*args)

    world = World(tmp_path, seed=1, collective=collective)
    for number in range(5):
        world.files.write(f"{number}", f"a line {number}")
    world.files.write("large", "\n".join(f"line {number}" for number in range(BATCH + 1)))
    monkeypatch.setattr(owner, method, failing)
    world.settle()
    assert struck
    check(world)
    world.end()


def test_refused_document_that_vanished_is_removed_and_not_quarantined(tmp_path: Path) -> None:
    """A daemon that is never at full rest would else keep what of it was written."""
    world = World(tmp_path, seed=1)
    world.files.write("a", "x")
    world.settle()
    engine = world.engine
    world.files.write("a", UNWRITABLE)
    engine.scanner.request_listing()
    while not engine.flight.documents(*BEING_WRITTEN):
        engine.health.retry_now()
        engine.step(0)
        for health in engine.health.of.values():
            health.not_before = world.now + 100  # it waits to be written
    world.files.delete("a")
    world.files.write("b", "y")
    engine.scanner.request_listing()
    while not world.journal.select("SELECT 1 FROM documents WHERE wanted_version IS NULL"):
        world.now += 1
        engine.step(0)
    world.now += 100
    engine.flush()
    assert world.journal.select("SELECT quarantined, attempts FROM documents WHERE key = 'a'") == [(0, 0)]
    world.settle()
    check(world)
    world.end()
