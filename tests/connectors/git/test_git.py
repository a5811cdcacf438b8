"""The laws of connectors, and what is listed of a repository."""

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from ingestor.connectors.git.connector import Git, steps_of
from ingestor.ports import BadDocument
from tests.connectors.laws import ConnectorLaws, World, listed
from tests.connectors.repositories import GitWorld, git, opened
from tests.connectors.repositories import over_http as over_http_world
from tests.examples import every


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


def test_new_clone_is_closed_to_others_and_keeps_the_rights_of_a_group(world: GitWorld) -> None:
    world.put("a.md", b"one")
    listed(world.connector)
    (folder,) = (path for path in world.connector._clone.folder.parent.iterdir() if path.is_dir())
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o750)
    world.put("a.md", b"two")
    listed(world.connector)
    assert folder.stat().st_mode & 0o777 == 0o750


def test_last_commit_of_each_file_is_known(world: GitWorld) -> None:
    world.put("a.md", b"one")
    before = listed(world.connector)["a.md"]
    world.put("b.md", b"two")
    world.put("a.md", b"two")
    world.put("a.md", b"one")
    items = listed(world.connector)
    after, commit = items["a.md"], git(world.root, "log", "-1", "--format=%H", "--", "a.md")
    facts = {"commit": commit, "author": "Ada Löwe", "date": "2023-11-14T23:18:20+01:00"}
    assert (dict(after.extra), after.modified) == (facts, 1_700_000_300)
    assert after.uri == f"{world.root}/a.md"
    assert items["b.md"].modified == 1_700_000_180
    assert before.version.split()[0] == after.version.split()[0], "the bytes are the same"
    assert before.version != after.version


def test_forced_push_removes_documents(world: GitWorld) -> None:
    world.put("a.md", b"one")
    world.put("a.md", b"two")
    listed(world.connector)
    git(world.root, "reset", "--quiet", "--hard", "HEAD~1")
    items = listed(world.connector)
    assert items == listed(opened(world.root, cache=world.root.with_name("other")))
    assert world.connector.fetch(items["a.md"]).data == b"one"


def test_ref_selects_a_branch_or_a_tag(world: GitWorld) -> None:
    world.put("a.md", b"one")
    git(world.root, "tag", "--annotate", "v1", "--message", "v1")
    git(world.root, "checkout", "--quiet", "-b", "topic/x")
    world.put("b.md", b"two")
    git(world.root, "checkout", "--quiet", "main")
    world.put("c.md", b"three")
    for ref, keys in (("HEAD", "ac"), ("main", "ac"), ("topic/x", "ab"), ("v1", "a"), ("refs/tags/v1", "a")):
        items = listed(opened(world.root, ref=ref))
        assert items.keys() == {f"{key}.md" for key in keys}, ref
        place = str(world.root) if ref == "HEAD" else f"{world.root}@{ref}"
        assert items["a.md"].uri == f"{place}/a.md"


def test_patterns_select_files_but_no_links_or_submodules(world: GitWorld) -> None:
    for key in ("docs/a.md", "docs/b.txt", "docs/drafts/c.md", ".github/d.md", "e.md~"):
        world.put(key, b"x")
    (world.root / "link.md").symlink_to("docs/a.md")
    world.commit("a link")
    git(world.root, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(world.root), "sub")
    world.commit("a submodule")
    assert listed(world.connector).keys() == {"docs/a.md", "docs/b.txt", "docs/drafts/c.md"}
    chosen = opened(world.root, include=["*.md"], exclude=["drafts/"], hidden=True)
    assert listed(chosen).keys() == {"docs/a.md", ".github/d.md"}


def test_names_of_invalid_bytes_are_escaped_and_restored(world: GitWorld) -> None:
    (world.root / os.fsdecode(b"caf\xe9\n.md")).write_bytes(b"x")
    world.commit("odd")
    [item] = world.connector.scan()
    assert (item.key, bool(item.extra)) == ("caf\\xE9\n.md", True)
    assert world.connector.fetch(item).data == b"x"


def test_commit_with_unreadable_date_is_listed(world: GitWorld) -> None:
    world.put("a.md", b"before")
    (world.root / "a.md").write_bytes(b"after")
    git(world.root, "add", "--all")
    tree, parent = git(world.root, "write-tree"), git(world.root, "rev-parse", "HEAD")
    for date in ("", " 12 o'clock", " 99999999999999999999 +0000", " -5 +0000", " 253402300800 +0000"):
        who = f"Ada <ada@example.org>{date}"
        commit = f"tree {tree}\nparent {parent}\nauthor {who}\ncommitter {who}\n\nodd\n"
        (world.root.parent / "commit").write_text(commit)
        command = ("hash-object", "-t", "commit", "-w", "--literally", str(world.root.parent / "commit"))
        git(world.root, "reset", "--quiet", "--hard", git(world.root, *command))
        item = listed(world.connector)["a.md"]
        assert world.connector.fetch(item).data == b"after"
        assert 0 < float(item.modified or 1) < 253_402_300_800
        world.put("b.md", b"later")
        assert set(listed(world.connector)) >= {"a.md", "b.md"}


