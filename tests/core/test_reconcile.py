"""What follows from a listing: a person is asked where readers would lose many documents."""

import pytest

from ingestor.core.decisions import Scope
from ingestor.core.entries import SourceRow
from ingestor.core.listings import Hold, Listing, ListingChanges, reconcile

RENAMED = ListingChanges([], tuple(f"old/{number}" for number in range(9)), 9, 9)


@pytest.mark.parametrize(
    ("only_loses", "held"), [((), False), ((False, False), False), ((True, False), True)]
)
def test_renamed_folder_is_held_if_readers_never_get_its_new_names(
    only_loses: tuple[bool, ...], held: bool
) -> None:
    """An edition that only loses documents gets none of those that appear."""
    row = SourceRow(identity="disk", documents=9)
    listing = Listing((RENAMED, RENAMED), Scope(), (9, 9), "disk")
    actions = reconcile(listing, row, row, 0.5, only_loses)
    assert any(isinstance(action, Hold) for action in actions) is held


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
