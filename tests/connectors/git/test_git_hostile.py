"""Repositories whose trees were made to do harm: nothing is written by their names, and all ends."""

import os
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from ingestor.connectors.git import connector
from ingestor.connectors.git.repository import GitFailed, TreeTooLarge, _git
from ingestor.ports import NeedsHuman, Transient
from tests.connectors.laws import listed
from tests.connectors.repositories import GitWorld, git


@pytest.fixture
def world(tmp_path: Path) -> GitWorld:
    return GitWorld(tmp_path, hidden=True)


def stored(world: GitWorld, kind: str, data: bytes) -> str:
    """The id of an object, whether git likes it or not."""
    command = ["git", "-C", str(world.root), "hash-object", "-t", kind, "-w", "--stdin", "--literally"]
    return subprocess.run(command, input=data, check=True, capture_output=True).stdout.decode().strip()


def tree(world: GitWorld, *entries: tuple[str, bytes, str]) -> str:
    """Of modes, names and ids."""
    rows = [mode.encode() + b" " + name + b"\0" + bytes.fromhex(id_) for mode, name, id_ in entries]
    return stored(world, "tree", b"".join(rows))


def committed(world: GitWorld, root: str) -> None:
    commit = git(world.root, "commit-tree", root, "-m", "hostile")
    git(world.root, "update-ref", "refs/heads/main", commit)


def files_below(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file() and "objects" not in path.parts}


NAMES = (
    b"..", b".", b".git", b"../../up.md", b"/etc/passwd.md", b"a\nb.md", b"\x1b[2Ja.md", b"\xff\xfe.md",
    b"-rf.md", b"a\\b.md", b"!", b"con", "\u202etxt.md".encode(), b"a" * 5000 + b".md", b".gitmodules",
    b"sound.md", b"", b"a/../b",
)  # fmt: skip


def test_files_with_odd_names_stay_inside_the_cache(world: GitWorld, tmp_path: Path) -> None:
    blob, read = stored(world, "blob", b"some text"), set[bytes]()
    for name in NAMES:
        committed(world, tree(world, ("100644", name, blob)))
        with suppress(Transient):  # git itself refuses it
            for item in listed(world.connector).values():
                item.key.encode()
                assert world.connector.fetch(item).data == b"some text"
                read.add(name)
        made = files_below(tmp_path / "cache")
        assert not any(path.read_bytes() == b"some text" for path in made), name
        assert not (tmp_path / "up.md").exists()
    assert read >= {b"sound.md", b"a\nb.md", b"\xff\xfe.md"}


MODES = ["120000", "160000", "100600", "100777", "000000", "777777", "140000", "10644", "040000", "100644"]


def test_links_submodules_and_unknown_modes_leave_other_files_listed(world: GitWorld) -> None:
    blob = stored(world, "blob", b"../../../../etc/passwd")
    sound = stored(world, "blob", b"sound")
    folder = tree(world, ("100644", b"x.md", sound))
    targets = {"160000": git(world.root, "rev-parse", "HEAD"), "100644": folder}
    for mode in MODES:
        committed(world, tree(world, (mode, b"a.md", targets.get(mode, blob)), ("100644", b"b.md", sound)))
        with suppress(Transient):  # git itself refuses it
            items = listed(world.connector)
            assert "b.md" in items, mode
            if mode != "100644":  # a folder in place of a file
                contents = {world.connector.fetch(item).data for item in items.values()}
                assert contents <= {b"sound", b"../../../../etc/passwd"}, mode


@pytest.mark.parametrize("history", [True, False])
def test_tree_of_ten_thousand_million_files_is_refused(
    history: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twelve trees, each of which holds the next one ten times."""
    monkeypatch.setattr(connector, "_LARGEST_TREE", 10**6)
    world = GitWorld(tmp_path, history=history)
    monkeypatch.setattr("ingestor.connectors.git.repository._LOCAL_SECONDS", 10.0)
    mode, inner = "100644", stored(world, "blob", b"x")
    for _ in range(10):
        inner = tree(world, *((mode, f"f{n}".encode(), inner) for n in range(10)))
        mode = "40000"
    committed(world, inner)
    with pytest.raises((NeedsHuman, Transient)) as raised:
        next(world.connector.scan())
    assert str(world.root) in str(raised.value)


@pytest.mark.slow
def test_hundred_thousand_files_are_listed_in_bounded_time(world: GitWorld) -> None:
    blob = stored(world, "blob", b"x")
    committed(world, tree(world, *(("100644", b"%06d.md" % n, blob) for n in range(100_000))))
    begun = time.process_time()
    assert len(listed(world.connector)) == 100_000
    assert time.process_time() - begun < 30


def test_output_of_git_is_bounded_in_bytes_and_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "git"
    program.write_text("#!/bin/sh\ncase $1 in yes) exec yes;; loud) exec yes >&2;; *) sleep 999;; esac\n")
    program.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(TreeTooLarge, match="more than 1,000,000 bytes"):
        _git(["yes"], {}, 30.0, 10**6)
    for how in ("loud", "quiet"):
        with pytest.raises(GitFailed, match=r"longer than 0\.2 s"):
            _git([how], {}, 0.2)
