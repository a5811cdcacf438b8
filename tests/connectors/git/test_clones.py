"""The clone that is kept: damaged, locked, of odd kinds, or not to be had."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ingestor.connectors.git.connector import Git, GitOptions
from ingestor.model import Item
from ingestor.ports import NeedsHuman, Stale, Transient
from tests.connectors.laws import listed
from tests.connectors.repositories import GitWorld, Server, git, served


def test_damaged_clone_is_rebuilt(world: GitWorld, tmp_path: Path) -> None:
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


def test_shallow_repository_is_fetched(world: GitWorld, tmp_path: Path) -> None:
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


LOGIN = "ada:s3cret"


@pytest.fixture
def server(world: GitWorld) -> Iterator[Server]:
    with served(world.root, LOGIN) as server:
        yield server


def over_http(server: Server, folder: Path, **options: object) -> Git:
    user, _, token = LOGIN.partition(":")
    given = {"url": server.url, "user": user, "token": token, "cache": folder / "cache", **options}
    return Git(GitOptions.model_validate(given))


def test_repository_over_http_is_read_with_its_password(
    world: GitWorld, server: Server, tmp_path: Path
) -> None:
    world.put("a.md", b"one")
    connector = over_http(server, tmp_path)
    items = listed(connector)
    assert connector.fetch(items["a.md"]).data == b"one"
    assert items["a.md"].uri == server.url.replace("/.git", "/a.md")
    server.requests.clear()
    assert listed(connector) == items
    assert server.requests == ["GET refs", "POST git-upload-pack"], "a question for the branch, no fetch"
    kept = b"".join(path.read_bytes() for path in (tmp_path / "cache").rglob("*") if path.is_file())
    assert b"s3cret" not in kept


@pytest.mark.parametrize("options", [{"token": "wrong"}, {"token": None}])
def test_remote_that_refuses_access_needs_a_person(
    server: Server, tmp_path: Path, options: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_ASKPASS", "/bin/false")
    with pytest.raises(NeedsHuman, match="refuses the login") as caught:
        list(over_http(server, tmp_path, **options).scan())
    assert "wrong" not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "kind"), [(403, NeedsHuman), (404, NeedsHuman), (429, Transient), (503, Transient)]
)
def test_refusal_of_the_server_is_reported(
    server: Server, tmp_path: Path, status: int, kind: type[Exception]
) -> None:
    server.answer = status
    with pytest.raises(kind):
        list(over_http(server, tmp_path).scan())


def test_cut_connection_raises_transient(world: GitWorld, server: Server, tmp_path: Path) -> None:
    world.put("a.md", b"one" * 10_000)
    connector = over_http(server, tmp_path)
    server.cut = True
    with pytest.raises(Transient):
        list(connector.scan())
    server.cut = False
    assert listed(connector).keys() == {"a.md"}


def test_fetch_that_takes_too_long_is_ended(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connector = over_http(server, tmp_path, timeout=0.3)
    monkeypatch.setattr(server, "finish_request", lambda *arguments: time.sleep(1.5))
    with pytest.raises(Transient, match=r"longer than 0\.3 s"):
        list(connector.scan())


def test_missing_branch_needs_a_person(world: GitWorld, tmp_path: Path) -> None:
    world.put("a.md", b"one")
    with pytest.raises(NeedsHuman, match="has no branch or tag 'gone': correct `ref`"):
        list(Git(GitOptions(url=str(world.root), ref="gone", cache=tmp_path / "cache")).scan())


# -- options


@pytest.mark.parametrize(
    "url", ["https://host/x.git", "ssh://git@host/x", "git@host:x/y.git", "file:///x", "/x", "git://host/x"]
)
def test_address_of_each_kind_is_accepted(url: str) -> None:
    assert GitOptions(url=url).url == url
