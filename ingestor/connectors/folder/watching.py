"""Hints of changes in a folder, from file system events or by polling.

A hint makes a scan start sooner. A lost hint only delays a change until the next full scan.

If events may have been lost, watching restarts with a hint for "" (everything). Events are lost after an
overflow of the kernel's queue, or when the folder was replaced, moved or unmounted. A change of thousands of
paths at once counts as a loss, too. Without events, or if the kernel refuses to watch more directories, "" is
hinted at intervals.
"""

import errno
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ingestor.connectors.folder.beneath import is_remote
from ingestor.connectors.folder.inotify import Change, Enter, Inotify, WalkStopped
from ingestor.connectors.folder.watchdog import Watchdog
from ingestor.connectors.shared.keys import cover, is_covered
from ingestor.model import Hint
from ingestor.ports import NeedsHuman, Stop, Transient

TICK = 0.2  # seconds between two checks for changes and for ``stop``
LONGEST = 20.0  # seconds of changes without a pause, after which hints are yielded anyway
MANY = 2000  # changed keys; beyond, the hint is ""
HINTS = 64  # hints at once; more are merged into hints for subtrees
RESTART = 0.5  # seconds until watching restarts after lost events
SOONEST = 2.0  # seconds until a refused watch is retried; doubled at each retry, up to ``poll``
LIMITS = (errno.EMFILE, errno.ENOSPC, errno.ENOMEM)  # limits that other programs of this user may free
_REPORTED = (errno.ENOENT, errno.ENOTDIR, errno.EACCES)  # errors that the next scan reports
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WatchedFolder:
    """A folder to watch, and how to watch it. The folder need not exist yet."""

    path: str
    enter: Enter  # see Inotify
    key_of: Callable[[str, bool], str | None]  # the key to scan after a change; None: no document is affected
    trust_remote: bool  # rely on events on network file systems too
    settle: float  # seconds
    poll: float  # seconds


class ChangedKeys:
    """Changed keys for which no hint was yielded yet, because files may still be changing.

    ``settle``: seconds without a change after which hints are yielded.
    """

    def __init__(self, settle: float) -> None:
        self._settle = settle
        self._keys: set[str] = set()
        self._first = self._last = 0.0

    def add(self, key: str) -> None:
        self._last = time.monotonic()
        if not self._keys:
            self._first = self._last
        if len(self._keys) >= MANY:
            self._keys = {""}
        elif not is_covered(key, self._keys):
            self._keys.add(key)

    def take(self) -> set[str]:
        """Return and forget the changed keys if no file changed for some seconds; else an empty set."""
        now = time.monotonic()
        if now - self._last < self._settle and now - self._first < LONGEST:
            return set()
        keys, self._keys = self._keys, set()
        return keys


class _Source(Protocol):
    @property
    def blind(self) -> bool: ...

    def read(self) -> Iterator[Change]: ...

    def close(self) -> None: ...


def poll_at_intervals(every: float, stop: Stop) -> Iterator[Hint]:
    """Yield a hint for everything ("") at once, and again every ``every`` seconds."""
    yield Hint()
    while not stop.wait(every):
        yield Hint()


def observe(folder: WatchedFolder, stop: Stop) -> Iterator[Hint]:
    """Yield hints of changes until ``stop`` is set. While there are no events, poll."""
    reason, wait, polled_at = "", SOONEST, -folder.poll
    while not stop.is_set():
        here = _folder(folder.path)
        try:
            with closing(_source(folder, stop)) as source:
                if reason:
                    _log.info("folder %s is watched for changes again", folder.path)
                reason, wait, polled_at = "", SOONEST, -folder.poll
                yield Hint()
                yield from _hints(folder, source, here, stop)
            stop.wait(RESTART)
        except WalkStopped:
            return
        except (OSError, RuntimeError, NeedsHuman, Transient) as error:
            why = str(getattr(error, "strerror", None) or error)
            number = getattr(error, "errno", None)
            if why != reason and number not in _REPORTED:
                reason = why
                _log.warning(
                    "folder %s is polled every %g s, because events are not available: %s",
                    folder.path,
                    folder.poll,
                    why,
                    extra={"event": "source_watch_failed", "reason": why},
                )
            short = number in LIMITS
            if not short or time.monotonic() - polled_at >= folder.poll:
                polled_at = time.monotonic()
                yield Hint()
            _wait(folder, here, stop, min(folder.poll, wait) if short else folder.poll)
            wait *= 2


def _hints(
    folder: WatchedFolder, source: _Source, here: tuple[int, int] | None, stop: Stop
) -> Iterator[Hint]:
    """Yield hints of changes until watching must start anew, because changes may have been lost.

    ``source``: reports the changes. ``here``: device and inode of the folder.
    """
    changes, began = ChangedKeys(folder.settle), time.monotonic()
    while not stop.wait(TICK):
        for path, is_directory in source.read():
            if (key := folder.key_of(path, is_directory)) is not None:
                changes.add(key)
        keys = changes.take()
        if "" in keys or _folder(folder.path) != here:
            return
        if source.blind and time.monotonic() - began > folder.poll:
            return
        yield from map(Hint, cover(keys, HINTS))


def _source(folder: WatchedFolder, stop: Stop) -> _Source:
    root = os.path.realpath(folder.path)
    if not folder.trust_remote and is_remote(root):
        raise OSError(errno.ENOTSUP, "a network file system sends no events")
    return Inotify(folder.enter, stop) if sys.platform == "linux" else Watchdog(root)


def _folder(path: str) -> tuple[int, int] | None:
    """Return device and inode of the folder at ``path``; None if there is no folder."""
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _wait(folder: WatchedFolder, here: tuple[int, int] | None, stop: Stop, seconds: float) -> None:
    """Wait for some seconds; if the folder is missing, only until it exists.

    ``here``: device and inode of the folder; None if it is missing.
    """
    if here is not None:
        stop.wait(seconds)
        return
    until = time.monotonic() + seconds
    while time.monotonic() < until and _folder(folder.path) is None and not stop.wait(TICK):
        pass
