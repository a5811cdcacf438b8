"""A source on a network file system that hangs in the kernel holds up no other source, nor the end."""

import time
from pathlib import Path

import pytest

from tests.e2e.project import Project, wait
from tests.hanging_mount import OPENDIR, READ, hanging_mount


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
            begun = time.monotonic()
            wait(lambda: settled(project) == 1, 30)
            print(f"searchable after {time.monotonic() - begun:.1f} s")
            begun = time.monotonic()
            assert daemon.stop(seconds=10) == 0
            print(f"stopped after {time.monotonic() - begun:.1f} s")
        finally:
            daemon.kill()


def hangs(project: Project, silent: int) -> bool:
    """Its listing, or as many of its documents as may be under way."""
    source = project.json("status")["sources"]["hung"]
    return bool(source["listing"]) if silent == OPENDIR else source["in_flight"] >= 12


def settled(project: Project) -> int:
    return int(project.json("status")["sources"]["docs"]["settled"])
