"""A new collection takes the old one's place, or waits; on a real journal, with an index in memory."""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from ingestor.config.models import Rechunk
from ingestor.core.decisions import SMALL_LOSS, Changes, Failure
from ingestor.core.entries import Choices, EditionName, Receipt
from ingestor.core.generations import Model
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
KNOWN = (Known(0, "t", "v", "m"),)


class Collections:
    """Every collection is empty; names are no matter."""

    def open(self, name: CollectionName) -> MemoryIndex:
        return MemoryIndex()

    def names(self) -> set[str]:
        return {"docs--2"}  # left by another state

    def forget_names(self) -> None: ...
    def match_names(self) -> None: ...
    def discard(self, name: CollectionName, *, torn: bool) -> None: ...


@dataclass
class Program:
    """A program at 100 s that swaps editions over a journal."""

    journal: Journal
    collections: Any = field(default_factory=Collections)
    now: float = 100.0

    def __post_init__(self) -> None:
        self.editions, self.requests = Editions(self.journal), Requests(self.journal)
        self.notices = Notices(self.journal)
        self.swaps = Swaps(self.journal, self.collections, lambda: self.now)

    def build(self) -> EditionName:
        """Begin to build a second edition."""
        self.editions.choose(C, C, OLD)
        return self.editions.build(C, NEW, 50.0).name

    def fill(self, edition: EditionName, documents: int, quarantined: int = 0) -> None:
        """Settle documents. Those that readers have get records: in others the index would lack them."""
        items = tuple(Item(f"{number:03}", "1", f"/{number}") for number in range(documents))
        self.journal.observe(S, edition, Changes(items, ()), remove_at=0.0)
        for entry in of_collection(self.journal, edition):
            bad = int(entry.key) < quarantined
            failure = Failure("no parser for it", 1, 0.0, quarantined=True) if bad else None
            known = KNOWN if edition == C and not bad else ()
            done = Receipt(entry.row, "1", "r", "f", "d", "text", known, failure=failure)
            self.journal.settle([done])

    def advance(self, *, complete: bool = True) -> bool:
        return self.swaps.advance(Rechunk(), lambda name: complete, ())

    def arrange(self, wanted: Choices) -> list[EditionSetup]:
        return self.swaps.arrange([situation(self.journal, C, wanted, {}, frozenset())], Rechunk(), {})

    @property
    def live(self) -> EditionName:
        return self.editions.live(C).name


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    journal = Journal(tmp_path / "journal.sqlite3", synchronous="OFF")
    yield journal
    journal.close()


@pytest.fixture
def program(journal: Journal) -> Program:
    return Program(journal)


# --- the switch ---------------------------------------------------------------------------------------------


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
    program: Program, documents: int, before: int, after: int, waits: bool
) -> None:
    new = program.build()
    program.fill(C, documents, before)
    program.fill(new, documents, after)
    program.advance()
    assert (program.live == new) is not waits
    reason = program.notices.get("waits", C) or ""
    assert reason.startswith(f"the replacement quarantines {after - before} of ") is waits
    assert reason.endswith(": no parser for it") is waits
    program.requests.put("approved", C, fingerprint_of(NEW))
    program.advance()
    assert program.live == new
    assert not program.notices.get("waits", C)


