"""Histories in which people restore older journals and Chromas, and strangers replace metadata."""

from functools import partial
from pathlib import Path

import pytest

from ingestor.engine import open_collections, protocol
from ingestor.engine.open_collections import OpenCollections
from tests.simulation.histories import FindOut, Variants, crashes
from tests.simulation.laws import CLEAN, EXACT, KNOWN_WORDS, LEXICAL, REST, STAMPED, SUPERSET


def restores(seed: int) -> dict[str, object]:
    return {"restores": True}


def test_every_history_ends_as_a_run_from_nothing(tmp_path: Path) -> None:
    assert crashes(tmp_path, range(12), restores).total() > 50


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_so_do_a_thousand_more(tmp_path: Path) -> None:
    assert crashes(tmp_path, range(12, 1012), restores).total() > 5_000


def _begun_without_renewal(journal, index, collection, home, intents):
    journal.intend(intents)


def _failed_and_kept(self, name, error):
    self._backend.trouble(self.shown(name), error)


FOUND = {EXACT, CLEAN, LEXICAL, SUPERSET, KNOWN_WORDS}

BROKEN: Variants = {
    "restored records are believed": (
        open_collections, "restore_order", lambda *args: None, FOUND,
    ),
    "a batch keeps the generation": (protocol, "_begin", _begun_without_renewal, FOUND),
    "a collection whose metadata was replaced stays open": (
        OpenCollections, "failed", _failed_and_kept, {*FOUND, REST, STAMPED},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_broken_variants_are_found_out(name: str, tmp_path: Path, find_out: FindOut) -> None:
    find_out(BROKEN[name], partial(crashes, tmp_path, settings=restores))
