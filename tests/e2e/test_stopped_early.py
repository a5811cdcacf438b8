"""A signal at any time of the start-up ends the daemon in order: nothing stays open or behind."""

import signal
import time
from pathlib import Path

import pytest

from tests.e2e.project import Project

STEP = 0.05  # seconds
STEPS = range(0, 80, 4)  # each test takes every fourth step; the machine decides what it meets there
# Before the handlers are there nothing is open yet, and Python's or the system's own ending is in order.
BEFORE = {signal.SIGTERM: {-signal.SIGTERM}, signal.SIGINT: {-signal.SIGINT, 130}}


def processes_of(folder: Path) -> list[str]:
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in line:
            found.append(line)
    return found


@pytest.mark.slow
@pytest.mark.timeout(580)
@pytest.mark.parametrize("number", BEFORE, ids=lambda number: number.name)
@pytest.mark.parametrize("offset", range(4))
def test_a_signal_during_the_start_ends_it_in_order(
    project: Project, number: signal.Signals, offset: int
) -> None:
    (project.docs / "a.txt").write_text("Basil grows here.\n")
    for step in STEPS:
        daemon = project.start(as_people_do=True)
        time.sleep((step + offset) * STEP)
        daemon.process.send_signal(number)
        code, said = daemon.process.wait(60), daemon.said()
        assert code in {0, *BEFORE[number]}, (step, code, said)
        assert code == 0 or "Chroma listens" not in said, (step, code, said)
        assert "Traceback" not in said, (step, said)
        assert processes_of(project.folder) == [], (step, said)
        assert list(project.folder.rglob("journal.sqlite3-wal")) == [], "the journal is closed"
    assert project.json("sync")["documents"]["failed"] == 0
