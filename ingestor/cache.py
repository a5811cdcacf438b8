"""A disposable SQLite file of what is costly to get again: vectors, parsed documents, and answers of language
models.

Nothing here is the truth. A damaged or foreign file is thrown away and begun anew; a full disk or a locked
file makes it forgetful, not an error. Any thread may call any method, and several processes may share the
file. A vector comes back bit for bit: kept as float16 where that loses nothing (as with the built-in
embedders), else as float32; one whose checksum is wrong counts as missing.
"""

import logging
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from time import time
from typing import TypeVar
from zlib import crc32

import numpy as np
import numpy.typing as npt

from ingestor.model import Digest, Fingerprint, Vectors

Vector = npt.NDArray[np.float32]  # shape (dimensions,)
T = TypeVar("T")
_Aged = dict[Digest, tuple[int, Vector]]  # the day of last use, and the vector

_log = logging.getLogger(__name__)
_MARK = (0x16E57C4E, 1)  # application_id, and the version of the schema
_MEMORY = 64 * 2**20  # bytes, where no file can be had
_READ, _WRITE = "BEGIN", "BEGIN IMMEDIATE"
_ROWS = {"documents": 20, "vectors": 500, "answers": 500}  # forgotten at a time
_SCHEMA = (
    """CREATE TABLE vectors (
        embedder BLOB NOT NULL, digest BLOB NOT NULL, used INTEGER NOT NULL, width INTEGER NOT NULL,
        checksum INTEGER NOT NULL, vector BLOB NOT NULL, PRIMARY KEY (embedder, digest))""",
    "CREATE INDEX vectors_by_use ON vectors (used)",
    "CREATE TABLE answers (key TEXT PRIMARY KEY, used INTEGER NOT NULL, text TEXT NOT NULL)",
    "CREATE INDEX answers_by_use ON answers (used)",
    f"PRAGMA application_id = {_MARK[0]}",
    f"PRAGMA user_version = {_MARK[1]}",
)
_DOCUMENTS = (  # came later than the rest, and without them a file is as good
    """CREATE TABLE IF NOT EXISTS documents (
        item BLOB PRIMARY KEY, used INTEGER NOT NULL, stamp TEXT NOT NULL, data BLOB NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS documents_by_use ON documents (used)",
)
_OLDEST = "SELECT min(used) FROM {table}"
_FORGET = "DELETE FROM {table} WHERE rowid IN (SELECT rowid FROM {table} ORDER BY used LIMIT ?)"


class VectorCache:
    """``max_bytes`` bounds the file; the least recently used go first, by the day of their last use."""

    def __init__(self, path: Path, max_bytes: int, clock: Callable[[], float] = time) -> None:
        self._path, self._max_bytes, self._clock = path, max_bytes, clock
        self._lock = Lock()
        self._said: set[str] = set()
        self._db = self._open(_connect)
        if self._shrink():
            self._attempt(_give_back, None)

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def get(self, embedder: Fingerprint, digests: Sequence[Digest]) -> dict[Digest, Vector]:
        """Those that are there, of this very embedder."""
        nothing: _Aged = {}
        found = self._attempt(lambda db: _found(db, embedder, digests), nothing, _READ)
        stale = [digest for digest, (used, _) in found.items() if used < self._today]
        self._touch(
            "UPDATE vectors SET used = ? WHERE embedder = ? AND digest = ?",
            [(self._today, *_key(embedder, digest)) for digest in stale],
        )
        return {digest: vector for digest, (_, vector) in found.items()}

    def contains(self, embedder: Fingerprint, digests: Sequence[Digest]) -> set[Digest]:
        query = "SELECT 1 FROM vectors WHERE embedder = ? AND digest = ?"
        return self._attempt(
            lambda db: {d for d in digests if db.execute(query, _key(embedder, d)).fetchone()}, set(), _READ
        )

    def put(self, embedder: Fingerprint, digests: Sequence[Digest], vectors: Vectors) -> None:
        rows = [
            (*_key(embedder, digest), self._today, *_packed(vector))
            for digest, vector in zip(digests, vectors, strict=True)
        ]
        self._write("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?, ?, ?, ?)", rows)

    def get_answer(self, key: str) -> str | None:
        query = "SELECT used, text FROM answers WHERE key = ?"
        row = self._attempt(lambda db: db.execute(query, (key,)).fetchone(), None, _READ)
        if row is None:
            return None
        if row[0] < self._today:
            self._touch("UPDATE answers SET used = ? WHERE key = ?", [(self._today, key)])
        return str(row[1])

    def put_answer(self, key: str, text: str) -> None:
        self._write("INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", [(key, self._today, text)])

    def get_document(self, item: Digest) -> tuple[str, bytes] | None:
        """What ``put_document`` was given last."""
        query = "SELECT used, stamp, data FROM documents WHERE item = ?"
        row = self._attempt(lambda db: db.execute(query, (bytes.fromhex(item),)).fetchone(), None, _READ)
        if row is None:
            return None
        if row[0] < self._today:
            self._touch("UPDATE documents SET used = ? WHERE item = ?", [(self._today, bytes.fromhex(item))])
        return str(row[1]), bytes(row[2])

    def put_document(self, item: Digest, stamp: str, data: bytes) -> None:
        """``stamp``: of the state that it is of; one state an item is kept."""
        rows = [(bytes.fromhex(item), self._today, stamp, data)]
        self._write("INSERT OR REPLACE INTO documents VALUES (?, ?, ?, ?)", rows)

    def drop_document(self, item: Digest) -> None:
        if self._attempt(lambda db: _has_document(db, item), False, _READ):
            self._touch("DELETE FROM documents WHERE item = ?", [(bytes.fromhex(item),)])

    def move_documents(self, moves: Sequence[tuple[Digest, Digest]]) -> None:
        """Each (item, item that has its document from now on)."""
        rows = [(bytes.fromhex(to), bytes.fromhex(item)) for item, to in moves]
        self._touch("UPDATE OR REPLACE documents SET item = ? WHERE item = ?", rows)

    @property
    def _today(self) -> int:
        return int(self._clock() // 86_400)

    def _touch(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        if rows:
            self._attempt(lambda db: db.executemany(statement, rows), None)

    def _write(self, statement: str, rows: Iterable[tuple[object, ...]]) -> None:
        self._attempt(lambda db: db.executemany(statement, rows), None)
        self._shrink()

    def _shrink(self) -> bool:
        """Whether it was too large. A tenth is freed at once, so that it is not too large again at once."""
        goal = self._max_bytes * 9 // 10
        too_large = self._attempt(_size, 0, _READ) > self._max_bytes
        while too_large and self._attempt(lambda db: _size(db) > goal and _forget(db), False):
            pass
        return too_large

    def _attempt(self, work: Callable[[sqlite3.Connection], T], otherwise: T, begin: str = _WRITE) -> T:
        """In one transaction; ``otherwise`` where the file does not let it."""
        with self._lock:
            try:
                with _transaction(self._db, begin):
                    return work(self._db)
            except sqlite3.OperationalError as error:
                self._say(f"the cache {self._path} can't be used now: {error}")
            except sqlite3.DatabaseError as error:
                if not _damaged(error):
                    raise
                self._say(f"the cache {self._path} is damaged: {error}")
                self._db.close()
                self._db = self._open(_renewed)
            return otherwise

    def _open(self, connect: Callable[[Path], sqlite3.Connection]) -> sqlite3.Connection:
        try:
            return connect(self._path)
        except (sqlite3.Error, OSError) as error:
            self._say(f"the cache {self._path} can't be opened: {error}")
            if _damaged(error) and connect is not _renewed:
                return self._open(_renewed)
        self._say("cached vectors are kept in memory only, until the next start")
        self._max_bytes = min(self._max_bytes, _MEMORY)
        return _connect(":memory:")

    def _say(self, message: str) -> None:
        if message not in self._said:
            self._said.add(message)
            _log.warning(message)


class _Foreign(sqlite3.DatabaseError):
    """A sound SQLite file, but not ours, or of another version."""


def _connect(path: Path | str) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=10, isolation_level=None, check_same_thread=False)
    try:
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        with _transaction(db, _WRITE):
            _prepare(db)
    except BaseException:
        db.close()
        raise
    return db


def _renewed(path: Path) -> sqlite3.Connection:
    _log.warning("the cache %s is thrown away and begun anew", path)
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    return _connect(path)


def _prepare(db: sqlite3.Connection) -> None:
    if not db.execute("SELECT 1 FROM sqlite_master").fetchone():
        for statement in _SCHEMA:
            db.execute(statement)
    elif (_number(db, "PRAGMA application_id"), _number(db, "PRAGMA user_version")) != _MARK:
        raise _Foreign("it is not a cache of this version")
    for statement in _DOCUMENTS:
        db.execute(statement)


@contextmanager
def _transaction(db: sqlite3.Connection, begin: str) -> Iterator[None]:
    db.execute(begin)
    try:
        yield
        db.execute("COMMIT")
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


def _damaged(error: Exception) -> bool:
    name = getattr(error, "sqlite_errorname", "")
    return isinstance(error, _Foreign) or name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB"))


def _size(db: sqlite3.Connection) -> int:
    """Bytes in use."""
    pages = _number(db, "PRAGMA page_count") - _number(db, "PRAGMA freelist_count")
    return pages * _number(db, "PRAGMA page_size")


def _number(db: sqlite3.Connection, query: str) -> int:
    return int(db.execute(query).fetchone()[0])


def _forget(db: sqlite3.Connection) -> bool:
    """Drop some of what was used longest ago, answers, which cost money, last. False: none is left."""
    oldest = [
        (table == "answers", used, table)
        for table in _ROWS
        for (used,) in db.execute(_OLDEST.format(table=table))
        if used is not None
    ]
    for _, _, table in sorted(oldest)[:1]:
        db.execute(_FORGET.format(table=table), (_ROWS[table],))
    return bool(oldest)


def _give_back(db: sqlite3.Connection) -> None:
    """Cut the free pages off the file; one execution frees one page."""
    for _ in range(_number(db, "PRAGMA freelist_count")):
        db.execute("PRAGMA incremental_vacuum")


def _key(embedder: Fingerprint, digest: Digest) -> tuple[bytes, bytes]:
    return bytes.fromhex(embedder), bytes.fromhex(digest)


def _packed(vector: Vector) -> tuple[int, int, bytes]:
    """Bytes a number, checksum, numbers."""
    half = vector.astype("<f2")
    data = (half if np.array_equal(half, vector) else vector.astype("<f4")).tobytes()
    return len(data) // len(vector), crc32(data), data


def _has_document(db: sqlite3.Connection, item: Digest) -> bool:
    return db.execute("SELECT 1 FROM documents WHERE item = ?", (bytes.fromhex(item),)).fetchone() is not None


def _found(db: sqlite3.Connection, embedder: Fingerprint, digests: Sequence[Digest]) -> _Aged:
    """Those that are there and sound."""
    query = "SELECT used, width, checksum, vector FROM vectors WHERE embedder = ? AND digest = ?"
    rows = ((digest, db.execute(query, _key(embedder, digest)).fetchone()) for digest in digests)
    return {digest: (row[0], _unpacked(*row[1:])) for digest, row in rows if row and _sound(*row)}


def _sound(used: object, width: object, checksum: object, data: object) -> bool:
    """A damaged page that SQLite did not notice can hold anything."""
    return isinstance(used, int) and width in (2, 4) and isinstance(data, bytes) and crc32(data) == checksum


def _unpacked(width: int, checksum: int, data: bytes) -> Vector:
    return np.frombuffer(data, f"<f{width}").astype(np.float32)
