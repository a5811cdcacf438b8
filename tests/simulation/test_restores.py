"""Histories in which people restore older journals and Chromas, and strangers replace metadata."""

from functools import partial
from pathlib import Path

import pytest

from ingestor.engine import open_collections, protocol
from ingestor.engine.open_collections import OpenCollections
from tests.simulation.histories import FindOut, Variants, crashes
from tests.simulation.laws import CLEAN, EXACT, KNOWN_WORDS, LEXICAL, REST, SUPERSET


def restores(seed: int) -> dict[str, object]:
    return {"restores": True}


def test_every_history_ends_as_a_run_from_nothing(tmp_path: Path) -> None:
    assert crashes(tmp_path, range(12), restores).total() > 50


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_so_do_a_thousand_more(tmp_path: Path) -> None:
    assert crashes(tmp_path, range(12, 1012), restores).total() > 5_000


def _keep_generation(journal, index, collection, home, intents):
    """As if only starts renewed the generation."""
    facts = index.facts()
    if protocol.judge(facts, journal.collection(collection).generations, home) != "same":
        raise protocol.Transient("changed from outside")
    journal.intend(intents)
    return protocol.Renewal(collection, tuple(filter(None, [protocol.generation_of(facts)])))


def _keep_handle(self, name, error):
    self._backend.trouble(self.shown(name), error)


FOUND = {EXACT, CLEAN, LEXICAL, SUPERSET, KNOWN_WORDS}

BROKEN: Variants = {
    "restored records are believed": (
        open_collections, "restore_order", lambda *args: None, FOUND,
    ),
    "a batch keeps the generation": (protocol, "_begin", _keep_generation, FOUND),
    "a collection whose metadata was replaced stays open": (OpenCollections, "failed", _keep_handle, {REST}),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_broken_variants_are_found_out(name: str, tmp_path: Path, find_out: FindOut) -> None:
    find_out(BROKEN[name], partial(crashes, tmp_path, settings=restores))
