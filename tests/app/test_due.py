"""What a plan reads, page by page, as one set in memory would tell it."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ingestor.app.planning import due as due_documents
from ingestor.app.planning.due import DueDocuments
from ingestor.core.decisions import Changes, Scope
from ingestor.core.entries import EditionName, Intent, Receipt
from ingestor.core.listings import comparison
from ingestor.model import Item, SourceName
from ingestor.pipeline import listing
from ingestor.pipeline.listing import Source
from ingestor.state.journal import Journal
from ingestor.state.listings.last_listing import LastListing
from ingestor.state.queries import unsettled

SOURCE, EDITION = SourceName("s"), EditionName("docs")
SETTLED = ("kept", "edited", "gone", "old recipe", "old and edited", "old and gone")
CHANGED = ("edited", "old and edited")
THERE = {key: "2" if key in CHANGED else "1" for key in (*SETTLED, "never done", "a new", "z new")}
DUE = ["a new", "edited", "old and edited", "z new", "never done", "old recipe"]  # the listed ones first


class Listed:
    def scan(self) -> Iterator[Item]:
        there = (key for key in sorted(THERE) if "gone" not in key)
        return (Item(key, THERE[key], f"/{key}", 7) for key in there)


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Journal]:
    for module in (comparison, due_documents, unsettled):
        monkeypatch.setattr(module, "_PAGE", 2)
    journal = Journal(tmp_path / "journal.sqlite3")
    items = tuple(Item(key, "1", f"/{key}", 3) for key in (*SETTLED, "never done"))
    journal.observe(SOURCE, EDITION, Changes(items), 0.0)
    for entry in journal.of_source(SOURCE):
        if entry.key in SETTLED:
            recipe = "old" if entry.key.startswith("old") else "new"
            journal.intend([Intent(entry.row, ())])
            journal.settle([Receipt(entry.row, "1", recipe, "", "", "text")], [recipe])
    yield journal
    journal.close()


@pytest.fixture
def due(journal: Journal) -> DueDocuments:
    tools = SimpleNamespace(recipe=lambda parser: "new")
    source = Source(SOURCE, EDITION, cast(Any, Listed()), cast(Any, tools))
    found = listing.take(source, Scope(), [LastListing(journal, source.feed)])
    return DueDocuments(journal, source, found)


def test_all_that_a_sync_would_read_is_due_once(due: DueDocuments) -> None:
    entries = [*due]
    assert [entry.key for entry in entries] == DUE
    assert len(due) == len(due.population) == len(DUE)
    assert [entry.row > 0 for entry in entries] == ["new" not in key for key in DUE]
    assert [entry.item and entry.item.version for entry in entries] == ["1", "2", "2", "1", "1", "1"]
    assert [due.population.size(at) for at in range(len(DUE))] == [7, 7, 7, 7, 3, 3]


def test_entries_are_found_by_their_place(due: DueDocuments) -> None:
    entries = dict(enumerate(due))
    for places in ([], [0], [1, 4], [3, 4, 5], [*entries]):
        assert due.at(places) == {at: entries[at] for at in places}


def test_what_is_not_due_is_told_apart(due: DueDocuments) -> None:
    assert due.others([*SETTLED, *DUE]) == {"kept", "gone", "old and gone"}


def test_what_a_daemon_removed_meanwhile_is_left_out(journal: Journal, due: DueDocuments) -> None:
    [entry] = journal.named("old recipe")
    journal.observe(SOURCE, EDITION, Changes(vanished=("old recipe",)), 0.0)
    journal.remove([entry.row])
    assert [entry.key for entry in due] == DUE[:-1]
    assert [*due.at([0, 5])] == [0]
