"""One confined process, seen from the daemon: started, asked, watched, and ended.

Whatever it says is not trusted: it has read hostile bytes.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from threading import Event
from typing import IO, Any

from ingestor.confinement import hide
from ingestor.isolation_wire import LARGEST, OUT_OF_MEMORY, PATIENCE, pack, receive, send
from ingestor.ports import Transient
from ingestor.work import Stopped

_START = 120.0  # seconds in which a process must have started
_TICK = 0.5  # seconds: how soon a wait notices that all is to stop
_ENVIRONMENT = ("PATH", "HOME", "LANG", "TMPDIR", "VIRTUAL_ENV", "PYTHON", "LC_", "LD_")


@dataclass(frozen=True, slots=True)
class Limits:
    """Of each process: bytes of memory, CPU seconds a document; and how many processes there may be."""

    memory: int = 2 * 10**9
    seconds: float = 60.0
    processes: int = 2


class Died(Exception):
    """The process ended without an answer; the message says why."""


class TooSlow(Died):
    """So it would be the next time."""


class Killed(Died):
    """By somebody else: the system, where memory is short."""


class Process:
    """One running child. ``over``: it can't be asked again; ``layers``: see confinement.restrict."""

    def __init__(self, limits: Limits, stopped: Event) -> None:
        """Raises Transient when it does not start, Stopped."""
        self._limits, self._stopped = limits, stopped
        self._seconds, self._deadline = _START, time.monotonic() + _START
        self.over = False
        hide()  # it runs as the same user, who may otherwise read and write our memory
        self._pipe, theirs = socket.socketpair()
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the child
        command = [sys.executable, "-P", "-m", "ingestor.isolation_child"]
        with theirs:
            self._child = subprocess.Popen(  # noqa: S603
                [*command, str(limits.memory), *_plugin_folders()],
                stdin=theirs.fileno(), stdout=self._said, stderr=self._said, env=_environment(),
                start_new_session=True,  # a terminal's Ctrl-C is for the daemon
            )  # fmt: skip
        try:
            self.layers: dict[str, str] = json.loads(self.frame())
        except Died as died:
            why = str(died).removesuffix("; exclude it")
            raise Transient(f"the process that reads binary formats does not start: {why}") from None

    def ask(self, request: list[Any], data: bytes, seconds: float) -> None:
        """Begin one request of so many CPU seconds; ``frame`` gives the answers. Raises Died."""
        if len(data) > LARGEST:
            raise TooSlow(f"has more than {LARGEST:,} bytes; exclude it")
        deed, *words = request
        self._seconds, self._deadline = seconds, time.monotonic() + seconds * PATIENCE
        self._pipe.settimeout(seconds * PATIENCE)
        try:
            send(self._pipe, pack([deed, seconds, *words]), data)
        except OSError:
            raise self._ended() from None

    def answer(self) -> dict[str, Any]:
        """The next frame of JSON. Raises Died, Stopped."""
        found: dict[str, Any] = json.loads(self.frame())
        if found.pop("last", False):
            self.end()
        return found

    def frame(self) -> bytes:
        """Raises Died, Stopped."""
        while True:
            try:
                self._pipe.settimeout(_TICK)
                self._pipe.recv(1, socket.MSG_PEEK)
                return receive(self._pipe, self._deadline)
            except TimeoutError:
                pass
            except (EOFError, OSError):
                raise self._ended() from None
            if self._stopped.is_set():
                self.end()
                raise Stopped
            if time.monotonic() > self._deadline:
                self.end()
                raise self._too_slow()

    def end(self) -> None:
        self.over = True
        self._pipe.close()
        self._said.close()
        self._child.kill()
        self._child.wait()

    def _ended(self) -> Died:
        """Why the child is no more."""
        try:
            status = self._child.wait(5)
        except subprocess.TimeoutExpired:
            status = -signal.SIGKILL
        said = _last_line(self._said)
        self.end()
        if status in (OUT_OF_MEMORY, -signal.SIGABRT):  # native code that gets no memory aborts
            sure = "" if status == OUT_OF_MEMORY else "crashed (SIGABRT), most likely because it "
            most = f"{self._limits.memory / 1e9:g} GB of memory"
            return Died(f"{sure}needed more than {most}; raise parsing.memory, or exclude it")
        if status in (-signal.SIGXCPU, -signal.SIGALRM):
            return self._too_slow()
        if status == -signal.SIGKILL:
            return Killed("the parser was killed: the machine may be short of memory")
        what = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        return Died(f"the parser crashed ({what}{f': {said}' if said else ''}); exclude it")

    def _too_slow(self) -> TooSlow:
        return TooSlow(f"took more than {self._seconds:g} s; raise parsing.seconds, or exclude it")


@cache
def _plugin_folders() -> list[str]:
    """Where installed parsers lie, be it beside the search path: the child may read nothing else."""
    tops = {"ingestor", *(entry.module.partition(".")[0] for entry in entry_points(group="ingestor.parsers"))}
    found: list[str] = []
    for spec in filter(None, map(find_spec, sorted(tops))):
        found += spec.submodule_search_locations or filter(None, [spec.origin])
    return found


def _environment() -> dict[str, str]:
    """What Python needs to start, and no secrets. One thread is enough to load numpy."""
    kept = {name: value for name, value in os.environ.items() if name.startswith(_ENVIRONMENT)}
    return {**kept, "OPENBLAS_NUM_THREADS": "1"}


def _last_line(file: IO[bytes]) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - 500))
    lines = file.read().decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
