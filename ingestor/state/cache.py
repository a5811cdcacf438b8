"""A disposable SQLite file of costly results: vectors, parsed documents, answers of language models.

A damaged or foreign file is deleted and created again. If the disk is full or the file is locked, nothing is
stored, and no error is raised. Any thread may call any method, and several processes may share the file.

A vector is returned bit for bit. It is stored as float16 if that is exact (as with the built-in embedders),
else as float32. A row with a wrong checksum counts as missing. The checksum covers both the key and the
content of a row. A damaged index page could otherwise lead to another row, whose content is valid.
"""

from __future__ import annotations

import json
import logging
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from time import time
from typing import TYPE_CHECKING, Any, TypeVar
from zlib import crc32

from ingestor.core.document_json import Parsed, decode, encode, pack
from ingestor.core.events import event
from ingestor.core.fingerprint import combine
from ingestor.model import Digest, Fingerprint, SourceName
from ingestor.state.files import delete_database, refuse_link
from ingestor.state.tables import is_damage, read_number, transaction

if TYPE_CHECKING:
    from ingestor.model import Vector, Vectors

log = logging.getLogger(__name__)

T = TypeVar("T")
Key = tuple[bytes | str, ...]
Content = Sequence[Any]
Within = Callable[[sqlite3.Connection], AbstractContextManager[object]]


@dataclass(frozen=True, slots=True)
class CacheTable:
    """Description of a table of the cache. ``key``: columns that identify a row. ``content``: columns of its
    value.

    Every table also has a column ``used``, the day of the row's last use, and a column ``checksum``.
    ``forgotten``: how many rows are deleted together when the file is too large.
    """

    name: str
    key: tuple[str, ...]
    content: tuple[str, ...]
    forgotten: int

    @property
    def columns(self) -> str:
        return ", ".join((*self.key, *self.content, "used", "checksum"))

    @property
    def where(self) -> str:
        """Return the SQL condition that finds a row by its key."""
        return " AND ".join(f"{column} = ?" for column in self.key)


VECTORS = CacheTable("vectors", ("embedder", "digest"), ("width", "vector"), 500)
ANSWERS = CacheTable("answers", ("key",), ("text",), 500)
DOCUMENTS = CacheTable("documents", ("item",), ("stamp", "data"), 20)
TABLES = (VECTORS, ANSWERS, DOCUMENTS)

_MARK = (0x16E57C4E, 1)  # application_id, and the version of the schema
_MEMORY = 64 * 2**20  # bytes, if no file can be opened
_SCHEMA = (
    """CREATE TABLE vectors (
        embedder BLOB NOT NULL, digest BLOB NOT NULL, used INTEGER NOT NULL, width INTEGER NOT NULL,
        checksum INTEGER NOT NULL, vector BLOB NOT NULL, PRIMARY KEY (embedder, digest))""",
    "CREATE INDEX vectors_by_use ON vectors (used)",
    """CREATE TABLE answers (
        key TEXT PRIMARY KEY, used INTEGER NOT NULL, text TEXT NOT NULL, checksum INTEGER NOT NULL)""",
    "CREATE INDEX answers_by_use ON answers (used)",
    """CREATE TABLE documents (
        item BLOB PRIMARY KEY, used INTEGER NOT NULL, stamp TEXT NOT NULL, data BLOB NOT NULL,
        checksum INTEGER NOT NULL)""",
    "CREATE INDEX documents_by_use ON documents (used)",
    f"PRAGMA application_id = {_MARK[0]}",
    f"PRAGMA user_version = {_MARK[1]}",
)


def checksum(key: Key, content: Content) -> int:
    """Return the CRC-32 of all values of a row, including their types and lengths.

    The types count because one flipped bit can turn a text into bytes.
    """
    crc = 0
    for value in (*key, *content):
        data = value if isinstance(value, bytes) else str(value).encode()
        crc = crc32(data, crc32(f"{type(value).__name__} {len(data)} ".encode(), crc))
    return crc


