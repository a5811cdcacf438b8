"""Our own Chroma server, which this process starts, supervises and stops.

The port is opened here and passed to the child process, which runs the guard and Chroma (chroma/child.py).
The server is ready when the child reports so and the server answers. An answer alone could come from another
Chroma.
"""

import errno
import json
import logging
import os
import resource
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from ingestor.chroma import processes
from ingestor.chroma.client import Client, Full, Unanswered
from ingestor.chroma.folder import DATABASE, REMEDY, ROOM, claim, is_damage, orphans, sweep
from ingestor.chroma.supervision import Observation, Supervision
from ingestor.config.servers import local_address
from ingestor.confinement.python_child import processor_seconds, python_child
from ingestor.confinement.walls import describe
from ingestor.core.entries import ChromaName
from ingestor.core.events import event
from ingestor.ports import Gone, NeedsHuman, Torn, Transient
from ingestor.state.files import Lock, full_disk, has_room, open_own
from ingestor.units import quantity

log = logging.getLogger("ingestor")

_CHILD = Path(__file__).with_name("child.py")
_START_PATIENCE = 60.0  # seconds for one start, which takes 0.3 on an idle machine and longer after a crash
_MOMENT = 0.02  # seconds between two checks of a starting server
_ANSWER_TIMEOUT = 5.0  # seconds for a heartbeat
STOP_PATIENCE = 30.0  # seconds from SIGTERM to SIGKILL
_END_PATIENCE = 2.0  # seconds in which a process that does not answer may prove to have ended
_FROM_OUTSIDE = {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}
_PASSED = frozenset({"MALLOC_ARENA_MAX", "RUST_BACKTRACE", "TOKIO_WORKER_THREADS"})
_THREADS = "RAYON_NUM_THREADS"  # threads that change Chroma's graph
_QUIET = {"RUST_LOG": "warn", "NO_COLOR": "1", "ANONYMIZED_TELEMETRY": "False"}
LOCAL = "127.0.0.1"
PATIENCE = 60.0  # seconds that a request may take
OBSERVE_EVERY = 5.0  # seconds between two observations of the server
STARTS, START_PATIENCE = 5, 30.0  # attempts to start; seconds after which no further attempt is made
SMALL_TIMEOUT = 15.0  # seconds to answer a small request, after another request timed out
UNUSABLE = (Transient, Gone, Torn, NeedsHuman)  # answers of Chroma about a collection that it cannot use
_SMALL_FILE = 2**28  # bytes; smaller sound files count as this large for the limit of file sizes
_GROWTH = 4  # how many times as large as the largest sound file a file of Chroma may become
_SWEEP_EVERY = 3600.0  # seconds; what Chroma still does with a deleted collection takes less
_LOG_SIZE = 10_000_000  # bytes, beyond which the log is truncated


