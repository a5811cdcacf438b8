"""A new collection takes the old one's place, or waits; on a real journal, with an index in memory."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ingestor.config.models import Rechunk
from ingestor.core.decisions import SMALL_LOSS, Changes, Failure
from ingestor.core.entries import CollectionRow, Receipt
from ingestor.model import CollectionName, Fingerprint, Item, Known, SourceName
from ingestor.rechunk.policy import named
from ingestor.rechunk.recipes import Choices, packed
from ingestor.rechunk.swap import Swaps
from ingestor.state.editions import Editions
from ingestor.state.journal import Journal
from ingestor.state.requests import Notices, Requests
from tests.memory_index import MemoryIndex

S, C = SourceName("s"), CollectionName("docs")
EMBEDDING = {"kind": "hashing", "version": 1, "options": {}, "recipe": "e"}
OLD = {"embedding": {**EMBEDDING, "version": 0, "recipe": "old"}, "sources": {}}
NEW = {"embedding": EMBEDDING, "sources": {"s": {"parsing": {}}}}


class OpenCollections:
    """Every collection is empty; names are no matter."""

    def open(self, name: CollectionName) -> MemoryIndex:
        return MemoryIndex()

    def names(self) -> set[str]:
        return {"docs--2"}  # left by another state

    def roles_changed(self) -> None: ...
    def see_to_names(self) -> None: ...
    def discard(self, name: CollectionName, *, torn: bool) -> None: ...


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    journal = Journal(tmp_path / "journal.sqlite3")
    yield journal
    journal.close()


def fill(journal: Journal, edition: CollectionName, documents: int, quarantined: int) -> None:
    """Only what readers have has records: others' index would have to have them, too."""
    items = tuple(Item(f"{number:03}", "1", f"/{number}") for number in range(documents))
    journal.observe(S, edition, Changes(items, ()), remove_at=0.0)
    for entry in journal.of_collection(edition):
        bad = int(entry.key) < quarantined
        failure = Failure("no parser for it", 1, 0.0, quarantined=True) if bad else None
        known = (Known(0, "t", "v", "m"),) if edition == C and not bad else ()
        journal.settle([Receipt(entry.row, "1", "r", "f", "d", "text", known, failure=failure)], ["r"])


@pytest.mark.parametrize(
    ("documents", "before", "after", "waits"),
    [
        (20, 0, 0, False),
        (20, 0, 10, False),  # half of them
        (20, 0, 11, True),
        (20, 0, SMALL_LOSS - 1, False),  # few documents
        (SMALL_LOSS - 1, 0, SMALL_LOSS - 1, True),  # all of them
        (20, 20, 20, False),  # readers don't have them as it is
        (40, 20, 29, False),  # 9 of the 20 that they have
        (40, 20, 31, True),
    ],
)
def test_a_new_collection_waits_when_it_lacks_most_of_what_readers_have(
    journal: Journal, documents: int, before: int, after: int, waits: bool
) -> None:
    editions, swaps = Editions(journal), Swaps(journal, OpenCollections(), lambda: 100.0)  # type: ignore[arg-type]
    editions.choose(C, C, packed(OLD))
    fill(journal, C, documents, before)
    building = editions.build(C, packed(NEW), 50.0)
    fill(journal, building.name, documents, after)

    def advanced() -> bool:
        swaps.advance(Rechunk(), lambda name: True, ())
        return editions.live(C).name == building.name

    assert advanced() is not waits
    said = Notices(journal).get("waits", C) or ""
    assert said.startswith(f"it quarantines {after - before} of ") is waits
    assert said.endswith(": no parser for it") is waits
    Requests(journal).put("approved", C, named(NEW))
    assert advanced()
    assert not Notices(journal).get("waits", C)


def swapped(journal: Journal) -> Editions:
    """A collection whose second edition readers have, and the first is kept."""
    editions = Editions(journal)
    editions.choose(C, C, packed(OLD))
    made = editions.build(C, packed(NEW), 50.0)
    editions.become(60.0, (C, "previous"), (made.name, "live"))
    return editions


def test_what_was_asked_of_a_daemon_that_was_killed_is_done_by_the_next_and_once(journal: Journal) -> None:
    editions = swapped(journal)
    Requests(journal).put("roll back", C, C)
    after = Swaps(journal, OpenCollections(), lambda: 100.0)  # type: ignore[arg-type]
    after.advance(Rechunk(), lambda name: True, ())
    assert editions.live(C).name == C
    assert not Requests(journal).get("roll back", C)

    Requests(journal).put("roll back", C, C)  # it was killed before it noted that it was done
    again = Swaps(journal, OpenCollections(), lambda: 100.0)  # type: ignore[arg-type]
    again.advance(Rechunk(), lambda name: True, ())
    assert editions.live(C).name == C
    assert not Requests(journal).get("roll back", C)


def test_a_source_that_came_back_is_not_removed_when_it_leaves_again(journal: Journal) -> None:
    swaps = Swaps(journal, OpenCollections(), lambda: 100.0)  # type: ignore[arg-type]
    requests = Requests(journal)
    requests.put("prune", "s", "yes")
    requests.put("prune", "other", "yes")
    swaps.arrange(C, NEW, Rechunk())
    assert requests.all("prune") == {"other": "yes"}


def test_a_request_to_arrange_is_carried_out_once(journal: Journal) -> None:
    Requests(journal).arrange()  # before the start, which arranges all
    swaps = Swaps(journal, OpenCollections(), lambda: 100.0)  # type: ignore[arg-type]

    def asked() -> bool:
        return swaps.advance(Rechunk(), lambda name: True, ())

    assert not asked()
    Requests(journal).arrange()
    assert [asked(), asked()] == [True, False]


def test_a_name_that_someone_has_in_chroma_is_not_taken(journal: Journal) -> None:
    editions, swaps = Editions(journal), Swaps(journal, OpenCollections(), lambda: 100.0)  # type: ignore[arg-type]
    editions.choose(C, C, packed(OLD))
    fill(journal, C, 1, 0)
    [entry] = journal.of_collection(C)
    known = (Known(0, "t", "v", "m", unsure=False),)
    journal.settle([Receipt(entry.row, "1", "r", "f", "d", "text", known)], ["r"])
    standings = swaps.arrange(C, NEW, Rechunk(mode="swap"))
    assert [standing.edition for standing in standings] == [C, "docs--3"]


def parsed_by(**versions: int) -> Choices:
    chunking = {"kind": "recursive", "version": 1, "options": {}}
    parsing = {kind: {"kind": kind, "version": each, "options": {}} for kind, each in versions.items()}
    return {"embedding": EMBEDDING, "sources": {"s": {"chunking": chunking, "parsing": parsing}}}


@pytest.mark.parametrize(
    ("wanted", "built"),
    [
        (parsed_by(text=1, pdf=2), False),  # no document is a PDF
        (parsed_by(text=2, pdf=1), True),
        (parsed_by(text=2, pdf=2), True),
    ],
)
def test_another_version_of_a_parser_matters_where_it_reads_documents(
    journal: Journal, wanted: Choices, built: bool
) -> None:
    editions = Editions(journal)
    fill(journal, C, 3, 0)
    editions.choose(C, C, packed(parsed_by(text=1, pdf=1)))
    journal.note_collection(C, CollectionRow("", Fingerprint("e")))
    swaps = Swaps(journal, OpenCollections(), lambda: 0.0)
    swaps.arrange(C, wanted, Rechunk())
    assert (len(editions.of(C, "staging")) == 1) is built
    assert (editions.live(C).choices == packed(wanted)) is not built
