"""Which vanished documents wait, for which new ones, and how long."""

import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

from ingestor.core.decisions import Changes, Failure
from ingestor.core.entries import EditionName, Feed
from ingestor.model import Item, SourceName
from ingestor.state.backlog import LONGEST, Backlog, predecessor
from ingestor.state.journal import Journal
from tests.state.journals import C, S, of_source, one, settle, untold

NOW = 1e9


def listed(
    journal: Journal, key: str, size: int | None, source: SourceName = S, edition: EditionName = C
) -> None:
    journal.observe(source, edition, Changes([Item(key, "1", f"/{key}", size)]), remove_at=0.0)


def removed(journal: Journal, now: float = NOW) -> list[str]:
    return [entry.key for entry in Backlog(journal).documents_gone([S], now, 9)]


def vanish(journal: Journal, *keys: str, size: int | None = 7, ago: float = 0.0) -> None:
    """Documents that were indexed, and that vanished so many seconds ago."""
    for key in keys:
        listed(journal, key, size)
        settle(journal, key)
        journal.observe(S, C, Changes((), [key]), remove_at=0.0)
        with journal.transaction() as db:
            db.execute("UPDATE documents SET since = since - ? WHERE key = ?", (ago, key))


def row(journal: Journal, key: str) -> int:
    return next(entry.row for entry in of_source(journal, S) if entry.key == key)


@pytest.mark.parametrize(
    ("size", "heir", "source", "edition", "waits"),
    [
        (7, 7, S, C, True),
        (7, 7, "other", C, True),  # a source that is divided into two
        (7, 7, S, "docs--2", False),
        (7, 8, S, C, False),
        (None, None, S, C, True),
        (7, None, S, C, False),
    ],
)
def test_new_document_of_the_same_size_may_be_the_same(
    journal: Journal, size: int | None, heir: int | None, source: str, edition: str, waits: bool
) -> None:
    vanish(journal, "old", size=size)
    listed(journal, "new", heir, SourceName(source), EditionName(edition))
    assert removed(journal) == ([] if waits else ["old"])


def test_document_that_was_read_is_no_heir(journal: Journal) -> None:
    vanish(journal, "old")
    listed(journal, "new", 7)
    listed(journal, "unreadable", 7)
    assert removed(journal) == []
    settle(journal, "new")
    journal.fail(row(journal, "unreadable"), "1", Failure("no text", 1, 9e9, quarantined=True))
    assert removed(journal) == ["old"]


def test_retried_heir_is_still_awaited(journal: Journal) -> None:
    vanish(journal, "old")
    listed(journal, "new", 7)
    journal.fail(row(journal, "new"), "1", Failure("away", 1, NOW + 99, quarantined=False))
    assert removed(journal) == []


def test_simulation_without_faults_settles(journal: Journal) -> None:
    vanish(journal, "long ago", ago=LONGEST + 1)
    vanish(journal, "lately", ago=LONGEST - 100)
    listed(journal, "new", 7)
    assert removed(journal) == ["long ago"]


@pytest.mark.parametrize("how", ["vanished", "its source left"])
def test_document_due_for_long_waits_from_when_it_vanished(journal: Journal, how: str) -> None:
    listed(journal, "old", 7)
    settle(journal, "old")
    journal.want_recipe(Feed(S, C), "text", "another recipe")
    with journal.transaction() as db:
        db.execute("UPDATE documents SET since = since - ?", (LONGEST + 1,))
    if how == "vanished":
        journal.observe(S, C, Changes((), ["old"]), remove_at=0.0)
    else:
        journal.relocate(S, [])
    listed(journal, "new", 7, SourceName("other"))
    assert removed(journal) == []


def test_queries_of_the_journal_are_one_look_up_each(journal: Journal) -> None:
    """A backlog of millions must not be read through for each document that vanished."""
    vanish(journal, "old")
    listed(journal, "new", 7)
    statements: list[str] = []
    journal._db.set_trace_callback(statements.append)
    assert removed(journal) == []
    journal._db.set_trace_callback(None)
    [query] = [one for one in statements if "AS heir" in one]
    assert "SEARCH heir USING INDEX unread (collection=? AND size=?)" in plan(journal._db, query)


def plan(db: sqlite3.Connection, query: str) -> str:
    rows: list[Any] = db.execute(f"EXPLAIN QUERY PLAN {query}").fetchall()
    return " ".join(row[3] for row in rows)


@pytest.mark.parametrize(("size", "goes"), [(7, False), (8, True), (None, True)])
def test_heir_of_a_retried_document_waits_with_nothing_due(
    journal: Journal, size: int | None, goes: bool
) -> None:
    """Of unknown sizes any could be any: a page that can never be read would hold up whatever is removed."""
    backlog = Backlog(journal)
    vanish(journal, "old", size=size)
    listed(journal, "new", None if size is None else 7)
    journal.fail(row(journal, "new"), "1", Failure("away", 1, NOW + 99, quarantined=False))
    assert [entry.key for entry in backlog.documents_gone([S], NOW, 9, unknown=True)] == ["old"] * goes
    assert goes or backlog.next_retry([Feed(S, C)]) == NOW + 99, "it wakes nobody"
    settle(journal, "new")
    assert [entry.key for entry in backlog.documents_gone([S], NOW, 9, unknown=True)] == ["old"]


def test_heirs_are_looked_for_once_between_two_writes(journal: Journal) -> None:
    vanish(journal, "old")
    listed(journal, "new", 7)
    backlog, statements = Backlog(journal), list[str]()
    journal._db.set_trace_callback(statements.append)
    for _ in range(3):
        assert backlog.documents_gone([S], NOW, 9) == []
    journal._db.set_trace_callback(None)
    assert sum("AS heir" in one for one in statements) == 1


def test_moved_copy_keeps_the_records(journal: Journal) -> None:
    for key, version in (("copied", "file2"), ("moved", "file1 later")):
        journal.observe(S, C, Changes([Item(key, version, f"/{key}", 7)]), remove_at=0.0)
    for key, version in (("other", "file9"), ("old", "file1")):
        journal.observe(S, C, Changes([Item(key, version, f"/{key}", 7)]), remove_at=0.0)
        settle(journal, key, digest=key)
    old = one(journal, "old").row
    journal.observe(S, C, Changes((), ["old", "other"]), remove_at=0.0)

    def heir(key: str, digest: str, moved: Callable[[str, str], bool] = by_file) -> int | None:
        found = predecessor(journal, moved, one(journal, key), digest)
        return None if found is None else found.row

    assert (heir("copied", "old"), heir("moved", "old")) == (None, old)
    assert heir("copied", "old", untold) == old
    assert heir("copied", "other") is not None, "nobody else is it"
    settle(journal, "moved", digest="edited")
    assert heir("copied", "old") == old, "the moved one has other content by now"


def by_file(version: str, other: str) -> bool:
    return version.split()[0] == other.split()[0]
