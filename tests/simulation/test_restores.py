"""Histories in which people restore older journals and Chromas, and strangers replace metadata."""

from functools import partial
from pathlib import Path

import pytest

from ingestor.engine import open_collections
from tests.simulation.histories import FindOut, Variants, crashes
from tests.simulation.laws import CLEAN, EXACT, KNOWN_WORDS, LEXICAL, SUPERSET


def restores(seed: int) -> dict[str, object]:
    return {"restores": True}


def test_every_history_ends_as_a_run_from_nothing(tmp_path: Path) -> None:
    assert crashes(tmp_path, range(12), restores).total() > 50


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_so_do_a_thousand_more(tmp_path: Path) -> None:
    assert crashes(tmp_path, range(12, 1012), restores).total() > 5_000


FOUND = {EXACT, CLEAN, LEXICAL, SUPERSET, KNOWN_WORDS}

BROKEN: Variants = {
    "restored records are believed": (
        open_collections, "restore_order", lambda *args: None, FOUND,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_broken_variants_are_found_out(name: str, tmp_path: Path, find_out: FindOut) -> None:
    find_out(BROKEN[name], partial(crashes, tmp_path, settings=restores))
