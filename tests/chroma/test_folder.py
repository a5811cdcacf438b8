"""Chroma's folder as its killed predecessors leave it."""

import sqlite3
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from ingestor.chroma import folder, processes
from ingestor.chroma.folder import DATABASE, claim, orphans, sweep
from ingestor.ports import NeedsHuman
from ingestor.state.files import Locked, is_held

KILLED_WHILE_WRITING = """
import os, signal, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("PRAGMA cache_size = 1")
db.execute("BEGIN")
db.executemany("INSERT INTO segments VALUES (?)", [("x" * 1000 + str(n),) for n in range(2000)])
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_transaction_that_a_kill_cut_off_is_rolled_back(tmp_path: Path) -> None:
    known, orphan = str(uuid4()), str(uuid4())
    for name in (known, orphan):
        (tmp_path / name).mkdir()
    with sqlite3.connect(tmp_path / DATABASE) as db:
        db.execute("CREATE TABLE segments (id TEXT)")
        db.execute("INSERT INTO segments VALUES (?)", (known,))
    db.close()
    command = [sys.executable, "-c", KILLED_WHILE_WRITING, str(tmp_path / DATABASE)]
    subprocess.run(command, check=False)
    assert (tmp_path / f"{DATABASE}-journal").stat().st_size > 0, (
        "nothing was cut off: the test shows nothing"
    )
    claim(tmp_path).release()
    assert (tmp_path / known).is_dir()
    assert not (tmp_path / orphan).exists()


@pytest.mark.parametrize(
    ("command", "waits"), [("", True), ("python -P chroma/child.py run", True), ("python notebook.py", False)]
)
def test_process_that_is_ending_is_awaited_and_another_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, waits: bool
) -> None:
    """A process that ends has lost its command line already, and its files not yet."""
    answers = iter([[1], [1], [1], []] if waits else [[1]])
    monkeypatch.setattr(processes, "writers_of", lambda file: next(answers))
    monkeypatch.setattr(processes, "command", lambda pid: command)
    monkeypatch.setattr(folder.time, "sleep", lambda seconds: None)
    if waits:
        claim(tmp_path).release()
        assert next(answers, None) is None
    else:
        with pytest.raises(NeedsHuman, match=r"is in use by process 1 .*notebook"):
            claim(tmp_path)


def test_folder_of_another_config_is_refused_with_a_remedy(tmp_path: Path) -> None:
    with claim(tmp_path), pytest.raises(Locked, match=rf"{tmp_path} is in use .* another `chroma\.path`"):
        claim(tmp_path)


def test_state_folder_is_refused_as_chromas_folder(tmp_path: Path) -> None:
    (tmp_path / "journal.sqlite3").write_bytes(b"a journal")
    for use in (claim, folder.move_aside):
        with pytest.raises(NeedsHuman, match=r"state folder of ingestor: set `chroma\.path`"):
            use(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["journal.sqlite3"]


def test_sweeping_spares_what_it_does_not_know(tmp_path: Path) -> None:
    folders = [tmp_path / str(uuid4()), tmp_path / "mine", tmp_path / str(uuid4()).upper()]
    for each in folders:
        each.mkdir()
    assert orphans(tmp_path) == []  # no database: nothing is known
    database = sqlite3.connect(tmp_path / "chroma.sqlite3")
    database.execute("CREATE TABLE segments (id TEXT)")
    database.commit()
    assert orphans(tmp_path) == folders[:1]
    (folders[0] / "header.bin").write_bytes(b"vectors")
    with (folders[0] / "header.bin").open("rb") as opened:
        sweep(orphans(tmp_path))
        assert opened.read() == b""
    database.close()
    assert [each.exists() for each in folders] == [False, True, True]


def test_broken_database_is_reported_and_not_cleaned(tmp_path: Path) -> None:
    segment = tmp_path / str(uuid4())
    segment.mkdir()
    (tmp_path / "chroma.sqlite3").write_bytes(b"no database " * 1000)
    with pytest.raises(NeedsHuman, match=r"can't read .*chroma\.sqlite3"):
        claim(tmp_path)
    assert segment.exists()
    assert not is_held(tmp_path / "ingestor.lock")
