"""Starts, calls, watches and ends a confined process. This module runs in the daemon.

Answers of the process are not trusted, because it has read hostile bytes.
"""

import errno
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from threading import Event
from typing import IO, Any

from ingestor.confinement.bound_child import BoundChild
from ingestor.confinement.python_child import processor_seconds, python_child
from ingestor.confinement.walls import hide
from ingestor.core.document_json import pack
from ingestor.core.errors import Stopped, describe
from ingestor.ports import Transient
from ingestor.sandbox.wire import (
    EXTENSIONS,
    GREETING,
    LARGEST,
    OUT_OF_MEMORY,
    PATIENCE,
    Oversized,
    receive,
    send_watched,
)

_START = 120.0  # seconds in which a process must start
_WORKS = 0.03  # least part of a processor that a working parser gets on a busy machine


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of each process, and the number of processes.

    ``memory``: bytes. ``seconds``: CPU time for a document.
    """

    memory: int = 2 * 10**9
    seconds: float = 60.0
    processes: int = 2


class Died(Exception):
    """Error: the process ended before it answered. The message has the reason and the remedy."""


class TooSlow(Died):
    """Error: the document took too long, and would do so again at a retry."""


class Starved(Died):
    """Error: the machine was too busy to give the document its CPU time."""


class Killed(Died):
    """Error: another program killed the process, most likely the system because memory is short."""


class Process:
    """A running confined process.

    ``over``: whether it cannot be used again. ``layers``: by layer of confinement, why it is missing; "" if
    it is active.
    """

    def __init__(self, limits: Limits, stopped: Event) -> None:
        """Start the process.

        Raises Transient if it does not start, and Stopped if ``stopped`` is set meanwhile.
        """
        self._limits, self._stopped = limits, stopped
        self._seconds, self._deadline = _START, time.monotonic() + _START
        self._used, self._extensions, self._begun = 0.0, 0, time.monotonic()
        self.over = False
        hide()  # the process runs as the same user, who may otherwise read and write our memory
        try:
            self._start()
        except OSError as error:
            remedy = describe(error)
            if error.errno == errno.ENOENT and error.filename is None:  # tempfile found no folder
                remedy = f"{error.strerror}; make room on their disks, or set TMPDIR to a folder to write in"
            raise Transient(f"the process that reads binary formats can't be started: {remedy}") from error
        try:
            self.layers: dict[str, str] = json.loads(self.frame(GREETING))
        except Died as died:
            why = str(died).removesuffix("; exclude it")
            raise Transient(f"the process that reads binary formats does not start: {why}") from None
        except BaseException:
            self.end()
            raise

    def _start(self) -> None:
        """Start the child process with a socket as its standard input. Raises OSError."""
        words = ["-m", "ingestor.sandbox.child", str(self._limits.memory), *_plugin_folders()]
        child = python_child(*words, variables={"OPENBLAS_NUM_THREADS": "1"})  # enough to load numpy
        with ExitStack() as undo:
            self._errors: IO[bytes] = undo.enter_context(tempfile.TemporaryFile())
            self._pipe, theirs = socket.socketpair()
            undo.enter_context(self._pipe)
            with theirs:
                self._child = BoundChild(
                    child.command, child.environment,
                    stdin=theirs.fileno(), stdout=self._errors, stderr=self._errors,
                )  # fmt: skip
            undo.pop_all()

    def ask(self, request: list[Any], data: bytes, seconds: float) -> None:
        """Send a request with its data to the process. Raises Died.

        ``request``: ``parse`` or ``unpack``, and its arguments. ``seconds``: limit of CPU time for it. The
        answer is read by ``answer`` and ``frame``.
        """
        if len(data) > LARGEST:
            raise TooSlow(f"has more than {LARGEST:,} bytes; exclude it")
        deed, *words = request
        self._used, self._extensions = processor_seconds(self._child.pid) or 0.0, EXTENSIONS
        self._begun = time.monotonic()
        self._seconds, self._deadline = seconds, time.monotonic() + seconds * PATIENCE
        try:
            send_watched(self._pipe, self._watch, pack([deed, seconds, *words]), data)
        except OSError:
            raise self._cause_of_end() from None
        except (TooSlow, Starved):
            raise Killed(
                "the parser did not accept the document; the machine may be short of memory"
            ) from None

    def answer(self, most: int) -> dict[str, Any]:
        """Return the next frame that the process sends, parsed as JSON.

        ``most``: the largest size in bytes that is accepted. Raises Died or Stopped.
        """
        reply: dict[str, Any] = json.loads(self.frame(most))
        if reply.pop("last", False):
            self.end()
        return reply

    def frame(self, most: int) -> bytes:
        """Return the next frame that the process sends. ``most``: the largest size in bytes that is accepted.

        Raises Died soon after the deadline, and Stopped soon after ``stopped`` is set.
        """
        try:
            return receive(self._pipe, most, self._watch)
        except Oversized as error:
            self.end()
            raise Died(f"the parser's answer is too large ({error}); exclude it") from None
        except (EOFError, OSError):
            raise self._cause_of_end() from None

    def _watch(self) -> None:
        """End the process if the deadline has passed or ``stopped`` is set. Called regularly while it works.

        If the machine is too busy to give the parser its CPU time, the deadline is extended a few times.
        """
        if self._stopped.is_set():
            self.end()
            raise Stopped
        if time.monotonic() > self._deadline:
            late = self._late()
            if isinstance(late, Starved) and self._extensions:
                self._extensions -= 1
                self._deadline += self._seconds * PATIENCE
                return
            self.end()
            raise late

    def kill(self) -> None:
        """Kill the process. Any thread may call. A thread that waits for an answer gets Stopped."""
        self._child.kill()

    def end(self) -> None:
        """Kill the process, and wait until it has ended."""
        self.over = True
        self._pipe.close()
        self._errors.close()
        self._child.kill()
        self._child.wait()

    def _cause_of_end(self) -> Died:
        """Return the error that tells why the process ended. Raises Stopped if the program is stopping."""
        if self._stopped.is_set():
            self.end()
            raise Stopped
        try:
            status = self._child.wait(5)
        except subprocess.TimeoutExpired:
            status = -signal.SIGKILL
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - 500))
        lines = [line.strip() for line in self._errors.read().decode(errors="replace").split("\n")]
        reason = next(filter(None, reversed(lines)), "")
        self.end()
        if status in (OUT_OF_MEMORY, -signal.SIGABRT):  # native code aborts if it gets no memory
            sure = "" if status == OUT_OF_MEMORY else "crashed (SIGABRT), most likely because it "
            most = f"{self._limits.memory / 1e9:g} GB of memory"
            return Died(f"{sure}needed more than {most}; raise parsing.memory, or exclude it")
        if status in (-signal.SIGXCPU, -signal.SIGALRM):
            return self._too_slow()
        if status == -signal.SIGKILL:
            return Killed("the parser was killed: the machine may be short of memory")
        what = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        return Died(f"the parser crashed ({what}{f': {reason}' if reason else ''}); exclude it")

    def _late(self) -> Died:
        """Return why the deadline passed: Starved if the process lacked CPU time, TooSlow if it worked or
        hangs."""
        used = (processor_seconds(self._child.pid) or 0.0) - self._used
        if not _WORKS * (time.monotonic() - self._begun) <= used < self._seconds:
            return self._too_slow()
        return Starved(
            f"got only {used:.1f} of {self._seconds:g} s of processor time: the machine is too busy"
        )

    def _too_slow(self) -> TooSlow:
        return TooSlow(f"took more than {self._seconds:g} s; raise parsing.seconds, or exclude it")


@cache
def _plugin_folders() -> list[str]:
    """Return the folders of parsers that plugins install, which the process must be able to read."""
    tops = {"ingestor", *(entry.module.partition(".")[0] for entry in entry_points(group="ingestor.parsers"))}
    folders: list[str] = []
    for spec in filter(None, map(find_spec, sorted(tops))):
        folders += spec.submodule_search_locations or filter(None, [spec.origin])
    return folders
