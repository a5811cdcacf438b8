"""A new collection takes the old one's place, or waits; on a real journal, with an index in memory."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ingestor.choices import packed
from ingestor.config import Rechunk
from ingestor.decide import SMALL_LOSS, Changes, Failure
from ingestor.editions import Editions
from ingestor.indexes.memory import MemoryIndex
from ingestor.journal import Journal
from ingestor.model import CollectionName, Item, Known, SourceName
from ingestor.rechunk import named
from ingestor.rows import Receipt
from ingestor.transitions import Transitions

S, C = SourceName("s"), CollectionName("docs")
OLD = {"embedding": {"recipe": "e"}, "sources": {}}
NEW = {"embedding": {"recipe": "e"}, "sources": {"s": {}}}


class Shelf:
    """Every collection is empty; names are no matter."""

    def open(self, name: CollectionName) -> MemoryIndex:
        return MemoryIndex()

    def roles_changed(self) -> None: ...
    def see_to_names(self) -> None: ...
    def discard(self, name: CollectionName, *, torn: bool) -> None: ...


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    journal = Journal(tmp_path / "journal.sqlite3")
    yield journal
    journal.close()


def fill(journal: Journal, edition: CollectionName, documents: int, quarantined: int) -> None:
    """None of them has records, which the index would have to have, too."""
    items = tuple(Item(f"{number:03}", "1", f"/{number}") for number in range(documents))
    journal.observe(S, edition, Changes(items, ()), remove_at=0.0)
    known: tuple[Known, ...] = ()
    for entry in journal.of_collection(edition):
        bad = int(entry.key) < quarantined
        failure = Failure("no parser for it", 1, 0.0, quarantined=True) if bad else None
        journal.settle([Receipt(entry.row, "1", "r", "f", "d", "text", known, failure=failure)], ["r"])


@pytest.mark.parametrize(
    ("documents", "before", "after", "waits"),
    [
        (20, 0, 0, False),
        (20, 0, 10, False),  # half of them
        (20, 0, 11, True),
        (SMALL_LOSS - 1, 0, SMALL_LOSS - 1, False),  # few documents
        (20, 20, 20, False),  # readers don't have them as it is
        (40, 20, 29, False),  # 9 of the 20 that they have
        (40, 20, 31, True),
    ],
)
def test_a_new_collection_waits_when_it_lacks_most_of_what_readers_have(
    journal: Journal, documents: int, before: int, after: int, waits: bool
) -> None:
    editions, transitions = Editions(journal), Transitions(journal, Shelf(), lambda: 100.0)  # type: ignore[arg-type]
    editions.choose(C, C, packed(OLD))
    fill(journal, C, documents, before)
    building = editions.build(C, packed(NEW), 50.0)
    fill(journal, building.name, documents, after)

    def advanced() -> bool:
        transitions.advance(Rechunk(), lambda name: True, ())
        return editions.live(C).name == building.name

    assert advanced() is not waits
    said = journal.get("waits:docs") or ""
    assert said.startswith(f"it quarantines {after - before} of ") is waits
    assert said.endswith(": no parser for it") is waits
    journal.set("approved:docs", named(NEW))
    assert advanced()
    assert not journal.get("waits:docs")
