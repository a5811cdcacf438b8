"""Code and programs of others, through the whole program: whatever they do, it goes on, and it ends."""

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.connectors.taps import options_of
from tests.e2e.project import Project, wait

LOADERS = Path(__file__).parents[1] / "connectors/loaders.py"


def project_of(at: Path, source: dict[str, Any]) -> Project:
    whole = {"name": "docs", "collection": "docs", **source}
    return Project(at / "project", {"sources": [whole]})


def code(folder: Path, name: str, **arguments: str) -> Project:
    shutil.copy(LOADERS, folder)
    source = {"kind": "python", "call": f"loaders:{name}", "folder": str(folder), "arguments": arguments}
    return project_of(folder, source)


def tap(folder: Path, how: str) -> Project:
    root = folder / "root"
    root.mkdir(exist_ok=True)
    for name in ("a.md", "b.md", "c.md"):
        (root / name).write_text(f"# A house\n\nBy the river, {name}.\n")
    settings = {"root": str(root), "ill": how, "pid": str(folder / "pid"), "token": "t"}
    return project_of(folder, {"kind": "singer", **options_of(root, settings=settings)})


def test_code_that_prints_and_silences_logs_does_not_disturb_the_answer(tmp_path: Path) -> None:
    found = code(tmp_path, "noisy", text="# A house\n\nBy the river.\n").json("sync")
    assert found["documents"]["added"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["python", "singer"])
def test_what_hangs_does_not_hold_up_the_end(kind: str, tmp_path: Path) -> None:
    python = kind == "python"
    project = code(tmp_path, "hanging", pids=str(tmp_path / "pid")) if python else tap(tmp_path, "hang")
    daemon = project.start(as_people_do=True)  # a forked one ends without atexit
    try:
        pid = int(wait(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text()))
        assert daemon.stop() == 0, daemon.said()
    finally:
        daemon.kill()
    wait(lambda: not Path(f"/proc/{pid}").exists())


@pytest.mark.slow
@pytest.mark.parametrize("how", ["cut", "killed"])
def test_a_tap_that_breaks_off_removes_nothing(how: str, tmp_path: Path) -> None:
    well = tap(tmp_path, "")
    assert well.json("sync")["documents"]["added"] == 3
    before = well.essence()
    ill = tap(tmp_path, how)
    (tmp_path / "root/c.md").unlink()
    done = ill.call("sync")
    assert done.returncode != 0
    assert f"{Path(sys.executable).name}: it " in done.stderr
    assert ill.essence() == before
    (tmp_path / "root/c.md").write_text("# A house\n\nBy the river, c.md.\n")
    found = tap(tmp_path, "").json("sync")
    assert (found["documents"]["unchanged"], found["embedded"]["texts"]) == (3, 0)
