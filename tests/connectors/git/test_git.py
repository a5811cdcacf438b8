import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError

from ingestor.connectors.git.connector import Git, GitOptions, Touch, touches_of
from ingestor.model import Item
from ingestor.ports import BadDocument, NeedsHuman, Stale, Transient
from tests.connectors.laws import ConnectorLaws, World, listed
from tests.connectors.repositories import GitWorld, Server, git, served
from tests.connectors.repositories import over_http as over_http_world

LOGIN = "ada:s3cret"


class TestLaws(ConnectorLaws):
    @pytest.fixture(params=[{}, {"history": False}], ids=["history", "newest"])
    def world(self, tmp_path: Path, request: pytest.FixtureRequest) -> GitWorld:
        return GitWorld(tmp_path, **request.param)


@pytest.mark.slow
class TestLawsOverHttp(ConnectorLaws):
    @pytest.fixture(params=[{}, {"history": False}], ids=["history", "newest"])
    def world(self, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[World]:
        with over_http_world(tmp_path, **request.param) as world:
            yield world


@pytest.fixture
def world(tmp_path: Path) -> GitWorld:
    return GitWorld(tmp_path)


@pytest.fixture
def server(world: GitWorld) -> Iterator[Server]:
    with served(world.root, LOGIN) as server:
        yield server


def over_http(server: Server, folder: Path, **options: object) -> Git:
    user, _, token = LOGIN.partition(":")
    given = {"url": server.url, "user": user, "token": token, "cache": folder / "cache", **options}
    return Git(GitOptions.model_validate(given))


# -- what is listed


def test_a_clone_is_closed_when_it_is_made_and_keeps_the_rights_that_a_group_was_given(
    world: GitWorld,
) -> None:
    world.put("a.md", b"one")
    listed(world.connector)
    (folder,) = (path for path in world.connector._clone.folder.parent.iterdir() if path.is_dir())
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o750)
    world.put("a.md", b"two")
    listed(world.connector)
    assert folder.stat().st_mode & 0o777 == 0o750


def test_the_last_commit_of_each_file_is_known(world: GitWorld) -> None:
    world.put("a.md", b"one")
    world.put("b.md", b"two")
    world.put("a.md", b"one again")
    items = listed(world.connector)
    commit = git(world.root, "log", "-1", "--format=%H", "--", "a.md")
    assert dict(items["a.md"].extra) == {
        "commit": commit, "author": "Ada Löwe", "date": "2023-11-14T23:17:20+01:00",
    }  # fmt: skip
    assert items["a.md"].modified == 1_700_000_240
    assert items["a.md"].uri == f"{world.root}/a.md"
    assert items["b.md"].modified == 1_700_000_180


def test_a_change_that_was_taken_back_is_another_version_of_the_same_bytes(world: GitWorld) -> None:
    world.put("a.md", b"one")
    before = listed(world.connector)["a.md"]
    world.put("a.md", b"two")
    world.put("a.md", b"one")
    after = listed(world.connector)["a.md"]
    assert before.version.split()[0] == after.version.split()[0]
    assert before.version != after.version
    assert before.extra != after.extra


@pytest.mark.parametrize("seed", range(3))
def test_what_is_learnt_little_by_little_is_what_a_new_clone_says(world: GitWorld, seed: int) -> None:
    """With branches merged in whose commits are older than what was seen before."""
    world.put("a.md", b"one")
    world.put("b.md", b"two")
    for step in range(4):
        git(world.root, "branch", f"aside{step}")
        listed(world.connector)
        world.put("a.md" if (seed >> step % 2) & 1 else "c.md", f"{step}".encode())
        listed(world.connector)
        git(world.root, "checkout", "--quiet", f"aside{step}")
        world.put(f"d{step}.md", b"aside")
        world.put("b.md", f"aside {step}".encode())
        git(world.root, "checkout", "--quiet", "main")
        git(world.root, "merge", "--quiet", "--no-edit", f"aside{step}")
    fresh = GitOptions(url=str(world.root), cache=world.root.with_name("other"))
    assert listed(world.connector) == listed(Git(fresh))


def test_a_forced_push_forgets_what_is_no_longer_there(world: GitWorld) -> None:
    world.put("a.md", b"one")
    world.put("a.md", b"two")
    listed(world.connector)
    git(world.root, "reset", "--quiet", "--hard", "HEAD~1")
    fresh = GitOptions(url=str(world.root), cache=world.root.with_name("other"))
    items = listed(world.connector)
    assert items == listed(Git(fresh))
    assert world.connector.fetch(items["a.md"]).data == b"one"


def test_a_branch_and_a_tag(world: GitWorld) -> None:
    world.put("a.md", b"one")
    git(world.root, "tag", "--annotate", "v1", "--message", "v1")
    git(world.root, "checkout", "--quiet", "-b", "topic/x")
    world.put("b.md", b"two")
    git(world.root, "checkout", "--quiet", "main")
    world.put("c.md", b"three")
    for ref, keys in (("HEAD", "ac"), ("main", "ac"), ("topic/x", "ab"), ("v1", "a"), ("refs/tags/v1", "a")):
        options = GitOptions(url=str(world.root), ref=ref, cache=world.root.with_name("cache"))
        items = listed(Git(options))
        assert items.keys() == {f"{key}.md" for key in keys}, ref
        place = str(world.root) if ref == "HEAD" else f"{world.root}@{ref}"
        assert items["a.md"].uri == f"{place}/a.md"


