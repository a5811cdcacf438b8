"""Locks between threads and programs that share a file."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def hold_lock(path: str, *, wait: bool = True) -> Iterator[None]:
    """Lock a file until the context ends. A missing file is created, so that only this user can open it.

    The lock also ends with the process. ``wait``: whether to wait if another holder has the lock. Raises
    OSError if the file cannot be created, and BlockingIOError if it is locked and ``wait`` is false.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
    finally:
        os.close(descriptor)
