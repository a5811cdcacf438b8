"""Which sources have only another name: a table, and what the journal keeps under the old one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ingestor.app.handover import find_renames, hand_over, in_choices, keep_approvals, origin
from ingestor.config.models import Choice, SourceConfig
from ingestor.connectors.folder.connector import PLUGIN as FOLDER
from ingestor.core.decisions import Changes
from ingestor.core.document_json import Parsed
from ingestor.core.entries import Intent, Receipt
from ingestor.engine.flight import InFlight
from ingestor.engine.workers import Outcome
from ingestor.engine.writer import valid
from ingestor.model import CollectionName, Digest, Document, Fingerprint, Item, SourceName
from ingestor.pipeline.prepare import Prepared
from ingestor.ports import BadDocument
from ingestor.rechunk import policy
from ingestor.state.cache import Parses, VectorCache
from ingestor.state.editions import Editions, Requests
from ingestor.state.journal import Journal, sources_of
from ingestor.state.reports import failures
from ingestor.state.sources import SourceRows, Withdrawals
from tests.simulation.world import World
from tests.state.journals import of_source

C = CollectionName("docs")


def source(name: str, path: str, collection: str = "docs") -> SourceConfig:
    connector = Choice(FOLDER, FOLDER.options(path=Path(path)))
    return SourceConfig(SourceName(name), CollectionName(collection), connector, connector, (), 300.0, 0.5)


def place(path: str | None, *collections: str) -> list[tuple[str | None, CollectionName]]:
    found = None if path is None else origin(source("", path))
    return [(found, CollectionName(name)) for name in collections or ("docs",)]


@pytest.mark.parametrize(
    ("config", "noted", "renames"),
    [
        ([source("a", "/x")], {"a": place("/x")}, {}),
        ([source("b", "/x")], {"a": place("/x")}, {"a": "b"}),
        ([source("b", "/y")], {"a": place("/x")}, {}),  # other options: a new source
        ([source("b", "/x", "other")], {"a": place("/x")}, {}),  # another collection
        ([source("b", "/x", "other")], {"a": place("/x", "docs", "other")}, {"a": "b"}),
        ([source("b", "/x")], {"a": place(None)}, {}),  # of an older version: not noted yet
        ([source("a", "/y")], {"a": place("/x")}, {}),  # its folder moved
        ([source("a", "/x"), source("b", "/x")], {"a": place("/x")}, {}),  # a second one
        ([source("b", "/x")], {"a": place("/x"), "b": place("/x")}, {}),  # b had documents of its own
        ([source("b", "/x")], {"a": place("/x"), "b": place(None)}, {}),
        ([source("b", "/x"), source("c", "/x")], {"a": place("/x")}, {"a": "b"}),
        ([source("b", "/x")], {"new": place("/x"), "old": place("/x")}, {"new": "b"}),  # listed last
        ([source("a", "/y"), source("b", "/x")], {"a": place("/x"), "b": place("/y")}, {"a": "b", "b": "a"}),
        ([source("b", "/x"), source("c", "/y")], {"a": place("/x"), "b": place("/y")}, {"a": "b", "b": "c"}),
        ([source("b", "/x"), source("c", "/z")], {"a": place("/x"), "b": place("/y")}, {}),
        ([source("a", "/y"), source("b", "/x")], {"a": place("/x")}, {"a": "b"}),
    ],
)
def test_source_at_known_place_counts_as_renamed(
    config: list[SourceConfig],
    noted: dict[SourceName, list[tuple[str | None, CollectionName]]],
    renames: dict[str, str],
) -> None:
    places = [(name, *each) for name, found in noted.items() for each in found]
    assert find_renames(config, places) == renames


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    journal = Journal(tmp_path / "journal.sqlite3")
    yield journal
    journal.close()


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[VectorCache]:
    cache = VectorCache(tmp_path / "cache.sqlite3", 10**7)
    yield cache
    cache.close()


A, B = SourceName("a"), SourceName("b")


def choices(*names: str) -> dict[str, object]:
    return {"embedding": {"kind": "e"}, "sources": {name: {"chunking": name} for name in names}}


def observe(journal: Journal, name: SourceName, *keys: str) -> None:
    journal.observe(name, C, Changes(tuple(Item(key, "1", f"/{key}") for key in keys)), 0.0)


def test_renamed_source_keeps_all_rows_of_journal(journal: Journal, cache: VectorCache) -> None:
    observe(journal, A, "1", "2")
    ids = {entry.key: entry.document_id for entry in of_source(journal, A)}
    SourceRows(journal).identify(A, "disk")
    SourceRows(journal).note_listing(A, 7.0, 2)
    SourceRows(journal).hold(A, "too many", loss=True)
    SourceRows(journal).pause(B, 5.0)  # said under the new name, before it was taken over
    Editions(journal).choose(C, C, choices("a", "other"))
    Requests(journal).put("prune", A, "yes")
    journal.write("INSERT INTO withdrawals (source, documents, indexed) VALUES (?, 1, 10)", (A,))
    parses = Parses(cache)
    parsed = Parsed(Digest("00"), "text", Fingerprint("r"), Document("words"))
    parses.keep(A, "1", "stamp", parsed)

    hand_over(journal, {A: B}, parses)
    assert sources_of(journal) == [B]
    assert {entry.key: entry.document_id for entry in of_source(journal, B)} == ids
    row = SourceRows(journal).of(B)
    assert (row.last_scan, row.identity, row.held, row.documents, row.paused) == (
        7.0,
        "disk",
        "too many",
        2,
        5.0,
    )
    assert SourceRows(journal).of(A).last_scan is None
    live = Editions(journal).live(C).choices
    assert live is not None
    assert live["sources"] == {"b": {"chunking": "a"}, "other": {"chunking": "other"}}
    assert Requests(journal).all("prune") == {}
    assert (Withdrawals(journal).of(A).documents, Withdrawals(journal).of(B).documents) == (0, 1)
    assert parses.find(B, "1", "stamp") == parsed
    assert parses.find(A, "1", "stamp") is None


def test_sources_that_swap_names_keep_their_documents(journal: Journal, cache: VectorCache) -> None:
    observe(journal, A, "same", "1")
    observe(journal, B, "same", "2")
    before = {name: {e.document_id for e in of_source(journal, name)} for name in (A, B)}
    Editions(journal).choose(C, C, choices("a", "b"))
    hand_over(journal, {A: B, B: A}, Parses(cache))
    assert {name: {e.document_id for e in of_source(journal, name)} for name in (B, A)} == {
        B: before[A], A: before[B],
    }  # fmt: skip
    live = Editions(journal).live(C).choices
    assert live is not None
    assert live["sources"] == {"a": {"chunking": "b"}, "b": {"chunking": "a"}}


def test_refused_recipe_of_renamed_source_stays_refused(journal: Journal) -> None:
    wanted = choices("b")
    Requests(journal).put("refused", C, policy.fingerprint_of(choices_of_old := in_choices(wanted, {B: A})))
    Requests(journal).put("approved", C, "something else")
    assert choices_of_old["sources"] == {"a": {"chunking": "b"}}
    keep_approvals(journal, C, wanted, {A: B})
    assert Requests(journal).get("refused", C) == policy.fingerprint_of(wanted)
    assert Requests(journal).get("approved", C) == "something else"
    keep_approvals(journal, C, wanted, {A: B})  # after a kill
    assert Requests(journal).get("refused", C) == policy.fingerprint_of(wanted)


def test_document_prepared_under_old_name_is_not_written(journal: Journal, cache: VectorCache) -> None:
    """Its recipe may be another one under the new name."""
    observe(journal, A, "1")
    [entry] = of_source(journal, A)
    receipt = Receipt(entry.row, "1", "old recipe", "f", "d", "text")
    prepared = Prepared(entry, Intent(entry.row, ()), receipt)
    assert valid(journal, [prepared]) == [prepared]
    hand_over(journal, {A: B}, Parses(cache))
    assert not valid(journal, [prepared])


def test_document_failed_under_old_name_is_retried_under_new_one(tmp_path: Path, cache: VectorCache) -> None:
    world = World(tmp_path, seed=1)
    world.files.write("1.txt", "words")
    world.settle()
    [entry] = of_source(world.journal, SourceName("files"))
    document = InFlight(entry)
    world.engine.flight.begin(document)
    hand_over(world.journal, {SourceName("files"): B}, Parses(cache))
    world.pool.outcomes.append(Outcome(document, error=BadDocument("not text")))
    world.engine.step(0)
    assert not world.engine.flight.documents()
    assert failures(world.journal) == []
    world.journal.close()
