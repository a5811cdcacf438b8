"""The clone that is kept: damaged, locked, of odd kinds, or not to be had."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ingestor.connectors.git.connector import Git, GitOptions
from ingestor.model import Item
from ingestor.ports import NeedsHuman, Stale, Transient
from tests.connectors.laws import listed
from tests.connectors.repositories import GitWorld, git


def test_damaged_clone_is_made_anew(world: GitWorld, tmp_path: Path) -> None:
    world.put("a.md", b"one")
    before = listed(world.connector)
    [clone] = (tmp_path / "cache").glob("*.git")
    for pack in clone.rglob("objects/*/*"):
        if pack.is_file():
            pack.unlink()
    for _ in range(2):
        try:
            again = listed(world.connector)
            break
        except Transient:
            assert not clone.exists()
    assert again == before
    assert world.connector.fetch(again["a.md"]).data == b"one"


def _empty(clone: Path, pattern: str) -> None:
    for path in clone.glob(pattern):
        path.chmod(0o600)
        path.write_bytes(b"")


def _lock(clone: Path, pattern: str) -> None:
    for path in [*clone.glob(pattern)] or [clone / pattern]:
        path.with_name(f"{path.name}.lock").touch()


@pytest.mark.slow
@pytest.mark.parametrize("history", [True, False])
@pytest.mark.parametrize(
    ("harm", "what"),
    [
        (_lock, "shallow"),
        (_lock, "config"),
        (_lock, "refs/ingestor/*"),
        (_empty, "refs/ingestor/*"),
        (_empty, "HEAD"),
        (_empty, "objects/??/*"),
    ],
)
def test_clone_that_was_being_written_when_the_power_went(
    harm: Callable[[Path, str], None], what: str, history: bool, tmp_path: Path
) -> None:
    """Empty files, and locks that nobody holds."""
    world = GitWorld(tmp_path, history=history)
    world.put("a.md", b"one")
    listed(world.connector)
    [clone] = (tmp_path / "cache").glob("*.git")
    harm(clone, what)
    world.put("b.md", b"two")
    again = listed(world.connector)
    assert world.connector.fetch(again["a.md"]).data == b"one"
    assert world.connector.fetch(again["b.md"]).data == b"two"


def test_repository_with_sha256_objects_is_listed_and_fetched(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    git(root, "init", "--quiet", "--initial-branch=main", "--object-format=sha256")
    connector = Git(GitOptions.model_validate({"url": str(root), "cache": tmp_path / "cache"}))
    for name in ("a.md", "b.md"):
        (root / name).write_text(name)
        git(root, "add", "--all")
        git(root, "commit", "--quiet", "--message", name)
        items = listed(connector)
        assert connector.fetch(items[name]).data == name.encode()
    assert items.keys() == {"a.md", "b.md"}


def test_repository_that_is_a_shallow_clone_itself(world: GitWorld, tmp_path: Path) -> None:
    for name in ("a.md", "b.md"):
        world.put(name, b"one")
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{world.root}", "shallow")
    given = {"url": str(tmp_path / "shallow"), "cache": tmp_path / "cache"}
    connector = Git(GitOptions.model_validate(given))
    assert listed(connector).keys() == {"a.md", "b.md"}
    world.put("c.md", b"two")
    git(tmp_path / "shallow", "pull", "--quiet")
    assert listed(connector).keys() == {"a.md", "b.md", "c.md"}


def test_repository_without_the_commit_needs_a_person(world: GitWorld, tmp_path: Path) -> None:
    world.put("a.md", b"one")
    git(world.root, "tag", "blob", git(world.root, "rev-parse", "HEAD:a.md"))
    cache = tmp_path / "cache"
    with pytest.raises(NeedsHuman, match="no commit at 'blob'"):
        listed(Git(GitOptions.model_validate({"url": str(world.root), "cache": cache, "ref": "blob"})))
    git(tmp_path, "init", "--quiet", "empty")
    with pytest.raises(NeedsHuman, match="has no commit, or its default branch"):
        listed(Git(GitOptions.model_validate({"url": str(tmp_path / "empty"), "cache": cache})))


def test_blob_lost_from_the_clone_is_stale(world: GitWorld) -> None:
    with pytest.raises(Stale):
        world.connector.fetch(Item("a.md", "0" * 40, "a.md"))


def test_clone_ignores_git_variables_of_the_environment(
    world: GitWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.put("a.md", b"one")
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE"):
        monkeypatch.setenv(name, "/nowhere")
    assert listed(world.connector).keys() == {"a.md"}


def test_missing_git_or_cache_needs_a_human(
    world: GitWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NeedsHuman, match="choose another folder with `cache`"):
        list(Git(GitOptions(url=str(world.root), cache=tmp_path / "file/x")).scan())
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NeedsHuman, match="git is not installed"):
        list(world.connector.scan())
