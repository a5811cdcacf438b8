"""A journal of the version before is brought up to date in place: nothing in it is lost, nothing becomes due.

``journal-9.sql`` is the text of a real one: two editions after `apply`, a swap and `rollback`.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ingestor.model import CollectionName
from ingestor.state.editions import Editions, Notices, Requests
from ingestor.state.journal import Journal
from ingestor.state.reports import Reports

OLD = Path(__file__).with_name("journal-9.sql").read_text(encoding="utf-8")
CHOICES = "d3eef86af3f10366300d9865345d866a"
C = CollectionName("docs")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with closing(sqlite3.connect(tmp_path / "journal.sqlite3")) as db:
        db.executescript(OLD)
    return tmp_path / "journal.sqlite3"


def columns(path: Path, table: str) -> str:
    with closing(sqlite3.connect(path)) as db:
        return ", ".join(name for _, name, *_ in db.execute(f"PRAGMA table_info({table})"))


def rows(path: Path, table: str, names: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as db:
        return sorted(db.execute(f"SELECT {names} FROM {table}"), key=repr)


@pytest.fixture
def journal(path: Path) -> Iterator[Journal]:
    with closing(Journal(path)) as journal:
        yield journal


def test_requests_and_notices_have_tables_of_their_own(journal: Journal) -> None:
    requests, notices = Requests(journal), Notices(journal)
    assert (requests.get("approved", C), requests.get("refused", C)) == (CHOICES, CHOICES)
    assert notices.get("waits", C) == "it was rolled back"
    assert (requests.all("roll back"), requests.all("arrange"), notices.all("delayed")) == ({}, {}, {})
    assert journal.select("SELECT key FROM state") == [("owner",)]


def test_editions_have_their_roles(journal: Journal) -> None:
    assert [(edition.name, edition.role) for edition in Editions(journal).all()] == [
        ("docs", "live"), ("docs--2", "previous"),
    ]  # fmt: skip


def test_documents_and_records_stay_after_an_upgrade(path: Path) -> None:
    tables = ("documents", "records", "sources", "statistics", "withdrawals")
    names = {table: columns(path, table) for table in tables}
    before = {table: rows(path, table, names[table]) for table in tables}
    assert len(before["documents"]) > 6
    with closing(Journal(path)) as journal:
        assert Reports(journal).due() == (0, 0)
        assert {state for *_, state, _ in Reports(journal).counts()} == {
            "settled", "quarantined", "unsupported",
        }  # fmt: skip
    assert {table: rows(path, table, names[table]) for table in tables} == before


def test_every_role_and_kind_is_migrated(path: Path) -> None:
    """Also those that the example has not."""
    kinds = ("approved", "refused", "waits", "delayed", "rebuild", "rebuilt", "reach", "prune", "roll back")
    with closing(sqlite3.connect(path)) as db:
        db.executemany(
            "INSERT OR REPLACE INTO state VALUES (?, ?)", [(f"{kind}:a:b", "why") for kind in kinds]
        )
        for role in ("building", "retired", "dropped"):
            db.execute("INSERT INTO collections (name, serves, role) VALUES (?, 'x', ?)", (role, role))
        db.commit()
    with closing(Journal(path)) as journal:
        found = journal.select("SELECT kind FROM requests WHERE subject = 'a:b' AND value = 'why'")
        found += journal.select("SELECT kind FROM notices WHERE subject = 'a:b' AND value = 'why'")
        assert sorted(kind for (kind,) in found) == sorted(kinds)
        roles = {str(edition.name): edition.role for edition in Editions(journal).of(CollectionName("x"))}
        assert roles == {"building": "staging", "retired": "previous", "dropped": "deleted"}
