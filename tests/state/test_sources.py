"""Sources in the journal: holds, what was listed last, the pages of a listing, and withdrawn documents."""

import os
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.core.decisions import NEVER, Failure, Scope
from ingestor.core.entries import Feed, Intent, SourceRow
from ingestor.core.listings import Differing, ListingChanges, ListingComparison
from ingestor.model import Item
from ingestor.state import sources
from ingestor.state.journal import Journal
from ingestor.state.sources import LastListing, PageStore, SourceRows, Withdrawals
from tests.state.journals import C, S, observe, one, settle
from tests.version_table import VersionTable

# --- holds and listings -------------------------------------------------------------------------------------


def test_hold_is_lifted_by_the_next_good_scan(journal: Journal) -> None:
    rows = SourceRows(journal)
    assert not rows.accept(S)
    rows.hold(S, "too many", loss=True)
    rows.hold(S, "the folder is missing")
    assert not rows.accept(S), "it is held for another reason"
    rows.hold(S, "too many", loss=True)
    assert rows.of(S).held == "too many"
    assert rows.accept(S)
    assert rows.of(S).accepted
    rows.note_listing(S, 7.0, 3)
    assert rows.of(S) == SourceRow(7.0, held=None, accepted=False, documents=3)


def test_listing_that_missed_something_is_remembered_until_one_misses_nothing(journal: Journal) -> None:
    rows = SourceRows(journal)
    rows.note_listing(S, 7.0, 3, "a/b can't be read")
    assert rows.of(S) == SourceRow(7.0, trouble="a/b can't be read", documents=3)
    rows.note_listing(S, 8.0, 2)
    assert rows.of(S).trouble is None
    rows.note_trouble(S, "no answer")
    assert rows.of(S) == SourceRow(8.0, trouble="no answer", documents=3)


