"""200,000 files in one folder: how long the daemon lists them, what that takes, and that it still ends."""

import resource
from pathlib import Path

import pytest

from tests.e2e.memory import watched
from tests.e2e.project import Project
from tests.waiting import wait

FILES = 200_000
MEMORY = 1.5 * 10**9  # bytes of the daemon
CPU = 120.0  # seconds that the listing may take, of the daemon and its children


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_many_files_in_one_folder_are_listed_within_bounds(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    for number in range(FILES):
        (project.docs / f"{number:06}.txt").touch()
    daemon = project.start(as_people_do=True)
    try:
        with watched(daemon.process.pid) as peak:
            wait(lambda: project.poll("status")["sources"]["docs"]["last_scan"], 900, 2.0)
            cpu = _cpu(daemon.process.pid)
            assert daemon.stop() == 0
    finally:
        daemon.kill()
    print(f"{cpu:.0f} s of processor time; {peak.daemon / 1e6:.0f} MB")
    assert cpu < CPU
    assert peak.daemon < MEMORY


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_under_a_limit_of_memory_the_daemon_goes_on(tmp_path: Path) -> None:
    """RLIMIT_AS, for control groups need rights: a limit of addresses is stricter than one of memory."""
    project = Project(
        tmp_path / "project", {"max_records": 30, "parsing": {"memory": "300MB", "seconds": "10s"}}
    )
    (project.docs / "a.txt").write_text("an ordinary document")
    (project.docs / "large.json").write_text("9" * 20_000_000)
    daemon = project.start(as_people_do=True)
    try:
        wait(lambda: "Chroma listens" in daemon.said())
        resource.prlimit(
            daemon.process.pid, resource.RLIMIT_AS, (_addresses(daemon.process.pid) + 200_000_000,) * 2
        )
        (project.docs / "large.txt").write_text("word " * 8_000_000)
        (project.docs / "b.txt").write_text("another ordinary document")
        wait(lambda: {"a.txt", "b.txt"} <= _settled(project), 120, 1.0)
        failures = {one["document"] for one in project.json("status")["failures"]}
        assert failures <= {"large.txt", "large.json"}
        assert daemon.stop() == 0
    finally:
        daemon.kill()


def _settled(project: Project) -> set[str]:
    return {one["document"] for one in project.json("ls") if one["state"] == "settled"}


def _addresses(pid: int) -> int:
    """Bytes of address space."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * resource.getpagesize()


def _cpu(pid: int) -> float:
    """Seconds."""
    spent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]
    return sum(map(int, spent)) / 100
