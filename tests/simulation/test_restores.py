"""Histories in which people restore older journals and Chromas, and strangers replace metadata."""

from functools import partial
from pathlib import Path
from random import Random

import pytest

from ingestor.engine import edition_store, writer
from ingestor.engine.edition_store import EditionStore
from tests.simulation.directed import begin, end, run
from tests.simulation.histories import History, Variants, detect
from tests.simulation.laws import CLEAN, EXACT, KNOWN_WORDS, LEXICAL, REST, STAMPED, SUPERSET, hold


def _begun_without_renewal(journal, index, collection, home, intents):
    journal.intend(intents)


def _failed_and_kept(self, name, error):
    self._chroma.trouble(self._editions.of_name(name).chroma_name, error)


FOUND = {EXACT, CLEAN, LEXICAL, SUPERSET, KNOWN_WORDS}


def restore(folder: Path, deed: str) -> None:
    """One store is put back to a moment after its opening, or a stranger replaces metadata. Edits follow."""
    world = begin(folder, restores=True, watched=deed == "stranger")
    world.backups.keep_journal()
    world.backups.keep_collections()
    world.files.write("0.txt", "an edit")
    world.files.write("new.txt", "another one")
    world.files.delete("1.txt")
    world.settle()
    world.backups.do(deed, Random(1))
    if deed == "stranger":
        world.files.write("2.txt", "an edit afterwards")
        run(world, 60, 5.0)
        hold(REST, not world.resting() and "300 s later there is work")
    end(world)


older_chroma, older_journal, stranger = (
    partial(restore, deed=deed) for deed in ("older Chroma", "older journal", "stranger")
)
BROKEN: Variants = {
    "restored records are believed": (
        edition_store, "restore_order", lambda *args: None, FOUND, older_chroma,
    ),
    "a batch keeps the generation": (writer, "_begin", _begun_without_renewal, FOUND, older_chroma),
    "a collection whose metadata was replaced stays open": (
        EditionStore, "note_failure", _failed_and_kept, {*FOUND, REST, STAMPED}, stranger,
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "history", [older_chroma, older_journal, stranger], ids=["Chroma", "journal", "metadata"]
)
def test_restored_store_equals_a_fresh_run(history: History, tmp_path: Path) -> None:
    history(tmp_path)


@pytest.mark.parametrize("name", BROKEN)
def test_broken_variants_are_detected(name: str, tmp_path: Path) -> None:
    detect(BROKEN[name], tmp_path)
