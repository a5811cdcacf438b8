"""A new collection takes the old one's place, or waits; on a real journal, with an index in memory."""

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from ingestor.config.models import Rechunk
from ingestor.core.backend import Model
from ingestor.core.decisions import SMALL_LOSS, Changes, Failure
from ingestor.core.entries import Choices, Entry, Receipt
from ingestor.engine.edition_store import EditionStore
from ingestor.model import CollectionName, Fingerprint, Item, Known, Record, SourceName
from ingestor.ports import Transient
from ingestor.rechunk.policy import EditionSetup, fingerprint_of
from ingestor.rechunk.swap import Swaps, situation
from ingestor.state.editions import Editions, Notices, Requests
from ingestor.state.journal import Journal
from tests.lexical.worlds import upkeep_in
from tests.memory_index import MemoryIndex
from tests.simulation.ports.chaos import Chaos
from tests.simulation.ports.collections import Shelves
from tests.state.journals import of_collection

S, C = SourceName("s"), CollectionName("docs")
EMBEDDING = {"kind": "hashing", "version": 1, "options": {}, "recipe": "e"}
OLD = {"embedding": {**EMBEDDING, "version": 0, "recipe": "old"}, "sources": {}}
NEW = {"embedding": EMBEDDING, "sources": {"s": {"parsing": {}}}}


def arrange(swaps: Swaps, journal: Journal, wanted: Choices, settings: Rechunk) -> list[EditionSetup]:
    return swaps.arrange([situation(journal, C, wanted)], settings)


class Collections:
    """Every collection is empty; names are no matter."""

    def open(self, name: CollectionName) -> MemoryIndex:
        return MemoryIndex()

    def names(self) -> set[str]:
        return {"docs--2"}  # left by another state

    def forget_names(self) -> None: ...
    def match_names(self) -> None: ...
    def discard(self, name: CollectionName, *, torn: bool) -> None: ...


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    journal = Journal(tmp_path / "journal.sqlite3", synchronous="OFF")
    yield journal
    journal.close()


def swaps_of(journal: Journal, collections: Any = None, now: float = 100.0) -> Swaps:
    return Swaps(journal, collections or Collections(), lambda: now)


def advance(swaps: Swaps, *, complete: bool = True) -> bool:
    return swaps.advance(Rechunk(), lambda name: complete, ())


def fill(journal: Journal, edition: CollectionName, documents: int, quarantined: int) -> None:
    """Only what readers have has records: others' index would have to have them, too."""
    items = tuple(Item(f"{number:03}", "1", f"/{number}") for number in range(documents))
    journal.observe(S, edition, Changes(items, ()), remove_at=0.0)
    for entry in of_collection(journal, edition):
        bad = int(entry.key) < quarantined
        failure = Failure("no parser for it", 1, 0.0, quarantined=True) if bad else None
        write(journal, entry, records=edition == C and not bad, failure=failure)


def write(journal: Journal, entry: Entry, failure: Failure | None = None, *, records: bool = True) -> None:
    known = (Known(0, "t", "v", "m"),) if records else ()
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
def test_new_collection_that_lacks_most_documents_waits(
    journal: Journal, documents: int, before: int, after: int, waits: bool
) -> None:
    editions, swaps = Editions(journal), swaps_of(journal)
    editions.choose(C, C, OLD)
    fill(journal, C, documents, before)
    building = editions.build(C, NEW, 50.0)
    fill(journal, building.name, documents, after)

    def advanced() -> bool:
        advance(swaps)
        return editions.live(C).name == building.name

    assert advanced() is not waits
    said = Notices(journal).get("waits", C) or ""
    assert said.startswith(f"the replacement quarantines {after - before} of ") is waits
    assert said.endswith(": no parser for it") is waits
    Requests(journal).put("approved", C, fingerprint_of(NEW))
    assert advanced()
    assert not Notices(journal).get("waits", C)


def swapped(journal: Journal) -> Editions:
    """A collection whose second edition readers have, and the first is kept."""
    editions = Editions(journal)
    editions.choose(C, C, OLD)
    made = editions.build(C, NEW, 50.0)
    editions.become(60.0, (C, "previous"), (made.name, "live"))
    return editions