def test_old_edition_is_not_deleted_while_a_name_may_be_anothers(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chroma has the names of the time before, is away when names are looked at, and back a moment later."""
    chroma = Shelves(Chaos(Random(0)))
    store = EditionStore(journal, chroma, upkeep_in(tmp_path), lambda name: Model(Fingerprint("e")))
    program = Program(journal, store)
    new = program.build()
    for edition in (C, new):
        store.open(edition).upsert([Record(f"{edition}#0", "", {}, np.ones(2, np.float32))])
    store.forget_names()
    program.editions.become(2.0, (C, "deleted"), (new, "live"))
    faults = iter([Transient("away")])

    def names() -> dict[str, str]:
        for fault in faults:
            raise fault
        return chroma._names()

    monkeypatch.setattr(chroma, "names", names)
    for _ in range(2):
        program.advance()
    assert [edition.name for edition in program.editions.all()] == [new]
    assert chroma.collections.keys() == {"docs"}
    assert [record.id for record in chroma.records("docs")] == [f"{new}#0"]


def test_program_killed_after_the_switch_has_arranged_names_and_ended_the_rebuild(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a kill right after it has everything built a second time."""
    new, become, seen = program.build(), Editions.become, list[str]()

    def killed(self: Editions, *roles: Any, **others: Any) -> None:
        become(self, *roles, **others)
        raise sqlite3.OperationalError("database or disk is full")

    program.requests.put("rebuilding", C, "search misses records")
    monkeypatch.setattr(program.collections, "forget_names", lambda: seen.append("roles changed"))
    monkeypatch.setattr(Editions, "become", killed)
    with pytest.raises(sqlite3.OperationalError):
        program.advance()
    assert program.live == new
    assert seen
    assert not program.requests.get("rebuilding", C)
    assert program.notices.get("rebuilt", C) == "100.0"


def test_edition_that_fails_for_an_unknown_reason_is_examined_every_few_seconds(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time whole tables are read."""
    looks = list[float]()
    program.build()

    def fail(self: Editions, *editions: object) -> str:
        looks.append(program.now)
        raise RuntimeError("a defect")

    monkeypatch.setattr(Editions, "obstacle", fail)
    for _ in range(12):
        program.advance()
        program.now += 1.0
    assert looks == [100.0, 105.0, 110.0]


def test_names_that_cannot_be_arranged_are_logged_once(
    program: Program, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away() -> None:
        raise Transient("Chroma is away")

    monkeypatch.setattr(program.collections, "match_names", away)
    for _ in range(5):
        program.advance()
    assert caplog.text.count("could not be renamed") == 1


# --- what is built ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("why", ["search misses records", "records were restored"])
def test_rebuild_requested_during_a_build_follows_the_build(program: Program, why: str) -> None:
    program.fill(C, 1)
    program.editions.choose(C, C, OLD)
    program.requests.put("rebuild", C, "search misses records")
    [_, first] = program.arrange(OLD)
    assert first.edition is not None
    program.fill(first.edition, 1)
    program.requests.put("rebuild", C, why)
    assert [each.edition for each in program.arrange(OLD)] == [C, first.edition]

    program.advance()
    assert program.live == first.edition
    assert program.requests.get("rebuild", C) == why
    [entry] = of_collection(program.journal, first.edition)
    program.journal.settle([Receipt(entry.row, "1", "r", "f", "d", "text", KNOWN)])
    [live, second] = program.arrange(OLD)
    assert (live.edition, second.edition not in (C, first.edition)) == (first.edition, True)


def test_collection_under_replacement_is_not_rebuilt_for_unreachable_records(program: Program) -> None:
    program.now, new = 100_000.0, program.build()
    program.notices.put("reach", C, "search misses records")
    program.advance(complete=False)
    assert not program.requests.get("rebuild", C)
    program.editions.become(60.0, (new, "deleted"))
    program.advance(complete=False)
    assert program.requests.get("rebuild", C)


def test_name_of_a_foreign_collection_is_not_taken(program: Program) -> None:
    program.editions.choose(C, C, OLD)
    program.fill(C, 1)
    assert [setup.edition for setup in program.arrange(NEW)] == [C, "docs--3"]


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
    program: Program, wanted: Choices, built: bool
) -> None:
    editions = program.editions
    program.fill(C, 3)
    editions.choose(C, C, parsed_by(text=1, pdf=1))
    editions.note(replace(editions.live(C), uuids=("uuid",), embedder=Fingerprint("e")))
    program.arrange(wanted)
    assert (len(editions.of(C, "staging")) == 1) is built
    assert (editions.live(C).choices == wanted) is not built


# --- requests of commands -----------------------------------------------------------------------------------


def test_request_to_a_killed_daemon_is_carried_out_once_by_the_next(journal: Journal) -> None:
    before = Program(journal)
    before.editions.become(60.0, (C, "previous"), (before.build(), "live"))
    for _ in range(2):  # the first was killed before it noted that it was done
        program = Program(journal)
        program.requests.put("roll back", C, C)
        program.advance()
        roles = {str(edition.name): edition.role for edition in program.editions.all()}
        assert roles == {"docs": "live", "docs--2": "previous"}
        assert not program.requests.get("roll back", C)


def test_request_to_arrange_is_void_once_the_program_started_which_arranges_all(journal: Journal) -> None:
    Requests(journal).arrange()
    assert not Program(journal).advance()


def test_request_stored_while_requests_are_taken_is_carried_out_next(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command writes it between the look at the requests and their removal."""
    command, get = Journal(tmp_path / "journal.sqlite3"), Requests.get

    def look_and_be_late(self: Requests, kind: Any, subject: str = "") -> str | None:
        found = get(self, kind, subject)
        if kind == "arrange":
            monkeypatch.setattr(Requests, "get", get)
            Requests(command).arrange()
        return found

    monkeypatch.setattr(Requests, "get", look_and_be_late)
    assert [program.advance() for _ in range(3)] == [False, True, False]
    command.close()


def test_rollback_requested_during_another_stays(program: Program) -> None:
    program.requests.put("roll back", C, "docs--3")
    for done, left in (("docs", "docs--3"), ("docs--3", None)):
        program.requests.take("roll back", C, done)
        assert program.requests.get("roll back", C) == left


def test_new_config_ends_what_waited_for_its_sources_and_collections(program: Program) -> None:
    """A source that returned needs approval to leave again."""
    program.requests.put("prune", "s", "yes")
    program.requests.put("prune", "other", "yes")
    program.notices.put("waits", "former", "2 chunks exceed the limit of 0")
    program.arrange(NEW)
    assert program.requests.all("prune") == {"other": "yes"}
    assert program.notices.all("waits") == {}
