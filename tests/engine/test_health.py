"""The remedy for an error of a write, and what follows for the collection."""

import sqlite3
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ingestor.core.entries import EditionName, Feed
from ingestor.engine.health import HELD, PERSISTENT, CollectionHealth
from ingestor.model import SourceName
from ingestor.ports import BadDocument, Foreign, Gone, Later, NeedsHuman, Torn, Transient
from tests.engine.worlds import lines

DOCS, BUILT = EditionName("docs"), EditionName("docs--2")


class Collections:
    """Collections that note what is done to them; BUILT replaces DOCS."""

    def __init__(self) -> None:
        self.calls = list[tuple[object, ...]]()

    def serves(self, name: EditionName) -> str:
        return "docs"

    def is_building(self, name: EditionName) -> bool:
        return name == BUILT

    def note_failure(self, name: EditionName, error: Exception) -> None:
        self.calls.append(("failed", name))

    def doubt(self, name: EditionName, shards: object) -> None:
        self.calls.append(("doubted", name, shards))

    def discard(self, name: EditionName, *, torn: bool, shard: int | None) -> None:
        self.calls.append(("discarded", name, torn, shard))


class Program:
    """The health of two collections. ``held``: names of held sources."""

    def __init__(self) -> None:
        self.now, self.held, self.collections = 1000.0, list[str](), Collections()
        self.health = CollectionHealth(
            cast(Any, self.collections),
            lambda: self.now,
            lambda: 1.0,
            cast(Any, SimpleNamespace(hold=lambda name, reason: self.held.append(name))),
        )
        self.health.configure(Feed(SourceName(f"source of {name}"), name) for name in (DOCS, BUILT))

    def fail(self, error: Exception, name: EditionName = DOCS) -> bool:
        def work() -> None:
            raise error

        return self.health.attempt(name, work)


def test_transient_error_pauses_the_collection_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    program = Program()
    assert [program.fail(Transient("away")) for _ in range(2)] == [False, False]
    assert program.health.editions_paused() == {DOCS}
    assert program.health.troubles() == {"docs": "away"}
    assert lines(caplog, "collection_failed") == [
        ("WARNING", "collection docs: write failed, will retry: away")
    ]
    program.now += 2.0  # the wait after the second failure
    assert program.health.editions_paused() == set()
    assert not program.health.is_retrying()
    program.health.mark(DOCS)
    assert program.health.is_retrying()
    assert program.health.attempt(DOCS, lambda: None)
    program.health.resume(DOCS)
    assert program.health.troubles() == {}


def test_wait_that_a_server_requests_is_kept() -> None:
    program = Program()
    program.fail(Later("too many requests", 40.0))
    program.now += 39.0
    assert program.health.editions_paused() == {DOCS}
    program.now += 1.0
    assert program.health.editions_paused() == set()


def test_collection_that_fails_again_and_again_is_unwritable_unless_readers_do_not_see_it() -> None:
    program = Program()
    for name in (DOCS, BUILT):
        for number in range(PERSISTENT):
            assert program.health.unwritable() == {}, number
            program.fail(Transient(f"{name} is away"), name)
        if name == DOCS:
            assert program.health.unwritable() == {"docs": "docs is away"}
            program.health.resume(DOCS)
    assert program.health.unwritable() == {}


def test_collection_that_needs_a_person_holds_its_sources_and_only_a_hidden_one_is_paused() -> None:
    program = Program()
    for name in (DOCS, BUILT):
        assert program.fail(NeedsHuman("no permission"), name)
    assert program.held == ["source of docs"]
    assert program.health.editions_paused() == {BUILT}
    program.now += HELD
    assert program.health.editions_paused() == set()


@pytest.mark.parametrize(("error", "torn"), [(Torn("damaged"), True), (Gone("deleted"), False)])
def test_damaged_shard_is_doubted_and_discarded_alone(error: Torn | Gone, torn: bool) -> None:
    program = Program()
    error.shard = 1
    assert program.fail(error)
    assert program.collections.calls == [("doubted", DOCS, [1]), ("discarded", DOCS, torn, 1)]
    assert program.health.editions_paused() == set()


@pytest.mark.parametrize("error", [sqlite3.DatabaseError("malformed"), sqlite3.IntegrityError("UNIQUE")])
def test_damaged_journal_raises(error: sqlite3.Error) -> None:
    with pytest.raises(type(error)):
        Program().fail(error)


@pytest.mark.parametrize(
    ("error", "continues"),
    [
        (Transient("away"), False),
        (sqlite3.OperationalError("disk is full"), False),
        (BadDocument("odd"), False),
        (MemoryError(), False),
        (Foreign("another program's"), True),
    ],
)
def test_work_that_failed_is_tried_again_unless_a_person_must_act(error: Exception, continues: bool) -> None:
    assert Program().fail(error) is continues
