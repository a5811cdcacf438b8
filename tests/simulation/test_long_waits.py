"""Histories in which documents wait for so long that what vanished is no longer kept for its heirs.

The journal has the world's clock in them, and keeps what vanished for minutes, not for hours.
"""

from pathlib import Path

import pytest

from ingestor.state import backlog, journal
from ingestor.state.sources import SourceRows
from ingestor.state.tables import DUE_SINCE
from tests.simulation.directed import begin, end, go_on
from tests.simulation.histories import Seeds, Variants, crashes, show
from tests.simulation.laws import MOVED
from tests.simulation.world import FILES

LONGEST = 300.0  # seconds


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    awaited = backlog.AWAITED.replace(f"- {backlog.LONGEST}", f"- {LONGEST}")
    assert awaited != backlog.AWAITED
    monkeypatch.setattr(backlog, "AWAITED", awaited)
    monkeypatch.setattr(backlog, "LONGEST", LONGEST)


def dated(seed: int) -> dict[str, object]:
    return {"dated": True}


def test_every_history_equals_a_fresh_run(tmp_path: Path, seeds: Seeds) -> None:
    assert crashes(tmp_path, seeds(range(20, 36), 1), dated).total() > 4


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_thousand_further_histories_equal_a_fresh_run(tmp_path: Path) -> None:
    assert crashes(tmp_path, range(36, 1036), dated).total() > 4000


def wait_for_an_heir(folder: Path) -> None:
    """A changed document is paused for long; then it is renamed, and cannot be read for a while."""
    world = begin(folder, dated=True)
    world.files.write("0.txt", world.files.contents["0.txt"])
    world.engine.scanner.request_listing()
    go_on(world, 2)
    SourceRows(world.journal).pause(FILES, world.now)
    go_on(world, 10, 90.0)
    world.files.rename("0.txt", "renamed.txt")
    world.files.locked = {"renamed.txt"}
    SourceRows(world.journal).resume(FILES)
    go_on(world, 5)
    world.files.locked.clear()
    end(world)


BROKEN: Variants = {
    "what vanished waits from when it was due": (journal, "VANISHED_SINCE", DUE_SINCE, {MOVED}),
}


def test_document_waiting_for_its_rename_equals_a_fresh_run(tmp_path: Path) -> None:
    wait_for_an_heir(tmp_path)


@pytest.mark.parametrize("name", BROKEN)
def test_broken_variants_are_detected(name: str, tmp_path: Path) -> None:
    show(BROKEN[name], wait_for_an_heir, tmp_path)
