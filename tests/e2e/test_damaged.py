"""Chroma's database is overwritten: what is said of it, and how all is written again."""

import json
import sqlite3
from pathlib import Path

import pytest

from ingestor.app import daemon
from ingestor.embedders.hashing import HashingEmbedder
from ingestor.state.journal import Journal
from tests.e2e.in_process import Ask
from tests.e2e.project import Project
from tests.e2e.test_sync import long_document

PAGE = 4096


def overwrite(database: Path, share: float) -> None:
    """Of the pages after that share nothing is left; a journal of SQLite's goes, too."""
    size = database.stat().st_size
    first = int(share * size) // PAGE
    with database.open("r+b") as file:
        file.seek(first * PAGE)
        file.write(b"\xa5" * (size - first * PAGE))
    for suffix in ("-wal", "-shm", "-journal"):
        database.with_name(database.name + suffix).unlink(missing_ok=True)


# Not a database; malformed for writers; malformed at once.
@pytest.mark.parametrize("share", [0, 0.8, pytest.param(0.01, marks=pytest.mark.slow)])
def test_a_damaged_database_is_told_with_a_remedy_that_helps(
    project: Project, ask: Ask, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(3):
        (project.docs / f"{n}.txt").write_text(long_document(40, n))
    ask("sync")
    records = json.loads(ask("verify", "--json").out)["checked"]
    overwrite(project.folder / "chroma" / "chroma.sqlite3", share)
    (project.docs / "new.txt").write_text("one more")

    for words in (("sync",), ("verify",), ("verify", "--repair")):
        answer = ask(*words)
        assert answer.code == 4
        assert "ingestor verify --repair --rebuild" in answer.out + answer.err

    (project.docs / "new.txt").unlink()
    monkeypatch.setattr(HashingEmbedder, "embed", lambda *_: pytest.fail("the cache has every vector"))
    mended = ask("verify", "--repair", "--rebuild", "--json")
    assert mended.code == 0
    assert json.loads(mended.out)["checked"] == records
    assert Path(json.loads(mended.out)["aside"], "chroma.sqlite3").exists()
    assert json.loads(ask("sync", "--json").out)["documents"]["unchanged"] == 3


def test_rebuild_is_part_of_repair(project: Project, ask: Ask) -> None:
    assert ask("verify", "--rebuild").code == 2


def test_sync_does_not_say_that_all_is_well_when_it_could_not_note_what_there_is(
    project: Project, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal could not be written, so nothing was due."""
    (project.docs / "a.txt").write_text("hello")

    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(daemon, "PATIENCE", 0.1)
    with monkeypatch.context() as patched:
        patched.setattr(Journal, "observe", full)
        answer = ask("sync", "--json")
    assert answer.code == 4
    assert json.loads(answer.out)["unseen"]["docs"].startswith("its listing did not complete")
    assert ask("sync").code == 0