def test_old_edition_is_not_deleted_while_a_name_may_be_anothers(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chroma has the names of the time before, is away when names are looked at, and back a moment later."""
    editions, chroma = Editions(journal), Shelves(Chaos(Random(0)))
    editions.choose(C, C, NEW)
    new = editions.build(C, NEW, 1.0).name
    collections = EditionStore(journal, chroma, upkeep_in(tmp_path), lambda name: Model(Fingerprint("e")))
    for edition in (C, new):
        collections.open(edition).upsert([Record(f"{edition}#0", "", {}, np.ones(2, np.float32))])
    collections.forget_names()
    editions.become(2.0, (C, "deleted"), (new, "live"))
    faults = iter([Transient("away")])

    def names() -> dict[str, str]:
        for fault in faults:
            raise fault
        return chroma._names()

    monkeypatch.setattr(chroma, "names", names)
    swaps = swaps_of(journal, collections, now=3.0)
    for _ in range(2):
        advance(swaps)
    assert [edition.name for edition in editions.all()] == [new]
    assert chroma.collections.keys() == {"docs"}
    assert [record.id for record in chroma.records("docs")] == [f"{new}#0"]


def test_names_are_arranged_after_an_error_during_a_switch(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, collections = [], Collections()
    monkeypatch.setattr(collections, "forget_names", lambda: seen.append("roles changed"))
    _killed_after_the_switch(journal, collections, monkeypatch)
    assert seen


def test_rebuild_is_done_with_the_switch(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a kill right after it has everything built a second time."""
    Requests(journal).put("rebuilding", C, "search misses records")
    _killed_after_the_switch(journal, Collections(), monkeypatch)
    assert not Requests(journal).get("rebuilding", C)
    assert Notices(journal).get("rebuilt", C) == "100.0"


@pytest.mark.parametrize("why", ["search misses records", "records were restored"])
def test_rebuild_requested_during_a_build_follows_the_build(journal: Journal, why: str) -> None:
    editions, requests = Editions(journal), Requests(journal)
    swaps = swaps_of(journal)
    fill(journal, C, 1, 0)
    [entry] = of_collection(journal, C)
    write(journal, entry)
    editions.choose(C, C, OLD)
    requests.put("rebuild", C, "search misses records")
    [_, first] = arrange(swaps, journal, OLD, Rechunk())
    fill(journal, first.edition, 1, 0)
    requests.put("rebuild", C, why)
    assert [each.edition for each in arrange(swaps, journal, OLD, Rechunk())] == [C, first.edition]

    advance(swaps)
    assert editions.live(C).name == first.edition
    assert requests.get("rebuild", C) == why
    [entry] = of_collection(journal, first.edition)
    write(journal, entry)
    [live, second] = arrange(swaps, journal, OLD, Rechunk())
    assert (live.edition, second.edition not in (C, first.edition)) == (first.edition, True)


def test_collection_under_replacement_is_not_rebuilt_for_unreachable_records(journal: Journal) -> None:
    editions = Editions(journal)
    swaps = swaps_of(journal, now=100_000.0)
    editions.choose(C, C, OLD)
    made = editions.build(C, NEW, 50.0)
    Notices(journal).put("reach", C, "search misses records")
    advance(swaps, complete=False)
    assert not Requests(journal).get("rebuild", C)
    editions.become(60.0, (made.name, "deleted"))
    advance(swaps, complete=False)
    assert Requests(journal).get("rebuild", C)


def _killed_after_the_switch(
    journal: Journal, collections: Collections, monkeypatch: pytest.MonkeyPatch
) -> None:
    editions, swaps = Editions(journal), swaps_of(journal, collections)
    editions.choose(C, C, OLD)
    made = editions.build(C, NEW, 50.0)
    become = Editions.become

    def killed(self: Editions, *roles: Any, **others: Any) -> None:
        become(self, *roles, **others)
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(Editions, "become", killed)
    with pytest.raises(sqlite3.OperationalError):
        advance(swaps)
    assert editions.live(C).name == made.name


def test_request_to_a_killed_daemon_is_carried_out_once_by_the_next(journal: Journal) -> None:
    editions = swapped(journal)
    for _ in range(2):  # then it was killed before it noted that it was done
        Requests(journal).put("roll back", C, C)
        advance(swaps_of(journal))
        assert editions.live(C).name == C
        assert not Requests(journal).get("roll back", C)


def test_source_that_returned_needs_approval_to_leave_again(journal: Journal) -> None:
    swaps = swaps_of(journal)
    requests = Requests(journal)
    requests.put("prune", "s", "yes")
    requests.put("prune", "other", "yes")
    arrange(swaps, journal, NEW, Rechunk())
    assert requests.all("prune") == {"other": "yes"}


def test_change_of_a_collection_that_left_the_config_no_longer_waits(journal: Journal) -> None:
    swaps = swaps_of(journal)
    Notices(journal).put("waits", "former", "2 chunks exceed the limit of 0")
    arrange(swaps, journal, NEW, Rechunk())
    assert Notices(journal).all("waits") == {}


def test_name_of_a_foreign_collection_is_not_taken(journal: Journal) -> None:
    editions, swaps = Editions(journal), swaps_of(journal)
    editions.choose(C, C, OLD)
    fill(journal, C, 1, 0)
    [entry] = of_collection(journal, C)
    write(journal, entry)
    standings = arrange(swaps, journal, NEW, Rechunk(mode="swap"))
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
def test_new_version_of_a_parser_matters_only_if_the_parser_reads_documents(
    journal: Journal, wanted: Choices, built: bool
) -> None:
    editions = Editions(journal)
    fill(journal, C, 3, 0)
    editions.choose(C, C, parsed_by(text=1, pdf=1))
    editions.note(replace(editions.live(C), uuids=("uuid",), embedder=Fingerprint("e")))
    swaps = Swaps(journal, Collections(), lambda: 0.0)
    arrange(swaps, journal, wanted, Rechunk())
    assert (len(editions.of(C, "staging")) == 1) is built
    assert (editions.live(C).choices == wanted) is not built


def test_request_stored_while_requests_are_taken_is_carried_out_next(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command writes it between the look at the requests and their removal."""
    swaps = swaps_of(journal)
    command, get = Journal(tmp_path / "journal.sqlite3"), Requests.get

    def look_and_be_late(self: Requests, kind: Any, subject: str = "") -> str | None:
        found = get(self, kind, subject)
        if kind == "arrange":
            monkeypatch.setattr(Requests, "get", get)
            Requests(command).arrange()
        return found

    monkeypatch.setattr(Requests, "get", look_and_be_late)
    assert [swaps.run_pending_requests() for _ in range(3)] == [False, True, False]
    command.close()


def test_rollback_requested_during_another_stays(journal: Journal) -> None:
    requests = Requests(journal)
    requests.put("roll back", C, "docs--3")
    requests.take("roll back", C, "docs")
    assert requests.get("roll back", C) == "docs--3"
    requests.take("roll back", C, "docs--3")
    assert requests.get("roll back", C) is None


def test_edition_that_fails_for_an_unknown_reason_is_examined_every_few_seconds(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time whole tables are read."""
    editions, now, looks = Editions(journal), [100.0], list[float]()
    editions.choose(C, C, OLD)
    editions.build(C, NEW, 50.0)
    swaps = Swaps(journal, Collections(), lambda: now[0])  # type: ignore[arg-type]

    def fail(self: Editions, *editions: object) -> str:
        looks.append(now[0])
        raise RuntimeError("a defect")

    monkeypatch.setattr(Editions, "obstacle", fail)
    for _ in range(12):
        advance(swaps)
        now[0] += 1.0
    assert looks == [100.0, 105.0, 110.0]


def test_names_that_cannot_be_seen_to_are_logged_once(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    collections = Collections()

    def away() -> None:
        raise Transient("Chroma is away")

    monkeypatch.setattr(collections, "match_names", away)
    swaps = swaps_of(journal, collections)
    for _ in range(5):
        advance(swaps)
    assert caplog.text.count("could not be renamed") == 1
