"""The files in the state folder, how they are protected from other users, and the lock of the folder.

The files quote secret documents. A folder that another user can change is refused, since its files may be
links to other files. New files are closed to other users by the umask. Files that an earlier version or a
person left open to other users are closed here. If a folder also has files of others, the permissions of the
folder itself are not changed.

The lock admits a single writer, and ends with the process that holds it. It is a lock by flock(2) on the
file; that the file exists means nothing. The process id in the file is for messages only. The descriptor is
closed on exec, so that a child that outlives the process does not keep the lock.
"""

from __future__ import annotations

import fcntl
import grp
import logging
import os
import pwd
import shutil
import socket
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ingestor.core.events import event
from ingestor.core.generations import Home
from ingestor.ports import NeedsHuman

if TYPE_CHECKING:
    from ingestor.config.models import Config

log = logging.getLogger("ingestor")

_MACHINE_IDS = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
EVALUATION = "evaluation-"  # begins the names of files with evaluations


def journal_path(config: Config) -> Path:
    return config.state / "journal.sqlite3"


def lock_path(config: Config) -> Path:
    return config.state / "lock"


def lexical_path(config: Config) -> Path:
    return config.state / "lexical.sqlite3"


def cache_path(config: Config) -> Path:
    return config.state / "cache.sqlite3"


def chroma_log_path(config: Config) -> Path:
    return config.state / "chroma.log"


def here(config: Config) -> Home:
    """Return the home of a config's state: its folder, and a digest of this machine's confidential id."""
    machine = ""
    for file in _MACHINE_IDS:
        with suppress(OSError):
            if text := file.read_text(errors="replace").strip():
                machine = blake2b(text.encode(), digest_size=8, person=b"ingestor").hexdigest()
                break
    chroma: Path | None = getattr(config.chroma, "path", None)
    place = "" if chroma is None else str(chroma.resolve())
    return Home(machine, socket.gethostname(), str(config.state.resolve()), place)


UMASK = 0o077
_RUNS_ALREADY = (
    "an ingestor runs already and keeps it in step (`ingestor status` shows the progress); stop that one to "
    "start another"
)
ROOM = 1_000_000  # free bytes below which no state is opened: SQLite needs some before it writes a row


def has_room(folder: Path, room: int) -> bool:
    """Return whether the folder's disk has this many free bytes, or True if that is unknown."""
    try:
        return shutil.disk_usage(folder).free >= room
    except OSError:
        return True


def full_disk(folder: Path) -> str | None:
    """Describe a full disk and the remedy; None if the folder's disk has room."""
    full = f"the disk of {folder} is full: free some space, or use another disk"
    return None if has_room(folder, ROOM) else full


def make(folder: Path, ours: Callable[[str], bool]) -> None:
    """Create a folder if it does not exist, and protect our files in it from other users.

    ``ours``: returns whether a file is one of ours, by its name. Raises OSError if the folder cannot be
    created. Raises NeedsHuman if another user can change it, or if one of our files is a link or closed to
    this user. If a file cannot be protected, that is logged, and the file is used nevertheless.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _require_own(folder)
    try:
        paths = list(folder.iterdir())
    except OSError as error:
        words = "%s can't be listed, so other users may be able to read files there: %s"
        log.warning(words, folder, error.strerror, extra=event("other_users"))
        return
    own, closed = [path for path in paths if ours(path.name)], list[Path]()
    for path in own:
        refuse_link(path)
        if not os.access(path, os.R_OK | os.W_OK) and path.exists():
            raise NeedsHuman(
                f"this user cannot read and write {path}: repair its owner and mode (chown -R "
                f"{_name(os.geteuid())} {folder}; chmod -R u+rwX {folder})"
            )
    # An empty folder is left as it is: it was just created, or belongs to somebody else.
    for path in (folder, *own) if own and own == paths else own:
        try:
            if path.stat().st_mode & UMASK:
                path.chmod(stat.S_IMODE(path.stat().st_mode) & ~UMASK)
                closed.append(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            words = "%s: readable by other users, and its permissions can't be restricted: %s"
            log.warning(words, path, error.strerror, extra=event("other_users"))
    if closed:
        log.warning("%s: permissions restricted to the owner", closed[0], extra=event("other_users"))


def _require_own(folder: Path) -> None:
    """Raise NeedsHuman if another user owns the folder or can write to it."""
    status, user = folder.stat(), os.geteuid()
    if status.st_uid != user:
        raise NeedsHuman(
            f"{folder} belongs to {_name(status.st_uid)}, who can change ingestor's files in it: run "
            f"ingestor as that user, or take the folder over (chown -R {_name(user)} {folder}), or set "
            "another folder in the config"
        )
    shared = status.st_mode & stat.S_IWGRP and not _is_private(status.st_gid)
    if status.st_mode & stat.S_IWOTH or shared:
        raise NeedsHuman(
            f"other users can write to {folder}, and change its files: remove what is not yours, "
            f"then close it (chmod go-w {folder}), or set another folder in the config"
        )


def _name(user: int) -> str:
    with suppress(KeyError):
        return pwd.getpwuid(user).pw_name
    return f"user {user}"


def _is_private(group: int) -> bool:
    """Return whether this user is the only member of a group.

    Many systems create such a group for each user.
    """
    with suppress(KeyError):
        user = pwd.getpwuid(os.geteuid())
        members = set(grp.getgrgid(group).gr_mem) - {user.pw_name}
        return group == user.pw_gid and not members and grp.getgrgid(group).gr_name == user.pw_name
    return False


def refuse_link(path: Path) -> None:
    """Raise NeedsHuman if one of our files is a link."""
    if path.is_symlink():
        raise NeedsHuman(
            f"{path} is a link, which ingestor does not follow: remove it, or move its target here"
        )


def delete_database(path: Path) -> None:
    """Delete a file of SQLite together with its write-ahead log."""
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def open_own(path: Path | str, flags: int) -> int:
    """Open one of our files and return its descriptor. Raises OSError, for example if the file is a link."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def read_own(path: Path) -> str:
    """Read one of our files as text. Raises OSError, and ValueError if it is not UTF-8."""
    with open(open_own(path, os.O_RDONLY), encoding="utf-8") as stream:
        return stream.read()


