"""The connections of one source: few, used by one at a time, and closed when they were idle for a while.

Each caller has a connection to itself while it asks; what is sound afterwards is kept for the next, who looks
first whether the server has left. When one breaks, the idle ones are let go too, for what broke it has likely
broken them. When none can be made, that is believed for a few seconds: thousands of messages may be due, and
each would wait, or try the wrong password, for itself.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import BoundedSemaphore, Lock, Timer
from time import monotonic
from weakref import finalize

from ingestor.connectors.imap.session import Session
from ingestor.ports import NeedsHuman, Transient

_MOST = 4  # at a time; servers allow some ten to a user, and people's own programs need theirs
IDLE = 20.0  # seconds
_BELIEVED = 5.0  # seconds


class Sessions:
    """``open_one`` raises what a Session does."""

    def __init__(self, open_one: Callable[[], Session]) -> None:
        self._open = open_one
        self._places = BoundedSemaphore(_MOST)
        self._lock = Lock()
        self._idle: list[tuple[float, Session]] = []  # since when; the longest first
        self._timer: Timer | None = None
        self._failed: Callable[[], Exception] | None = None  # why none could be made
        self._failed_at = 0.0
        finalize(self, _abandon, self._idle)

    @contextmanager
    def one(self, *, anew: bool = False) -> Iterator[Session]:
        """Waits while as many as may be are in use. ``anew``: whatever became of the last attempt."""
        with self._places:
            session = self._kept() or self._made(anew)
            try:
                yield session
            finally:
                self._keep(session) if session.sound else self._drop(session)

    def _kept(self) -> Session | None:
        with self._lock:
            session = self._idle.pop()[1] if self._idle else None
        if session is None or session.silent():
            return session
        self._drop(session)
        return None

    def _made(self, anew: bool) -> Session:
        failed = self._failed
        if failed and not anew and monotonic() < self._failed_at + _BELIEVED:
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
