"""Histories in which documents wait for so long that what vanished is no longer kept for its heirs.

The journal has the world's clock in them, and keeps what vanished for minutes, not for hours.
"""

from functools import partial
from pathlib import Path

import pytest

from ingestor.state import journal
from ingestor.state.queries import backlog
from ingestor.state.rows import DUE_SINCE
from tests.simulation.histories import FindOut, Seeds, Variants, crashes
from tests.simulation.laws import MOVED

LONGEST = 300.0  # seconds


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    awaited = backlog.AWAITED.replace(f"- {backlog.LONGEST}", f"- {LONGEST}")
    assert awaited != backlog.AWAITED
    for module in (backlog, backlog):
        monkeypatch.setattr(module, "AWAITED", awaited)
    monkeypatch.setattr(backlog, "LONGEST", LONGEST)


def dated(seed: int) -> dict[str, object]:
    return {"dated": True}


def test_every_history_ends_as_a_run_from_nothing(tmp_path: Path, seeds: Seeds) -> None:
    assert crashes(tmp_path, seeds(range(20, 36), 3), dated).total() > 15


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_thousand_more_histories_end_as_a_run_from_nothing(tmp_path: Path) -> None:
    assert crashes(tmp_path, range(36, 1036), dated).total() > 4000


BROKEN: Variants = {
    "what vanished waits from when it was due": (journal, "VANISHED_SINCE", DUE_SINCE, {MOVED}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN)
def test_broken_variants_are_found_out(name: str, tmp_path: Path, find_out: FindOut) -> None:
    find_out(BROKEN[name], partial(crashes, tmp_path, settings=dated))