def write_own(path: Path, text: str) -> None:
    """Replace one of our files atomically by this text. Raises OSError."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    with open(open_own(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "w", encoding="utf-8") as stream:
        stream.write(text)
    fresh.replace(path)


T = TypeVar("T")

# Seconds for which ``hold`` retries. ``is_held`` takes the lock for a moment, in which no daemon must fail.
_PATIENCE = 0.5


class Locked(NeedsHuman):
    """Error: another process holds the lock. The message names the process and the remedy."""


class Lock:
    """A lock that this process holds. It ends with ``release``, with the context, or with the process."""

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor: int | None = descriptor
        self._path = path

    @property
    def is_lost(self) -> bool:
        """Return whether the lock file was removed or replaced, for example together with its folder."""
        if (descriptor := self._descriptor) is None:
            return True
        try:
            return not os.path.samestat(self._path.stat(), os.fstat(descriptor))
        except FileNotFoundError:
            return True
        except OSError:  # the disk does not answer now, which says nothing about the file
            return False

    def note(self, words: str) -> None:
        """Store words in the lock file after the process id, in place of earlier words.

        ``read_note`` reads them.
        """
        if self._descriptor is None:
            return
        with suppress(OSError):  # if the disk is full, only messages of other processes lack the words
            line = f"{os.getpid()} {words}".rstrip() + "\n"
            os.ftruncate(self._descriptor, os.pwrite(self._descriptor, line.encode(), 0))

    def release(self) -> None:
        """Release the lock. Further calls do nothing.

        The file is not deleted: if it were, two processes could lock two different files of the same name.
        """
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Lock:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


def hold(path: Path, remedy: str = _RUNS_ALREADY) -> Lock:
    """Lock a file and return the lock. The file is created if it does not exist; its folder must exist.

    Raises Locked with the ``remedy`` if another process holds the lock. Raises NeedsHuman if the file cannot
    be created or locked.
    """
    descriptor = _open(path, os.O_RDWR | os.O_CREAT)
    try:
        until = time.monotonic() + _PATIENCE
        while not (locked := _try(descriptor, path, fcntl.LOCK_EX)) and time.monotonic() <= until:
            time.sleep(0.05)
        if not locked:
            pid = os.pread(descriptor, 32, 0).decode(errors="replace").strip().partition(" ")[0]
            holder = f"process {pid}" if pid.isdigit() else "another process"
            raise Locked(f"{path.parent} is in use by {holder}: {remedy}")
    except BaseException:
        os.close(descriptor)
        raise
    lock = Lock(descriptor, path)
    lock.note("")
    return lock


def read_note(path: Path) -> list[str]:
    """Return the words in a lock file: the process id of the last holder, then the words that it noted."""
    try:
        return read_own(path).split()
    except (OSError, ValueError):
        return []


def retry_until_free(take: Callable[[], T], seconds: float = 30.0) -> T:
    """Call ``take`` again and again until it does not raise Locked, and return its result.

    After ``seconds`` the last Locked is raised.
    """
    until, logged = time.monotonic() + seconds, False
    while True:
        try:
            return take()
        except Locked as error:
            if time.monotonic() > until:
                raise
            if not logged:
                about = event("waiting", reason=str(error))
                log.info("waiting up to %.0f s for another process: %s", seconds, error, extra=about)
            logged = True
            time.sleep(0.1)


def is_held(path: Path) -> bool:
    """Return whether a process holds the lock on a file.

    Raises NeedsHuman if the file cannot be opened or locked.
    """
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
    """Lock an open file without waiting. Return False if another process holds the lock.

    ``mode``: whether the lock is shared or exclusive (see flock(2)). Raises NeedsHuman if the file system has
    no locks.
    """
    try:
        fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise NeedsHuman(
            f"cannot lock {path}: {error.strerror}; put it on a file system with locks (flock)"
        ) from error
    return True
