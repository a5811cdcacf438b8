"""Listings that take a while, and documents that vanish while others wait.

Between the steps of a listing, and between the parts in which it is taken over, documents change and move,
disks are mounted, and people accept losses.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from threading import current_thread
from typing import Any

import pytest

from ingestor.core.listings import Action, Identify, KeySet, ListingComparison, Observe, reconcile
from ingestor.engine import scanner
from ingestor.engine.scanner import Scanner
from ingestor.model import Item
from ingestor.pipeline import listing
from ingestor.state import journal
from ingestor.state.sources import SourceRows
from ingestor.state.tables import DUE_SINCE, VANISHED_SINCE
from tests.simulation.checks.at_rest import check
from tests.simulation.directed import begin, end, run, run_listing
from tests.simulation.histories import PAGES, SHORT_WAITS, History, Variants, detect, within
from tests.simulation.laws import EXACT, MOVED, REST, THERE
from tests.simulation.ports.workers import Steps
from tests.simulation.world import DOCS, FILES, World
from tests.state.journals import of_collection

_ADD, _IDENTITY, _SCANNED = ListingComparison.add, listing._identity, Scanner.take_listing
_FIRST: dict[object, str] = {}


def _looked_at_once(connector: Any) -> str:
    """Each listing has a thread of its own here."""
    return _FIRST.setdefault(current_thread(), _IDENTITY(connector))


def _only_the_last_page(self: ListingComparison, items: Sequence[Item]) -> None:
    self._listed, self._number = KeySet(), 0
    _ADD(self, items)


def _what_came_meanwhile_is_listed(self: Scanner, watch: Any, outcome: Any) -> None:
    watch.dirty.clear()
    _SCANNED(self, watch, outcome)


def _accepted_at_its_end(found: Any, before: Any, now: Any, *others: Any) -> tuple[Action, ...]:
    return reconcile(found, now, now, *others)


def _first_part_alone(*given: Any) -> tuple[Action, ...]:
    return tuple(each for each in reconcile(*given) if not isinstance(each, Observe) or not each.part)


def _identified_once(found: Any, before: Any, now: Any, *others: Any) -> tuple[Action, ...]:
    first, *actions = reconcile(found, before, now, *others)
    if isinstance(first, Identify) and now.identity is not None:
        return (*actions, first)
    return (first, *actions)


@within(PAGES)
def rename_a_folder(folder: Path) -> None:
    """So large that taking over its listing takes minutes, and preparing its documents more."""
    world = World(folder, 1)
    names = [f"{number:02}.txt" for number in range(30)]
    for name in names:
        world.files.write(f"a/{name}", "alpha" * int(name[:2]) + "\nbeta")
    world.settle()
    before, embedded = {record.id for record in world.readers.seen()}, world.embedded
    for name in names:
        world.files.rename(f"a/{name}", f"b/{name}")
    run_listing(world, 20, 90.0)
    world.settle()
    check(world)
    assert ({record.id for record in world.readers.seen()}, world.embedded) == (before, embedded)
    world.end()


@within(PAGES)
def mount_nothing_meanwhile(folder: Path) -> None:
    """Another disk is mounted after a listing has looked at which one it is."""
    world = World(folder, 1, stepwise=True, watched=True)
    world.files.write("only.txt", "alpha")
    world.settle()
    _at_pause(world, 1, lambda: world.files.see(hidden=None, disk="empty"))
    run_listing(world, 40)
    end(world)


@within(PAGES)
def mount_after_an_empty_listing(folder: Path) -> None:
    """The process ends when a part of the first documents is in the journal. Then another disk has others."""
    world = World(folder, 1)
    world.files.see(hidden=None, disk="other")
    run(world, 10)
    for number in range(6):
        world.files.write(f"{number}.txt", f"alpha {number}")
    world.files.see(hidden=None, disk="own")
    world.engine.scanner.request_listing()
    while not of_collection(world.journal, DOCS):
        run(world, 1)
    world.end()
    world.files.see(hidden=None, disk="other")
    world.start()
    run(world, 20)
    end(world)


@within(PAGES)
def edit_meanwhile(folder: Path) -> None:
    """A document changes after the listing that is under way has met it."""
    world = begin(folder, stepwise=True, watched=True)
    _at_pause(world, 3, lambda: world.files.write("0.txt", "an edit after it was listed"))
    run_listing(world, 40)
    check(world)
    world.end()


def _at_pause(world: World, number: int, deed: Callable[[], None]) -> None:
    """Do this the n-th time that a listing stands still: at the root's identity, then before each item."""
    left, beside = [deed] * number, world.chaos.beside

    def pause(name: str) -> None:
        if left and isinstance(current_thread(), Steps):
            last = left.pop()
            if not left:
                last()
        beside(name)

    world.chaos.beside = pause


