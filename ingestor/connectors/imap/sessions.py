"""A small pool of the connections of one source; idle ones are closed after a while.

A caller has a connection to itself. A sound one goes back to the pool, and is checked before its next use.
When one breaks, the idle ones are dropped too, because the cause has likely broken them as well. A failure to
connect is remembered for a few seconds. Otherwise each of thousands of due messages would wait for a
time-out, or try the wrong password.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import BoundedSemaphore, Lock, Timer
from time import monotonic
from weakref import finalize

from ingestor.connectors.imap.session import Session
from ingestor.ports import NeedsHuman, Transient

_MOST = 4  # connections; servers allow about ten for a user, and mail programs need some of them
IDLE = 20.0  # seconds
_BELIEVED = 5.0  # seconds for which a failure to connect is remembered


class ImapSessions:
    """``open_one`` raises the errors of Session."""

    def __init__(self, open_one: Callable[[], Session]) -> None:
        self._open = open_one
        self._places = BoundedSemaphore(_MOST)
        self._lock = Lock()
        self._idle: list[tuple[float, Session]] = []  # idle since, the longest first
        self._timer: Timer | None = None
        self._failed: Callable[[], Exception] | None = None  # makes the last error of connecting
        self._failed_at = 0.0
        finalize(self, _abandon, self._idle)

    @contextmanager
    def one(self, *, retry: bool = False) -> Iterator[Session]:
        """Lend a connection; wait until one is free. ``retry``: connect even if that failed a moment ago."""
        with self._places:
            session = self._take_idle() or self._make(retry)
            try:
                yield session
            finally:
                self._keep(session) if session.sound else self._drop(session)

    def _take_idle(self) -> Session | None:
        with self._lock:
            session = self._idle.pop()[1] if self._idle else None
        if session is None or session.silent():
            return session
        self._drop(session)
        return None

    def _make(self, retry: bool) -> Session:
        failed = self._failed
        if failed and not retry and monotonic() < self._failed_at + _BELIEVED:
            raise failed()
        try:
            session = self._open()
        except (NeedsHuman, Transient) as error:
            self._failed, self._failed_at = partial(type(error), str(error)), monotonic()
            raise
        self._failed = None
        return session

    def _keep(self, session: Session) -> None:
        with self._lock:
            self._idle.append((monotonic(), session))
            if self._timer is None:
                self._wait()

    def _drop(self, session: Session) -> None:
        with self._lock:
            idle, self._idle[:] = self._idle[:], []
        for each in (session, *(other for _, other in idle)):
            each.abandon()

    def _wait(self) -> None:
        self._timer = Timer(IDLE, self._close_idle)
        self._timer.daemon = True
        self._timer.start()

    def _close_idle(self) -> None:
        with self._lock:
            due = monotonic() - IDLE
            old = [session for since, session in self._idle if since <= due]
            del self._idle[: len(old)]
            self._timer = None
            if self._idle:
                self._wait()
        for session in old:
            session.close()


def _abandon(idle: list[tuple[float, Session]]) -> None:
    for _, session in idle:
        session.abandon()
