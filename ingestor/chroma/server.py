"""Our own Chroma server: started, supervised and stopped with this process.

The port is opened here and passed to the child, which runs guard and Chroma (chroma/child.py). The server is
ready when the child says so and answers; an answer alone could come from another Chroma.
"""

import errno
import json
import logging
import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from ingestor.chroma import processes
from ingestor.chroma.api import RestApi
from ingestor.chroma.folder import REMEDY, claim, damaged
from ingestor.config.servers import local_address
from ingestor.confinement.python_child import python_child
from ingestor.confinement.walls import describe
from ingestor.core.entries import ChromaName
from ingestor.core.events import event
from ingestor.ports import NeedsHuman, Transient
from ingestor.state.files import full_disk, open_own
from ingestor.state.lock import Lock

log = logging.getLogger("ingestor")

LONGEST = 600.0  # seconds without an answer, after which no work is an excuse
_WORKING = 0.02  # of one processor: a busy server on a crowded machine has more, one that only waits has less


@dataclass(frozen=True, slots=True)
class Look:
    """Work of the server. ``at``: monotonic seconds. ``spent``: processor seconds, None if unknown."""

    at: float
    spent: float | None


def hangs(since: float, before: Look, now: Look) -> bool:
    """Whether a restart is called for. ``since``: the first request without an answer.

    Between both looks nothing was answered.
    """
    if now.at - since > LONGEST or before.spent is None or now.spent is None:
        return True
    return now.spent - before.spent < _WORKING * (now.at - before.at)


@dataclass(slots=True)
class Silences:
    """Since when collections are not answered for; the first and the last time that was noticed.

    The processor time that a server spends shows whether it works or hangs. A collection may take minutes to
    load, and a restart would begin with that again. Chroma hangs, too: after a full disk it answers nothing
    but heartbeats, and spends next to nothing.
    """

    _noted: dict[ChromaName, tuple[float, float]] = field(default_factory=dict)

    def since(self, name: ChromaName, before: float, now: float) -> float:
        """Note that there was no answer from ``before`` to ``now``. Long after the last silence, another one
        begins.
        """
        first, last = self._noted.get(name, (before, before))
        self._noted[name] = (before if before - last > LONGEST else first), now
        return self._noted[name][0]

    def ended(self, name: ChromaName) -> None:
        self._noted.pop(name, None)

    def clear(self) -> None:
        self._noted.clear()


_CHILD = Path(__file__).with_name("child.py")
_START_PATIENCE = 60.0  # seconds; a start takes 0.3 on an idle machine, and longer after a crash
_PORT_PATIENCE = 3.0  # seconds for a taken port on which nobody listens
_MOMENT = 0.02  # seconds
_ANSWER_TIMEOUT = 5.0  # seconds for a heartbeat
_LAST_BREATH = 2.0  # seconds for an unresponsive process to end
_FROM_OUTSIDE = {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}
_PASSED = frozenset({"MALLOC_ARENA_MAX", "RAYON_NUM_THREADS", "RUST_BACKTRACE", "TOKIO_WORKER_THREADS"})
_QUIET = {"RUST_LOG": "warn", "NO_COLOR": "1", "ANONYMIZED_TELEMETRY": "False"}
_LOG_SIZE = 10_000_000  # bytes, beyond which the log is truncated


