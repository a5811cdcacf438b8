"""Chroma and its guard as a fork of the process that starts them, which has imported all that they need.

A new Python needs as much processor time for these imports as Chroma and the guard for a short command. The
process is another one all the same, with its own group, network, output and end; tests/chroma starts it as
people do.
"""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import IO

from ingestor.chroma import child, server


class _Fork:
    """What ``ChromaServer`` uses of ``subprocess.Popen``."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        stdin: int,
        stdout: IO[bytes],
        stderr: IO[bytes],
        env: Mapping[str, str],
        pass_fds: Sequence[int],
        process_group: int,
    ) -> None:
        self._status: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.setpgid(0, process_group)
                signal.set_wakeup_fd(-1)
                for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                    signal.signal(number, signal.SIG_DFL)
                kept = _moved({0: stdin, 1: stdout.fileno(), 2: stderr.fileno()}, pass_fds)
                os.environ.clear()
                os.environ.update(env)
                _close_others(kept)
                child.main(command[-1])
            finally:
                os._exit(70)

    def poll(self) -> int | None:
        if self._status is None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            self._status = os.waitstatus_to_exitcode(status) if ended else None
        return self._status

    def wait(self, seconds: float | None = None) -> int:
        until = time.monotonic() + (seconds or 1e9)
        while (status := self.poll()) is None:
            if time.monotonic() > until:
                raise subprocess.TimeoutExpired("chroma", seconds or 0)
            time.sleep(0.005)
        return status

    def terminate(self) -> None:
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        self._send(signal.SIGKILL)

    def _send(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


def _moved(standard: Mapping[int, int], passed: Sequence[int]) -> list[int]:
    """Give the standard streams their numbers; which descriptors the process keeps."""
    for number, origin in standard.items():
        os.dup2(origin, number)
    return sorted([*standard, *passed])


def _close_others(kept: Sequence[int]) -> None:
    for before, after in zip(kept, [*kept[1:], os.sysconf("SC_OPEN_MAX")], strict=True):
        os.closerange(before + 1, after)


def _started(*arguments: object, **options: object) -> object:
    alone = threading.active_count() == 1  # a fork has the locks that other threads held
    return (_Fork if alone else subprocess.Popen)(*arguments, **options)  # type: ignore[operator]


def use_forks() -> None:
    """From now on this process forks its Chroma."""
    server.subprocess = SimpleNamespace(Popen=_started, TimeoutExpired=subprocess.TimeoutExpired)  # type: ignore[attr-defined]
