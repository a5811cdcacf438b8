"""Damaged files, restored backups and unknown errors: the message names a remedy, and the remedy works."""

import json
import os
import shutil
import signal
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from ingestor.app import daemon
from ingestor.embedders.hashing import HashingEmbedder
from ingestor.state.journal import Journal
from tests.chroma.harm import mislead
from tests.e2e.in_process import Ask
from tests.e2e.project import Daemon, Project, chroma_pid, long_document
from tests.waiting import wait

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


FILES = (
    "chroma.sqlite3", "data_level0.bin", "header.bin", "index_metadata.pickle", "length.bin", "link_lists.bin"
)  # fmt: skip


def tear(chroma: Path, name: str, how: str) -> None:
    """Leave a copy of Chroma's folder in which a file is cut, empty, half zeros or missing."""
    [file] = chroma.rglob(name)
    content = file.read_bytes()
    half = len(content) // 2
    torn = {"cut": content[: half + 7], "empty": b"", "zeros": content[:half] + bytes(half)}
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
@pytest.mark.parametrize("seed", range(24))
def test_pages_written_over_end_no_command_with_a_traceback(kept: Path, tmp_path: Path, seed: int) -> None:
    shutil.copytree(kept, tmp_path / "project")
    overwrite_pages(tmp_path / "project" / "chroma", Random(seed))
    check_remedies(Project(tmp_path / "project"))


@pytest.mark.slow
@pytest.mark.parametrize("how", ["cut", "empty", "missing", "zeros"])
@pytest.mark.parametrize("name", FILES)
def test_torn_file_is_reported_without_a_traceback(kept: Path, tmp_path: Path, name: str, how: str) -> None:
    shutil.copytree(kept, tmp_path / "project")
    tear(tmp_path / "project" / "chroma", name, how)
    check_remedies(Project(tmp_path / "project"))


def check_remedies(project: Project) -> None:
    """Run the commands over damage: each works or names a remedy, and the remedy works."""
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
        assert "ingestor verify --repair" in text
        assert project.call("verify", "--repair", "--rebuild").returncode == 0
        assert project.call("verify").returncode == 0


