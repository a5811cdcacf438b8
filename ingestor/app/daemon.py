"""The loop around the engine. `sync` runs it until all documents are up to date, `run` until a signal.

``Signals`` receives requests to stop or to reload, ``Reloader`` notices a changed config file, and ``Loop``
steps the engine and reports the progress.
"""

import ctypes
import logging
import os
import signal
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from types import FrameType

from ingestor.app.wiring import Running
from ingestor.config.file import load
from ingestor.config.models import Config, ConfigError
from ingestor.core.decisions import NEVER
from ingestor.core.errors import LONGEST as LONGEST_WAIT
from ingestor.core.errors import describe
from ingestor.core.events import event
from ingestor.lexical.file import LexicalReaders
from ingestor.ports import NeedsHuman, Stop
from ingestor.service.daemon_view import DaemonView
from ingestor.state import run_status
from ingestor.state.files import lexical_path, lock_path
from ingestor.state.journal import JournalReader
from ingestor.state.reports import measure_unsettled, note_refused
from ingestor.state.run_status import Live, Meter, SyncProgress, keys_needing_restart

log = logging.getLogger("ingestor")

IMPATIENCE = 1.0  # seconds after which a second Ctrl-C interrupts running work


class Signals:
    """Requests to stop the program or to reload its config, made by signals.

    ``until``: an event that is also a request to stop. ``terminals``: the standard streams that are a
    terminal, if the process started with a controlling terminal.
    """

    def __init__(self, until: Stop | None = None) -> None:
        self.reload = False
        self._until, self._stop, self._stopped_at = until, False, 0.0  # monotonic seconds
        own = _has_terminal()
        self.terminals = tuple(stream for stream in (0, 1, 2) if own and os.isatty(stream))

    @property
    def stop(self) -> bool:
        return self._stop or (self._until is not None and self._until.is_set())

    @stop.setter
    def stop(self, wanted: bool) -> None:
        self._stop = wanted

    @contextmanager
    def handle(self) -> Iterator[None]:
        """Install signal handlers until the context ends.

        SIGTERM and SIGINT (Ctrl-C) request a stop; a second SIGINT interrupts running work. SIGHUP requests a
        stop if the terminal was closed, else a reload of the config. If SIGHUP was ignored before, as after
        ``nohup``, it stays ignored.
        """
        handlers = {signal.SIGTERM: self._end, signal.SIGINT: self._end, signal.SIGHUP: self._hang_up}
        if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
            del handlers[signal.SIGHUP]
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _end(self, number: int, frame: FrameType | None) -> None:
        """Request a stop. A second SIGINT interrupts running work.

        If it follows the first at once, it is ignored: a supervisor may send the signal twice.
        """
        if self.stop and number == signal.SIGINT and monotonic() - self._stopped_at > IMPATIENCE:
            raise KeyboardInterrupt
        if not self.stop:
            self.stop, self._stopped_at = True, monotonic()

    def _hang_up(self, number: int, frame: FrameType | None) -> None:
        """Request a stop if the terminal was closed, else a reload of the config."""
        if self.terminals and not _has_terminal():
            nowhere = os.open(os.devnull, os.O_RDWR)
            for stream in self.terminals:  # writing to a closed terminal would raise an error
                os.dup2(nowhere, stream)
            os.close(nowhere)
            self.stop = True
        else:
            self.reload = True


def _has_terminal() -> bool:
    """Return whether the process has a controlling terminal.

    The kernel takes it away before it sends SIGHUP.
    """
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


_AT_NEXT_START = {"log": "log", "cache.size": "cache_size"}  # keys of the file, and attributes of Config
# Seconds without a write before the file is read: half a config can be valid, with fewer sources.
SETTLE = 1.0


@dataclass(slots=True)
class ConfigState:
    """The difference between the config file and the config in force.

    ``refused``: the error of a changed file, or "". ``restart_pending``: whether the file has changes that
    take effect at a restart only.
    """

    refused: str = ""
    restart_pending: bool = False

    def refuse(self, error: Exception) -> None:
        """Log why a changed config is not applied, with a traceback only if the error is unexpected."""
        self.refused = str(error)
        has_lines = isinstance(error, ConfigError)  # one for each mistake in the file
        words = "changed config rejected, the previous config stays in force:%s%s"
        trace = None if has_lines or isinstance(error, NeedsHuman) else error
        about = event("config_refused", reason=self.refused)
        log.error(words, "\n" if has_lines else " ", error, exc_info=trace, extra=about)


