"""Histories in which a listing takes a while, and that they find what others cannot.

Between its steps, and between the parts in which it is taken over, documents come, change, move and go, disks
are mounted, the journal is written, the config changes, another listing of the same source begins, and the
process dies; and it fails at any of its items. Of half of the sources a watcher misses nothing, and they are
never listed only because of the time.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from threading import current_thread
from typing import Any

import pytest

from ingestor.core import listings
from ingestor.core.listings import Action, KeySet, ListingComparison, Observe, reconcile
from ingestor.engine import scanner
from ingestor.engine.scanner import Scanner
from ingestor.model import Item
from ingestor.pipeline import listing
from ingestor.state import sources
from ingestor.state.sources import SourceRows
from tests.simulation.checks.at_rest import check
from tests.simulation.directed import History, begin, end, go_on
from tests.simulation.histories import Seeds, Variants, played, show
from tests.simulation.laws import EXACT, MOVED, REST, THERE, LawBroken
from tests.simulation.ports.workers import Steps
from tests.simulation.world import FILES, World

PAGE = 2  # items and keys, of a dozen


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (listings, listing, sources):
        monkeypatch.setattr(module, "_PAGE", PAGE)
    monkeypatch.setattr(listings, "_KEYS", PAGE)


def in_steps(seed: int) -> dict[str, object]:
    steps = {"acts": 25, "rounds": 6, "stepwise": True}
    return {**steps, "watched": seed % 2 == 0, "remounted": seed % 4 * 5}


def histories(folder: Path, seeds: Iterable[int]) -> Counter[str]:
    """The deaths and errors in them."""
    each = (world.chaos.crashes + world.chaos.faults for world in played(folder, seeds, in_steps))
    return sum(each, Counter[str]())


def test_every_history_equals_a_fresh_run(tmp_path: Path, seeds: Seeds) -> None:
    found = histories(tmp_path, seeds(range(40), 1))
    assert found["within listing"] > 0


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_thousand_further_histories_equal_a_fresh_run(tmp_path: Path) -> None:
    assert histories(tmp_path, range(28, 1024))["within listing"] > 900


_FIRST: dict[object, str] = {}


def _looked_at_once(connector: Any) -> str:
    """Each listing has a thread of its own here."""
    return _FIRST.setdefault(current_thread(), _IDENTITY(connector))


_IDENTITY = listing._identity


def _only_the_last_page(self: ListingComparison, items: Sequence[Item]) -> None:
    self._listed, self._number = KeySet(), 0
    _ADD(self, items)


_ADD = ListingComparison.add


def _what_came_meanwhile_is_listed(self: Scanner, watch: Any, outcome: Any) -> None:
    watch.dirty.clear()
    _SCANNED(self, watch, outcome)


_SCANNED = Scanner.take_listing


def _accepted_at_its_end(found: Any, before: Any, now: Any, *others: Any) -> tuple[Action, ...]:
    return reconcile(found, now, now, *others)


def _first_part_alone(*given: Any) -> tuple[Action, ...]:
    return tuple(each for each in reconcile(*given) if not isinstance(each, Observe) or not each.part)


BROKEN: Variants = {
    "what is mounted is looked at before the listing alone": (
        listing, "_identity", _looked_at_once, {THERE},
    ),
    "what is not on the last page is gone": (ListingComparison, "add", _only_the_last_page, {THERE}),
    "hints for what is being listed are forgotten": (
        Scanner, "take_listing", _what_came_meanwhile_is_listed, {EXACT, REST},
    ),
    "an acceptance counts for what was listed before": (
        scanner, "reconcile", _accepted_at_its_end, {THERE},
    ),
    "only the first part is taken over": (scanner, "reconcile", _first_part_alone, {EXACT, REST}),
}  # fmt: skip


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
    world.engine.scanner.request_listing()
    for _ in range(20):
        world.now += 90
        world.engine_step()
    world.settle()
    check(world)
    assert ({record.id for record in world.readers.seen()}, world.embedded) == (before, embedded)
    world.end()


def mount_nothing_meanwhile(folder: Path) -> None:
    """Another disk is mounted after a listing has looked at which one it is."""
    world = World(folder, 1, stepwise=True, watched=True)
    world.files.write("only.txt", "alpha")
    world.settle()
    _at_pause(world, 1, lambda: world.files.see(hidden=None, disk="empty"))
    world.engine.scanner.request_listing()
    go_on(world, 40)
    end(world)


def edit_meanwhile(folder: Path) -> None:
    """A document changes after the listing that is under way has met it."""
    world = begin(folder, stepwise=True, watched=True)
    _at_pause(world, 3, lambda: world.files.write("0.txt", "an edit after it was listed"))
    world.engine.scanner.request_listing()
    go_on(world, 40)
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


def accept_meanwhile(folder: Path) -> None:
    """A person accepts a loss when the disk is back, and a listing of the other disk is not over yet."""
    world = begin(folder, stepwise=True, watched=True)
    world.pool._random.choice = min  # type: ignore[union-attr, method-assign]  # one step of a listing a round
    world.files.see(hidden=None, disk="empty")
    while SourceRows(world.journal).of(FILES).held is None:
        go_on(world, 1)
    looks, identity = list[str](), world.files.identity
    world.files.identity = lambda: (looks.append(world.files.disk), identity())[1]  # type: ignore[method-assign]
    world.engine.scanner.request_listing()
    while len(looks) < 2:
        go_on(world, 1)
    world.files.see(hidden=None, disk="own")
    world.answer()
    end(world)


SHOWN_BY = dict(
    zip(
        BROKEN,
        (mount_nothing_meanwhile, rename_a_folder, edit_meanwhile, accept_meanwhile, rename_a_folder),
        strict=True,
    )
)


@pytest.mark.parametrize("history", dict.fromkeys(SHOWN_BY.values()))
def test_pinned_listings_equal_a_fresh_run(history: History, tmp_path: Path) -> None:
    history(tmp_path)


@pytest.mark.parametrize("name", BROKEN)
def test_broken_variants_are_detected(name: str, tmp_path: Path) -> None:
    show(BROKEN[name], SHOWN_BY[name], tmp_path)


def test_removal_of_what_vanished_without_waiting_is_detected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Scanner, "incomplete_sources", lambda self: set())
    with pytest.raises(LawBroken) as found:
        rename_a_folder(tmp_path)
    assert found.value.law == MOVED
