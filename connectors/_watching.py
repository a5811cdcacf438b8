"""Hints from file system events. A hint only hastens a scan, so what matters is that none is missed for long.

Events get lost, in storms by the thousand and without a word. So whenever it is in doubt what was seen, the
observer is built anew and "" (everything) is hinted: when one of its threads died, when the folder itself
was replaced, unmounted or moved, and when so much happened at once that the kernel's queue may have run
over. While the kernel grants no further watches, new directories may go unseen, and "" is hinted at
intervals too.
"""

import errno
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from watchdog.events import (
    DirAttribEvent,
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileAttribEvent,
    FileClosedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver

from connectors._cover import cover, is_covered
from connectors._mounts import is_remote
from ingestor.model import Hint
from ingestor.ports import Stop

TICK = 0.2  # seconds between looks at what was collected, and at ``stop``
LONGEST = 30.0  # seconds of unbroken activity before what was collected is hinted anyway
MANY = 2000  # changed places at once; the kernel's queue of 16,384 events may have run over
HINTS = 64  # at once; more are drawn together into subtrees
_REBUILD = 0.5  # seconds
# Not DirModified, which watchdog derives for the parent of everything; not Opened, which our reading causes.
_EVENTS: list[type[FileSystemEvent]] = [
    FileCreatedEvent,
    FileModifiedEvent,
    FileClosedEvent,
    FileAttribEvent,
    FileMovedEvent,
    FileDeletedEvent,
    DirCreatedEvent,
    DirAttribEvent,
    DirMovedEvent,
    DirDeletedEvent,
]
_log = logging.getLogger(__name__)

# (path relative to the folder, whether it is a directory) -> key of what to scan; None: nothing
KeyOf = Callable[[str, bool], str | None]


class Changes(FileSystemEventHandler):
    """The keys that changed; the observer's thread adds to them, the watching thread takes them."""

    def __init__(self, root: str, key_of: KeyOf, settle: float) -> None:
        self._root = root
        self._key_of = key_of
        self._settle = settle
        self._lock = threading.Lock()
        self._keys: set[str] = set()
        self._first = self._last = 0.0

    def on_any_event(self, event: FileSystemEvent) -> None:
        for path in (event.src_path, event.dest_path):
            below = os.fsdecode(path).removeprefix(self._root).lstrip("/")
            if path and (key := self._key_of(below, event.is_directory)) is not None:
                self._add(key)

    def _add(self, key: str) -> None:
        with self._lock:
            self._last = time.monotonic()
            if not self._keys:
                self._first = self._last
            if len(self._keys) >= MANY:
                self._keys = {""}
            elif not is_covered(key, self._keys):
                self._keys.add(key)

    def take(self) -> set[str]:
        """What changed, once that has settled; until then nothing."""
        with self._lock:
            now = time.monotonic()
            if now - self._last < self._settle and now - self._first < LONGEST:
                return set()
            keys, self._keys = self._keys, set()
            return keys


def polled(every: float, stop: Stop) -> Iterator[Hint]:
    """Hint at everything, at once and then at intervals."""
    yield Hint()
    while not stop.wait(every):
        yield Hint()


def observed(
    path: str, key_of: KeyOf, *, remote: bool, settle: float, poll: float, stop: Stop
) -> Iterator[Hint]:
    """Hint at what changes; where events can't be had, or not yet, poll. ``path`` may be missing for now.

    ``remote``: trust events on network file systems as well.
    """
    said = ""
    while not stop.is_set():
        here, root = _folder(path), os.path.realpath(path)
        changes = Changes(root, key_of, settle)
        try:
            if not remote and is_remote(root):
                raise OSError(errno.ENOTSUP, "a network file system sends none")
            with _observer(root, changes) as observer:
                said = ""
                yield Hint()
                yield from _changes(observer, changes, path, here, poll, stop)
            stop.wait(_REBUILD)
        except (OSError, RuntimeError) as error:
            why = str(getattr(error, "strerror", None) or error)
            if said != why:
                said = why
                _log.warning("no file events for %s (%s): looking again every %g s", path, why, poll)
            yield Hint()
            _wait_for_folder(path, here, poll, stop)


def _changes(
    observer: BaseObserver, changes: Changes, path: str, here: tuple[int, int] | None, poll: float, stop: Stop
) -> Iterator[Hint]:
    """Hints, until the observer must be built anew."""
    probed, blind = 0.0, False
    while True:
        now = time.monotonic()
        if now - probed >= poll or not probed:
            was_blind, blind, probed = blind, _watches_exhausted(path), now
            if was_blind and not blind:
                return
            if blind:
                yield Hint()
        if stop.wait(TICK):
            return
        keys = changes.take()
        if "" in keys or _folder(path) != here or not _alive(observer):
            return
        yield from map(Hint, cover(keys, HINTS))


@contextmanager
def _observer(
    path: str, handler: FileSystemEventHandler, *, recursive: bool = True
) -> Iterator[BaseObserver]:
    """A running observer; none of its threads is left afterwards. Raises OSError when it can't watch."""
    if not os.access(path, os.R_OK | os.X_OK):  # watchdog would watch nothing, without a word
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    observer = Observer()
    try:
        observer.schedule(handler, path, recursive=recursive, event_filter=_EVENTS)
        observer.start()
        yield observer
    finally:
        observer.stop()
        if observer.ident is not None:
            observer.join()


def _alive(observer: BaseObserver) -> bool:
    """All of its threads; the one that reads from the kernel is not among its public parts."""
    reader = getattr(observer, "_inotify_fd", observer)
    return all(thread.is_alive() for thread in (observer, reader, *observer.emitters))


def _watches_exhausted(path: str) -> bool:
    """Whether the kernel refuses one more inotify watch. watchdog leaves directories out then, silently."""
    if sys.platform != "linux":
        return False
    try:
        with _observer(os.path.realpath(path), FileSystemEventHandler(), recursive=False):
            return False
    except OSError as error:
        return error.errno == errno.ENOSPC


def _folder(path: str) -> tuple[int, int] | None:
    """Which folder is at ``path``; None if there is none."""
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _wait_for_folder(path: str, here: tuple[int, int] | None, longest: float, stop: Stop) -> None:
    """Until ``longest`` is over, or a missing folder is there."""
    if here is not None:
        stop.wait(longest)
        return
    until = time.monotonic() + longest
    while time.monotonic() < until and _folder(path) is None and not stop.wait(TICK):
        pass
