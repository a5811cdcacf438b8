"""Folders renamed and copied between two listings: every document keeps or gets its records."""

import shutil
from collections.abc import Callable
from pathlib import Path

from tests.e2e.project import Project
from tests.e2e.test_sync import long_document

NAMES = [f"{number}.txt" for number in range(5)]


def rename_and_copy(old: Path) -> None:
    new = old.rename(old.with_name(f"{old.name} renamed"))
    for copy in ("copy", "copy of copy"):
        shutil.copytree(new, new.with_name(copy))


def chain(old: Path) -> None:
    """Each takes the name of the next."""
    for number in reversed(range(5)):
        (old / f"{number}.txt").rename(old / f"{number + 1}.txt")


def swap(old: Path) -> None:
    first, second = old / "0.txt", old / "1.txt"
    one, other = first.read_bytes(), second.read_bytes()
    first.write_bytes(other)
    second.write_bytes(one)
    shutil.copytree(old, old.with_name("copy of swapped"))


DEEDS: list[Callable[[Path], None]] = [rename_and_copy, chain, swap]


def test_documents_renamed_and_copied_in_one_scan_are_all_there(project: Project) -> None:
    """Each deed has a folder of its own, with other documents."""
    for place, deed in enumerate(DEEDS):
        folder = project.docs / deed.__name__
        folder.mkdir()
        for number, name in enumerate(NAMES):
            (folder / name).write_text(long_document(3 + number, place))
    project.json("sync")
    for deed in DEEDS:
        deed(project.docs / deed.__name__)
    done = project.json("sync")
    assert done["embedded"]["texts"] == 0
    files = list(project.docs.rglob("*.txt"))
    assert project.json("status")["sources"]["docs"]["settled"] == len(files)
    assert project.essence() == project.fresh().essence()


def test_renamed_document_with_copies_keeps_its_id(project: Project) -> None:
    for number in range(8):
        (project.docs / f"a{number}").write_text(long_document(3, number))
    project.json("sync")
    before = ids(project)
    for number in range(8):
        (project.docs / f"a{number}").rename(project.docs / f"c{number}")
        shutil.copy(project.docs / f"c{number}", project.docs / f"{'ad'[number % 2]}a{number}")
    assert project.json("sync")["documents"]["moved"] == 8
    after = ids(project)
    assert [after[f"c{number}"] for number in range(8)] == [before[f"a{number}"] for number in range(8)]


def ids(project: Project) -> dict[str, str]:
    """Of documents by key."""
    return {each["document"]: each["document_id"] for each in project.json("ls")}
