"""One writer: a lock that lives exactly as long as the process that holds it.

The lock is flock's, never the file's existence or the PID in it, which only tells people whom to ask. The
descriptor is closed on exec, so a child that outlives us does not keep the lock.
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

from ingestor.ports import NeedsHuman

log = logging.getLogger("ingestor")

T = TypeVar("T")

_PATIENCE = 0.5  # seconds; ``held`` takes the lock for an instant, which must not refuse a daemon


class Locked(NeedsHuman):
    """Another process has it."""


class Lock:
    """A held lock; leaving the context, ``release`` or the end of the process gives it back."""

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor: int | None = descriptor
        self._path = path

    @property
    def held(self) -> bool:
        return self._descriptor is not None

    @property
    def lost(self) -> bool:
        """The file is not there any more, or another one is: its folder was removed, moved or replaced."""
        try:
            return self._descriptor is None or not os.path.samestat(
                self._path.stat(), os.fstat(self._descriptor)
            )
        except FileNotFoundError:
            return True
        except OSError:  # a disk that does not answer just now: nobody knows
            return False

    def note(self, words: str) -> None:
        """Say it beside our process id to whoever reads ``noted``, in place of what was said before."""
        if self._descriptor is None:
            return
        with suppress(OSError):  # a full disk: people are not told whom to ask, and that is all
            said = f"{os.getpid()} {words}".rstrip() + "\n"
            os.ftruncate(self._descriptor, os.pwrite(self._descriptor, said.encode(), 0))

    def release(self) -> None:
        """Harmless when repeated. The file stays: removing it would let two processes lock two files."""
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
    """Take the lock on ``path``, a file that is made if need be in a folder that exists.

    Raises Locked when another process holds it, NeedsHuman when the file can't be made or locked.
    """
    descriptor = _open(path, os.O_RDWR | os.O_CREAT)
    try:
        if not _locked(descriptor, path):
            raise Locked(
                f"{path} is locked by {_holder(descriptor)}: another ingestor works there; stop it first"
            )
    except BaseException:
        os.close(descriptor)
        raise
    lock = Lock(descriptor, path)
    lock.note("")
    return lock


def noted(path: Path) -> list[str]:
    """The process id of who holds the lock, or held it last, and the words that it noted."""
    try:
        return path.read_text(errors="replace").split()
    except OSError:
        return []


def retry_until_free(take: Callable[[], T], seconds: float = 30.0) -> T:
    """What ``take`` returns, once nobody has what it needs; raises Locked after ``seconds``."""
    until, said = time.monotonic() + seconds, False
    while True:
        try:
            return take()
        except Locked as error:
            if time.monotonic() > until:
                raise
            if not said:
                log.info("waiting up to %.0f s: %s", seconds, error)
            said = True
            time.sleep(0.1)


def held(path: Path) -> bool:
    """Whether some process holds the lock just now. Raises NeedsHuman when that can't be found out."""
    if not path.exists():
        return False
    descriptor = _open(path, os.O_RDONLY)
    try:
        return not _try(descriptor, path, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def _open(path: Path, flags: int) -> int:
    try:
        return os.open(path, flags | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise NeedsHuman(
            f"can't open the lock file {path}: {error.strerror}; see that this user may write in that folder"
        ) from error


def _locked(descriptor: int, path: Path) -> bool:
    until = time.monotonic() + _PATIENCE
    while not _try(descriptor, path, fcntl.LOCK_EX):
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def _try(descriptor: int, path: Path, mode: int) -> bool:
    try:
        fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise NeedsHuman(
            f"can't lock {path}: {error.strerror}; put it on a file system that has locks (flock)"
        ) from error
    return True


def _holder(descriptor: int) -> str:
    pid, _, _ = os.pread(descriptor, 32, 0).decode(errors="replace").strip().partition(" ")
    return f"process {pid}" if pid.isdigit() else "another process"
