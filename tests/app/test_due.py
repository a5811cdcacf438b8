"""What a plan reads, page by page, as one set in memory would tell it."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ingestor.app import plan as planning
from ingestor.app.plan import DueDocuments, Plan, Sampling, _places
from ingestor.core.decisions import Changes, Scope
from ingestor.core.entries import EditionName, Intent, Receipt
from ingestor.core.listings import comparison
from ingestor.model import Item, SourceName
from ingestor.pipeline import listing
from ingestor.pipeline.listing import Source
from ingestor.state.journal import Journal
from ingestor.state.listings import LastListing
from ingestor.state.queries import reports

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
    for module in (comparison, planning, reports):
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
    entries = [*due.at(range(6))]
    assert [entry.key for entry in entries] == DUE
    assert len(due) == len(DUE)
    assert [entry.row > 0 for entry in entries] == ["new" not in key for key in DUE]
    assert [entry.item and entry.item.version for entry in entries] == ["1", "2", "2", "1", "1", "1"]
    assert due.size == 4 * 7 + 2 * 3


def test_entries_are_found_by_their_place(due: DueDocuments) -> None:
    entries = [*due.at(range(6))]
    for places in ([], [0], [1, 4], [3, 4, 5], [*range(6)]):
        assert [*due.at(places)] == [entries[at] for at in places]


def test_what_a_daemon_removed_meanwhile_is_left_out(journal: Journal, due: DueDocuments) -> None:
    [entry] = journal.named("old recipe")
    journal.observe(SOURCE, EDITION, Changes(vanished=("old recipe",)), 0.0)
    journal.remove([entry.row])
    assert [entry.key for entry in due.at(range(6))] == DUE[:-1]
    assert [entry.key for entry in due.at([0, 5])] == [DUE[0]]


def test_sample_of_large_source_is_the_same_at_each_run() -> None:
    bounds = Sampling(documents=100, above=1000)
    assert _places(1000, bounds) == range(1000)
    places = _places(5000, bounds)
    assert len(places) == 100
    assert places == _places(5000, bounds)
    assert max(places) < 5000


def test_figures_of_sample_are_scaled_documents_by_number_and_records_by_bytes() -> None:
    sizes = [int(2 ** (n % 13)) * 100 for n in range(20_000)]
    chosen = _places(len(sizes), Sampling())
    read = Plan(documents=Counter(added=len(chosen)), seconds=1.0)
    read.records["added"] = sum(1 + sizes[at] // 1000 for at in chosen) if len(chosen) < len(sizes) else 0
    assert read.records["added"] == 0, "a source of 20,000 documents is read whole"
    chosen = _places(len(sizes), Sampling(2000, 2000))
    read.records["added"] = sum(1 + sizes[at] // 1000 for at in chosen)
    read.documents["added"] = len(chosen)
    read.scale(len(sizes) / len(chosen), sum(sizes) / sum(sizes[at] for at in chosen))
    assert read.documents["added"] == 20_000
    assert read.records["added"] == pytest.approx(sum(1 + size // 1000 for size in sizes), rel=0.03)
    assert read.seconds == pytest.approx(10, rel=0.2)
