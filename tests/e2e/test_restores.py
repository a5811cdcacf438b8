"""Backups that were put back, and copies of a state: journal and Chroma are of different moments."""

import shutil
from pathlib import Path

import pytest

from tests.e2e.in_chroma import in_chroma
from tests.e2e.in_process import Ask, answered
from tests.e2e.project import Project
from tests.waiting import wait

MARK = """
ids = collection.get()["ids"]
collection.update(ids=ids, metadatas=[{"reviewed": True} for _ in ids])
"""


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
def synced(project: Project, ask: Ask) -> Project:
    """Twelve documents, with both folders kept."""
    write(project, range(12), "Some words")
    project.source = {"max_loss": 1.0}
    project.configure()
    assert ask("sync").code == 0
    keep(project, "state")
    keep(project, "chroma")
    return project


@pytest.mark.parametrize("older", ["state", "chroma"])
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


def test_restored_state_embeds_nothing_that_the_cache_holds(synced: Project, ask: Ask) -> None:
    move_on(synced, ask)
    cache = (synced.folder / "state/cache.sqlite3").read_bytes()
    put_back(synced, "state")
    (synced.folder / "state/cache.sqlite3").write_bytes(cache)
    assert answered(ask("sync", "--json"))["embedded"]["texts"] == 0
    assert_exact(synced, ask)


def test_chroma_replaced_under_a_running_daemon_is_compared(synced: Project, ask: Ask) -> None:
    move_on(synced, ask)
    daemon = synced.start()
    try:
        wait(lambda: synced.settled(16))
        (synced.folder / "chroma").rename(synced.folder / "chroma-aside")
        shutil.copytree(synced.folder / "chroma-kept", synced.folder / "chroma")
        wait(lambda: "rewriting" in daemon.said())
        wait(lambda: synced.settled(16))
    finally:
        daemon.stop()
    assert_exact(synced, ask)


def test_copied_state_on_one_chroma_is_refused_until_it_is_adopted(synced: Project, ask: Ask) -> None:
    chroma = {"chroma": {"path": str(synced.folder / "chroma")}}
    copy = Project(synced.folder.parent / "copy", chroma, {"max_loss": 1.0})
    shutil.copytree(synced.folder / "state", copy.folder / "state")
    (copy.docs / "only.md").write_text("Words of the copy.")
    before = synced.essence()
    refused = copy.call("sync")
    assert refused.returncode != 0
    assert "ingestor collections --adopt docs" in refused.stdout + refused.stderr
    assert synced.essence() == before
    assert ask("sync").code == 0
    taken = copy.json("collections", "--adopt", "docs")
    assert taken["adopted"] == "docs"
    assert copy.call("sync").returncode == 0
    assert {text for _, text, *_ in synced.records()} == {"Words of the copy."}
    assert ask("sync").code != 0
    assert {text for _, text, *_ in synced.records()} == {"Words of the copy."}


def test_state_and_chroma_moved_together_go_on(synced: Project, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(synced.folder, moved)
    other = Project(moved, source={"max_loss": 1.0})
    assert other.call("sync").returncode == 0
    assert other.call("verify").returncode == 0


def test_metadata_of_the_collection_replaced_by_an_app_stops_no_update(synced: Project, ask: Ask) -> None:
    in_chroma(synced.folder / "chroma", "docs", "collection.modify(metadata={'team': 'library'})")
    (synced.docs / "3.md").write_text("New words.")
    assert ask("sync").code == 0
    assert "New words." in {text for _, text, *_ in synced.records()}
    assert in_chroma(synced.folder / "chroma", "docs", "result = collection.metadata")["team"] == "library"
    assert_exact(synced, ask)


def test_metadata_key_of_a_stranger_is_removed_by_repair(synced: Project, ask: Ask) -> None:
    in_chroma(synced.folder / "chroma", "docs", MARK)
    assert ask("verify", "--repair").code == 0
    assert not any("reviewed" in meta for _, _, meta, _ in synced.records())
