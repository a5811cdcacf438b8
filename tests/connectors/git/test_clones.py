"""The clone that is kept: damaged, locked, of odd kinds, or not to be had."""

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from threading import Event

import pytest

from ingestor.connectors.git.connector import Git, GitOptions
from ingestor.model import Item
from ingestor.ports import NeedsHuman, Stale, Transient
from tests.connectors.laws import listed
from tests.connectors.repositories import GitWorld, Server, git, opened, served
from tests.connectors.repositories import over_http as over_proxy


def test_damaged_clone_is_rebuilt(world: GitWorld, tmp_path: Path) -> None:
    world.put("a.md", b"one")
    before = listed(world.connector)
    with pytest.raises(Stale):
        world.connector.fetch(Item("a.md", "0" * 40, "a.md"))
    [clone] = (tmp_path / "cache").glob("*.git")
    for pack in clone.rglob("objects/*/*"):
        pack.unlink()
    try:
        again = listed(world.connector)
    except Transient:
        assert not clone.exists()
        again = listed(world.connector)
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
    [(_lock, "shallow"), (_lock, "config"), (_lock, "refs/ingestor/*"), (_empty, "refs/ingestor/*"),
     (_empty, "HEAD"), (_empty, "objects/??/*")],
)  # fmt: skip
def test_clone_damaged_by_a_power_loss_is_rebuilt(
    harm: Callable[[Path, str], None], what: str, history: bool, tmp_path: Path
) -> None:
    """Empty files, and locks that nobody holds."""
    world = GitWorld(tmp_path, history=history)
    world.put("a.md", b"one")
    listed(world.connector)
    [clone] = (tmp_path / "cache").glob("*.git")
    harm(clone, what)
    world.put("b.md", b"two")
    items = listed(world.connector)
    assert [world.connector.fetch(items[key]).data for key in ("a.md", "b.md")] == [b"one", b"two"]


def test_repository_with_sha256_objects_is_listed_and_fetched(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    git(root, "init", "--quiet", "--initial-branch=main", "--object-format=sha256")
    connector = opened(root)
    for name in ("a.md", "b.md"):
        (root / name).write_text(name)
        git(root, "add", "--all")
        git(root, "commit", "--quiet", "--message", name)
        items = listed(connector)
        assert connector.fetch(items[name]).data == name.encode()
    assert items.keys() == {"a.md", "b.md"}


def test_shallow_repository_is_fetched(world: GitWorld, tmp_path: Path) -> None:
    for name in ("a.md", "b.md"):
        world.put(name, b"one")
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{world.root}", "shallow")
    connector = opened(tmp_path / "shallow")
    assert listed(connector).keys() == {"a.md", "b.md"}
    world.put("c.md", b"two")
    git(tmp_path / "shallow", "pull", "--quiet")
    assert listed(connector).keys() == {"a.md", "b.md", "c.md"}


def test_repository_without_the_commit_needs_a_person(world: GitWorld, tmp_path: Path) -> None:
    world.put("a.md", b"one")
    git(world.root, "tag", "blob", git(world.root, "rev-parse", "HEAD:a.md"))
    git(tmp_path, "init", "--quiet", "empty")
    for connector, message in (
        (opened(world.root, ref="blob"), "no commit at 'blob'"),
        (opened(world.root, ref="gone"), "has no branch or tag 'gone': correct `ref`"),
        (opened(tmp_path / "empty"), "has no commit, or its default branch"),
    ):
        with pytest.raises(NeedsHuman, match=message):
            list(connector.scan())


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
        list(opened(world.root, cache=tmp_path / "file/x").scan())
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NeedsHuman, match="git is not installed"):
        list(world.connector.scan())


LOGIN = "ada:s3cret"


@pytest.fixture
def server(world: GitWorld) -> Iterator[Server]:
    with served(world.root, LOGIN) as server:
        yield server


def over_http(server: Server, **options: object) -> Git:
    user, _, token = LOGIN.partition(":")
    given = {"url": server.url, "user": user, "token": token, "cache": server.root / "../cache", **options}
    return Git(GitOptions.model_validate(given))


def test_repository_over_http_is_read_with_its_password(
    world: GitWorld, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.put("a.md", b"one")
    connector = over_http(server)
    items = listed(connector)
    assert connector.fetch(items["a.md"]).data == b"one"
    assert items["a.md"].uri == server.url.replace("/.git", "/a.md")
    server.requests.clear()
    assert listed(connector) == items
    assert server.requests == ["GET refs", "POST git-upload-pack"], "a question for the branch, no fetch"
    kept = b"".join(path.read_bytes() for path in (tmp_path / "cache").rglob("*") if path.is_file())
    assert b"s3cret" not in kept
    monkeypatch.setenv("GIT_ASKPASS", "/bin/false")
    for token in ("wrong", None):
        with pytest.raises(NeedsHuman, match="refuses the login") as caught:
            list(over_http(server, token=token).scan())
        assert "wrong" not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "kind"), [(403, NeedsHuman), (404, NeedsHuman), (429, Transient), (503, Transient)]
)
def test_refusal_of_the_server_is_reported(server: Server, status: int, kind: type[Exception]) -> None:
    server.answer = status
    with pytest.raises(kind):
        list(over_http(server).scan())


def test_cut_connection_raises_transient(tmp_path: Path) -> None:
    with over_proxy(tmp_path) as world:
        world.put("a.md", Random(1).randbytes(30_000))
        world.cut(5000)
        with pytest.raises(Transient):
            list(world.connector.scan())
        world.relent()
        assert listed(world.connector).keys() == {"a.md"}


def test_fetch_that_takes_too_long_is_ended(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = Event()
    monkeypatch.setattr(server, "finish_request", lambda *arguments: ended.wait(30))
    with pytest.raises(Transient, match=r"longer than 0\.3 s"):
        list(over_http(server, timeout=0.3).scan())
    ended.set()
