"""Chroma's files are damaged: the message names a remedy, and the remedy writes all records again."""

import json
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from random import Random

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


def overwrite_pages(chroma: Path, random: Random) -> None:
    """Write over pages of the database, anywhere in it."""
    with (chroma / "chroma.sqlite3").open("r+b") as file:
        size = file.seek(0, 2)
        for _ in range(random.choice([1, 2, 4, 8, 16])):
            file.seek(random.randrange(size // PAGE) * PAGE)
            file.write(random.choice([random.randbytes(PAGE), bytes(PAGE), random.randbytes(64)]))


def tear(chroma: Path, random: Random) -> None:
    """Leave a copy of Chroma's folder in which a file is cut, empty, half zeros or missing."""
    files = sorted(file for file in chroma.rglob("*") if file.is_file() and file.suffix != ".lock")
    file = random.choice(files)
    content = file.read_bytes()
    half = len(content) // 2
    torn = {
        "cut": content[: random.randrange(len(content) + 1)],
        "empty": b"",
        "zeros": content[:half] + bytes(half),
    }
    how = random.choice([*torn, "missing"])
    if how == "missing":
        file.unlink()
    else:
        file.write_bytes(torn[how])


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A project of more than a thousand records, from which on Chroma keeps its graph on disk."""
    project = Project(tmp_path_factory.mktemp("kept") / "project")
    for n in range(90):
        (project.docs / f"{n}.txt").write_text(long_document(40, n))
    assert project.call("sync").returncode == 0
    yield project.folder
    shutil.rmtree(project.folder)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(36))
def test_damage_anywhere_ends_no_command_with_a_traceback(kept: Path, tmp_path: Path, seed: int) -> None:
    shutil.copytree(kept, tmp_path / "project")
    project, random = Project(tmp_path / "project"), Random(seed)
    (tear if seed % 3 == 0 else overwrite_pages)(project.folder / "chroma", random)
    (project.docs / "new.txt").write_text("one more document")
    words = (["status"], ["query", "document"], ["verify"], ["sync"], ["verify", "--repair"], ["verify"])
    for command in words:
        found = project.call(*command)
        text = found.stdout + found.stderr
        assert "Traceback" not in text
        assert found.returncode in (0, 4), text
        if found.returncode and command != ["verify"]:
            assert "ingestor verify --repair --rebuild" in text or "ingestor sync" in text, text
    if found.returncode:
        assert "ingestor verify --repair --rebuild" in text
        assert project.call("verify", "--repair", "--rebuild").returncode == 0
        assert project.call("verify").returncode == 0


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
    assert json.loads(answer.out)["unseen"]["docs"].startswith("the listing stopped")
    assert ask("sync").code == 0
