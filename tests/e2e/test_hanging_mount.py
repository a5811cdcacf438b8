"""A source on a network file system that hangs in the kernel holds up no other source, nor the end."""

from pathlib import Path

import pytest

from tests.e2e.project import Project
from tests.hanging_mount import OPENDIR, READ, hanging_mount
from tests.waiting import wait


@pytest.mark.parametrize("silent", [READ, OPENDIR], ids=["reading", "listing"])
def test_a_file_system_that_hangs(tmp_path: Path, silent: int) -> None:
    mount = tmp_path / "mount"
    mount.mkdir()
    source = {"kind": "folder", "collection": "docs", "settle": "200ms"}
    sources = [
        {"name": "hung", "path": str(mount), **source},
        {"name": "docs", "path": "./docs", **source},
    ]
    project = Project(tmp_path / "project", {"sources": sources})
    with hanging_mount(mount, [f"{number}.txt" for number in range(60)], silent):
        daemon = project.start()
        try:
            wait(lambda: "Chroma listens" in daemon.said())
            wait(lambda: hangs(project, silent))
            (project.docs / "ordinary.txt").write_text("a lantern hangs beside it")
            wait(lambda: settled(project) == 1)
            assert daemon.stop() == 0
        finally:
            daemon.kill()


def hangs(project: Project, silent: int) -> bool:
    """Its listing, or as many of its documents as may be under way."""
    source = project.json("status")["sources"]["hung"]
    return bool(source["listing"]) if silent == OPENDIR else source["in_flight"] >= 12


def settled(project: Project) -> int:
    return int(project.json("status")["sources"]["docs"]["settled"])
