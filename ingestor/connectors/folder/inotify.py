"""Reports changes beneath a folder by inotify(7). No thread is needed, and every loss of events is reported.

Why not watchdog: in its inotify layer (7.1) ``stop`` raises KeyError after directories were renamed and
leaves threads behind. Each directory that is seen twice logs a list of all directories. Overflows and refused
watches are not reported.

The watched directories are those that a scan reads. Each is watched before it is listed. So later changes
give events, and earlier changes are found because a new subtree is reported as a whole.
"""

import ctypes
import errno
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

from ingestor.ports import Stop

Entered = Callable[[str, int], None]  # takes path and descriptor of a directory
Enter = Callable[[str, Entered], None]  # see Inotify
Change = tuple[str, bool]  # path relative to the folder ("": everything); whether it is a directory

_MODIFY, _ATTRIB, _CLOSE_WRITE = 0x2, 0x4, 0x8
_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x40, 0x80, 0x100, 0x200
_UNMOUNT, _OVERFLOW, _IGNORED = 0x2000, 0x4000, 0x8000
_ONLYDIR, _EXCL_UNLINK, _ISDIR = 0x1000000, 0x4000000, 0x40000000
_APPEARED = _CREATE | _MOVED_TO | _ATTRIB  # ATTRIB: it may have become readable
_MASK = _APPEARED | _MODIFY | _CLOSE_WRITE | _MOVED_FROM | _DELETE | _ONLYDIR | _EXCL_UNLINK
_HEAD = struct.Struct("iIII")


class WalkStopped(Exception):
    """Error: the walk through the folder was stopped, because ``stop`` was set."""


class Inotify:
    """Watches all directories of a folder that a scan reads, and reports changes in them."""

    def __init__(self, enter: Enter, stop: Stop) -> None:
        """Watch a folder.

        ``enter(path, entered)`` walks through the directories at and below ``path``. Before it lists a
        directory, it calls ``entered`` with the directory's path ("" or ending in a slash) and descriptor.
        Raises OSError if no directory can be watched. Raises WalkStopped if ``stop`` is set: the walk through
        a large folder takes seconds.
        """
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._enter, self._stop = enter, stop
        self._paths: dict[int, set[str]] = {}  # by watch; two paths if a link leads to the same directory
        self._watches: dict[str, int] = {}  # by path
        self._refused = 0  # errno, if the kernel refused to watch some directory
        self._overflown = False
        self._descriptor = self._libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        if self._descriptor < 0:
            raise _error(ctypes.get_errno())
        try:
            enter("", self._watch)
            if "" not in self._watches:
                raise _error(self._refused)
        except BaseException:
            self.close()
            raise

    @property
    def blind(self) -> bool:
        """Return whether the kernel refused to watch some directory, so that its changes are not reported."""
        return bool(self._refused)

    def close(self) -> None:
        os.close(self._descriptor)

    def read(self) -> Iterator[Change]:
        """Yield the changes since the last call: the path, and whether it is a directory."""
        while True:
            try:
                buffer = os.read(self._descriptor, 1 << 16)
            except BlockingIOError:
                return
            for watch, mask, name in parse(buffer):
                self._overflown |= bool(mask & _OVERFLOW)
                if self._overflown or mask & _UNMOUNT:
                    yield "", True
                elif mask & _IGNORED:  # the kernel ended the watch: its directory was deleted
                    for path in self._paths.pop(watch, ()):
                        if self._watches.get(path) == watch:
                            del self._watches[path]
                else:
                    yield from self._changes_of(watch, mask, name)

    def _changes_of(self, watch: int, mask: int, name: str) -> Iterator[Change]:
        for above in tuple(self._paths.get(watch, ())):
            path, is_directory = (above + name).rstrip("/"), bool(mask & _ISDIR)
            if is_directory and mask & _MOVED_FROM:
                self._leave(f"{path}/")
            if is_directory and mask & _APPEARED:
                self._enter(path, self._watch)
            yield path, is_directory

    def _watch(self, path: str, descriptor: int) -> None:
        if self._stop.is_set():
            raise WalkStopped
        target = b"/proc/self/fd/%d" % descriptor
        watch = self._libc.inotify_add_watch(self._descriptor, target, _MASK)
        if watch < 0:
            self._refused = ctypes.get_errno()
            return
        self._watches[path] = watch
        self._paths.setdefault(watch, set()).add(path)

    def _leave(self, above: str) -> None:
        """Remove the watches at and below ``above``, a directory that was moved away.

        The kernel's watches move with the directory, and would report changes under the old path.
        """
        for path in [path for path in self._watches if path.startswith(above)]:
            watch = self._watches.pop(path)
            paths = self._paths.get(watch, set())
            paths.discard(path)
            if not paths:
                self._paths.pop(watch, None)
                self._libc.inotify_rm_watch(self._descriptor, watch)


def parse(buffer: bytes) -> Iterator[tuple[int, int, str]]:
    """Parse the events in the kernel's buffer. Yield the number of the watch, the mask and the name of each.

    The name is empty if the event is about the watched directory itself.
    """
    start = 0
    while start < len(buffer):
        watch, mask, _, length = _HEAD.unpack_from(buffer, start)
        start += _HEAD.size + length
        yield watch, mask, os.fsdecode(buffer[start - length : start].rstrip(b"\0"))


def _error(number: int) -> OSError:
    """Return the error for an errno.

    The message names the limit of the system to raise, if one was reached.
    """
    name = {errno.ENOSPC: "max_user_watches", errno.EMFILE: "max_user_instances"}.get(number)
    if name is None:
        return OSError(number, os.strerror(number))
    try:
        value = f" ({Path('/proc/sys/fs/inotify', name).read_text().strip()})"
    except OSError:
        value = ""
    shared = "which all programs of this user share"
    return OSError(number, f"the limit fs.inotify.{name}{value} is reached, {shared}: raise it with sysctl")
