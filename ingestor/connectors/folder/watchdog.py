"""Reports changes beneath a folder by watchdog, on systems without inotify: macOS and BSD."""

import os
from collections.abc import Iterator
from queue import Empty, SimpleQueue

from watchdog.events import (
    DirModifiedEvent,
    FileClosedNoWriteEvent,
    FileOpenedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer

# Events that watchdog derives for a parent folder, and those that our own reading causes.
_NO_CHANGE = (DirModifiedEvent, FileOpenedEvent, FileClosedNoWriteEvent)


class Watchdog(FileSystemEventHandler):
    """Reports changes beneath a folder, with the same methods as ``Inotify``.

    ``blind`` is always False, because watchdog does not report directories that it cannot watch.
    """

    blind = False

    def __init__(self, root: str) -> None:
        """Watch ``root``, which holds no symbolic links. Raises OSError if ``root`` can't be watched."""
        self._root = root
        self._changes: SimpleQueue[tuple[str, bool]] = SimpleQueue()
        self._lost = False
        self._observer = Observer()
        try:
            self._observer.schedule(self, root, recursive=True)
            self._observer.start()
        except BaseException:
            self.close()
            raise

    def on_any_event(self, event: FileSystemEvent) -> None:
        if isinstance(event, _NO_CHANGE):
            return
        for path in (event.src_path, event.dest_path):
            if path:
                below = os.fsdecode(path).removeprefix(self._root).lstrip("/")
                self._changes.put((below, event.is_directory))

    def read(self) -> Iterator[tuple[str, bool]]:
        """Yield the path of each change since the last call, and whether the path is a directory.

        If the observer has died, yield a change of the whole folder, because changes may have been lost.
        """
        while True:
            try:
                yield self._changes.get_nowait()
            except Empty:
                break
        threads = (self._observer, *self._observer.emitters)
        if not self._lost and not all(thread.is_alive() for thread in threads):
            self._lost = True
            yield "", True

    def close(self) -> None:
        self._observer.stop()
        if self._observer.ident is not None:
            self._observer.join()
