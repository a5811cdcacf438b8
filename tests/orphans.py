"""Runs a command, and exits when the command and all processes that it started have ended.

Processes whose parent ended become children of this process, which is a subreaper (prctl(2)).
"""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

_SET_CHILD_SUBREAPER = 36


@dataclass
class Family:
    """A command that runs, with its descendants."""

    reaper: subprocess.Popen[bytes]

    @property
    def command(self) -> int:
        """The id of the command's process; 0 before it runs."""
        return next(iter(_children(self.reaper.pid)), 0)

    def descendants(self) -> dict[int, str]:
        """The processes that the command started and that have not ended, with their command lines."""
        found, rest = dict[int, str](), _children(self.reaper.pid)
        while rest:
            pid = rest.pop()
            rest += _children(pid)
            with suppress(OSError):
                found[pid] = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        found.pop(self.command, None)
        return found

    def end(self, number: int) -> None:
        os.kill(self.command, number)

    def has_ended(self) -> bool:
        return self.reaper.poll() is not None


@contextmanager
def family(*command: str, folder: Path, environment: Mapping[str, str]) -> Iterator[Family]:
    """Run a command. Processes that are left at the end are killed."""
    reaper = (sys.executable, __file__, *command)
    with (folder / "family.log").open("ab") as log:
        running = Family(
            subprocess.Popen(reaper, cwd=folder, env=environment, stdout=log, stderr=log, bufsize=0)
        )
    try:
        yield running
    finally:
        while not running.has_ended():
            for pid in (*running.descendants(), running.command):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL) if pid else None
            with suppress(subprocess.TimeoutExpired):
                running.reaper.wait(0.1)


def _children(pid: int) -> list[int]:
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return []


def _main() -> None:
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
    with suppress(ChildProcessError):
        while True:
            os.wait()


if __name__ == "__main__":
    _main()
