"""The lock that admits a single writer and ends with the process that holds the lock.

The lock is flock(2) on the file, not the file's existence. The process id in the file is for messages only.
The descriptor is closed on exec, so a child that outlives the process does not keep the lock.
"""

import fcntl
import logging
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from ingestor.core.events import event
from ingestor.ports import NeedsHuman
from ingestor.state.files import open_own, read_own, refuse_link

log = logging.getLogger("ingestor")

T = TypeVar("T")

_PATIENCE = 0.5  # seconds; ``held`` takes the lock for a moment, in which a daemon must not fail


class Locked(NeedsHuman):
    """Another process holds the lock; the message says which, and what to do."""


class Lock:
    """A held lock. It is released by ``release``, at the end of the context or of the process."""

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor: int | None = descriptor
        self._path = path

    @property
    def held(self) -> bool:
        return self._descriptor is not None

    @property
    def lost(self) -> bool:
        """Whether the file was removed or replaced, with its folder for example."""
        try:
            return self._descriptor is None or not os.path.samestat(
                self._path.stat(), os.fstat(self._descriptor)
            )
        except FileNotFoundError:
            return True
        except OSError:  # a disk that does not answer now: unknown
            return False

    def note(self, words: str) -> None:
        """Store words in the file, after the process id, for readers of ``noted``. Replaces earlier words."""
        if self._descriptor is None:
            return
        with suppress(OSError):  # a full disk: only messages suffer
            line = f"{os.getpid()} {words}".rstrip() + "\n"
            os.ftruncate(self._descriptor, os.pwrite(self._descriptor, line.encode(), 0))

    def release(self) -> None:
        """Release the lock. May be repeated. The file stays: without it two processes could lock two
        files."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> "Lock":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def hold(path: Path) -> Lock:
    """Take the lock on ``path``, a file that is created if it does not exist; its folder must exist.

    Raises Locked if another process holds it, NeedsHuman if the file cannot be created or locked.
    """
    descriptor = _open(path, os.O_RDWR | os.O_CREAT)
    try:
        until = time.monotonic() + _PATIENCE
        while not (locked := _try(descriptor, path, fcntl.LOCK_EX)) and time.monotonic() <= until:
            time.sleep(0.05)
        if not locked:
            pid = os.pread(descriptor, 32, 0).decode(errors="replace").strip().partition(" ")[0]
            holder = f"process {pid}" if pid.isdigit() else "another process"
            raise Locked(
                f"{path.parent} is in use by {holder}: an ingestor runs already and keeps it in"
                " step (`ingestor status` shows the progress); stop that one to start another"
            )
    except BaseException:
        os.close(descriptor)
        raise
    lock = Lock(descriptor, path)
    lock.note("")
    return lock


def noted(path: Path) -> list[str]:
    """The process id of the (last) holder and the words that it noted; empty if there are none."""
    try:
        return read_own(path).split()
    except (OSError, ValueError):
        return []


def retry_until_free(take: Callable[[], T], seconds: float = 30.0) -> T:
    """The result of ``take``, repeated while it raises Locked. Raises Locked after ``seconds``."""
    until, logged = time.monotonic() + seconds, False
    while True:
        try:
            return take()
        except Locked as error:
            if time.monotonic() > until:
                raise
            if not logged:
                log.info(
                    "waiting up to %.0f s: %s", seconds, error, extra=event("waiting", reason=str(error))
                )
            logged = True
            time.sleep(0.1)


def held(path: Path) -> bool:
    """Whether a process holds the lock now. Raises NeedsHuman if the file cannot be opened or locked."""
    if not path.exists():
        return False
    descriptor = _open(path, os.O_RDONLY)
    try:
        return not _try(descriptor, path, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def _open(path: Path, flags: int) -> int:
    try:
        return open_own(path, flags)
    except OSError as error:
        refuse_link(path)
        raise NeedsHuman(
            f"cannot open the lock file {path}: {error.strerror}; check that this user may write there"
        ) from error


def _try(descriptor: int, path: Path, mode: int) -> bool:
    try:
        fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise NeedsHuman(
            f"cannot lock {path}: {error.strerror}; put it on a file system with locks (flock)"
        ) from error
    return True
