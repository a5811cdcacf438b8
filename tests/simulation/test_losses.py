"""Histories of losses: folders are deleted one after the other, or most documents become unreadable.

Each deletion lasts longer than a whole listing.
"""

from functools import partial
from pathlib import Path

import pytest

from ingestor.core import decisions
from ingestor.state.sources import SourceRows
from tests.simulation.histories import FindOut, Seeds, Variants, crashes
from tests.simulation.laws import ASKED


def dwindling(seed: int) -> dict[str, object]:
    return {"dwindling": True}


def test_every_history_ends_as_a_run_from_nothing(tmp_path: Path, seeds: Seeds) -> None:
    assert crashes(tmp_path, seeds(range(12), 3), dwindling).total() > 15


def _measured_by_the_last_listing(self, source, at, identity, documents, trouble=None):  # type: ignore[no-untyped-def]
    with self._journal.transaction() as db:
        db.execute("UPDATE sources SET documents = 0 WHERE name = ?", (source,))
    _SCANNED(self, source, at, identity, documents, trouble)


_SCANNED = SourceRows.scanned


def spoiling(seed: int) -> dict[str, object]:
    return {"spoiling": True}


def test_histories_of_unreadable_documents_end_as_a_run_from_nothing(tmp_path: Path, seeds: Seeds) -> None:
    chosen = list(seeds(range(6), 2))
    assert crashes(tmp_path, chosen, spoiling).total() > 3 * len(chosen)


@pytest.mark.slow
def test_withdrawals_that_are_not_asked_about_are_found_out(tmp_path: Path, find_out: FindOut) -> None:
    variant = decisions, "withdrawal", lambda *args: None, {ASKED}
    find_out(variant, partial(crashes, tmp_path, settings=spoiling))


BROKEN: Variants = {
    "a loss is measured by the last whole listing": (
        SourceRows, "scanned", _measured_by_the_last_listing, {ASKED},
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN)
def test_broken_variants_are_found_out(name: str, tmp_path: Path, find_out: FindOut) -> None:
    find_out(BROKEN[name], partial(crashes, tmp_path, settings=dwindling))