# Not a database; malformed for writers; malformed at once.
@pytest.mark.parametrize(
    "share", [0.8, *(pytest.param(share, marks=pytest.mark.slow) for share in (0, 0.01))]
)
def test_damaged_database_is_reported_with_a_remedy_that_helps(
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


@pytest.mark.usefixtures("embedded")
def test_rebuild_is_part_of_repair(project: Project, ask: Ask) -> None:
    assert ask("verify", "--rebuild").code == 2


@pytest.mark.usefixtures("embedded")
def test_sync_with_an_unwritable_journal_reports_failure(
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


# --- Chroma's files are harmed while a daemon runs ---


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


DAMAGES: dict[str, tuple[str, Callable[[Path], None]]] = {
    "which counting shows": ("index_metadata.pickle", _cut),
    "which a search shows": ("data_level0.bin", lambda file: file.write_bytes(b"")),
    "which crashes Chroma at every load": ("data_level0.bin", mislead),
}


@pytest.mark.slow
@pytest.mark.timeout(280)
@pytest.mark.parametrize("damage", DAMAGES)
def test_torn_collection_is_written_again(project: Project, daemon: Daemon, damage: str) -> None:
    """Nobody writes meanwhile: that Chroma died is all that the daemon has to go by."""
    name, harm = DAMAGES[damage]
    for n in range(4):
        (project.docs / f"{n}.txt").write_text(long_document(900, n))
    wait(lambda: project.settled(4))
    before = project.json("status")
    assert before["collections"]["docs"]["records"] > 1200, "Chroma has files only beyond a thousand"

    os.kill(daemon.process.pid, signal.SIGSTOP)  # lest it starts Chroma before the harm is done
    os.kill(chroma_pid(daemon) or 0, signal.SIGKILL)
    harm(max((project.folder / "chroma").glob(f"*/{name}"), key=lambda file: file.stat().st_size))
    os.kill(daemon.process.pid, signal.SIGCONT)

    wait(lambda: "rebuilding collection docs:" in daemon.said())
    wait(lambda: project.settled(4))
    wait(lambda: project.json("status")["collections"] == before["collections"])  # its words come last
    assert project.json("status")["embedded_texts"] == before["embedded_texts"], "vectors are cached"
    assert daemon.said().count("rebuilding collection") == 1
    assert daemon.stop() == 0
    verified = project.json("verify", code=None)
    assert verified["checked"] == before["collections"]["docs"]["records"]
    assert not any(verified[kind] for kind in ("missing", "orphaned", "stale", "wrong_metadata", "words"))
    assert verified["unreachable"] <= 2  # search is approximate; a few of so many near twins may be missed


# --- Backups that were put back, and copies of a state: journal and Chroma are of different moments ---
def write(project: Project, numbers: range, words: str) -> None:
    for n in numbers:
        text = f"# Title {n}\n\n" + f"{words} of number {n}. " * 40
        (project.docs / f"{n}.md").write_text(text)


def keep(project: Project, name: str) -> Path:
    """Copy the folder ``state`` or ``chroma``; nothing runs."""
    copy = project.folder / f"{name}-kept"
    shutil.copytree(project.folder / name, copy)
    return copy


def put_back(project: Project, name: str) -> None:
    shutil.rmtree(project.folder / name)
    shutil.copytree(project.folder / f"{name}-kept", project.folder / name)


def move_on(project: Project, ask: Ask) -> None:
    """Change, delete, rename and add documents; the sync writes them in several batches."""
    write(project, range(4, 8), "Other words")
    for n in (0, 1):
        (project.docs / f"{n}.md").unlink()
    (project.docs / "2.md").rename(project.docs / "renamed.md")
    assert ask("sync").code == 0
    write(project, range(12, 18), "Late words")
    assert ask("sync").code == 0


def assert_exact(project: Project, ask: Ask) -> None:
    found = ask("verify")
    assert found.code == 0, found


@pytest.fixture
def backed_up(project: Project, ask: Ask) -> Project:
    """Twelve documents, with both folders kept."""
    write(project, range(12), "Some words")
    project.source = {"max_loss": 1.0}
    project.configure()
    assert ask("sync").code == 0
    keep(project, "state")
    keep(project, "chroma")
    return project


# tests/simulation/test_restores.py restores either side without chance
@pytest.mark.usefixtures("embedded")
@pytest.mark.slow
@pytest.mark.parametrize("older", ["chroma", "state"])
@pytest.mark.parametrize("shards", [1, 3])
def test_sync_after_restore_of_one_side_is_exact(project: Project, ask: Ask, older: str, shards: int) -> None:
    project.settings = {"collections": {"docs": {"shards": shards}}}
    project.source = {"max_loss": 1.0}
    project.configure()
    write(project, range(12), "Some words")
    assert ask("sync").code == 0
    keep(project, older)
    move_on(project, ask)
    put_back(project, older)
    assert ask("sync").code == 0
    assert_exact(project, ask)


@pytest.mark.slow
def test_chroma_replaced_under_a_running_daemon_is_compared(backed_up: Project, ask: Ask) -> None:
    move_on(backed_up, ask)
    daemon = backed_up.start()
    try:
        wait(lambda: backed_up.settled(16))
        (backed_up.folder / "chroma").rename(backed_up.folder / "chroma-aside")
        shutil.copytree(backed_up.folder / "chroma-kept", backed_up.folder / "chroma")
        wait(lambda: "rewriting" in daemon.said())
        wait(lambda: backed_up.settled(16))
    finally:
        daemon.stop()
    assert_exact(backed_up, ask)


def test_copied_state_on_one_chroma_is_refused_until_it_is_adopted(backed_up: Project, ask: Ask) -> None:
    chroma = {"chroma": {"path": str(backed_up.folder / "chroma")}}
    copy = Project(backed_up.folder.parent / "copy", chroma, {"max_loss": 1.0})
    shutil.copytree(backed_up.folder / "state", copy.folder / "state")
    (copy.docs / "only.md").write_text("Words of the copy.")
    before = backed_up.essence()
    refused = copy.call("sync")
    assert refused.returncode != 0
    assert "ingestor collections --adopt docs" in refused.stdout + refused.stderr
    assert backed_up.essence() == before
    assert ask("sync").code == 0
    taken = copy.json("collections", "--adopt", "docs")
    assert taken["adopted"] == "docs"
    assert copy.call("sync").returncode == 0
    assert {text for _, text, *_ in backed_up.records()} == {"Words of the copy."}
    assert ask("sync").code != 0
    assert {text for _, text, *_ in backed_up.records()} == {"Words of the copy."}


@pytest.mark.slow
def test_state_and_chroma_moved_together_continue(backed_up: Project, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(backed_up.folder, moved)
    other = Project(moved, source={"max_loss": 1.0})
    assert other.call("sync").returncode == 0
    assert other.call("verify").returncode == 0
