"""Stores documents that were pushed, in one SQLite file.

A change is one transaction, and is on the disk when the call returns (write-ahead log, ``synchronous=FULL``).
So after a crash a document is stored with its type and metadata, or not at all. No file is ever named after a
key. Every call opens the file again: calls may come from any thread, and the folder may have been replaced. A
random id distinguishes a new, empty file from the file that was there before.
"""

import json
import logging
import os
import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from secrets import token_hex
from typing import Literal

from ingestor.model import Scalar
from ingestor.ports import NeedsHuman, Transient

_OTHERS = 0o077  # permissions of users other than the owner
_log = logging.getLogger(__name__)


def close_to_others(*paths: Path) -> None:
    """Remove the permissions of other users on some files, and log a warning if they had any.

    Missing files are skipped.
    """
    for path in paths:
        try:
            mode = stat.S_IMODE(path.stat().st_mode)
            if mode & _OTHERS:
                path.chmod(mode & ~_OTHERS)
                _warn_once("%s could be read by other users: permissions restricted to owner", path)
        except FileNotFoundError:
            continue
        except OSError as error:
            _warn_once("%s may be read by other users: restrict its permissions (%s)", path, error.strerror)


@lru_cache(maxsize=4096)
def _warn_once(message: str, *values: object) -> None:
    """Log a warning unless the same one was logged before."""
    _log.warning(message, *values)


_FORMAT = 1
_SCHEMA = """
CREATE TABLE store (id TEXT NOT NULL);
CREATE TABLE documents (
    key TEXT PRIMARY KEY, version TEXT NOT NULL, content_type TEXT, metadata TEXT NOT NULL,
    modified REAL NOT NULL, size INTEGER NOT NULL, data BLOB NOT NULL
);
CREATE TABLE changes (number INTEGER PRIMARY KEY, key TEXT NOT NULL);
"""
_REMEMBERED = 1000  # changes; a reader that missed more must assume that everything changed
_HUMAN = ("CANTOPEN", "PERM", "AUTH", "READONLY", "NOTADB", "CORRUPT")
_ALL = "SELECT key, version, content_type, metadata, modified, size FROM documents"
_BELOW = f"{_ALL} WHERE key = :under OR (key > :under || '/' AND key < :under || '0')"  # "0" comes after "/"
_ONE = "SELECT key, version, content_type, metadata, modified, size, data FROM documents WHERE key = ?"
Metadata = tuple[tuple[str, Scalar], ...]
Outcome = Literal["created", "changed", "unchanged"]


