"""An older journal is brought up to date in place: nothing in it is lost, nothing becomes due.

``journal-15.sql`` is the text of a real one: two editions after `apply`, a swap and `rollback`. The
program that wrote it created its tables by 15 migrations, which are one schema now.
"""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ingestor.ports import NeedsHuman
from ingestor.state.journal import Journal
from ingestor.state.reports import count_documents, measure_unsettled

OLD = Path(__file__).with_name("journal-15.sql").read_text(encoding="utf-8")


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


def schema(journal: Journal) -> dict[str, str]:
    """Return the SQL of each table, index and trigger, without white space and quotation marks."""
    stored = journal.select("SELECT name, sql FROM sqlite_master WHERE sql NOTNULL")
    return {name: re.sub(r'[\s"]+', "", sql) for name, sql in stored}


def test_documents_and_records_stay_after_an_upgrade(path: Path) -> None:
    tables = ("documents", "records", "collections", "sources", "statistics", "withdrawals", "requests")
    names = {table: columns(path, table) for table in tables}
    before = {table: rows(path, table, names[table]) for table in tables}
    assert len(before["documents"]) > 6
    with closing(Journal(path)) as journal:
        assert measure_unsettled(journal) == (0, 0)
        assert {state for *_, state, _ in count_documents(journal)} == {
            "settled", "quarantined", "unsupported",
        }  # fmt: skip
    assert {table: rows(path, table, names[table]) for table in tables} == before


def test_an_upgraded_journal_has_the_schema_of_a_new_one(path: Path, tmp_path: Path) -> None:
    with closing(Journal(path)) as old, closing(Journal(tmp_path / "new.sqlite3")) as new:
        assert schema(old) == schema(new)
        assert old.select("PRAGMA user_version") == new.select("PRAGMA user_version")


def test_a_journal_before_the_first_schema_is_refused_with_the_remedy(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 14")
    with pytest.raises(NeedsHuman, match="format 14, of a version that was never released: move it away"):
        Journal(path)
