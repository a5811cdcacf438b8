"""The SQLite file of all lexical indexes: opens it, recognises foreign and damaged files, and rebuilds it.

The file can be deleted at any time: its content is rebuilt from Chroma. The UUIDs of its shards identify a
collection. Each collection has tables of its own, so its word counts are its own, and its removal is cheap.
The tables are its records with their terms (``terms.py``), FTS5's index of these terms, and the tables of
``tables.py``. FTS5 only splits terms at spaces. One thread writes; other processes read (WAL).
"""

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Lock
from zlib import crc32

import Stemmer

from ingestor.core.entries import join, separate
from ingestor.core.events import event
from ingestor.lexical import rules, tables
from ingestor.ports import Transient
from ingestor.state.files import delete_database, refuse_link
from ingestor.state.tables import is_damage, read_number, transaction

log = logging.getLogger("ingestor")

Uuids = tuple[str, ...]  # of a collection's shards; they identify the collection

_APPLICATION = 0x16E57C4F
_SCHEMA = 6
PATIENCE = 10.0  # seconds to wait for another process that holds the file
_COLLECTIONS = """CREATE TABLE collections (
    number INTEGER PRIMARY KEY, uuid TEXT NOT NULL UNIQUE, complete INTEGER NOT NULL DEFAULT 0,
    records INTEGER NOT NULL DEFAULT 0)"""
_LANGUAGES = """CREATE TABLE languages (
    number INTEGER NOT NULL, language TEXT NOT NULL, PRIMARY KEY (number, language)) WITHOUT ROWID"""
_RECORDS = """CREATE TABLE records_{0} (
    row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, text_key BLOB NOT NULL, language TEXT NOT NULL,
    context TEXT NOT NULL, title TEXT NOT NULL, page INTEGER, terms TEXT NOT NULL)"""
_TABLES = {
    "records": _RECORDS,
    "words": f"""CREATE VIRTUAL TABLE words_{{0}} USING fts5(
        terms, content='records_{{0}}', content_rowid='row', tokenize="{tables.TOKENIZER}")""",
    **tables.TABLES,
}
_PAGES = f"""CREATE INDEX pages_{{0}} ON records_{{0}} ({tables.document_of("id")}, page)
    WHERE page IS NOT NULL"""
_TRIGGERS = (
    """CREATE TRIGGER records_{0}_new AFTER INSERT ON records_{0} BEGIN
        INSERT INTO words_{0} (rowid, terms) VALUES (new.row, new.terms);
        UPDATE collections SET records = records + 1 WHERE number = {0}; END""",
    """CREATE TRIGGER records_{0}_gone AFTER DELETE ON records_{0} BEGIN
        INSERT INTO words_{0} (words_{0}, rowid, terms) VALUES ('delete', old.row, old.terms);
        UPDATE collections SET records = records - 1 WHERE number = {0}; END""",
    *tables.TRIGGERS,
)


class Unusable(Exception):
    """Error: the file is missing, damaged, or written by other rules."""


def mark() -> int:
    """Return a checksum of the schema and of the rules that decide the terms of a text.

    A file with another mark is rebuilt.
    """
    decisive = (_SCHEMA, rules.VERSION, rules.LONGEST, Stemmer.version(), sorted(rules.ALGORITHMS.items()))
    return crc32(repr(decisive).encode()) & 0x7FFFFFFF