@within(PAGES)
def accept_meanwhile(folder: Path) -> None:
    """A person accepts a loss when the disk is back, and a listing of the other disk is not over yet."""
    world = begin(folder, stepwise=True, watched=True)
    world.pool._random.choice = min  # type: ignore[union-attr, method-assign]  # one step of a listing a round
    world.files.see(hidden=None, disk="empty")
    while SourceRows(world.journal).of(FILES).held is None:
        run(world, 1)
    looks, identity = list[str](), world.files.identity
    world.files.identity = lambda: (looks.append(world.files.disk), identity())[1]  # type: ignore[method-assign]
    world.engine.scanner.request_listing()
    while len(looks) < 2:
        run(world, 1)
    world.files.see(hidden=None, disk="own")
    world.answer()
    end(world)


@within(SHORT_WAITS)
def wait_for_an_heir(folder: Path) -> None:
    """A changed document is paused for long; then it is renamed, and cannot be read for a while.

    What vanished is no longer kept for its heirs by then.
    """
    world = begin(folder, dated=True)
    world.files.write("0.txt", world.files.contents["0.txt"])
    run_listing(world, 2)
    SourceRows(world.journal).pause(FILES, world.now)
    run(world, 10, 90.0)
    world.files.rename("0.txt", "renamed.txt")
    world.files.locked = {"renamed.txt"}
    SourceRows(world.journal).resume(FILES)
    run(world, 5)
    world.files.locked.clear()
    end(world)


BROKEN: Variants = {
    "what is mounted is looked at before the listing alone": (
        listing, "_identity", _looked_at_once, {THERE}, mount_nothing_meanwhile,
    ),
    "the first identity alone is stored before documents": (
        scanner, "reconcile", _identified_once, {THERE}, mount_after_an_empty_listing,
    ),
    "what is not on the last page is gone": (
        ListingComparison, "add", _only_the_last_page, {THERE}, rename_a_folder,
    ),
    "hints for what is being listed are forgotten": (
        Scanner, "take_listing", _what_came_meanwhile_is_listed, {EXACT, REST}, edit_meanwhile,
    ),
    "an acceptance counts for what was listed before": (
        scanner, "reconcile", _accepted_at_its_end, {THERE}, accept_meanwhile,
    ),
    "only the first part is taken over": (
        scanner, "reconcile", _first_part_alone, {EXACT, REST}, rename_a_folder,
    ),
    "what vanished is removed without waiting": (
        Scanner, "incomplete_sources", lambda self: set(), {MOVED}, rename_a_folder,
    ),
    "what vanished waits from when it was due": (
        journal, "_VANISH", journal._VANISH.replace(VANISHED_SINCE, DUE_SINCE), {MOVED}, wait_for_an_heir,
    ),
}  # fmt: skip


@pytest.mark.parametrize("history", dict.fromkeys(variant[-1] for variant in BROKEN.values()))
def test_pinned_listings_equal_a_fresh_run(history: History, tmp_path: Path) -> None:
    history(tmp_path)


@pytest.mark.parametrize("name", BROKEN)
def test_broken_variants_are_detected(name: str, tmp_path: Path) -> None:
    detect(BROKEN[name], tmp_path)
