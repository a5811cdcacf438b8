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