class LexicalFile:
    """The file for its only writer. ``synchronous``: lowered only by simulations.

    ``renewals``: number of times that the file was rebuilt, and so emptied.
    """

    def __init__(self, path: Path, synchronous: str = "FULL") -> None:
        self._path, self._synchronous, self.renewals = path, synchronous, 0
        self._stamp: tuple[int, int] | None = None  # of the file after our last transaction
        self._db = self._open()

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Run a transaction, which is durable when the context ends.

        Raises Transient if the file cannot be written now, Unusable if it was damaged or deleted. Then the
        file is empty, and no collection in it is complete.
        """
        self._require()
        is_ours = self._read_stamp() == self._stamp
        try:
            try:
                with transaction(self._db):
                    yield self._db
            finally:
                if is_ours:
                    self._stamp = self._read_stamp()
        except sqlite3.DatabaseError as error:
            if not _means_damage(error):
                raise Transient(f"the lexical index cannot be written: {error}") from error
            self._renew(str(error))
            raise Unusable(str(error)) from error

    def examine(self) -> None:
        """Check that readers can read the file. Raises Unusable otherwise; the file is then empty.

        If another program wrote to the file, all its pages are checked: SQLite reads the beginning of an
        overwritten file from the WAL, and finds no fault there.
        """
        self._require()
        try:
            with open_for_reading(self._path) as db:
                if (stamp := self._read_stamp()) != self._stamp:
                    require_sound(db)
                    self._stamp = stamp
        except Unusable as error:
            self._renew(str(error))
            raise

    def number(self, uuids: Uuids) -> int:
        """Return the number of a collection's tables, which are created if missing."""
        uuid = join(uuids)
        with self.transaction() as db:
            stored = db.execute("SELECT number FROM collections WHERE uuid = ?", (uuid,)).fetchone()
            if stored is not None:
                return int(stored[0])
            number = int(db.execute("INSERT INTO collections (uuid) VALUES (?)", (uuid,)).lastrowid or 0)
            for statement in (*_TABLES.values(), _PAGES, *_TRIGGERS):
                db.execute(statement.format(number))
            return number

    def collections(self) -> set[Uuids]:
        with self.transaction() as db:
            return {separate(uuid) for (uuid,) in db.execute("SELECT uuid FROM collections")}

    def discard(self, uuids: Uuids) -> None:
        """Forget a collection."""
        uuid = join(uuids)
        with self.transaction() as db:
            for (number,) in db.execute("SELECT number FROM collections WHERE uuid = ?", (uuid,)).fetchall():
                for name in _TABLES:
                    db.execute(f"DROP TABLE {name}_{number}")  # with its triggers
                db.execute("DELETE FROM languages WHERE number = ?", (number,))
            db.execute("DELETE FROM collections WHERE uuid = ?", (uuid,))

    def _require(self) -> None:
        """Raise Unusable if the file was deleted or replaced: writes would be lost."""
        try:
            here = self._path.stat()
        except FileNotFoundError:
            here = None
        if here is None or (here.st_dev, here.st_ino) != self._inode:
            self._renew("the file was deleted or replaced")
            raise Unusable("the file was deleted or replaced")

    def _read_stamp(self) -> tuple[int, int] | None:
        """Return when the file was written last, and its size; None if the file was deleted."""
        try:
            here = self._path.stat()
        except FileNotFoundError:
            return None
        return here.st_mtime_ns, here.st_size

    def _open(self) -> sqlite3.Connection:
        try:
            return self._connect()
        except (sqlite3.DatabaseError, Unusable) as error:
            if isinstance(error, sqlite3.DatabaseError) and not _means_damage(error):
                why = f"the lexical index {self._path} cannot be opened ({error})"
                raise Transient(f"{why}: check that this user may write there") from error
            self._remove(str(error))
            return self._connect()

    def _renew(self, why: str) -> None:
        """Rebuild the file, empty. Raises Transient if it cannot be written now; the next use retries."""
        self._db.close()
        self.renewals += 1
        self._inode = 0, 0  # matches no file: an unfinished new file may have the old file's number
        self._remove(why)
        self._db = self._open()

    def _remove(self, why: str) -> None:
        log.warning(
            "rebuilding the lexical index %s from Chroma: %s",
            self._path,
            why,
            extra=event("words_failed", reason=str(why)),
        )
        delete_database(self._path)

    def _connect(self) -> sqlite3.Connection:
        refuse_link(self._path)
        db = sqlite3.connect(self._path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
        try:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute(f"PRAGMA synchronous = {self._synchronous}")
            with transaction(db):
                _prepare(db)
        except BaseException:
            db.close()
            raise
        here = self._path.stat()
        self._inode = here.st_dev, here.st_ino
        self._stamp = self._read_stamp()
        return db


@contextmanager
def open_for_reading(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the file for reading, beside its writer. Raises Unusable if it cannot be read, also later."""
    with closing(LexicalReaders(path)) as readers, readers.connect() as db:
        yield db


def _require_mark(db: sqlite3.Connection) -> None:
    stored = read_number(db, "PRAGMA application_id"), read_number(db, "PRAGMA user_version")
    if stored != (_APPLICATION, mark()):
        raise Unusable("the file has another version, or is no lexical index")


def require_sound(db: sqlite3.Connection) -> None:
    """Read all pages of the file. Raises Unusable, or an error of SQLite, if any is damaged."""
    (fault,) = db.execute("PRAGMA quick_check(1)").fetchone()
    if fault != "ok":
        raise Unusable(f"the file is damaged: {fault.splitlines()[-1]}")


def _means_damage(error: sqlite3.DatabaseError) -> bool:
    """Return whether an error means damage, or a table that is missing."""
    return is_damage(error) or str(error).startswith(("no such table", "vtable constructor"))


def _prepare(db: sqlite3.Connection) -> None:
    """Create the tables in a new file. Raises Unusable if the file has another mark."""
    if not db.execute("SELECT 1 FROM sqlite_master").fetchone():
        db.execute(_COLLECTIONS)
        db.execute(_LANGUAGES)
        db.execute(f"PRAGMA application_id = {_APPLICATION}")
        db.execute(f"PRAGMA user_version = {mark()}")
    _require_mark(db)


_File = tuple[int, int]  # device and inode
_MAPPED = 2**31 - 1  # bytes of the file that SQLite reads without copying them into a cache of its own


class LexicalReaders:
    """Connections for reading, callable from any thread. Idle connections are reused."""

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, Lock()
        self._idle: list[tuple[_File, sqlite3.Connection]] = []
        self._closed = False

    @contextmanager
    def connect(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection to this thread alone.

        After an error, also later, raises Unusable and drops it.
        """
        try:
            stored = self._path.stat()
            file, db = self._take((stored.st_dev, stored.st_ino))
        except (OSError, sqlite3.DatabaseError) as error:
            raise self._unreadable(error) from error
        try:
            yield db
        except BaseException as error:
            db.close()
            if isinstance(error, sqlite3.DatabaseError):
                raise self._unreadable(error) from error
            raise
        with self._lock:
            if not self._closed:
                self._idle.append((file, db))
                return
        db.close()

    def close(self) -> None:
        """Close idle connections; a connection in use is closed when it is returned."""
        with self._lock:
            self._closed = True
            while self._idle:
                self._idle.pop()[1].close()

    def _take(self, file: _File) -> tuple[_File, sqlite3.Connection]:
        """Take a connection to the file that is now at this path. Return it with that file."""
        with self._lock:
            while self._idle:
                of, db = self._idle.pop()
                if of == file:
                    return of, db
                db.close()
        address = f"{self._path.absolute().as_uri()}?mode=ro"
        db = sqlite3.connect(
            address, timeout=PATIENCE, isolation_level=None, check_same_thread=False, uri=True
        )
        try:
            _require_mark(db)
            db.execute(f"PRAGMA mmap_size = {_MAPPED}")
        except BaseException:
            db.close()
            raise
        return file, db

    def _unreadable(self, error: Exception) -> Unusable:
        return Unusable(f"the lexical index {self._path} cannot be read: {error}")
