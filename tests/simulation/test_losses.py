"""Losses: folders are deleted one after the other, or most documents become unreadable."""

from pathlib import Path

import pytest

from ingestor.core import decisions
from ingestor.core.errors import LONGEST
from ingestor.core.listings import Listing
from ingestor.engine.loop import CANCEL_EVERY, Engine
from ingestor.state.sources import SourceRows, Withdrawals
from tests.simulation.directed import begin, end, run, run_listing
from tests.simulation.histories import History, Variants, detect
from tests.simulation.laws import ASKED
from tests.simulation.ports.files import UNREADABLE
from tests.simulation.world import FILES

_LOSSES, _REST, _SCANNED = Listing.losses, Engine._rest, SourceRows.note_listing


def _measured_by_the_last_listing(self, source, at, documents, trouble=None):  # type: ignore[no-untyped-def]
    with self._journal.transaction() as db:
        db.execute("UPDATE sources SET documents = 0 WHERE name = ?", (source,))
    _SCANNED(self, source, at, documents, trouble)


def spoil_most(folder: Path) -> None:
    """No parser takes most of the documents any more."""
    world = begin(folder)
    for number in range(5):
        world.files.write(f"{number}.txt", UNREADABLE)
    run_listing(world, 10)
    end(world)


def delete_one_after_the_other(folder: Path) -> None:
    """Each deletion is less than half of what the listing before it found."""
    world = begin(folder, dwindling=True)
    for first in (0, 2):
        for number in (first, first + 1):
            world.files.delete(f"{number}.txt")
        run_listing(world, 1)
        world.files.write("5.txt", f"an edit after {first}")
    end(world)


def dwindle_beside_a_rebuild(folder: Path) -> None:
    """Readers lose most of their documents in two listings. New documents reach only what is built."""
    world = begin(folder, mode="swap", dwindling=True)
    world.configure(embedder="sour", parser=2)
    world.files.locked = set(world.files.contents)
    run(world, 8, 5.0)
    for gone, new in ((range(3), range(6, 12)), ((3, 6, 7), ())):
        for number in gone:
            world.files.delete(f"{number}.txt")
        for number in new:
            world.files.write(f"{number}.txt", f"alpha {number}")
        world.files.locked = set(world.files.contents)
        run_listing(world, 8, 2 * LONGEST)  # so each step retries all of them, and none is at rest
    world.files.locked.clear()
    end(world)


def spoil_again_when_a_removal_was_last(folder: Path) -> None:
    """A person accepts a loss. The last step before the next loss removes a vanished document."""
    world = begin(folder)
    names = [f"{number}.txt" for number in range(5)]
    for name in names:
        world.files.write(name, UNREADABLE)
    run_listing(world, 10)
    while world.engine.flight.rows():  # no document is accepted that was read before
        world.engine_step()
    assert Withdrawals(world.journal).accept(FILES)
    world.files.accepted = True
    for number, name in enumerate(names):
        world.files.write(name, f"readable again {number}")
    world.files.delete("5.txt")
    world.engine.scanner.request_listing()
    world.engine_step()  # without a second between steps, documents are removed only when all others are done
    while not world.engine.is_resting():
        world.engine_step()
    for name in names:
        world.files.write(name, UNREADABLE)
    run_listing(world, 10)
    end(world)


def _loss_of_the_edition_that_loses_most(self):  # type: ignore[no-untyped-def]
    return [max(_LOSSES(self), key=lambda one: one[0])]


def _rest_but_after_a_removal(self, ready):  # type: ignore[no-untyped-def]
    if self._removed_at != -CANCEL_EVERY:
        _REST(self, ready)


BROKEN: Variants = {
    "a loss is measured by the last whole listing": (
        SourceRows, "note_listing", _measured_by_the_last_listing, {ASKED}, delete_one_after_the_other,
    ),
    "no loss of unreadable documents is asked about": (
        decisions, "withdrawal", lambda *args: None, {ASKED}, spoil_most,
    ),
    "a loss is that of the edition that loses most": (
        Listing, "losses", _loss_of_the_edition_that_loses_most, {ASKED}, dwindle_beside_a_rebuild,
    ),
    "an acceptance outlasts a removal": (
        Engine, "_rest", _rest_but_after_a_removal, {ASKED}, spoil_again_when_a_removal_was_last,
    ),
}  # fmt: skip


@pytest.mark.parametrize("history", dict.fromkeys(variant[-1] for variant in BROKEN.values()))
def test_pinned_losses_equal_a_fresh_run(history: History, tmp_path: Path) -> None:
    history(tmp_path)


@pytest.mark.parametrize("name", BROKEN)
def test_broken_variants_are_detected(name: str, tmp_path: Path) -> None:
    detect(BROKEN[name], tmp_path)