class Reloader:
    """Loads a config file, and reloads it when it was changed. If it then has errors, it is refused, and the
    old config stays in force.

    Call ``next_config`` regularly. ``asked``: the requests of signals, such as to reload. ``config``: the
    config that was loaded last. The constructor raises ConfigError.
    """

    def __init__(self, path: Path, env: Mapping[str, str], asked: Signals) -> None:
        self._path, self._env, self._asked = path, env, asked
        self._seen = self._last = _stamp(path)  # before the file is read
        self._since, self.config, self.state = monotonic(), load(path, env), ConfigState()

    def next_config(self) -> Config | None:
        """Return the new config if the file changed and can be applied without a restart, else None."""
        now = _stamp(self._path)
        if now != self._last:
            self._last, self._since = now, monotonic()
        ripe = now != self._seen and monotonic() - self._since >= SETTLE
        if not (ripe or self._asked.reload):
            return None
        self._seen, self._asked.reload = now, False
        try:
            config = load(self._path, self._env)
        except ConfigError as error:
            self.state.refuse(error)
            return None
        self.state.refused = ""
        fixed = keys_needing_restart(self.config, config)
        self.state.restart_pending = bool(fixed)
        if fixed:
            words = "config not reloaded, restart ingestor to apply the change of: %s"
            log.error(words, ", ".join(fixed), extra=event("config_restart_needed", keys=fixed))
            return None
        late = [
            name for name, key in _AT_NEXT_START.items() if getattr(self.config, key) != getattr(config, key)
        ]
        restart = f"; restart to apply {' and '.join(late)}" if late else ""
        log.info("config reloaded%s", restart, extra=event("config_reloaded"))
        self.config = config
        return config


def _stamp(path: Path) -> tuple[int, int] | None:
    """Return a stamp of a file, its modification time and inode; None if there is no file.

    It differs after the file was changed or removed, or a symlink to it was redirected.
    """
    try:
        info = path.stat()
    except OSError:
        return None
    return info.st_mtime_ns, info.st_ino


def return_freed_memory() -> None:
    """Give freed memory back to the system. Otherwise glibc keeps it for later work of its threads."""
    with suppress(AttributeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)


TICK = 1.0  # seconds after which a signal or a changed config is noticed at the latest
ENOUGH = 5000  # embedded tokens that are enough to measure the rate
PUT_BACK = 5.0  # seconds by which the clock may be put back before waiting retries are rescheduled
PATIENCE = 30.0  # seconds for which `sync` retries failures without progress


