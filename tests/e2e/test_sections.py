"""The sections that chunks touch, as a filter, also for records that are there already; and types by name."""

import sys

import pytest

from tests.e2e.in_chroma import in_chroma
from tests.e2e.project import Project

TEXT = """\
.. _start:

Start
=====

It begins here.

.. setting:: DEBUG

DEBUG
=====

It is off.
"""
OLDER = """
import sys
from ingestor.pipeline import metadata
metadata.rules, metadata._headings = lambda *_: "", lambda *_: None
del sys.argv[0]
from ingestor.cli.main import main
main()
"""


@pytest.mark.slow
def test_sections_are_listed_in_records_that_are_there_and_nothing_is_embedded(project: Project) -> None:
    project.settings["chunking"] = {"strategy": "changepoint"}
    project.configure()
    (project.docs / "a.rst").write_text(TEXT, "utf-8")
    (project.docs / "b.md").write_text("no heading\n")

    project.under = (sys.executable, "-c", OLDER)
    made = project.json("sync")["records"]["added"]
    assert not any("headings" in meta for _, _, meta, _ in project.records())

    project.under = ()
    patched = project.json("sync")
    assert patched["records"] == {"added": 0, "replaced": 0, "patched": made, "dropped": 0}
    assert patched["embedded"]["texts"] == 0
    where = "result = collection.get(where={'headings': {'$contains': 'DEBUG'}})['metadatas'][0]['headings']"
    assert in_chroma(project.folder / "chroma", "docs", where) == ["Start", "DEBUG"]
    assert project.json("verify")["wrong_metadata"] == 0

    (project.docs / "a.rst").write_text("It begins here.\n", "utf-8")
    project.json("sync")
    assert not any("headings" in meta for _, _, meta, _ in project.records())


@pytest.mark.slow
def test_another_type_reads_what_is_called_so_again(project: Project) -> None:
    project.settings |= {"chunking": {"strategy": "structure"}, "rechunk": "in_place"}
    project.configure()
    for name in ("a.txt", "b.inc", "c.md"):
        (project.docs / name).write_text("Title\n=====\n\nIt is plain.\n", "utf-8")
    assert project.json("sync")["documents"]["added"] == 3
    before = {meta["file_name"]: meta["content_type"] for _, _, meta, _ in project.records()}
    assert before == {"a.txt": "text/plain", "b.inc": "text/plain", "c.md": "text/markdown"}

    project.settings["parsing"] = {"types": {"*.txt": "rst", "*.inc": "text/x-go"}}
    project.configure()
    assert project.json("plan")["documents"]["changed"] == 3
    done = project.json("sync")
    assert done["embedded"]["texts"] == 0
    after = {
        meta["file_name"]: (meta["content_type"], meta.get("headings")) for _, _, meta, _ in project.records()
    }
    assert after == {
        "a.txt": ("text/x-rst", ["Title"]),
        "b.inc": ("text/x-go", None),
        "c.md": ("text/markdown", ["Title"]),
    }
