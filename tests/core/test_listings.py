"""The changes of a listing equal those of two sets, in bounded memory; large losses are held."""

import tracemalloc
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.core import listings
from ingestor.core.decisions import Scope
from ingestor.core.entries import SourceRow
from ingestor.core.listings import (
    Hold,
    KeySet,
    Listing,
    ListingChanges,
    ListingComparison,
    pages,
    reconcile,
)
from ingestor.model import INSIDE, Item
from tests.version_table import VersionTable

KEYS = st.sampled_from(["a", "a/b", "a/b/c", "ab", "b", "b/c", f"z{INSIDE}m", "é", "c", "d"])
VERSIONS = st.sampled_from("12")
KNOWN = st.dictionaries(KEYS, VERSIONS)
ITEMS = st.builds(lambda key, version: Item(key, version, f"/{key}", 1), KEYS, VERSIONS)
EVERYTHING = Scope()
SCOPES = [EVERYTHING, Scope(("a",)), Scope(("a", "b")), Scope(unknown=("a",)), Scope(("a",), ("a/b",))]


def compared(
    known: Mapping[str, str], items: Sequence[Item], scope: Scope = EVERYTHING, size: int = 3
) -> ListingChanges:
    listing = ListingComparison(VersionTable(known), [])
    for page in pages(items, size):
        listing.add(page)
    return listing.changes(scope)


@given(KNOWN, st.lists(ITEMS, max_size=12), st.sampled_from(SCOPES), st.integers(1, 5))
def test_comparison_equals_a_comparison_of_sets(
    known: dict[str, str], items: list[Item], scope: Scope, size: int
) -> None:
    """Of a key that is listed twice, the first version counts, also where the second is the known one."""
    first = {item.key: item for item in reversed(items)}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(listings, "_PAGE", 2)
        found = compared(known, items, scope, size)
    changed = [*found.differences()]
    assert {item.key: item for item in changed} == {
        key: item for key, item in first.items() if known.get(key) != item.version
    }
    assert len(changed) == len({item.key for item in changed})
    parts = [found.part(number) for number in range(found.parts)]
    assert [item for part in parts for item in part.changed] == changed
    assert [part.vanished for part in parts] == [found.vanished, *[()] * (len(parts) - 1)]
    assert set(found.vanished) == {key for key in known if key not in first and scope.covers(key)}
    assert (found.appeared, found.listed) == (len(first.keys() - known.keys()), len(first))


def test_members_known_to_another_edition_are_not_listed() -> None:
    member = Item(f"a.zip{INSIDE}m", "1", "/a.zip!/m")
    assert compared({}, [member]) == ListingChanges([], (), 0, 0)
    assert compared({member.key: "1"}, [member]) == ListingChanges([], (), 0, 1)


@given(st.lists(st.text(max_size=3)), st.lists(st.text(max_size=3)))
def test_key_set_equals_a_set(added: list[str], others: list[str]) -> None:
    keys = KeySet()
    for key in added:
        keys.add(key)
    assert len(keys) == len({*added})
    assert list(keys.absent(others)) == [key for key in others if key not in added]
    assert keys.first(added) == [added.index(key) for key in added]


class Numbers:
    """KnownVersions that take no memory."""

    def __init__(self, number: int) -> None:
        self.number = number

    def of(self, keys: Sequence[str]) -> Mapping[str, str]:
        return {key: "1" for key in keys if int(key) < self.number}

    def below(self, under: str) -> Mapping[str, str]:
        raise NotImplementedError

    def keys(self, under: Sequence[str]) -> Iterator[str]:
        return map(str, range(self.number))

    def count(self) -> int:
        return self.number


class Forgotten(list[Any]):
    """Pages that take no memory."""

    def append(self, page: object) -> None:
        super().append(None)


def peak(number: int, known: int) -> int:
    """Bytes that a listing of so many documents takes. The first of the ``known`` ones vanished."""
    listing = ListingComparison(Numbers(known), Forgotten())
    tracemalloc.start()
    for page in pages((Item(str(n), "1", f"/a/long/path/to/{n}", n) for n in range(1, number)), 500):
        listing.add(page)
    found = listing.changes(Scope())
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (found.appeared, found.vanished) == (max(0, number - max(1, known)), ("0",)[:known])
    return most


@pytest.mark.slow
@pytest.mark.parametrize("new", [False, True])
def test_document_takes_little_memory(new: bool) -> None:
    few, many = (peak(number, 0 if new else number) for number in (10_000, 30_000))
    assert many - few < 60 * 20_000  # bytes; a key in a set of strings takes more


# --- losses -------------------------------------------------------------------------------------------------

RENAMED = ListingChanges([], tuple(f"old/{number}" for number in range(9)), 9, 9)


def holds(changes: tuple[ListingChanges, ...], known: tuple[int, ...], only_loses: tuple[bool, ...]) -> bool:
    """Return whether a person is asked."""
    row = SourceRow(identity="disk", documents=9)
    actions = reconcile(Listing(changes, Scope(), known, "disk"), row, row, 0.5, only_loses)
    return any(isinstance(action, Hold) for action in actions)


@pytest.mark.parametrize(
    ("only_loses", "held"), [((), False), ((False, False), False), ((True, False), True)]
)
def test_renamed_folder_is_held_if_readers_never_get_its_new_names(
    only_loses: tuple[bool, ...], held: bool
) -> None:
    """An edition that only loses documents gets none of those that appear."""
    assert holds((RENAMED, RENAMED), (9, 9), only_loses) is held


@pytest.mark.parametrize(
    ("reduced", "other", "held"),
    [
        ((3, 1), (9, 2), True),  # readers had nine documents, and would have two
        ((9, 1), (3, 1), False),  # the edition in building lacks documents that are not stored yet
        ((9, 1), (9, 5), True),
    ],
)
def test_too_large_loss_of_any_edition_holds_the_source(
    reduced: tuple[int, int], other: tuple[int, int], held: bool
) -> None:
    """Each edition has known and vanished documents. Readers see ``reduced``, which gets no new documents."""
    changes = tuple(
        ListingChanges([], tuple(f"{name}.txt" for name in range(vanished)), 0, known - vanished)
        for known, vanished in (reduced, other)
    )
    row = SourceRow(identity="disk", documents=9)
    listing = Listing(changes, Scope(), (reduced[0], other[0]), "disk")
    actions = reconcile(listing, row, row, 0.5, (True, False))
    assert any(isinstance(action, Hold) for action in actions) is held