class ChromaServer:
    """A Chroma server on the data in ``path``, behind the guard, in a child process that holds the folder's
    lock."""

    def __init__(
        self,
        path: Path,
        host: str,
        port: int,
        log_path: Path,
        *,
        tokens: Sequence[tuple[str | None, str]] = (),
        names: Sequence[str] = (),
    ) -> None:
        """Describe a server, without starting it.

        ``port``: 0 to use any free port, chosen at the first start. ``tokens``: see guard_rules.py.
        ``names``: names by which clients may address this machine, besides localhost and ``host``.
        """
        self.path, self.host, self.port, self.log_path = path.absolute(), host, port, log_path
        self.tokens, self.names = tuple(tokens), [host, *names]
        self.secret = secrets.token_hex(32)  # in our own requests: nobody else may change anything
        self.level = ""  # how the port is guarded, in words; "" before the first start
        self.supervision = Supervision()
        self._observed, self._complaint = time.monotonic(), ""
        self._swept, self._orphans = time.monotonic(), set[Path]()
        self._lock: Lock | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: socket.socket | None = None  # the child ends when this socket closes

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start the server, and return once it answers.

        Raises NeedsHuman if the folder or the port cannot be used, and Transient if the server does not
        start.
        """
        try:
            if self._lock is None:
                self._lock = claim(self.path)
            with self._bind() as listener:
                self._spawn(listener)
            self._await_ready()
            # Other commands find the server by the lock file (queries/access.py).
            self._lock.note(f"{self.host} {self.port} {self.secret}")
        except BaseException:
            self.stop()
            raise

    def poll(self) -> str | None:
        """Examine the server, and log wrong tokens that clients sent.

        Return why it needs a restart, or None.
        """
        self._truncate_log()
        self._limit_file_sizes()
        self._sweep()
        for number, client in map(json.loads, self._heard(0.0).splitlines() if self._pipe else ()):
            log.warning(
                "Chroma's port %d refused %s with a wrong token, the last from %s; restrict access to it",
                self.port,
                quantity(number, "request"),
                client,
                extra=event("request_failed", client=str(client)),
            )
        return self.supervision.judge(self._examine())

    def _examine(self) -> Observation:
        """Return an observation of the server, which includes a heartbeat."""
        fault, answers = "", False
        if self._lock is not None and self._lock.is_lost:
            fault = f"the folder {self.path} was removed, moved or replaced"
        elif self._process is not None and not (answers := self._process.poll() is None and self._answers()):
            # a dying process closes its sockets before it has ended
            with suppress(subprocess.TimeoutExpired):
                fault = f"it ended {_status(self._process.wait(_END_PATIENCE))}"
        return self.observe(answers=answers, fault=fault)

    def observe(self, *, answers: bool = False, fault: str = "") -> Observation:
        """Return an observation of the server without a heartbeat.

        ``answers``: whether the server has just answered a request. ``fault``: a reason to restart it, or "".
        """
        spent = processor_seconds(self.pid) if self.pid else None
        return Observation(time.monotonic(), spent, answers, fault)

    def _truncate_log(self) -> None:
        """Truncate the file of Chroma's log if it is too large."""
        with suppress(FileNotFoundError):
            if self.log_path.lstat().st_size > _LOG_SIZE:
                os.truncate(self.log_path, 0)

    def _sweep(self) -> None:
        """Delete folders that deleted collections left behind, if they were there an hour ago, too.

        A daemon that rebuilds collections would otherwise fill the disk.
        """
        if time.monotonic() - self._swept >= _SWEEP_EVERY:
            self._swept = time.monotonic()
            with suppress(NeedsHuman, OSError):  # the next attempt follows
                now = set(orphans(self.path))
                sweep(now & self._orphans)
                self._orphans = now

    def _limit_file_sizes(self) -> None:
        """Limit the size of each file that Chroma writes, in proportion to its largest sound file.

        After Chroma 1.5.9 loaded a truncated ``link_lists.bin``, a write enlarges that file until the disk is
        full. At the limit Chroma crashes, and its collection is rebuilt (decision 0201). Systems other than
        Linux have no limit.
        """
        if self._process is None or self._process.poll() is not None:
            return
        with suppress(AttributeError, OSError):
            sound = (self.path / DATABASE, *self.path.glob("*/data_level0.bin"))
            sizes = (file.stat().st_size for file in sound if file.exists())
            limit = _GROWTH * max([_SMALL_FILE, *sizes])
            _, most = resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE)
            soft = limit if most == resource.RLIM_INFINITY else min(limit, most)
            resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE, (soft, most))

    @property
    def has_crashed(self) -> bool:
        """Return whether the child process ended by its own fault.

        A signal of another process does not count. The system sends SIGKILL when memory is short, which says
        nothing about Chroma's files.
        """
        status = self._process.poll() if self._process else None
        return status is not None and status != 0 and -status not in _FROM_OUTSIDE

    def restart(self) -> None:
        """Restart the server. The folder stays locked meanwhile. Raises the errors of ``start``."""
        self._end()
        if self._lock is not None and self._lock.is_lost:
            self.stop()
        self.start()

    def stop(self) -> None:
        """Stop the server, with time to write its memory to disk, and unlock the folder.

        Further calls do nothing.
        """
        self._end()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> "ChromaServer":
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _bind(self) -> socket.socket:
        """Return a socket that is bound to the port, to be passed to the child.

        Raises NeedsHuman if the port is in use or not allowed.
        """
        listener = socket.socket(socket.AF_INET6 if ":" in self.host else socket.AF_INET)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((self.host, self.port))
        except OSError as error:
            listener.close()
            if error.errno != errno.EADDRINUSE:
                raise NeedsHuman(
                    f"Chroma can't listen on {self.host}:{self.port}: {error.strerror}; "
                    "correct `chroma.host` or `chroma.port`"
                ) from error
            holder = processes.listener(self.port)
            by = f" by {processes.describe(holder)}" if holder is not None else ""
            raise NeedsHuman(
                f"port {self.port} is taken{by}: stop that program, or set `chroma.port` to a free port"
            ) from error
        self.port = listener.getsockname()[1]  # clients keep this port over restarts
        return listener

    def _spawn(self, listener: socket.socket) -> None:
        """Start the child process.

        It reads its settings from a socket that is closed when this process ends.
        """
        settings = {
            "listener": listener.fileno(), "names": self.names, "secret": self.secret, "tokens": self.tokens
        }  # fmt: skip
        self._truncate_log()
        self._pipe, theirs = socket.socketpair()
        self._pipe.sendall(json.dumps(settings).encode() + b"\n")
        with theirs, open(self.log_path, "ab", opener=open_own) as output:  # appends after a truncation, too
            # with several threads, Chroma 1.5.9 loses more records in its graph (decision 0200)
            variables = {**_QUIET, _THREADS: os.environ.get(_THREADS, "1")}
            child = python_child(str(_CHILD), str(self.path), passed=_PASSED, variables=variables)
            self._process = child.start(
                stdin=theirs.fileno(),
                stdout=output,
                stderr=output,
                pass_fds=[listener.fileno()],
                process_group=0,  # a Ctrl-C in the terminal is for the parent alone, which stops the child
            )
        self._limit_file_sizes()

    def _await_ready(self) -> None:
        """Wait until the child reports that it is ready, and the server answers.

        Raises NeedsHuman or Transient.
        """
        assert self._process is not None
        answer, until = b"", time.monotonic() + _START_PATIENCE
        while time.monotonic() < until:
            if (status := self._process.poll()) is not None:
                self._bind().close()  # raises if another process took the port, the most likely reason
                if full := full_disk(self.log_path.parent) or full_disk(self.path):
                    raise Transient(full)
                lines = self.log_path.read_text(errors="replace")[-4000:].splitlines()
                last = next((f": {line.strip()}" for line in reversed(lines) if "rror" in line), "")
                reason = f"Chroma ended {_status(status)} while starting in {self.path}{last}"
                reason = f"{reason}; see its log {self.log_path}"
                raise NeedsHuman(f"{reason}; {REMEDY}") if is_damage(reason) else Transient(reason)
            answer += self._heard(_MOMENT)
            if answer.endswith(b"\n") and self._answers():
                self.supervision.ready(self.observe(answers=True))
                self.level = _level(self.tokens, **json.loads(answer))
                return
        raise Transient(f"Chroma did not start within {_START_PATIENCE:.0f} s; see its log {self.log_path}")

    def _heard(self, seconds: float) -> bytes:
        """Return the bytes that the child sends within ``seconds``; b"" if it sends none."""
        assert self._pipe is not None
        self._pipe.settimeout(seconds)
        try:
            heard = self._pipe.recv(4096)
        except (TimeoutError, BlockingIOError):
            return b""
        except OSError:
            heard = b""
        if not heard:
            time.sleep(seconds)  # the child is ending: the caller's loop must not spin
        return heard

    def _answers(self) -> bool:
        with self.connect(_ANSWER_TIMEOUT) as client:
            return client.is_alive()

    def connect(self, timeout: float = PATIENCE) -> Client:
        """Return a client of this server that has all rights.

        ``timeout``: seconds that a request may take.
        """
        host = local_address(self.host)
        return Client(host, self.port, token=self.secret, timeout=timeout, folder=self.path)

    def _end(self) -> None:
        self.supervision.why = "not started"
        process, self._process = self._process, None
        if process is None:
            return
        if self._lock is not None:
            self._lock.note("")
        process.terminate()
        try:
            process.wait(STOP_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None

    # --- supervision: restarts by the judgement of ``Supervision`` ---

    def start_patiently(self) -> None:
        """Start the server, with several attempts. Raises the error of the last attempt."""
        until = time.monotonic() + START_PATIENCE
        for _ in range(STARTS - 1):
            try:
                return self.start()
            except Transient as error:
                if time.monotonic() > until:
                    raise
                _log_down(error, logging.WARNING)
        return self.start()

    def tick(self) -> None:
        """Restart the server if it died or hangs.

        Called often, but the server is examined only every OBSERVE_EVERY seconds.
        """
        if time.monotonic() - self._observed >= OBSERVE_EVERY:
            self._observed = time.monotonic()
            self.revive()

    def revive(self) -> str | None:
        """Examine the server, and restart it if it died or hangs. Return the reason, or None."""
        reason = self.poll()
        if reason is not None:
            self._revive(reason)
        return reason

    def trouble(self, name: ChromaName, error: Exception) -> None:
        """Examine the server after a failed request, and restart it if it died, met a full disk, or hangs.

        Chroma 1.5.9 crashes whenever it loads certain damaged files. After a full disk it soon answers only
        heartbeats until a restart, even if there is space again. ``name``: the collection of the request.
        ``error``: the request's error.
        """
        reason = self.poll()
        if reason is not None and self.has_crashed:
            self.supervision.deaths[name] += 1
        if reason is None and isinstance(error, Full):
            reason = "the database is not writable" if has_room(self.path, ROOM) else "the disk was full"
        if reason is None and isinstance(error, Unanswered):
            before = self.observe()
            if self._counts(name):
                self.supervision.silences.pop(name, None)
            elif (reason := self.supervision.note_silence(name, before, self.observe())) is None:
                log.info(
                    "Chroma is busy with collection %s: waiting longer for an answer",
                    name,
                    extra=event("chroma_slow", collection=str(name)),
                )
        if reason is not None:
            self._revive(reason)

    def _counts(self, name: ChromaName) -> bool:
        """Return whether the server counts a collection in time. An answer with an error counts, too."""
        with self.connect(SMALL_TIMEOUT) as client, suppress(*UNUSABLE):
            try:
                client.count(client.get_collection(name).id)
            except Unanswered:
                return False
        return True

    def test(self, name: ChromaName, use: Callable[[Client], None]) -> None:
        """Test whether a collection crashes Chroma. If so, add it to ``supervision.fatal``.

        Our server is stopped, and another one is started that gets no other requests, so that none of them
        can be the cause. ``use``: reads the collection and writes one of its records again. Raises Torn if
        Chroma reports damage.
        """
        self.supervision.deaths[name] = 0
        self.stop()
        alone = ChromaServer(self.path, LOCAL, 0, self.log_path)
        try:
            with alone, alone.connect() as client:
                try:
                    use(client)
                except Transient:
                    if alone.poll() is not None and alone.has_crashed:
                        self.supervision.fatal.add(name)
        finally:
            self._revive(f"stopped to test whether collection {name} crashes the server")

    def _revive(self, reason: str) -> None:
        """Restart the server, and log the reason once. If that fails, the next ``tick`` retries."""
        if not self._complaint:
            log.error("restarting Chroma: %s", reason, extra=event("chroma_restarted", reason=reason))
        try:
            self.restart()
        except (Transient, NeedsHuman, OSError) as error:
            if self._complaint != str(error):
                _log_down(error, logging.ERROR)
            self._complaint = str(error)
            return
        log.info("Chroma is up again", extra=event("chroma_up"))
        self._complaint = ""


def _log_down(error: Exception, level: int) -> None:
    down = event("chroma_down", reason=str(error))
    log.log(level, "Chroma did not start, will retry: %s", error, extra=down)


def _level(
    tokens: Sequence[tuple[str | None, str]], port: int, without_users: str, without_namespace: str
) -> str:
    """Describe in words how the port is guarded, and which protection is missing.

    ``port``: Chroma's port behind the guard. ``without_users``: why the guard cannot tell which user opened a
    connection. ``without_namespace``: why Chroma's port cannot be hidden. Both are "" if nothing is missing.
    """
    open_to = [f"everybody may {may}" for token, may in tokens if token is None]
    who = {"token": "; ".join(open_to)} if tokens else {"this user and root only": without_users}
    exposed = f"{without_namespace}; past the guard, other users reach Chroma on port {port}"
    return describe({"host and origin checks": "", **who, "network namespace": without_namespace and exposed})


def _status(status: int) -> str:
    """Describe in words how a process ended. ``status``: its exit status; negative for a signal."""
    if status >= 0:
        return f"with status {status}"
    return f"by {signal.Signals(-status).name}"
