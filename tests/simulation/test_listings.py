"""Histories in which a listing takes a while, and that they find what others cannot.

Between its steps, and between the parts in which it is taken over, documents come, change, move and go, disks
are mounted, the journal is written, the config changes, another listing of the same source begins, and the
process dies; and it fails at any of its items. Of half of the sources a watcher misses nothing, and they are
never listed only because of the time.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from threading import current_thread
from typing import Any

import pytest

from ingestor.core.listings import comparison, key_set
from ingestor.core.listings.comparison import ListingComparison
from ingestor.core.listings.key_set import KeySet
from ingestor.core.reconcile import Action, Observe, reconcile
from ingestor.engine import scanner
from ingestor.engine.scanner import Scanner
from ingestor.model import Item
from ingestor.pipeline import listing
from ingestor.state import listings
from tests.simulation.checks.at_rest import check
from tests.simulation.histories import FindOut, Seeds, Variants, played
from tests.simulation.laws import EXACT, MOVED, REST, THERE, LawBroken
from tests.simulation.world import World

PAGE = 2  # items and keys, of a dozen


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (comparison, listing, key_set, listings):
        monkeypatch.setattr(module, "_PAGE", PAGE)


def in_steps(seed: int) -> dict[str, object]:
    steps = {"acts": 25, "rounds": 6, "stepwise": True}
    return {**steps, "watched": seed % 2 == 0, "remounted": seed % 4 * 5}


def histories(folder: Path, seeds: Iterable[int]) -> Counter[str]:
    """The deaths and errors in them."""
    each = (world.chaos.crashes + world.chaos.faults for world in played(folder, seeds, in_steps))
    return sum(each, Counter[str]())


def test_every_history_ends_as_a_run_from_nothing(tmp_path: Path, seeds: Seeds) -> None:
    found = histories(tmp_path, seeds(range(40), 5))
    assert found["within listing"] > 1


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_thousand_more_histories_end_as_a_run_from_nothing(tmp_path: Path) -> None:
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


def _what_came_meanwhile_is_listed(self: Scanner, scan: Any, outcome: Any) -> None:
    scan.watch.dirty.clear()
    _SCANNED(self, scan, outcome)


_SCANNED = Scanner.scanned


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
        Scanner, "scanned", _what_came_meanwhile_is_listed, {EXACT, REST},
    ),
    "an acceptance counts for what was listed before": (
        scanner, "reconcile", _accepted_at_its_end, {THERE},
    ),
    "only the first part is taken over": (scanner, "reconcile", _first_part_alone, {EXACT, REST}),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN)
def test_broken_variants_are_found_out(name: str, tmp_path: Path, find_out: FindOut) -> None:
    find_out(BROKEN[name], partial(histories, tmp_path))


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
    world.engine.scanner.look_again()
    for _ in range(20):
        world.now += 90
        world.engine_step()
    world.settle()
    check(world)
    assert ({record.id for record in world.readers.seen()}, world.embedded) == (before, embedded)
    world.end()


def test_readers_find_the_documents_of_a_large_folder_while_it_is_renamed(tmp_path: Path) -> None:
    rename_a_folder(tmp_path)


def test_removal_of_what_vanished_without_waiting_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Scanner, "taking_over", lambda self: set())
    with pytest.raises(LawBroken) as found:
        rename_a_folder(tmp_path)
    assert found.value.law == MOVED