@dataclass
class Loop:
    """Steps the engine and reports its progress.

    ``watcher``: called with the progress about once a second, if not None.
    """

    running: Running
    signals: Signals
    watcher: Callable[[SyncProgress], None] | None = None
    shown: Live = field(default_factory=Live)  # the state that was published last
    started: float = field(init=False)  # POSIX seconds
    stepped_at: float = field(init=False)  # seconds by ``ticks`` at the begin of the last step
    progress: SyncProgress = field(default_factory=SyncProgress)  # since work began after the last rest
    config_state: ConfigState = field(default_factory=ConfigState)
    _now: float = 0.0  # POSIX seconds at the last step
    _unsettled: tuple[int, int] = (0, 0)  # documents that are not settled, and their bytes, at the last count
    _count_after: float = 0.0  # seconds by ``ticks`` before which they are not counted again
    _state_error: str = ""  # error of the state folder that was logged last
    _outdated: bool = False  # whether the engine must be configured again
    _next: Running | None = None  # under a changed config, until that is in force
    _watch: bool = False  # whether connectors report changes
    _restarts: int = 0  # of Chroma, when its collections were examined last
    _meter: Meter = field(default_factory=Meter)

    def __post_init__(self) -> None:
        self.started, self.stepped_at = self.now(), self.running.ports.ticks()

    def now(self) -> float:
        """Return the present time in POSIX seconds."""
        return self.running.ports.clock()

    def sync(self, patience: float | None = None) -> None:
        """Run until every document is up to date or quarantined.

        Failures are retried. The call also ends if nothing has succeeded for ``patience`` seconds (default:
        PATIENCE).
        """
        running, patience = self.running, PATIENCE if patience is None else patience
        engine = running.engine
        self._configure()
        engine.journal.hasten()
        done, deadline = None, NEVER
        while not self.signals.stop:
            stepped = self._step()
            texts = running.embedding.counts().texts
            before, done = done, (dict(engine.writer.counts.tally()), texts, running.answers.calls)
            deadline = deadline if done == before else NEVER  # anything that succeeded is progress
            at_work = running.lexical.due() or running.swaps.emptying
            if stepped and (at_work or not (engine.is_resting() or engine.health.editions_paused())):
                continue
            deadline = min(deadline, self.now() + patience)
            if self.now() >= deadline or (stepped and engine.wake_at(routine=False) > deadline):
                break
        engine.flush()
        self._remember_rate()
        self._publish()

    def go_without_service(self, reason: str) -> None:
        """Continue without the service port, which could not be opened. Call this before ``run``.

        Collections then name an embedding function that runs in the readers' own processes, if the model has
        one. ``reason``: why the port could not be opened, shown by `status`.
        """
        self.running = replace(self.running, parts=replace(self.running.parts, no_service=reason))

    def run(self, reloaded: Callable[[], Config | None], settled: Callable[[], None]) -> None:
        """Run until a request to stop.

        ``reloaded``: returns a new config if there is one, else None. ``settled``: called once, when there is
        nothing left to do for the first time.
        """
        engine, rested, self._watch = self.running.engine, False, True
        engine.journal.wait_until(self.now() + LONGEST_WAIT)
        self._configure()
        while not self.signals.stop:
            stepped = self._step()
            if stepped and not rested and engine.is_resting() and not engine.health.is_retrying():
                with suppress(sqlite3.OperationalError, OSError):  # a full disk: the next round tries again
                    self._remember_rate()
                    self._publish()  # before ``settled``, whose receiver has then seen the last progress
                    rested = True
                if rested:
                    settled()
            if (config := reloaded()) is not None:
                self._change_config(config)
        engine.flush()
        self._remember_rate()

    def _change_config(self, config: Config) -> None:
        """Prepare the change to another config, which the next step applies.

        After an error the old config stays in force.
        """
        try:
            self._next, self._outdated = self.running.with_config(config), True
        except Exception as error:  # noqa: BLE001 - of plugins, too
            self.config_state.refuse(error)

    def _configure(self) -> None:
        """Configure the engine by the changed config, and put that in force, or else by the config in force.

        If the plugins of the changed config fail, the other stays in force. After sqlite3.Error the next step
        tries again.
        """
        try:
            (self._next or self.running).configure(watch=self._watch)
        except sqlite3.Error:
            raise
        except Exception as error:
            if self._next is None:
                raise
            self.config_state.refuse(error)
            self._next = None
            self.running.configure(watch=self._watch)
        if self._next is not None:
            self.running, self._next = self._next, None
            run_status.keep_config(self.running.parts.config, self.now())
        self._outdated = False

    def view(self, journal: JournalReader) -> DaemonView:
        """Return the functions by which the service port reads the daemon's figures.

        Other threads call them.
        """
        config = self.running.parts.config
        folders = {"state": config.state, "chroma": getattr(config.chroma, "path", None)}
        return DaemonView(
            journal=journal,
            embeddings=self.running.embedding,
            live=lambda: self.shown,
            stretch=lambda: self.progress,
            idle=lambda: self.running.ports.ticks() - self.stepped_at,
            intervals=lambda: {
                str(source.name): source.scan_every for source in self.running.parts.config.sources
            },
            chroma=self.running.collections.connection,
            collection=self.running.collections.for_readers,
            lexical=LexicalReaders(lexical_path(config)),
            count_tokens=self.running.parts.tokens.counts,
            counts=self.running.engine.writer.counts,
            stages=self.running.parts.times.seconds,
            folders={name: folder for name, folder in folders.items() if folder is not None},
            reranker=lambda: self.running.parts.reranker,
            checks=lambda: run_status.read_checks(self.running.parts.config.state),
        )

    def live(self) -> Live:
        """Return the present state, for other processes and for the screen."""
        engine, embedded = self.running.engine, self.running.embedding.counts()
        connection = self.running.collections.connection
        entries = [document.entry for document in engine.flight.documents()]
        self._count_unsettled()
        return Live(
            started=self.started,
            at=self.now(),
            pid=os.getpid(),
            in_flight=dict(Counter(str(entry.source) for entry in entries)),
            waiting=self._unsettled[0],
            bytes_waiting=self._unsettled[1],
            bytes_in_flight=sum(entry.size for entry in entries),
            tally=dict(engine.writer.counts.tally()),
            texts=embedded.texts,
            texts_left=embedded.waiting,
            loading=embedded.loading,
            tokens=embedded.tokens,
            embedding_seconds=embedded.seconds,
            embedding_cost=self.running.cost_of_embedding,
            chroma=connection.address,
            listing={str(name): replace(one) for name, one in engine.scanner.under_way().items()},
            no_service=self.running.parts.no_service,
            config_error=self.config_state.refused,
            restart_pending=self.config_state.restart_pending,
            state_error=self._state_error,
            unwritable=engine.health.unwritable(),
            guard=connection.server.level if connection.server else "",
            isolation=self.running.parts.isolation.level,
        )

    def _count_unsettled(self) -> None:
        """Count the documents that are not up to date.

        While documents are in flight, the last count is kept for a while. Counting a long backlog is slow: it
        takes at most a twentieth of the time.
        """
        begun = self.running.ports.ticks()
        if begun >= self._count_after or not self.running.engine.flight.rows():
            self._unsettled = measure_unsettled(self.running.engine.journal)
            self._count_after = begun + 20 * (self.running.ports.ticks() - begun)

    def _remember_rate(self) -> None:
        """Store how many tokens a second were embedded, if there were enough.

        `plan` estimates times by this rate.
        """
        embedded = self.running.embedding.counts()
        if embedded.tokens >= ENOUGH:
            rate = embedded.tokens / max(embedded.seconds, 1e-6)
            self.running.engine.journal.set("tokens_per_second", f"{rate:.1f}")

    def _step(self) -> bool:
        """Run one step of the engine, of the lexical index and of the switch of editions.

        Return False after an error of the disk or the journal. The next step retries.
        """
        running, self.stepped_at = self.running, self.running.ports.ticks()
        engine, lexical, folder = running.engine, running.lexical, running.parts.config.state
        try:
            self._check_clock()
            running.collections.connection.tick()
            if running.collections.connection.restarts != self._restarts:  # it may have lost writes
                self._restarts = running.collections.connection.restarts
                engine.check_editions()
            at_work = lexical.due() or running.swaps.emptying
            engine.step(0.0 if at_work else max(0.0, min(TICK, engine.wake_at() - self.now())))
            lexical.work()
            settings = running.parts.config.rechunk
            self._outdated |= running.swaps.advance(
                settings, engine.scanner.has_listed, engine.flight.editions()
            )
            if self._outdated:
                self._configure()
            if self.now() - self.shown.at >= TICK:
                self._require_state()
                self._publish()
        except (sqlite3.OperationalError, OSError) as error:
            if (reason := describe(error)) != self._state_error:  # not again at every retry
                self._state_error, about = reason, event("state_unwritable", reason=reason)
                words = "state folder %s cannot be written; indexing pauses and is retried: %s"
                log.error(words, folder, reason, extra=about)
            self.shown = replace(self.shown, state_error=self._state_error)
            self.running.ports.sleep(TICK)
            return False
        if self._state_error:
            words = "state folder %s can be written again: work resumes"
            log.info(words, folder, extra=event("state_writable"))
            self._state_error = ""
        return True

    def _check_clock(self) -> None:
        """Retry all waiting work now if the clock was put back: its times were set by a wrong clock."""
        before, self._now = self._now, self.now()
        if self._now > before - PUT_BACK:
            return
        about = event("clock_put_back", seconds=round(before - self._now))
        words = "the clock went back by %.0f s: waiting retries run now"
        log.warning(words, before - self._now, extra=about)
        self.shown = replace(self.shown, at=0.0)
        self.running.engine.scanner.retry_now()
        self.running.engine.health.retry_now()
        self.running.engine.journal.wait_until(self._now + LONGEST_WAIT)

    def _require_state(self) -> None:
        """Raise NeedsHuman if the state folder was removed: writes to its files, which are still open, would
        be lost."""
        lock = lock_path(self.running.parts.config)
        if not lock.exists():
            raise NeedsHuman(
                f"{lock.parent} was removed, moved or unmounted while ingestor ran: put it back, then "
                "restart ingestor; if it is lost, move Chroma's folder away, too: a restart then indexes "
                "everything"
            )

    def _publish(self) -> None:
        """Write the progress to the state folder, and pass it to ``watcher``, if it changed."""
        before, now = self.shown, self.live()
        changed = replace(before, at=now.at, embedding_seconds=now.embedding_seconds) != now
        if changed:
            run_status.write_live(self.running.parts.config.state, now)
        self.progress = self._meter.measure(now)  # after a failed write, the next call measures the same work
        # a listing has progress of its own long before its first document
        if self.watcher is not None and (changed or now.listing):
            self.watcher(self.progress)
        if now.config_error and now.config_error != before.config_error:
            with suppress(sqlite3.Error):  # the error is in the log as well
                note_refused(self.running.engine.journal, now.config_error)
        if before.waiting and not now.waiting:
            return_freed_memory()
        self.shown = now  # last, so that a failed write is repeated