def test_patterns_links_and_submodules(world: GitWorld) -> None:
    for key in ("docs/a.md", "docs/b.txt", "docs/drafts/c.md", ".github/d.md", "e.md~"):
        world.put(key, b"x")
    (world.root / "link.md").symlink_to("docs/a.md")
    world.commit("a link")
    git(world.root, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(world.root), "sub")
    world.commit("a submodule")
    assert listed(world.connector).keys() == {"docs/a.md", "docs/b.txt", "docs/drafts/c.md"}
    options = {"include": ["*.md"], "exclude": ["drafts/"], "hidden": True}
    chosen = Git(GitOptions(url=str(world.root), cache=world.root.with_name("cache"), **options))
    assert listed(chosen).keys() == {"docs/a.md", ".github/d.md"}


def test_names_that_are_no_text(world: GitWorld) -> None:
    (world.root / os.fsdecode(b"caf\xe9\n.md")).write_bytes(b"x")
    world.commit("odd")
    [item] = world.connector.scan()
    assert item.key == "caf\\xE9\n.md"
    assert item.extra
    assert world.connector.fetch(item).data == b"x"


@pytest.mark.parametrize(
    "date", ["", " 12 o'clock", " 99999999999999999999 +0000", " -5 +0000", " 253402300800 +0000"]
)
def test_a_commit_whose_date_can_not_be_read_stops_nobody(world: GitWorld, date: str) -> None:
    world.put("a.md", b"before")
    (world.root / "a.md").write_bytes(b"after")
    git(world.root, "add", "--all")
    tree, parent = git(world.root, "write-tree"), git(world.root, "rev-parse", "HEAD")
    who = "Ada <ada@example.org>"
    lines = [
        f"tree {tree}",
        f"parent {parent}",
        f"author {who}{date}",
        f"committer {who}{date}",
        "",
        "odd",
        "",
    ]
    (world.root.parent / "commit").write_text("\n".join(lines))
    command = ("hash-object", "-t", "commit", "-w", "--literally", str(world.root.parent / "commit"))
    git(world.root, "reset", "--quiet", "--hard", git(world.root, *command))
    item = listed(world.connector)["a.md"]
    assert world.connector.fetch(item).data == b"after"
    assert 0 < float(item.modified or 1) < 253_402_300_800
    world.put("b.md", b"later")
    assert set(listed(world.connector)) >= {"a.md", "b.md"}


def test_names_and_modes_that_git_does_not_make(world: GitWorld, tmp_path: Path) -> None:
    world.put("a.md", b"sound")
    blob = git(world.root, "rev-parse", "HEAD:a.md")
    names = {
        "..": "100644",
        ".": "100644",
        ".git": "100644",
        "": "100644",
        "a/../b": "100644",
        "link": "120000",
    }
    names |= {
        "odd.md": "100777",
        "zero.md": "0",
        "folder": "040000",
        "a.md": "100644",
        "/etc/passwd": "100644",
    }
    entries = b"".join(
        f"{mode} {name}\0".encode() + bytes.fromhex(blob) for name, mode in sorted(names.items())
    )
    (tmp_path / "tree").write_bytes(entries)
    tree = git(world.root, "hash-object", "-t", "tree", "-w", "--literally", str(tmp_path / "tree"))
    git(world.root, "update-ref", "HEAD", git(world.root, "commit-tree", "-m", "odd", tree))
    try:
        found = listed(world.connector)
    except (NeedsHuman, Transient):
        return  # it says that the repository is damaged, which it is
    for key in found:
        assert not {"", ".", "..", ".git"} & set(key.split("/"))
        assert world.connector.fetch(found[key]).data == b"sound"


def test_what_is_not_read(world: GitWorld) -> None:
    world.put("large.bin", b"x" * 2000)
    world.put("lfs.bin", b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n")
    options = GitOptions(url=str(world.root), max_size=1000, cache=world.root.with_name("cache"))
    connector = Git(options)
    items = listed(connector)
    with pytest.raises(BadDocument, match="2,000 bytes; max_size is 1,000"):
        connector.fetch(items["large.bin"])
    with pytest.raises(BadDocument, match="Git LFS"):
        connector.fetch(items["lfs.bin"])


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (b"", []),
        (b"\0c1 5 d A B\0\0c2 4 d A\0\na\0b\0", [("a", "c2"), ("b", "c2")]),
        (b"\0c1 5 d A\0\n\nx\0\ny\0\0c2 4 d \0\na\0", [("\nx", "c1"), ("\ny", "c1"), ("a", "c2")]),
    ],
)
def test_a_log_is_read(log: bytes, expected: list[tuple[str, str]]) -> None:
    assert [(path, touch.commit) for path, touch in touches_of(log)] == expected


