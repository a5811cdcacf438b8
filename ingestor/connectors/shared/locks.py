"""Locks between threads and programs that share a file."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def hold_lock(path: str, *, wait: bool = True) -> Iterator[None]:
    """Hold the lock of a file, which is created for this user only. The lock ends with the process.

    Raises OSError if the file can't be created, and BlockingIOError if another holds the lock and ``wait`` is
    false.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
    finally:
        os.close(descriptor)
