"""Names of what is done with a document: those that `plan` announces, and commands count."""

import pytest

from ingestor.core.entries import EditionName, Entry, Intent, Receipt
from ingestor.engine.outcomes import action_of
from ingestor.model import DocumentId, Item, SourceName
from ingestor.pipeline.prepare import Prepared


def prepared(done: str | None, slots: tuple[int, ...], predecessor: int | None = None) -> Prepared:
    """Return writes of a document of version 2. ``done``: its version in the index."""
    item = Item("a.md", "2", "file:///a.md", None, 1)
    recipe, digest = (None, None) if done is None else ("r", "d")
    entry = Entry(
        1, DocumentId("i"), SourceName("docs"), EditionName("docs--2"), "a.md", item, done, recipe, None,
        digest, "text", 0, "r",
    )  # fmt: skip
    receipt = Receipt(1, "2", "r", "f", "d", "text")
    return Prepared(entry, Intent(1, slots, predecessor), receipt)


@pytest.mark.parametrize(
    ("done", "slots", "predecessor", "live", "building"),
    [
        (None, (0,), None, "added", "rebuilt"), ("1", (0,), None, "changed", "rebuilt"),
        (None, (0,), 7, "moved", "rebuilt"), ("2", (0,), None, "recut", "recut"),
        ("2", (), None, "unchanged", "unchanged"),
    ],
)  # fmt: skip
def test_action_names_what_happens_to_document(
    done: str | None, slots: tuple[int, ...], predecessor: int | None, live: str, building: str
) -> None:
    write = prepared(done, slots, predecessor)
    assert (action_of(write, building=False), action_of(write, building=True)) == (live, building)
