"""A daemon on a terminal: what closing it means, and what its user sees there."""

import fcntl
import os
import signal
import subprocess
import termios
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.project import INGESTOR, Project, wait


@dataclass
class Terminal:
    """A command that has a terminal to itself; ``saw`` is all that appeared there."""

    process: subprocess.Popen[bytes]
    master: int
    saw: bytes = b""

    def shows(self, text: str) -> bool:
        while True:
            try:
                self.saw += os.read(self.master, 65536)
            except BlockingIOError:
                return text in self.saw.decode(errors="replace")

    def close(self) -> None:
        os.close(self.master)
        self.master = -1


@pytest.fixture
def terminal(project: Project) -> Iterator[Terminal]:
    """``ingestor run``, in the project's folder, as the first process of a new terminal."""
    (project.docs / "a.md").write_text("# Opening hours\n\nThe library opens at nine.\n")
    master, slave = os.openpty()
    termios.tcsetwinsize(slave, (30, 100))
    os.set_blocking(master, False)
    process = subprocess.Popen(
        [INGESTOR, "run"],
        cwd=project.folder,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        env={**os.environ, "TERM": "xterm-256color", "PATH": f"{Path(INGESTOR).parent}:{os.environ['PATH']}"},
    )
    os.close(slave)
    on = Terminal(process, master)
    yield on
    if on.master >= 0:
        on.close()
    process.kill()
    process.wait(30)


def test_a_daemon_ends_with_its_terminal(project: Project, terminal: Terminal) -> None:
    wait(lambda: terminal.shows("In step"))
    terminal.close()
    assert terminal.process.wait(60) == 0
    assert not project.json("status")["running"]
    assert project.json("verify")["checked"] == 1


def test_a_hang_up_while_the_terminal_is_there_reloads(project: Project, terminal: Terminal) -> None:
    wait(lambda: terminal.shows("In step"))
    terminal.process.send_signal(signal.SIGHUP)
    wait(lambda: terminal.shows("the config is taken over"))
    terminal.process.send_signal(signal.SIGINT)
    wait(lambda: terminal.shows("") or terminal.process.poll() is not None)
    assert terminal.process.wait(60) == 0
