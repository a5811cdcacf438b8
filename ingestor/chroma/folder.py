"""Chroma's data folder, in which only one process at a time may write.

If two processes write, the data is damaged silently. A second ``PersistentClient`` that only reads gets stale
vectors. Our lock excludes a second ingestor. Other processes that have the database open, such as a notebook,
are found through /proc, if the system has it.
"""

import os
import shutil
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from uuid import UUID

from ingestor.chroma import processes
from ingestor.ports import NeedsHuman, Transient
from ingestor.state import files
from ingestor.state.files import Lock, hold

DATABASE = "chroma.sqlite3"
_CHILDREN = ("chroma/child.py",)  # in the command line of our servers
LOCK = "ingestor.lock"
ROOM = 50_000_000  # free bytes below which no records are added
LEAST_ROOM = 5_000_000  # free bytes below which nothing is written: deletions need some, and free more

# Chroma's tables of collections and their segments: a few rows each.
_OF_COLLECTIONS = ("databases", "collections", "collection_metadata", "segments", "segment_metadata")

# Errors for a database with overwritten pages: of SQLite (codes 11 and 26), and of Chroma.
_DAMAGED = (
    *("database disk image is malformed", "file is not a database"),
    "Failed to pull logs from the log store",
)
REMEDY = (
    "Chroma's database is damaged: `ingestor verify --repair --rebuild` moves Chroma's folder aside and "
    "writes this ingestor's collections into a new one, without embedding; or put a backup in its place"
)

# Seconds to wait for the server of an ingestor that was killed. It notices that, persists and ends by itself.
_LEFTOVER_PATIENCE = 35.0
_IN_USE = "another ingestor command keeps its data there; stop that one, or set another `chroma.path`"


def claim(path: Path) -> Lock:
    """Lock Chroma's folder, and delete files that Chroma left behind. Create the folder if it does not exist.

    Raises NeedsHuman if another process uses the folder, if the folder cannot be used, or if its database is
    damaged.
    """
    if not (path / DATABASE).exists():
        _refuse_state(path)
    try:
        files.make(path, _is_ours)
    except OSError as error:
        raise NeedsHuman(
            f"can't create Chroma's folder {path}: {error.strerror}; let this user "
            "write there, or correct `chroma.path`"
        ) from error
    lock = hold(path / LOCK, _IN_USE)
    try:
        _refuse_others(path / DATABASE)
        _require_sound(path / DATABASE)
        sweep(orphans(path))
    except BaseException:
        lock.release()
        raise
    return lock


def move_aside(path: Path) -> Path | None:
    """Rename Chroma's folder so that a new one can be created. Return its new path; None if there is no
    folder.

    Raises NeedsHuman if another process uses the folder, or if it cannot be renamed.
    """
    if not path.exists():
        return None
    _refuse_state(path)
    aside = path.with_name(f"{path.name}-damaged-{time.strftime('%Y%m%d-%H%M%S')}")
    try:
        with hold(path / LOCK, _IN_USE):
            _refuse_others(path / DATABASE)
            path.rename(aside)
    except OSError as error:
        raise NeedsHuman(
            f"can't rename Chroma's folder {path} to {aside}: {error.strerror}; move the files in {path} "
            "elsewhere, then run `ingestor sync`, which writes all collections again"
        ) from error
    return aside


def _refuse_state(path: Path) -> None:
    """Raise NeedsHuman if the folder contains a state.

    Its files must not be moved or mixed with Chroma's files.
    """
    if (path / "journal.sqlite3").exists():
        raise NeedsHuman(f"{path} is a state folder of ingestor: set `chroma.path` to another folder")


def is_damage(text: str) -> bool:
    """Return whether the text of an error means that the database is damaged."""
    return any(symptom in text for symptom in _DAMAGED)


def require_room(path: Path, room: int = ROOM) -> None:
    """Raise Transient if the disk has less than ``room`` bytes, so that Chroma never meets a full disk.

    After a failed write Chroma 1.5.9 soon answers no request until it is restarted, and may leave a damaged
    segment.
    """
    if not files.has_room(path, room):
        raise Transient(
            f"the disk of {path} has less than {room / 1e6:.0f} MB left, so no record is written: "
            "free some space, or move the folder `chroma.path` to a larger disk"
        )


def orphans(path: Path) -> list[Path]:
    """Return the folders of segments that Chroma no longer knows, sorted.

    Chroma leaves them behind when it deletes a collection. Raises NeedsHuman if the database cannot be read.
    """
    folders = [folder for folder in path.iterdir() if _is_uuid(folder.name) and folder.is_dir()]
    if not folders or not (path / DATABASE).is_file():
        return []
    with _open_database(path / DATABASE) as connection:  # read later than the folders: the rows come first
        known = {row[0] for row in connection.execute("SELECT id FROM segments")}
    return sorted(folder for folder in folders if folder.name not in known)


def sweep(folders: Iterable[Path]) -> None:
    """Delete folders of segments that ``orphans`` returned.

    Their files are truncated first, because a running Chroma 1.5.9 keeps them open. Chroma does not map these
    files into memory, so truncating them cannot crash it.
    """
    for folder in folders:
        for file in filter(Path.is_file, folder.iterdir()):
            os.truncate(file, 0)
        shutil.rmtree(folder)


def _refuse_others(database: Path) -> None:
    """Raise NeedsHuman if another process has the database open.

    If that process is a server of ours that is ending, wait for its end.
    """
    until = time.monotonic() + _LEFTOVER_PATIENCE
    while others := processes.writers_of(database):
        # An ending process has no command line any more; a server of ours ends after its killed parent.
        commands = map(processes.command, others)
        ending = all(not each or any(name in each for name in _CHILDREN) for each in commands)
        if not ending or time.monotonic() > until:
            raise NeedsHuman(
                f"{database} is in use by {processes.describe(others[0])}: two writers would destroy it; "
                "stop that process, or let it connect to ingestor's server with chromadb.HttpClient"
            )
        time.sleep(0.1)


def _require_sound(database: Path) -> None:
    """Raise NeedsHuman if Chroma's tables of collections are damaged.

    In that case Chroma 1.5.9 breaks the connection at each write, and does not mention the database.
    """
    if not database.is_file():
        return
    with _open_database(database) as connection:
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
        for table in sorted(tables.intersection(_OF_COLLECTIONS)):
            connection.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608 - our own names


@contextmanager
def _open_database(database: Path) -> Iterator[sqlite3.Connection]:
    """Open Chroma's database until the context ends. Raises NeedsHuman if it is damaged.

    It is opened for writing, because SQLite may have to undo a transaction of a server that was killed.
    """
    try:
        with closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=rw", uri=True)) as connection:
            yield connection
    except sqlite3.DatabaseError as error:
        reason = "it has text that is not UTF-8" if "decode" in str(error) else error
        raise NeedsHuman(f"can't read Chroma's database {database}: {reason}; {REMEDY}") from error


def _is_ours(name: str) -> bool:
    """Return whether a file in the folder belongs to Chroma or to this program, by its name."""
    return name.startswith((DATABASE, LOCK)) or _is_uuid(name)


def _is_uuid(name: str) -> bool:
    try:
        return str(UUID(name)) == name
    except ValueError:
        return False
