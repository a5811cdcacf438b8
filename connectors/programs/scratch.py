"""Temporary folders. The next run removes those that a killed run left behind.

A folder belongs to the process that holds its lock; the lock ends with the process.
"""

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path
from shutil import rmtree
from tempfile import gettempdir, mkdtemp
from weakref import finalize

_PREFIX = "ingestor-scratch-"
_YOUNG = 60.0  # seconds: a younger folder without a lock may just be in the making


class Scratch:
    """``path`` is for this user only. It is removed with this object, by ``remove()``, or at exit."""

    def __init__(self) -> None:
        _sweep()
        self.path = Path(mkdtemp(prefix=_PREFIX))
        lock = os.open(self.path, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        self.remove = finalize(self, _remove, self.path, lock)


def _remove(path: Path, lock: int) -> None:
    rmtree(path, ignore_errors=True)
    os.close(lock)


def _sweep() -> None:
    for path in Path(gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):  # it is locked, gone, or another user's
            if time.time() - path.stat().st_mtime > _YOUNG:
                lock = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY)
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    rmtree(path, ignore_errors=True)
                finally:
                    os.close(lock)