def test_the_last_touch_is_the_greatest() -> None:
    assert max(Touch(5, "a"), Touch(7, "a"), Touch(5, "b")) == Touch(7, "a")


# -- the clone


def test_a_damaged_clone_is_made_anew(world: GitWorld, tmp_path: Path) -> None:
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
def test_a_clone_that_was_being_written_when_the_power_went(
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


def test_a_repository_of_the_other_object_format(tmp_path: Path) -> None:
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


def test_a_repository_that_is_a_shallow_clone_itself(world: GitWorld, tmp_path: Path) -> None:
    for name in ("a.md", "b.md"):
        world.put(name, b"one")
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{world.root}", "shallow")
    given = {"url": str(tmp_path / "shallow"), "cache": tmp_path / "cache"}
    connector = Git(GitOptions.model_validate(given))
    assert listed(connector).keys() == {"a.md", "b.md"}
    world.put("c.md", b"two")
    git(tmp_path / "shallow", "pull", "--quiet")
    assert listed(connector).keys() == {"a.md", "b.md", "c.md"}


def test_what_holds_no_commit_needs_a_person(world: GitWorld, tmp_path: Path) -> None:
    world.put("a.md", b"one")
    git(world.root, "tag", "blob", git(world.root, "rev-parse", "HEAD:a.md"))
    cache = tmp_path / "cache"
    with pytest.raises(NeedsHuman, match="no commit at 'blob'"):
        listed(Git(GitOptions.model_validate({"url": str(world.root), "cache": cache, "ref": "blob"})))
    git(tmp_path, "init", "--quiet", "empty")
    with pytest.raises(NeedsHuman, match="has no commit, or its default branch"):
        listed(Git(GitOptions.model_validate({"url": str(tmp_path / "empty"), "cache": cache})))


def test_what_the_clone_lost_is_stale(world: GitWorld) -> None:
    with pytest.raises(Stale):
        world.connector.fetch(Item("a.md", "0" * 40, "a.md"))


def test_it_is_not_misled_by_the_environment(world: GitWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world.put("a.md", b"one")
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE"):
        monkeypatch.setenv(name, "/nowhere")
    assert listed(world.connector).keys() == {"a.md"}


def test_no_git_and_no_cache(world: GitWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NeedsHuman, match="choose another folder with `cache`"):
        list(Git(GitOptions(url=str(world.root), cache=tmp_path / "file/x")).scan())
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NeedsHuman, match="git is not installed"):
        list(world.connector.scan())


# -- the remote


def test_over_http_with_a_password(world: GitWorld, server: Server, tmp_path: Path) -> None:
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
def test_who_is_not_let_in(
    server: Server, tmp_path: Path, options: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_ASKPASS", "/bin/false")
    with pytest.raises(NeedsHuman, match="refuses the login") as caught:
        list(over_http(server, tmp_path, **options).scan())
    assert "wrong" not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "kind"), [(403, NeedsHuman), (404, NeedsHuman), (429, Transient), (503, Transient)]
)
def test_what_the_server_answers(server: Server, tmp_path: Path, status: int, kind: type[Exception]) -> None:
    server.answer = status
    with pytest.raises(kind):
        list(over_http(server, tmp_path).scan())


def test_a_connection_that_is_cut(world: GitWorld, server: Server, tmp_path: Path) -> None:
    world.put("a.md", b"one" * 10_000)
    connector = over_http(server, tmp_path)
    server.cut = True
    with pytest.raises(Transient):
        list(connector.scan())
    server.cut = False
    assert listed(connector).keys() == {"a.md"}


def test_a_fetch_that_takes_too_long_is_ended(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connector = over_http(server, tmp_path, timeout=0.3)
    monkeypatch.setattr(server, "finish_request", lambda *arguments: time.sleep(1.5))
    began = time.monotonic()
    with pytest.raises(Transient, match=r"longer than 0\.3 s"):
        list(connector.scan())
    assert time.monotonic() - began < 30


def test_a_branch_that_is_not_there(world: GitWorld, tmp_path: Path) -> None:
    world.put("a.md", b"one")
    with pytest.raises(NeedsHuman, match="has no branch or tag 'gone': correct `ref`"):
        list(Git(GitOptions(url=str(world.root), ref="gone", cache=tmp_path / "cache")).scan())


# -- options


@pytest.mark.parametrize(
    "url", ["https://host/x.git", "ssh://git@host/x", "git@host:x/y.git", "file:///x", "/x", "git://host/x"]
)
def test_addresses(url: str) -> None:
    assert GitOptions(url=url).url == url


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": "./x"}, "must be an https"),
        ({"url": "--upload-pack=x:y"}, "must be an https"),
        ({"url": "ext::sh -c x"}, "must be an https"),
        ({"url": "https://me:secret@host/x"}, "put it into `token`"),
        ({"url": "https://secret@host/x"}, "put it into `token`"),
        ({"url": "/x", "ref": "--force"}, "name of a branch or tag"),
        ({"url": "/x", "ref": "a:b"}, "name of a branch or tag"),
        ({"url": "git@host:x", "token": "t"}, "is for http and https"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        GitOptions.model_validate(options)
