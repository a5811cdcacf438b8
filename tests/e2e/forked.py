"""Processes that begin with the program already imported.

A new Python needs a second of processor time to import the program, Chroma and the models of languages and
tokens. So each process of pytest has a server that has imported all that once and does nothing else; it is
forked for every daemon and every Chroma. Each still has a process of its own, with its own environment,
folder, output and end. Tests of how the program starts, and of what it needs, start Python as people do.
"""

import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import TextIOWrapper
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from subprocess import TimeoutExpired

SERVER = get_context("forkserver")
SERVER.set_forkserver_preload(["tests.e2e.warm"])


@dataclass(frozen=True)
class Running:
    """A process that goes on, with what tests use of ``subprocess.Popen``."""

    process: BaseProcess

    @property
    def pid(self) -> int:
        assert self.process.pid
        return self.process.pid

    def poll(self) -> int | None:
        return self.process.exitcode

    def wait(self, seconds: float | None = None) -> int:
        self.process.join(seconds)
        if self.process.exitcode is None:
            raise TimeoutExpired(str(self.pid), seconds or 0)
        return self.process.exitcode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def start(
    main: Callable[[], None], command: list[str], folder: Path, environment: Mapping[str, str], log: Path
) -> Running:
    """Run ``main`` with ``command`` as its ``sys.argv``; ``log`` gets all that it says."""
    log.touch()
    process = SERVER.Process(target=_begin, args=(main, command, folder, dict(environment), log, log))
    process.start()
    return Running(process)


def _begin(
    main: Callable[[], None],
    command: list[str],
    folder: Path,
    environment: dict[str, str],
    out: Path,
    err: Path,
) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for path, number in ((out, 1), (err, 2)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    sys.stdout, sys.stderr = _stream(1), _stream(2)
    sys.argv = command
    main()


def _stream(number: int) -> TextIOWrapper:
    return open(number, "w", encoding="utf-8", buffering=1, closefd=False)