class StoreFull(Transient):
    """Error: the disk is full. Documents that were stored before stay."""


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A stored document without its content."""

    key: str
    version: str  # a digest of content, type and metadata
    content_type: str | None
    metadata: Metadata
    modified: float  # POSIX seconds
    size: int  # bytes


class PushStore:
    """Store of pushed documents in a folder.

    Methods raise NeedsHuman or Transient if the file is unusable.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "documents.sqlite3"

    def put(self, key: str, data: bytes, content_type: str | None, metadata: Metadata) -> tuple[str, Outcome]:
        """Store a document durably. Return its version, and whether it was created, changed or unchanged.

        Raises StoreFull if the disk is full.
        """
        facts = json.dumps(sorted(metadata))
        version = _version(data, content_type, facts)
        with self._transaction() as db:
            before = db.execute("SELECT version FROM documents WHERE key = ?", (key,)).fetchone()
            if before == (version,):
                return version, "unchanged"
            row = (key, version, content_type, facts, time.time(), len(data), data)
            db.execute("INSERT OR REPLACE INTO documents VALUES (?, ?, ?, ?, ?, ?, ?)", row)
            _note(db, key)
        return version, "changed" if before else "created"

    def delete(self, key: str) -> bool:
        """Delete a document durably. Return whether it existed."""
        with self._transaction() as db:
            existed = db.execute("DELETE FROM documents WHERE key = ?", (key,)).rowcount > 0
            if existed:
                _note(db, key)
        return existed

    def get(self, key: str) -> tuple[StoredDocument, bytes] | None:
        with self.open() as db:
            row = db.execute(_ONE, (key,)).fetchone()
        return (_document_of(*row[:-1]), row[-1]) if row else None

    def list_documents(self, under: str = "") -> Iterator[StoredDocument]:
        """Yield the documents at or below a key, all as of the same moment.

        ``under``: "" for all documents.
        """
        with self.open() as db:
            for row in db.execute(_BELOW if under else _ALL, {"under": under}):
                yield _document_of(*row)

    def identity(self) -> str:
        """Return the random id of the file. If the file is missing, create it."""
        with self.open() as db:
            close_to_others(
                self.path, *(self.path.with_name(f"{self.path.name}-{end}") for end in ("wal", "shm"))
            )
            return str(db.execute("SELECT id FROM store").fetchone()[0])

    @contextmanager
    def open(self) -> Iterator[sqlite3.Connection]:
        """Open a connection to the file until the context ends.

        A missing file is created. Its folder is created, too, but no folder above it.
        """
        try:
            if not self.path.exists():
                self._make()
            with closing(_connect(self.path)) as db:
                yield db
        except sqlite3.DatabaseError as error:
            raise self._trouble(error) from error
        except OSError as error:
            raise NeedsHuman(
                f"{self.folder} can't be used ({error.strerror}): correct `folder`, or let this user write"
            ) from error

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self.open() as db:
            db.execute("BEGIN IMMEDIATE")
            yield db
            db.execute("COMMIT")

    def _make(self) -> None:
        """Create the file in one step, so that no process ever sees an incomplete file."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        draft = self.folder / f"{token_hex(8)}.new"
        try:
            draft.touch(0o600)
            with closing(_connect(draft, "rwc")) as db:
                db.execute("PRAGMA journal_mode=WAL")
                db.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version={_FORMAT}; COMMIT;")
                db.execute("INSERT INTO store VALUES (?)", (token_hex(16),))
            with suppress(FileExistsError):
                os.link(draft, self.path)
        finally:
            draft.unlink(missing_ok=True)
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _trouble(self, error: sqlite3.DatabaseError) -> Exception:
        """Convert an error of SQLite to NeedsHuman or Transient, with a remedy."""
        name = getattr(error, "sqlite_errorname", "").removeprefix("SQLITE_")
        if name.startswith("FULL"):
            return StoreFull(f"the disk of {self.folder} is full: free some space")
        if name.startswith(("NOTADB", "CORRUPT")):
            return NeedsHuman(f"{self.path} is damaged ({error}): put a backup of it in its place")
        if name.startswith(_HUMAN):
            return NeedsHuman(f"{self.path} can't be used ({error}): let this user read and write there")
        return Transient(f"{self.path} can't be used now, will be retried: {error}")


class StoreChanges:
    """Finds the documents of a store that changed since the last ``take``. For use by one thread."""

    def __init__(self, store: PushStore) -> None:
        self._store = store
        self._db: sqlite3.Connection | None = None
        self._file = (0, 0)
        self._last = 0

    def take(self) -> list[str]:
        """Return the keys that changed since the last call; "" stands for all keys, if any may have changed.

        The list is empty while the store is unusable.
        """
        try:
            if self._db is None or _file(self._store.path) != self._file:
                self._open()
                return [""]
            query = "SELECT number, key FROM changes WHERE number > ? ORDER BY number"
            rows = self._db.execute(query, (self._last,)).fetchall()
        except (sqlite3.DatabaseError, OSError, NeedsHuman, Transient):
            self.close()
            return []
        if not rows:
            return []
        before, self._last = self._last, rows[-1][0]
        return [key for _, key in rows] if rows[0][0] == before + 1 else [""]

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    def _open(self) -> None:
        self.close()
        self._store.identity()  # creates the file
        self._file = _file(self._store.path)
        self._db = _connect(self._store.path)
        self._last = self._db.execute("SELECT coalesce(max(number), 0) FROM changes").fetchone()[0]


def _connect(path: Path, mode: str = "rw") -> sqlite3.Connection:
    db = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}", uri=True, timeout=30, isolation_level=None
    )
    db.execute("PRAGMA synchronous=FULL")
    return db


def _note(db: sqlite3.Connection, key: str) -> None:
    number = db.execute("INSERT INTO changes (key) VALUES (?)", (key,)).lastrowid or 0
    db.execute("DELETE FROM changes WHERE number <= ?", (number - _REMEMBERED,))


def _document_of(
    key: str, version: str, content_type: str | None, metadata: str, modified: float, size: int
) -> StoredDocument:
    facts = tuple((name, value) for name, value in json.loads(metadata))
    return StoredDocument(key, version, content_type, facts, modified, size)


def _version(data: bytes, content_type: str | None, facts: str) -> str:
    digest = blake2b(json.dumps([content_type, facts]).encode() + b"\0", digest_size=16)
    digest.update(data)
    return digest.hexdigest()


def _file(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino
