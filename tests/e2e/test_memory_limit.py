"""Where a group of processes has less memory than a document takes, the parser ends, and nothing else."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.bad_parser import installed
from tests.e2e.project import Project
from tests.waiting import wait

LIMIT = 900_000_000  # bytes of daemon, Chroma and parsers together


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group of this limit; needs root, and control groups that may be changed."""
    old = Path("/sys/fs/cgroup/memory")
    place = (old if old.is_dir() else Path("/sys/fs/cgroup")) / f"ingestor-test-{os.getpid()}"
    limit = "memory.limit_in_bytes" if old.is_dir() else "memory.max"
    try:
        place.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made: {error}")
    try:
        try:
            (place / limit).write_text(str(LIMIT))
        except OSError as error:
            pytest.skip(f"this control group limits no memory: {error}")
        yield place
    finally:
        with suppress(OSError):
            for pid in (place / "cgroup.procs").read_text().split():
                os.kill(int(pid), signal.SIGKILL)
        wait(lambda: not (place / "cgroup.procs").read_text())
        place.rmdir()


@pytest.mark.slow
def test_a_document_that_takes_all_memory_of_the_group(
    tmp_path: Path, group: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", installed(tmp_path / "plugins", "rtf"))
    parsing = {"memory": "8GB", "seconds": "60s", "processes": 1}
    project = Project(tmp_path / "project", {"parsing": parsing})
    daemon = project.start()
    try:
        (group / "cgroup.procs").write_text(str(daemon.process.pid))
        wait(lambda: "Chroma listens" in daemon.said())
        (project.docs / "eats.rtf").write_text(r"{\rtf1 eat")
        (project.docs / "beside.txt").write_text("A lantern hangs beside it.")
        wait(lambda: any(one["document"] == "eats.rtf" for one in project.json("status")["failures"]), 120)
        wait(lambda: project.json("status")["sources"]["docs"]["settled"] == 1, 60)
        print(project.json("status")["failures"])
        assert "Chroma ended" not in daemon.said() and daemon.process.poll() is None
        assert daemon.stop() == 0
    finally:
        daemon.kill()
