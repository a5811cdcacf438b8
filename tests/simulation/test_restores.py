"""Histories in which people restore older journals and Chromas, and strangers replace metadata."""

from functools import partial
from pathlib import Path
from random import Random

import pytest

from ingestor.core.entries import Renewal
from ingestor.engine import edition_store, writer
from ingestor.engine.edition_store import EditionStore, renew
from tests.simulation.directed import begin, die_at, end, run
from tests.simulation.histories import SLICES, History, Variants, detect, within
from tests.simulation.laws import CLEAN, EXACT, KNOWN_WORDS, LEXICAL, ONE_SET, REST, STAMPED, SUPERSET, hold
from tests.simulation.world import GRACE


def _begun_without_renewal(journal, index, collection, home, intents):
    journal.intend(intents)


def _ended_without_the_present(journal, index, collection, home, intents):
    """End a write of several requests as if nothing else had been written since it began."""
    if intents:
        return _BEGIN(journal, index, collection, home, intents)
    journal.settle((), Renewal(collection, ()))
    return renew(journal, index, Renewal(collection, ()), home)


def _failed_and_kept(self, name, error):
    self._chroma.trouble(self._editions.of_name(name).chroma_name, error)


_BEGIN = writer._begin
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


def restore_before_switches(folder: Path, shards: int, later: int, kept: bool, undone: bool) -> None:
    """The journal is from before switches to another recipe and number of shards.

    ``kept``: the edition that the journal knows is still in Chroma. ``undone``: the config is the old one.
    """
    world = begin(folder, restores=True, mode="swap", shards=shards)
    world.backups.keep_journal()
    changes = {"shards": later} if kept else {"shards": later, "per_chunk": 2}
    for name, value in changes.items():
        world.configure(**{name: value})
        world.settle()
    if not kept:
        run(world, 20, GRACE)
    if undone:
        world.shards, world.per_chunk = shards, 1
    world.backups.do("older journal", Random(1))
    run(world, 20)
    end(world)


def lose(folder: Path, deed: str, shards: int, later: int) -> None:
    """A store is lost after a switch to another number of shards, whose predecessor is still there.

    The config has a third number meanwhile, or the same.
    """
    world = begin(folder, restores=True, mode="swap", shards=shards)
    world.configure(shards=2)
    world.settle()
    world.shards = later
    world.backups.do(deed, Random(1))
    world.files.write("0.txt", "an edit")
    run(world, 20)
    end(world)


@within(SLICES)
def write_two_large_documents(folder: Path) -> None:
    """A slice of each is written in turn, and the process dies when the first one is complete."""
    world = begin(folder)
    for number in range(2):
        world.files.write(f"large {number}.txt", f"one {number}\ntwo {number}\nthree {number}")
    left = die_at(world, "before note", 3)
    world.step(20)
    hold(REST, left)
    end(world)


older_chroma, older_journal, stranger = (
    partial(restore, deed=deed) for deed in ("older Chroma", "older journal", "stranger")
)
BROKEN: Variants = {
    "restored records are believed": (
        edition_store, "restore_order", lambda *args: None, FOUND, older_chroma,
    ),
    "a write of several requests forgets the generation of another write": (
        writer, "_begin", _ended_without_the_present, {STAMPED}, write_two_large_documents,
    ),
    "a batch keeps the generation": (writer, "_begin", _begun_without_renewal, FOUND, older_chroma),
    "collections that the journal does not know stay": (
        EditionStore, "_note_leftovers", lambda self: None, {ONE_SET, CLEAN},
        partial(restore_before_switches, shards=1, later=2, kept=False, undone=True),
    ),
    "a collection whose metadata was replaced stays open": (
        EditionStore, "note_failure", _failed_and_kept, {*FOUND, REST, STAMPED}, stranger,
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "history",
    [older_chroma, older_journal, stranger, write_two_large_documents],
    ids=["Chroma", "journal", "metadata", "generation"],
)
def test_restored_store_equals_a_fresh_run(history: History, tmp_path: Path) -> None:
    history(tmp_path)


@pytest.mark.parametrize("undone", [False, True])
@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize(("shards", "later"), [(1, 1), (1, 2), (2, 1), (2, 3)])
def test_collections_of_later_editions_leave_after_an_older_journal_is_restored(
    shards: int, later: int, kept: bool, undone: bool, tmp_path: Path
) -> None:
    restore_before_switches(tmp_path, shards, later, kept, undone)


@pytest.mark.parametrize("deed", ["lose journal", "lose Chroma"])
@pytest.mark.parametrize(("shards", "later"), [(1, 2), (1, 1), (3, 3)])
def test_lost_store_equals_a_fresh_run(deed: str, shards: int, later: int, tmp_path: Path) -> None:
    lose(tmp_path, deed, shards, later)


@pytest.mark.parametrize("name", BROKEN)
def test_broken_variants_are_detected(name: str, tmp_path: Path) -> None:
    detect(BROKEN[name], tmp_path)