def test_large_and_lfs_files_are_refused(world: GitWorld) -> None:
    world.put("large.bin", b"x" * 2000)
    world.put("lfs.bin", b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n")
    connector = opened(world.root, max_size=1000)
    items = listed(connector)
    with pytest.raises(BadDocument, match=r"2,000 bytes are more than max_size \(1,000"):
        connector.fetch(items["large.bin"])
    with pytest.raises(BadDocument, match="Git LFS"):
        connector.fetch(items["lfs.bin"])


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (b"", []),
        (b"\0c2 c3\tc1 5 d A B\0\0\0\tc2 4 d A\0\na\0b\0", [("c1", 2, set()), ("c2", 0, {"a", "b"})]),
        (b"\0c2\tc1 5 d A\tB\0\n\nx\0\ny\0\0\tc2 4 d \0\na\0", [("c1", 1, {"\nx", "\ny"}), ("c2", 0, {"a"})]),
    ],
)
def test_log_of_git_is_parsed(log: bytes, expected: list[tuple[str, int, set[str]]]) -> None:
    assert [(step.touch.commit, len(step.parents), step.paths) for step in steps_of(log)] == expected


def _history_by_git(root: Path) -> dict[str, str]:
    paths = git(root, "ls-files").split()
    return {path: git(root, "log", "-1", "--format=%H", "--", path) for path in paths}


def _commits(connector: Git) -> dict[str, object]:
    return {key: dict(item.extra)["commit"] for key, item in listed(connector).items()}


@pytest.mark.slow
@pytest.mark.parametrize("seed", every(3, range(8)))
def test_last_commit_under_any_clock_is_that_of_git_log(world: GitWorld, seed: int) -> None:
    """Commits of one second, of a wrong clock and of merged branches, listed step by step and at once."""
    random = Random(seed)
    for path in ("a.md", "b.md", "c.md", "d.md"):
        world.put(path, b"first")
    for step in range(14):
        world._seconds = 1_700_000_000 + random.choice((-60, -60, -60, 5_000_000, -90_000))
        deed = random.choice(("put", "put", "put", "aside", "conflict"))
        path = f"{random.choice('abcd')}.md"
        if deed == "put":
            world.put(path, f"{step}".encode())
        else:
            git(world.root, "checkout", "--quiet", "-b", f"aside{step}", "HEAD~1")
            world.put(path, f"aside {step}".encode())
            other = path if deed == "conflict" else "e.md"
            git(world.root, "checkout", "--quiet", "main")
            world.put(other, f"main {step}".encode())
            ours = ("--strategy", "recursive", "--strategy-option", random.choice(("ours", "theirs")))
            git(world.root, "merge", "--quiet", "--no-edit", "--no-ff", *ours, f"aside{step}")
        if random.random() < 0.6:
            assert _commits(world.connector) == _history_by_git(world.root)
    fresh = opened(world.root, cache=world.root.with_name("other"))
    assert _commits(world.connector) == _commits(fresh) == _history_by_git(world.root)


def test_merge_that_resolves_a_conflict_is_the_last_commit(world: GitWorld) -> None:
    world.put("a.md", b"first")
    git(world.root, "checkout", "--quiet", "-b", "aside")
    world.put("a.md", b"aside")
    git(world.root, "checkout", "--quiet", "main")
    world.put("a.md", b"main")
    listed(world.connector)
    git(world.root, "merge", "--quiet", "--no-commit", "--strategy", "ours", "aside")
    world.put("a.md", b"resolved")
    assert _commits(world.connector)["a.md"] == git(world.root, "rev-parse", "HEAD")


@pytest.mark.parametrize("history", [True, False])
def test_ref_of_a_branch_and_a_tag_follows_the_branch(tmp_path: Path, history: bool) -> None:
    world = GitWorld(tmp_path, ref="main", history=history)
    world.put("a.md", b"old")
    listed(world.connector)
    git(world.root, "tag", "main")
    world.put("a.md", b"new")
    assert world.connector.fetch(listed(world.connector)["a.md"]).data == b"new"
