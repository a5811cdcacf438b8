"""Parsers of binary formats run in processes of their own: what hangs, crashes or eats memory costs one
document and nothing else.

A process is started when the first document needs it, reads one document at a time, and is replaced after
some hundreds. It has limits of memory, CPU time and wall time, can write no files and reach no network, and
ends with this process. A parser asks for it with a class attribute ``isolated = True`` on what its plugin
builds; its module is imported here, for the plugin's sake, but only the child runs it.
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
from queue import LifoQueue
from threading import Event
from typing import IO

from ingestor.isolation_child import OUT_OF_MEMORY, PATIENCE
from ingestor.isolation_wire import decode, pack, receive, send
from ingestor.model import Blob, Document
from ingestor.ports import BadDocument, Transient
from ingestor.registry import Options
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


class Defect(Exception):
    """A parser failed in a way that it does not know; a note holds its traceback."""


class _Died(Exception):
    """The process ended without an answer; the message says why."""


class _TooSlow(_Died):
    """So it would be the next time."""


class _Killed(_Died):
    """By somebody else: the system, where memory is short."""


class Isolation:
    """At most ``limits.processes`` documents are parsed at once; others wait for their turn."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._stopped = Event()
        self._free: LifoQueue[_Process | None] = LifoQueue()  # the one that was used last comes first
        for _ in range(limits.processes):
            self._free.put(None)

    def parse(self, kind: str, options: Options, blob: Blob) -> Document:
        """What the parser of that kind makes of it.

        Raises BadDocument, also for what exceeded a limit or crashed; Defect for any other exception of
        the parser, Transient when no process can be started, Stopped after ``stop``.
        """
        process = self._free.get()
        try:
            request = pack([kind, options.model_dump_json(), blob.name, blob.content_type])
            process, answer = self._ask(process, request, blob.data)
        except BaseException:
            process = None
            raise
        finally:
            self._free.put(process)
        return _document(answer)

    def stop(self) -> None:
        """Who waits for a document gets Stopped, soon."""
        self._stopped.set()

    def close(self) -> None:
        """Ends the processes. Call it when nobody parses any more."""
        self.stop()
        for _ in range(self._limits.processes):
            process = self._free.get()
            if process is not None:
                process.end()

    def _ask(
        self, process: "_Process | None", request: bytes, data: bytes
    ) -> "tuple[_Process | None, dict[str, object]]":
        """A process that has read others before may have died of what they left: then it is asked anew."""
        try:
            if process is not None:
                try:
                    return process.ask(request, data, self._stopped)
                except _Died as died:
                    if isinstance(died, _TooSlow):
                        raise
            return _Process(self._limits, self._stopped).ask(request, data, self._stopped)
        except _Killed as killed:
            raise Defect(str(killed)) from None
        except _Died as died:
            raise BadDocument(str(died)) from None


class Isolated:
    """A parser whose work is done in another process."""

    def __init__(self, kind: str, options: Options, isolation: Isolation) -> None:
        self._kind, self._options, self._isolation = kind, options, isolation

    def parse(self, blob: Blob) -> Document:
        """Raises what Isolation.parse raises."""
        return self._isolation.parse(self._kind, self._options, blob)


class _Process:
    """One running child. After anything but an answer it is dead."""

    def __init__(self, limits: Limits, stopped: Event) -> None:
        """Raises Transient when it does not start."""
        self._limits = limits
        self._pipe, theirs = socket.socketpair()
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the child
        command = [sys.executable, "-P", "-m", "ingestor.isolation_child"]
        with theirs:
            self._child = subprocess.Popen(  # noqa: S603
                [*command, str(limits.memory), str(limits.seconds)],
                stdin=theirs.fileno(), stdout=self._said, stderr=self._said, env=_environment(),
                start_new_session=True,  # a terminal's Ctrl-C is for the daemon
            )  # fmt: skip
        try:
            self._receive(_START, stopped)
        except _Died as died:
            why = str(died).removesuffix("; exclude it")
            raise Transient(f"the process that reads binary formats does not start: {why}") from None

    def ask(self, request: bytes, data: bytes, stopped: Event) -> "tuple[_Process | None, dict[str, object]]":
        """This process, if it can be asked again, and the answer. Raises _Died, Stopped."""
        seconds = self._limits.seconds * PATIENCE
        self._pipe.settimeout(seconds)
        try:
            send(self._pipe, request, data)
        except OSError:
            raise self._ended() from None
        answer = json.loads(self._receive(seconds, stopped))
        if answer.pop("last"):
            self.end()
            return None, answer
        return self, answer

    def end(self) -> None:
        self._pipe.close()
        self._said.close()
        self._child.kill()
        self._child.wait()

    def _receive(self, seconds: float, stopped: Event) -> bytes:
        deadline = time.monotonic() + seconds
        while True:
            try:
                self._pipe.settimeout(_TICK)
                self._pipe.recv(1, socket.MSG_PEEK)
                return receive(self._pipe, deadline)
            except TimeoutError:
                pass
            except (EOFError, OSError):
                raise self._ended() from None
            if stopped.is_set():
                self.end()
                raise Stopped
            if time.monotonic() > deadline:
                self.end()
                raise self._too_slow()

    def _ended(self) -> _Died:
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
            return _Died(f"{sure}needed more than {most}; raise parsing.memory, or exclude it")
        if status in (-signal.SIGXCPU, -signal.SIGALRM):
            return self._too_slow()
        if status == -signal.SIGKILL:
            return _Killed("the parser was killed: the machine may be short of memory")
        what = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        return _Died(f"the parser crashed ({what}{f': {said}' if said else ''}); exclude it")

    def _too_slow(self) -> _TooSlow:
        return _TooSlow(f"took more than {self._limits.seconds:g} s; raise parsing.seconds, or exclude it")


def _document(answer: dict[str, object]) -> Document:
    if "document" in answer:
        document = answer["document"]
        assert isinstance(document, dict)
        return decode(document)
    if "bad" in answer:
        raise BadDocument(str(answer["bad"]))
    defect = Defect(str(answer["defect"]))
    defect.add_note(str(answer["trace"]))
    raise defect


def _environment() -> dict[str, str]:
    """What Python needs to start, and no secrets."""
    return {name: value for name, value in os.environ.items() if name.startswith(_ENVIRONMENT)}


def _last_line(file: IO[bytes]) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - 500))
    lines = file.read().decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
