"""Histories in which people restore older journals and Chromas, and strangers replace metadata."""

from functools import partial
from pathlib import Path
from random import Random

import pytest

from ingestor.engine import edition_store, writer
from ingestor.engine.edition_store import EditionStore
from tests.simulation.checks.at_rest import check
from tests.simulation.histories import Seeds, Variants, crashes, show
from tests.simulation.laws import CLEAN, EXACT, KNOWN_WORDS, LEXICAL, REST, STAMPED, SUPERSET, hold
from tests.simulation.world import World


def restores(seed: int) -> dict[str, object]:
    return {"restores": True}


def test_every_history_equals_a_fresh_run(tmp_path: Path, seeds: Seeds) -> None:
    assert crashes(tmp_path, seeds(range(12), 1), restores).total() > 4


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_thousand_further_histories_equal_a_fresh_run(tmp_path: Path) -> None:
    assert crashes(tmp_path, range(12, 1012), restores).total() > 5_000


def _begun_without_renewal(journal, index, collection, home, intents):
    journal.intend(intents)


def _failed_and_kept(self, name, error):
    self._chroma.trouble(self._editions.of_name(name).chroma_name, error)


FOUND = {EXACT, CLEAN, LEXICAL, SUPERSET, KNOWN_WORDS}

BROKEN: Variants = {
    "restored records are believed": (
        edition_store, "restore_order", lambda *args: None, FOUND,
    ),
    "a batch keeps the generation": (writer, "_begin", _begun_without_renewal, FOUND),
    "a collection whose metadata was replaced stays open": (
        EditionStore, "note_failure", _failed_and_kept, {*FOUND, REST, STAMPED},
    ),
}  # fmt: skip


def restore(folder: Path, deed: str) -> None:
    """One store is put back to a moment after its opening, or a stranger replaces metadata. Edits follow."""
    world = World(folder, 1, restores=True, watched=deed == "stranger")
    for number in range(6):
        world.files.write(f"{number}.txt", f"alpha {number}\nbeta")
    world.settle()
    world.backups.keep_journal()
    world.backups.keep_collections()
    world.files.write("0.txt", "an edit")
    world.files.write("new.txt", "another one")
    world.files.delete("1.txt")
    world.settle()
    world.backups.do(deed, Random(1))
    if deed == "stranger":
        world.files.write("2.txt", "an edit afterwards")
        for _ in range(60):
            world.now += 5.0
            world.engine_step()
        hold(REST, not world.resting() and "300 s later there is work")
    world.settle()
    check(world)
    world.end()


@pytest.mark.parametrize("deed", ["older Chroma", "older journal", "stranger"])
def test_restored_store_equals_a_fresh_run(tmp_path: Path, deed: str) -> None:
    restore(tmp_path, deed)


SHOWN_BY = {
    name: partial(restore, deed="stranger" if "metadata" in name else "older Chroma") for name in BROKEN
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_variants_are_detected(name: str, tmp_path: Path) -> None:
    show(BROKEN[name], SHOWN_BY[name], tmp_path)