class ChromaServer:
    """Chroma on ``path``, behind the guard, as a child process, under the folder's lock."""

    def __init__(
        self,
        path: Path,
        host: str,
        port: int,
        log_path: Path,
        *,
        tokens: Sequence[tuple[str | None, str]] = (),
        names: Sequence[str] = (),
        hanging_after: float = 60.0,
        stop_patience: float = 30.0,
    ) -> None:
        """Describe a server; nothing is started here.

        ``tokens``: see guarding/guard_rules.py. ``names``: names of hosts besides localhost and ``host``.
        ``hanging_after``: seconds without an answer after which the server counts as hanging.
        ``stop_patience``: seconds from SIGTERM to SIGKILL.
        """
        self.path, self.host, self.port, self.log_path = path.absolute(), host, port, log_path
        self.tokens, self.names = tuple(tokens), [host, *names]
        self.secret = secrets.token_hex(32)  # what our own requests carry; nobody else may change anything
        self.level = ""  # how the port is guarded, in words; "" before the first start
        self._hanging_after, self._stop_patience = hanging_after, stop_patience
        self._lock: Lock | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: socket.socket | None = None  # its end tells the child that the parent ended
        self._answered = 0.0  # monotonic seconds
        self._looked = Look(0.0, None)

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start it, and return when it answers.

        Raises NeedsHuman if folder or port cannot be used, Transient if it did not start.
        """
        if self._lock is None:
            self._lock = claim(self.path)
        try:
            with self._bound() as listener:
                self._spawn(listener)
            self._await_ready()
            self._lock.note(
                f"{self.host} {self.port} {self.secret}"
            )  # for other commands, see queries/access.py
        except BaseException:
            self.stop()
            raise

    def poll(self) -> str | None:
        """Why the server needs a restart: it ended, or hangs. None while it answers or works."""
        self._bound_log()
        self._log_wrong_tokens()
        if self._process is None:
            return "not started"
        if self._lock is not None and self._lock.lost:
            return f"the folder {self.path} was removed, moved or replaced"
        if self._process.poll() is None and self._answers():
            self._note_answer()
            return None
        with suppress(subprocess.TimeoutExpired):  # a dying process closes its sockets before it has ended
            return f"it ended {_status(self._process.wait(_LAST_BREATH))}"
        before, self._looked = self._looked, self.look()
        silence = self._looked.at - self._answered
        if silence <= self._hanging_after or not hangs(self._answered, before, self._looked):
            return None
        return f"no answer for {silence:.0f} s"

    def _log_wrong_tokens(self) -> None:
        """Log what the guard reported since the last look."""
        lines = self._heard(0.0).splitlines() if self._pipe is not None else []
        for number, client in map(json.loads, lines):
            log.warning(
                "Chroma's port %d: %d wrong tokens, the last from %s; consider restricting access",
                self.port,
                number,
                client,
                extra=event("request_failed", client=str(client)),
            )

    def _bound_log(self) -> None:
        """Truncate a log that is too large."""
        with suppress(FileNotFoundError):
            if self.log_path.lstat().st_size > _LOG_SIZE:
                os.truncate(self.log_path, 0)

    def look(self) -> Look:
        """The time, and how much the server has worked so far."""
        return Look(time.monotonic(), processes.processor_seconds(self.pid) if self.pid else None)

    @property
    def crashed(self) -> bool:
        """Whether it ended by its own fault, not by SIGTERM or SIGKILL.

        The system also sends SIGKILL when memory is short, which says nothing about its files.
        """
        status = self._process.poll() if self._process else None
        return status is not None and status != 0 and -status not in _FROM_OUTSIDE

    def restart(self) -> None:
        """Restart it; the folder stays locked in between. Raises as ``start`` does."""
        self._end()
        if self._lock is not None and self._lock.lost:
            self.stop()
        self.start()

    def stop(self) -> None:
        """Stop it, with time to persist its memory, and unlock the folder. May be repeated."""
        self._end()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> "ChromaServer":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _bound(self) -> socket.socket:
        """The bound socket for the child. Waits a moment for the port of a server that is just ending."""
        until = time.monotonic() + _PORT_PATIENCE
        while True:
            listener = socket.socket(socket.AF_INET6 if ":" in self.host else socket.AF_INET)
            try:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind((self.host, self.port))
            except OSError as error:
                listener.close()
                nobodys = error.errno == errno.EADDRINUSE and processes.listener(self.port) is None
                if not nobodys or time.monotonic() > until:
                    raise NeedsHuman(self._no_port(error)) from error
                time.sleep(0.1)
            else:
                return listener

    def _no_port(self, error: OSError) -> str:
        if error.errno != errno.EADDRINUSE:
            return f"Chroma can't listen on {self.host}:{self.port}: {error.strerror}"
        holder = processes.listener(self.port)
        by = f" by {processes.describe(holder)}" if holder is not None else ""
        return f"port {self.port} is taken{by}: stop that program, or set chroma.port to a free one"

    def _spawn(self, listener: socket.socket) -> None:
        settings = {
            "listener": listener.fileno(), "names": self.names, "secret": self.secret, "tokens": self.tokens
        }  # fmt: skip
        self._bound_log()
        self._pipe, theirs = socket.socketpair()
        self._pipe.sendall(json.dumps(settings).encode() + b"\n")
        with theirs, open(self.log_path, "ab", opener=open_own) as output:  # appends after a truncation, too
            child = python_child(str(_CHILD), str(self.path), passed=_PASSED, variables=_QUIET)
            self._process = child.start(
                stdin=theirs.fileno(),
                stdout=output,
                stderr=output,
                pass_fds=[listener.fileno()],
                process_group=0,  # a Ctrl-C in the terminal is for the parent alone, which stops the child
            )

    def _await_ready(self) -> None:
        assert self._process is not None
        line, until = b"", time.monotonic() + _START_PATIENCE
        while time.monotonic() < until:
            if (status := self._process.poll()) is not None:
                self._bound().close()  # raises if the port is taken, the most likely reason
                full = full_disk(self.log_path.parent) or full_disk(self.path)
                said = (
                    full
                    or f"Chroma ended {_status(status)} while starting in {self.path}{self._last_error()}"
                )
                raise NeedsHuman(f"{said}; {REMEDY}") if damaged(said) else Transient(said)
            line += self._heard(_MOMENT)
            if line.endswith(b"\n") and self._answers():
                self._note_answer()
                self.level = _level(self.tokens, **json.loads(line))
                return
        raise Transient(f"Chroma did not start within {_START_PATIENCE:.0f} s; see {self.log_path}")

    def _heard(self, seconds: float) -> bytes:
        """Lines from the child, if any come within that time."""
        assert self._pipe is not None
        self._pipe.settimeout(seconds)
        try:
            heard = self._pipe.recv(4096)
        except (TimeoutError, BlockingIOError):
            return b""
        except OSError:
            heard = b""
        if not heard:
            time.sleep(seconds)  # it is ending
        return heard

    def _last_error(self) -> str:
        """The last error in its log, with the path of the log."""
        lines = self.log_path.read_text(errors="replace")[-4000:].splitlines()
        said = next((f": {line.strip()}" for line in reversed(lines) if "rror" in line), "")
        return f"{said}; see {self.log_path}"

    def _note_answer(self) -> None:
        self._looked = self.look()
        self._answered = self._looked.at

    def _answers(self) -> bool:
        host, secret = local_address(self.host), self.secret
        with closing(RestApi(host, self.port, token=secret, timeout=_ANSWER_TIMEOUT)) as api:
            return api.is_alive()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if self._lock is not None:
            self._lock.note("")
        process.terminate()
        try:
            process.wait(self._stop_patience)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None


def _level(
    tokens: Sequence[tuple[str | None, str]], port: int, without_users: str, without_namespace: str
) -> str:
    """How the port is guarded, in words. ``port``: Chroma's own, on 127.0.0.1."""
    open_to = [f"everybody may {may}" for token, may in tokens if token is None]
    who = {"token": "; ".join(open_to)} if tokens else {"this user and root only": without_users}
    exposed = f"{without_namespace}; past the guard, other users reach Chroma on port {port}"
    return describe({"host and origin checks": "", **who, "network namespace": without_namespace and exposed})


def free_port(host: str) -> int:
    """A port on which no process listens now."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port


def _status(status: int) -> str:
    if status >= 0:
        return f"with status {status}"
    return f"by {signal.Signals(-status).name}"
