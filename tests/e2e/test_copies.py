"""Folders renamed and copied between two listings: every document keeps or gets its records."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.project import Project
from tests.e2e.test_sync import long_document

NAMES = [f"{number}.txt" for number in range(5)]


def rename_and_copy(docs: Path) -> None:
    (docs / "old").rename(docs / "new")
    for copy in ("copy", "copy of copy"):
        shutil.copytree(docs / "new", docs / copy)


def chain(docs: Path) -> None:
    """Each takes the name of the next."""
    for number in reversed(range(5)):
        (docs / "old" / f"{number}.txt").rename(docs / "old" / f"{number + 1}.txt")


def swap(docs: Path) -> None:
    first, second = docs / "old" / "0.txt", docs / "old" / "1.txt"
    one, other = first.read_bytes(), second.read_bytes()
    first.write_bytes(other)
    second.write_bytes(one)
    shutil.copytree(docs / "old", docs / "copy")


@pytest.mark.parametrize("deed", [rename_and_copy, chain, swap])
def test_documents_renamed_and_copied_in_one_scan_are_all_there(
    project: Project, deed: Callable[[Path], None]
) -> None:
    (project.docs / "old").mkdir()
    for number, name in enumerate(NAMES):
        (project.docs / "old" / name).write_text(long_document(3 + number))
    project.json("sync")
    deed(project.docs)
    done = project.json("sync")
    assert done["embedded"]["texts"] == 0
    files = list(project.docs.rglob("*.txt"))
    assert project.json("status")["sources"]["docs"]["settled"] == len(files)
    assert project.essence() == project.fresh().essence()
