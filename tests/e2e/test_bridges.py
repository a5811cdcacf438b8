"""Code of others, through the whole program: whatever they do, it goes on, and it ends."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.project import Project
from tests.waiting import wait

LOADERS = Path(__file__).parents[1] / "connectors/loaders.py"


def project_of(at: Path, source: dict[str, Any]) -> Project:
    whole = {"name": "docs", "collection": "docs", **source}
    return Project(at / "project", {"sources": [whole]})


def code(folder: Path, name: str, **arguments: str) -> Project:
    shutil.copy(LOADERS, folder)
    source = {"kind": "python", "call": f"loaders:{name}", "folder": str(folder), "arguments": arguments}
    return project_of(folder, source)


def test_code_that_prints_and_silences_logs_does_not_disturb_the_answer(tmp_path: Path) -> None:
    found = code(tmp_path, "noisy", text="# A house\n\nBy the river.\n").json("sync")
    assert found["documents"]["added"] == 1


@pytest.mark.slow
def test_what_hangs_does_not_hold_up_the_end(tmp_path: Path) -> None:
    project = code(tmp_path, "hanging", pids=str(tmp_path / "pid"))
    daemon = project.start(as_people_do=True)  # a forked one ends without atexit
    try:
        pid = int(wait(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text()))
        assert daemon.stop() == 0, daemon.said()
    finally:
        daemon.kill()
    wait(lambda: not Path(f"/proc/{pid}").exists())
