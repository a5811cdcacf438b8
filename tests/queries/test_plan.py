"""What a plan reads, page by page, and what new records need."""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ingestor.core import listings
from ingestor.core.decisions import Changes, Scope
from ingestor.core.entries import EditionName, Feed, Intent, Receipt
from ingestor.core.listings import observations
from ingestor.model import Item, SourceName
from ingestor.pipeline import listing
from ingestor.pipeline.listing import Source
from ingestor.queries.needs import disk, memory, write_seconds
from ingestor.queries.plan import Figures, Sampling
from ingestor.state import reports
from ingestor.state.journal import Journal
from ingestor.state.reports import list_due, list_unsettled, measure_gone
from ingestor.state.sources import LastListing
from tests.state.journals import of_source

SOURCE, EDITION = SourceName("s"), EditionName("docs")
SETTLED = ("kept", "edited", "gone", "old recipe", "old and edited", "old and gone")
CHANGED = ("edited", "old and edited")
THERE = {key: "2" if key in CHANGED else "1" for key in (*SETTLED, "never done", "a new", "z new")}
DUE = ["edited", "old and edited", "never done", "a new", "z new", "old recipe"]  # in the order of the queue


class Listed:
    def scan(self) -> Iterator[Item]:
        there = (key for key in sorted(THERE) if "gone" not in key)
        return (Item(key, THERE[key], f"/{key}", 7) for key in there)


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Journal]:
    for module in (listings, reports):
        monkeypatch.setattr(module, "_PAGE", 2)
    journal = Journal(tmp_path / "journal.sqlite3")
    items = tuple(Item(key, "1", f"/{key}", 3) for key in (*SETTLED, "never done"))
    journal.observe(SOURCE, EDITION, Changes(items), 0.0)
    for entry in of_source(journal, SOURCE):
        if entry.key in SETTLED:
            recipe = "old" if entry.key.startswith("old") else "new"
            journal.intend([Intent(entry.row, ())])
            journal.settle([Receipt(entry.row, "1", recipe, "", "", "text")])
    yield journal
    journal.close()


@pytest.fixture
def copy(tmp_path: Path, journal: Journal) -> Iterator[Journal]:
    """A copy of the journal into which a listing was taken over."""
    copy = journal.copy_to(tmp_path / "copy.sqlite3")
    tools = SimpleNamespace(recipe=lambda parser: "new")
    source = Source(SOURCE, EDITION, cast(Any, Listed()), cast(Any, tools))
    found = listing.take(source, Scope(), [LastListing(copy, source.feed)])
    listing.store_feeds(copy, [source])
    listing.observe(copy, source, observations(found))
    yield copy
    copy.close()


FEED = Feed(SOURCE, EDITION)


def test_documents_of_next_sync_are_due_once(journal: Journal, copy: Journal) -> None:
    rows, sizes = zip(*list_due(copy, FEED), strict=True)
    entries = copy.of_rows(rows)
    assert [entry.key for entry in entries] == DUE
    assert [entry.item and entry.item.version for entry in entries] == ["2", "2", "1", "1", "1", "1"]
    assert (len(rows), sum(sizes)) == (6, 4 * 7 + 2 * 3)
    assert measure_gone(copy, SOURCE) == (2, 0)
    assert list_unsettled(copy, FEED, 4) == ["gone", "old and gone", "edited", "old and edited"]
    assert [each.key for each in journal.of_rows([row for row, _ in list_due(journal, FEED)])] == [
        "never done"
    ]


def test_sample_of_large_source_is_the_same_at_each_run() -> None:
    bounds = Sampling(documents=100, above=1000)
    assert bounds.places(1000) == range(1000)
    places = bounds.places(5000)
    assert len(places) == 100
    assert places == bounds.places(5000)
    assert max(places) < 5000


def test_figures_of_sample_are_scaled_documents_by_number_and_records_by_bytes() -> None:
    sizes = [int(2 ** (n % 13)) * 100 for n in range(20_000)]
    chosen = Sampling().places(len(sizes))
    assert len(chosen) == len(sizes), "a source of 20,000 documents is read whole"
    chosen = Sampling(2000, 2000).places(len(sizes))
    records = Counter(added=sum(1 + sizes[at] // 1000 for at in chosen))
    read, whole = Figures(Counter(added=len(chosen)), records, seconds=1.0), Figures()
    whole.add(read, len(sizes) / len(chosen), sum(sizes) / sum(sizes[at] for at in chosen))
    assert whole.documents["added"] == 20_000
    assert whole.records["added"] == pytest.approx(sum(1 + size // 1000 for size in sizes), rel=0.03)
    assert whole.seconds == pytest.approx(10, rel=0.2)


def test_needs_of_records_follow_their_size() -> None:
    assert memory(245_000, 1024) == pytest.approx(1e9, rel=0.15), "Chroma's rule, and the links"
    found = disk(1000, 400_000, 1000, 384)
    assert found.total == found.chroma + found.journal + found.cache
    assert found.chroma > found.cache > found.journal


def test_write_time_grows_with_records() -> None:
    assert write_seconds(0, 500) == 0
    assert write_seconds(800, 0) == pytest.approx(8 * write_seconds(100, 300))
    each = [write_seconds(1, before) for before in (999, 2_000, 4_000, 8_000)]
    steps = [later - earlier for earlier, later in pairwise(each)]
    assert steps == pytest.approx([steps[0]] * 3, rel=0.01), "as much for each doubling"
    assert steps[0] > 0
    assert sum(write_seconds(500, before) for before in range(0, 10_000, 500)) == pytest.approx(
        write_seconds(10_000, 0)
    )