def test_versions_below_keys_are_returned(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the form of keys next to ``a`` in the order of the index."""
    monkeypatch.setattr(sources, "_PAGE", 2)
    near = ("a", "a/b", "a/b/c", "a/!/m", "a.", "a0", "ab", "a-", "A", "b/a", "aé/x", "a/é")
    observe(journal, *near, gone=())
    observe(journal, gone=("a/b/c",))
    known = LastListing(journal, Feed(S, C))
    in_memory = VersionTable({key: "1" for key in near if key != "a/b/c"})
    assert known.count() == in_memory.count() == len(near) - 1
    assert known.of([*near, "x"]) == in_memory.of([*near, "x"]) == known.below("") == in_memory.below("")
    expected = {
        ("a",): {"a", "a/b", "a/!/m", "a/é"},
        ("a", "b"): {"a", "a/b", "a/!/m", "a/é", "b/a"},
        ("aé", "a/b"): {"aé/x", "a/b"},
        ("x",): set(),
        ("",): {*near} - {"a/b/c"},
    }
    for under, keys in expected.items():
        assert sorted(known.keys(under)) == sorted(in_memory.keys(under)) == sorted(keys)
        below = [key for top in under for key in known.below(top)]
        assert sorted(below) == sorted(key for top in under for key in in_memory.below(top)) == sorted(keys)


def test_document_that_is_renamed_while_it_is_listed_has_not_vanished(journal: Journal) -> None:
    """The new document takes over the row of the one that it was, so rows say nothing of what was listed."""
    observe(journal, "old", "other")
    settle(journal, "old")
    observe(journal, "new", gone=("old",))
    before = one(journal, "new").row
    comparison = ListingComparison(LastListing(journal, Feed(S, C)), [])
    comparison.add([Item("new", "1", "/new")])
    journal.intend([Intent(one(journal, "old").row, (0,), renamed=before)])
    comparison.add([Item("other", "1", "/other")])
    assert one(journal, "new").row != before
    assert comparison.changes(Scope()) == ListingChanges([], (), 0, 2)


# --- pages --------------------------------------------------------------------------------------------------

ITEMS = st.builds(
    Item, st.text(), st.text(), st.text(), st.none() | st.integers(), st.none() | st.floats(allow_nan=False),
    st.lists(st.tuples(st.text(), st.none() | st.booleans() | st.text())).map(tuple),
)  # fmt: skip
DIFFERING = st.builds(Differing, ITEMS, st.integers(0), st.booleans())
FIRST, LARGE, LAST = (
    Differing(Item(name, "1", f"/{name}"), at, new=True) for at, name in enumerate(["a", "b" * 99, "c"])
)


@given(st.lists(st.lists(DIFFERING, max_size=3), max_size=4))
def test_page_store_is_a_list_of_pages(pages: list[list[Differing]]) -> None:
    store = PageStore()
    for page in pages:
        store.append(page)
    assert len(store) == len(pages)
    assert [store[number] for number in reversed(range(len(store)))] == pages[::-1]
    for number in (-1, len(pages)):
        with pytest.raises(IndexError):
            store[number]


def test_page_that_did_not_fit_is_written_over(monkeypatch: pytest.MonkeyPatch) -> None:
    store = PageStore()
    store.append([FIRST])
    with monkeypatch.context() as full:
        full.setattr(os, "pwrite", filling(os.pwrite))
        with pytest.raises(OSError, match="full"):
            store.append([LARGE])
    store.append([LAST])
    assert [store[0], store[1]] == [[FIRST], [LAST]]


def filling(pwrite: Callable[[int, bytes, int], int]) -> Callable[[int, bytes, int], int]:
    """The disk takes ten bytes more."""
    left = [10]

    def write(file: int, data: bytes, at: int) -> int:
        if not left:
            raise OSError("full")
        return pwrite(file, data[: left.pop()], at)

    return write


# --- withdrawals --------------------------------------------------------------------------------------------

DOCUMENTS = [str(number) for number in range(10)]
UNREADABLE = Failure("a null character", 1, NEVER, quarantined=True)


@pytest.fixture
def known(journal: Journal) -> Journal:
    """All ten documents have records, and have them always: who is withdrawn is back at once."""
    observe(journal, *DOCUMENTS)
    for key in DOCUMENTS:
        settle(journal, key)
    return journal


def withdrawn(journal: Journal, guard: Withdrawals, *keys: str) -> list[str]:
    return [key for key in keys if guard.passes(one(journal, key), UNREADABLE, max_loss=0.5)]


def test_documents_that_came_back_before_a_restart_are_not_two_each(known: Journal) -> None:
    assert withdrawn(known, Withdrawals(known), *DOCUMENTS[:5]) == DOCUMENTS[:5]
    assert withdrawn(known, Withdrawals(known), *DOCUMENTS[5:]) == []
    assert (Withdrawals(known).of(S).kept or "").startswith("more than 5 of 10 documents")


def test_withdrawn_documents_that_came_back_are_not_counted(known: Journal) -> None:
    guard = Withdrawals(known)
    assert withdrawn(known, guard, *DOCUMENTS[:6]) == DOCUMENTS[:5]
    entry = one(known, DOCUMENTS[5])
    assert entry.item is not None
    known.fail(entry.row, entry.item.version, Failure("it waits for a retry", 1, 0.0, quarantined=False))
    guard.settle([S])
    assert withdrawn(known, guard, *DOCUMENTS[5:]) == []
    assert withdrawn(known, guard, *DOCUMENTS[:5]) == DOCUMENTS[:5]  # half, as agreed


def test_document_that_got_the_row_of_a_withdrawn_one_counts(known: Journal) -> None:
    guard = Withdrawals(known)
    assert withdrawn(known, guard, *DOCUMENTS[-5:]) == DOCUMENTS[-5:]
    last = one(known, DOCUMENTS[-1])
    observe(known, gone=(last.key,))
    known.remove([last.row])
    observe(known, "new")
    settle(known, "new")
    assert one(known, "new").row == last.row
    assert withdrawn(known, guard, "new") == []
