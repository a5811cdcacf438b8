"""A daemon on a terminal: what its user sees there, and what closing it means."""

import fcntl
import os
import re
import signal
import subprocess
import termios
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ingestor.app.signals import Signals
from tests.e2e.project import INGESTOR, Project, free_port
from tests.waiting import wait


@dataclass
class Terminal:
    """A command that has a terminal to itself; ``saw`` is all that appeared there."""

    process: subprocess.Popen[bytes]
    master: int
    saw: str = ""

    def shows(self, text: str) -> bool:
        while True:
            try:
                self.saw += os.read(self.master, 65536).decode(errors="replace")
            except BlockingIOError:
                return text in self.saw

    def close(self) -> None:
        os.close(self.master)
        self.master = -1


def take_terminal() -> None:
    """In the child: even where whoever runs the tests ignores SIGHUP (nohup), the daemon hears it."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def opened(folder: Path) -> Terminal:
    """``ingestor run`` in that folder, as the first process of a new terminal."""
    master, slave = os.openpty()
    termios.tcsetwinsize(slave, (30, 100))
    os.set_blocking(master, False)
    process = subprocess.Popen(
        [INGESTOR, "run"],
        cwd=folder,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        preexec_fn=take_terminal,
        env={**os.environ, "TERM": "xterm-256color", "PATH": "/usr/bin:/bin"},
    )
    os.close(slave)
    return Terminal(process, master)


@pytest.fixture
def terminal(project: Project) -> Iterator[Terminal]:
    (project.docs / "a.md").write_text("# When does it open?\n\nThe library opens at nine.\n")
    on = opened(project.folder)
    yield on
    if on.master >= 0:
        on.close()
    on.process.kill()
    on.process.wait(30)


def test_a_daemon_ends_with_its_terminal(project: Project, terminal: Terminal) -> None:
    wait(lambda: terminal.shows("Watching for changes"))
    terminal.close()
    assert terminal.process.wait(60) == 0
    assert not project.json("status")["running"]
    assert project.json("verify")["checked"] == 1


@pytest.mark.slow
def test_a_hang_up_while_the_terminal_is_there_reloads(terminal: Terminal) -> None:
    wait(lambda: terminal.shows("Watching for changes"))
    terminal.process.send_signal(signal.SIGHUP)
    wait(lambda: terminal.shows("config reloaded"))
    os.write(terminal.master, b"\x03")  # Ctrl-C
    assert terminal.process.wait(60) == 0


def test_a_hang_up_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Signals().heard():
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
            assert signal.getsignal(signal.SIGTERM) != signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.slow
def test_what_the_screen_says_can_be_pasted_and_no_log_crosses_the_bar(
    project: Project, terminal: Terminal
) -> None:
    wait(lambda: terminal.shows("Watching for changes"))
    rows = re.split(r"\n|\r|\x1b\[2K", terminal.saw)
    assert any("━" in row for row in rows), "there was a bar"
    assert any("INFO" in row for row in rows), "there was a log line"
    assert not [row for row in rows if "━" in row and "INFO" in row]
    asked = re.search(r"\S*ingestor query [^\r\n\x1b]*", terminal.saw)
    assert asked is not None
    assert '"When does it open?"' in asked[0]
    answer = subprocess.run(
        ["sh", "-c", asked[0]],
        cwd=project.folder,
        env={**os.environ, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert answer.returncode == 0, answer.stderr
    assert "docs/a.md:" in answer.stdout and "The library opens at nine." in answer.stdout


def test_a_stranger_begins_in_an_empty_folder(tmp_path: Path) -> None:
    said = subprocess.run([INGESTOR, "init"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert "ingestor run" in said.stdout
    config = (tmp_path / "config.yaml").read_text().replace("port: 8000", f"port: {free_port()}")
    config = re.sub(r"model: all-MiniLM-L6-v2.*", "kind: hashing\n  dimensions: 64", config)
    (tmp_path / "config.yaml").write_text(config)
    on = opened(tmp_path)
    try:
        wait(lambda: on.shows("No documents to index yet"))
        (tmp_path / "documents" / "first.txt").write_text("some words")
        wait(lambda: on.shows("first.txt: 1 record written"))
        os.write(on.master, b"\x03")
        assert on.process.wait(60) == 0
    finally:
        on.process.kill()
        on.process.wait(30)
        on.close()