class VectorCache:
    """The cache of vectors, parsed documents and answers of language models, in one file.

    ``max_bytes``: the largest size of the file. If it is exceeded, the rows that were not used for most days
    are deleted first. ``clock``: returns POSIX seconds.
    """

    def __init__(self, path: Path, max_bytes: int, clock: Callable[[], float] = time) -> None:
        self._path, self._max_bytes, self._clock = path, max_bytes, clock
        self._lock = Lock()
        self._logged: set[str] = set()
        self._db = self._open(_connect)
        if self._attempt(_size, 0, nullcontext) > self._max_bytes:  # the config lowered the bound
            self._shrink()
            self._attempt(_free_pages, None)

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def get(self, embedder: Fingerprint, digests: Sequence[Digest]) -> dict[Digest, Vector]:
        """Return the cached vectors of an embedder by digest of the text.

        Digests without a vector are left out.
        """
        import numpy as np

        keys = {_vector_key(embedder, digest): digest for digest in digests}
        return {
            keys[key]: np.frombuffer(data, f"<f{width}").astype(np.float32)
            for key, (width, data) in self.find(VECTORS, list(keys)).items()
        }

    def put(self, embedder: Fingerprint, digests: Sequence[Digest], vectors: Vectors) -> None:
        keys = [_vector_key(embedder, digest) for digest in digests]
        self.store(VECTORS, zip(keys, map(_pack_vector, vectors), strict=True))

    def get_answer(self, key: str) -> str | None:
        """Return the cached answer of a language model to the request with this key, or None."""
        return next((text for (text,) in self.find(ANSWERS, [(key,)]).values()), None)

    def put_answer(self, key: str, text: str) -> None:
        self.store(ANSWERS, [((key,), (text,))])

    def find(self, table: CacheTable, keys: Sequence[Key]) -> dict[Key, Content]:
        """Return the content of the rows with these keys, and note today as the day of their last use.

        Rows that are missing or damaged are left out.
        """
        today, nothing = self._today, dict[Key, tuple[int, Content]]()
        entries = self._attempt(lambda db: _look_up(db, table, keys), nothing, nullcontext)
        # A row is written at most once a day, so that reading the cache seldom writes to it.
        if stale := [(today, *key) for key, (used, _) in entries.items() if used < today]:
            statement = f"UPDATE {table.name} SET used = ? WHERE {table.where}"
            self._attempt(lambda db: db.executemany(statement, stale), None)
        return {key: content for key, (_, content) in entries.items()}

    def drop(self, table: CacheTable, key: Key) -> None:
        """Delete the row with this key, if there is one."""
        statement = f"DELETE FROM {table.name} WHERE {table.where}"
        self._attempt(lambda db: db.execute(statement, key), None)

    def store(self, table: CacheTable, rows: Iterable[tuple[Key, Content]]) -> None:
        """Store rows in place of earlier rows with the same keys.

        If the file is too large, delete old rows.
        """
        values = [(*key, *content, self._today, checksum(key, content)) for key, content in rows]
        marks = ", ".join("?" * (len(table.key) + len(table.content) + 2))

        def insert(db: sqlite3.Connection) -> int:
            db.executemany(f"INSERT OR REPLACE INTO {table.name} ({table.columns}) VALUES ({marks})", values)
            return _size(db)

        if self._attempt(insert, 0) > self._max_bytes:
            self._shrink()

    @property
    def _today(self) -> int:
        return int(self._clock() // 86_400)

    def _shrink(self) -> None:
        """Delete old rows until a tenth of the file is free.

        Each transaction deletes only a few rows, because other processes may wait for the file.
        """
        goal = self._max_bytes * 9 // 10
        while self._attempt(lambda db: _size(db) > goal and _forget(db), False):
            pass

    def _attempt(
        self, work: Callable[[sqlite3.Connection], T], otherwise: T, within: Within = transaction
    ) -> T:
        """Run ``work`` and return its result, or ``otherwise`` if the file cannot be used.

        A damaged file is created again. ``within``: ``nullcontext`` for work that only reads.
        """
        with self._lock:
            try:
                with within(self._db):
                    return work(self._db)
            except sqlite3.OperationalError as error:
                reason = f"cannot be used now: {error}; results are computed again"
                self._log_once(f"the cache {self._path} {reason}")
            except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
                if not _means_damage(error):
                    raise
                self._log_once(f"the cache {self._path} is damaged: {error}")
                self._db.close()
                self._db = self._open(_renew)
            return otherwise

    def _open(self, connect: Callable[[Path], sqlite3.Connection]) -> sqlite3.Connection:
        """Open the file. If it is damaged, create it again; if that fails, too, use memory in its place."""
        try:
            return connect(self._path)
        except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
            self._log_once(f"the cache {self._path} cannot be opened: {error}")
            if _means_damage(error) and connect is not _renew:
                return self._open(_renew)
        self._log_once("cached vectors are kept in memory only, until the next start")
        self._max_bytes = min(self._max_bytes, _MEMORY)
        return _connect(":memory:")

    def _log_once(self, message: str) -> None:
        if message not in self._logged:
            self._logged.add(message)
            log.warning(message, extra=event("cache_trouble"))


class _Foreign(sqlite3.DatabaseError):
    """Error: another program, or another version of this one, wrote the SQLite file."""


def _connect(path: Path | str) -> sqlite3.Connection:
    refuse_link(Path(path))
    db = sqlite3.connect(path, timeout=10, isolation_level=None, check_same_thread=False)
    try:
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        with transaction(db):
            _prepare(db)
    except BaseException:
        db.close()
        raise
    return db


def _renew(path: Path) -> sqlite3.Connection:
    words = "cache %s is damaged or not ingestor's: created anew; vectors are computed again when needed"
    log.warning(words, path, extra=event("cache_trouble"))
    delete_database(path)
    return _connect(path)


def _prepare(db: sqlite3.Connection) -> None:
    """Create the tables in a new file. Raise _Foreign if the file has other tables."""
    if not db.execute("SELECT 1 FROM sqlite_master").fetchone():
        for statement in _SCHEMA:
            db.execute(statement)
    elif (read_number(db, "PRAGMA application_id"), read_number(db, "PRAGMA user_version")) != _MARK:
        raise _Foreign("the file is not a cache of this version")
    try:
        for table in TABLES:  # fails if a column is missing
            db.execute(f"SELECT {table.columns} FROM {table.name} LIMIT 0")
    except sqlite3.OperationalError as error:
        raise _Foreign(str(error)) from error


def _means_damage(error: Exception) -> bool:
    """Return whether an error means that the cache file is damaged, or was written by another program.

    UnicodeDecodeError counts, too: Python raises it if an error message of SQLite quotes a damaged page.
    """
    return is_damage(error) or isinstance(error, _Foreign | UnicodeDecodeError)


def _size(db: sqlite3.Connection) -> int:
    """Return how many bytes of the file are in use.

    Free pages are not counted, since they are filled first.
    """
    pages = read_number(db, "PRAGMA page_count") - read_number(db, "PRAGMA freelist_count")
    return pages * read_number(db, "PRAGMA page_size")


def _forget(db: sqlite3.Connection) -> bool:
    """Delete some of the least recently used rows. Return whether any rows were left to delete.

    Answers of language models are deleted last, because they cost money.
    """
    oldest = [
        (table is ANSWERS, used, table.name, table.forgotten)
        for table in TABLES
        for (used,) in db.execute(f"SELECT min(used) FROM {table.name}")
        if used is not None
    ]
    for _, _, name, number in sorted(oldest)[:1]:
        rows = f"SELECT rowid FROM {name} ORDER BY used LIMIT ?"
        db.execute(f"DELETE FROM {name} WHERE rowid IN ({rows})", (number,))
    return bool(oldest)


def _free_pages(db: sqlite3.Connection) -> None:
    """Give free pages of the file back to the disk. One execution of the statement frees one page."""
    for _ in range(read_number(db, "PRAGMA freelist_count")):
        db.execute("PRAGMA incremental_vacuum")


def _look_up(
    db: sqlite3.Connection, table: CacheTable, keys: Iterable[Key]
) -> dict[Key, tuple[int, Content]]:
    """Return the day of last use and the content of the rows with these keys.

    Rows that are missing, or whose checksum is wrong, are left out: SQLite does not notice all damage.
    """
    query = f"SELECT used, checksum, {', '.join(table.content)} FROM {table.name} WHERE {table.where}"
    entries: dict[Key, tuple[int, Content]] = {}
    for key in keys:
        for used, stored, *content in db.execute(query, key):
            if isinstance(used, int) and stored == checksum(key, content):
                entries[key] = used, content
    return entries


def _vector_key(embedder: Fingerprint, digest: Digest) -> Key:
    return bytes.fromhex(embedder), bytes.fromhex(digest)


def _item_key(source: SourceName, key: str) -> Key:
    return (bytes.fromhex(combine(source, key)),)


def _pack_vector(vector: Vector) -> Content:
    """Return how many bytes each number takes, and the numbers as bytes: float16 if that is exact, else
    float32."""
    import numpy as np

    half = vector.astype("<f2")
    data = (half if np.array_equal(half, vector) else vector.astype("<f4")).tobytes()
    return len(data) // len(vector), data


LARGEST = 64 * 2**20  # bytes, packed, of a document that is kept
_FORMAT = 2  # of stored documents; other formats are ignored


class Parses:
    """The last parsed document of each item, in the cache.

    ``learns``: whether documents are added and deleted.
    """

    def __init__(self, cache: VectorCache, *, learns: bool = True) -> None:
        self._cache, self._learns = cache, learns

    def find(self, source: SourceName, key: str, stamp: str) -> Parsed | None:
        """Return the parsed document of an item in this state; None if it is missing or damaged.

        ``stamp``: identifies the state of the item. A stored document of another state is deleted.
        """
        row = _item_key(source, key)
        if (stored := self._cache.find(DOCUMENTS, [row]).get(row)) is None:
            return None
        if stored[0] != combine(_FORMAT, stamp):
            self.forget(source, key)
            return None
        try:
            content, parser, recipe, document = json.loads(zlib.decompress(stored[1]))
        except (zlib.error, ValueError):
            return None
        return Parsed(Digest(content), parser, Fingerprint(recipe), decode(document))

    def keep(self, source: SourceName, key: str, stamp: str, parsed: Parsed) -> None:
        """Store the parsed document of an item, unless it is too large.

        ``stamp``: identifies the state of the item.
        """
        value = [parsed.content, parsed.parser, parsed.recipe, encode(parsed.document)]
        data = zlib.compress(pack(value), 1)
        if self._learns and len(data) <= LARGEST:
            self._cache.store(DOCUMENTS, [(_item_key(source, key), (combine(_FORMAT, stamp), data))])

    def rename(self, source: SourceName, to: SourceName, keys: Sequence[str]) -> None:
        """Move the parsed documents of these items from one source name to another."""
        for old, new in ((_item_key(source, key), _item_key(to, key)) for key in keys):
            for content in self._cache.find(DOCUMENTS, [old]).values():
                self._cache.store(DOCUMENTS, [(new, content)])  # written anew: the checksum covers the key
                self._cache.drop(DOCUMENTS, old)

    def forget(self, source: SourceName, key: str) -> None:
        """Delete the parsed document of an item that its source no longer has."""
        if self._learns:
            self._cache.drop(DOCUMENTS, _item_key(source, key))
