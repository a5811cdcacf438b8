"""The journal: one SQLite file with the desired state, the applied state, and the records in doubt.

Every method is one transaction, which is durable when the method returns. Before the index is written,
``intend`` marks the slots that are about to be written as in doubt (``unsure``), and clears the receipt.
Afterwards ``settle`` stores the result. So the journal always knows at least the records that the index has.

A document is settled if its done version and recipe equal the wanted ones. A wanted version of NULL means
that the document is to be removed. The connection that writes belongs to one thread. Other threads use
``reader``, or a ``JournalReader`` of their own.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from threading import Lock
from typing import TYPE_CHECKING, Any

from ingestor.core.decisions import NEVER, Changes, Failure, QueuePositions
from ingestor.core.entries import EditionName, Entry, Feed, Intent, Receipt, Renewal
from ingestor.core.listings import pages
from ingestor.model import SourceName
from ingestor.ports import NeedsHuman
from ingestor.state import tables
from ingestor.state.files import full_disk, refuse_link

if TYPE_CHECKING:
    from ingestor.model import Sums


Values = Sequence[object] | dict[str, object]  # of a query


@contextmanager
def open_journal(path: Path) -> Iterator[Journal]:
    """Open the journal until the context ends. The file is created if it does not exist.

    Its folder must exist. Raises NeedsHuman if the file cannot be used, when it is opened or later in the
    context.
    """
    try:
        with closing(Journal(path)) as journal:
            yield journal
    except sqlite3.DatabaseError as error:
        if tables.is_damage(error):
            raise NeedsHuman(
                f"the journal {path} is damaged ({error}): put a backup of it in its place; or move it away, "
                "run `ingestor collections --adopt NAME` for each collection, and `ingestor sync`, which "
                "writes all records again from the cache"
            ) from error
        if isinstance(error, sqlite3.OperationalError):
            raise NeedsHuman(
                full_disk(path.parent)
                or f"the journal {path} cannot be used ({error}): check that this user may write there and "
                "that the disk has room"
            ) from error
        raise


class Journal:
    """The open journal.

    ``synchronous``: how SQLite waits for the disk; only simulations change it. ``reader``: a connection that
    only reads, for any thread.
    """

    def __init__(self, path: Path, synchronous: str = "FULL") -> None:
        self._db = _connect(path)
        _use_wal(self._db)
        self._db.execute(f"PRAGMA synchronous={synchronous}")
        tables.migrate(self._db)
        self.reader = JournalReader(path)
        if fact(self, "owner") is None:  # asked first, since a transaction would wait for another process
            with self.transaction():
                self._db.execute("INSERT OR IGNORE INTO state VALUES ('owner', ?)", (token_hex(8),))

    @classmethod
    def blank(cls) -> Journal:
        """Return an empty journal in memory. Commands that only read use it if there is no journal yet."""
        return cls(Path("file::memory:?cache=shared"))

    def copy_to(self, path: Path) -> Journal:
        """Copy the journal into a file, and return the copy as an open journal."""
        copy = Journal(path, synchronous="OFF")
        self._db.backup(copy._db)
        return copy

    def close(self) -> None:
        self.reader.close()
        self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Open a transaction.

        It is durable when the context ends, and undone if the context raises an exception.
        """
        with tables.transaction(self._db):
            yield self._db

    def write(self, statement: str, values: Sequence[object] = ()) -> int:
        """Execute a statement in its own transaction. Return how many rows it changed."""
        with self.transaction() as db:
            return db.execute(statement, values).rowcount

    def select(self, query: str, values: Values = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query. Only modules of this folder write SQL (tests/test_layers.py)."""
        return self._db.execute(query, values).fetchall()

    def mark(self) -> tuple[int, int]:
        """Return a mark of the journal's content. If any process writes to the journal, the mark changes."""
        return self._db.total_changes, tables.read_number(self._db, "PRAGMA data_version")

    # --- small facts ---------------------------------------------------------------------------------

    def set(self, key: str, value: str) -> None:
        """Store a fact under a key, such as ``tokens_per_second``. ``fact`` reads it."""
        self.write("INSERT OR REPLACE INTO state VALUES (?, ?)", (key, value))

    @property
    def owner(self) -> str:
        """Return the random token of this state, by which its collections are recognised in Chroma."""
        return str(fact(self, "owner"))

    # --- what is wanted ------------------------------------------------------------------------------

    def observe(
        self,
        source: SourceName,
        edition: EditionName,
        changes: Changes,
        remove_at: float,
        turns: QueuePositions | None = None,
    ) -> None:
        """Store the changes that a listing of a source found, or one part of them, for one edition.

        A changed document becomes due, even if it failed before. ``remove_at``: POSIX seconds until which a
        vanished document can be recognised under another name, before it is removed. ``turns``: computes
        positions in the queue. Pass the same object for all parts of a listing. Documents that readers
        already see are due before new ones, small documents before large ones, and members of containers
        last.
        """
        turns, feed = turns or QueuePositions(), (source, edition)
        changed = ((*feed, *tables.item_columns(i), token_hex(8), turns.of(i)) for i in changes.changed)
        with self.transaction() as db:
            db.executemany(
                f"""INSERT INTO documents (document_id, source, collection, key, wanted_version, uri, size,
                                           modified, extra, retry_at, since)
                   VALUES ({_DOCUMENT_ID}, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?10, {tables.NOW})
                   ON CONFLICT (source, collection, key) DO UPDATE SET
                       wanted_version = excluded.wanted_version, uri = excluded.uri, size = excluded.size,
                       modified = excluded.modified, extra = excluded.extra,
                       attempts = 0, retry_at = iif(digest IS NULL, excluded.retry_at, 0), reason = NULL,
                       {_NOT_QUARANTINED}, {tables.DUE_SINCE}""",
                changed,
            )
            vanished = ((remove_at, *feed, key) for key in changes.vanished)
            db.executemany(f"{_VANISH} WHERE source = ? AND collection = ? AND key = ?", vanished)

    def relocate(self, source: SourceName, editions: Sequence[EditionName]) -> None:
        """Set the editions that a source feeds. The documents that it has in other editions are to be
        removed.

        Documents in previous editions are kept, since a rollback needs them.
        """
        elsewhere = f"collection NOT IN ({tables.marks(editions)}) AND {tables.IN_FORCE}"
        query = f"{_VANISH} WHERE source = ? AND {elsewhere} AND wanted_version IS NOT NULL"
        self.write(query, (0, source, *editions))

    def want_recipe(self, feed: Feed, parser: str, recipe: str) -> None:
        """Set the recipe for the documents of a feed that this parser reads. Documents with another recipe
        become due.

        In the queue they come last, after documents whose content changed.
        """
        query = f"""UPDATE documents SET wanted_recipe = ?, attempts = 0, retry_at = ?, reason = NULL,
                        {_NOT_QUARANTINED}, {tables.DUE_SINCE}
                    WHERE source = ? AND collection = ? AND parser = ? AND wanted_recipe IS NOT ?"""
        self.write(query, (recipe, _LAST, *feed, parser, recipe))

    # --- documents -----------------------------------------------------------------------------------

    def entry(self, row: int) -> Entry | None:
        return next(iter(self.of_rows([row])), None)

    def of_rows(self, rows: Collection[int]) -> list[Entry]:
        """Return the documents with these rows, in the order of the rows. Missing rows are left out."""
        read = (self.entries(f"id IN ({tables.marks(some)})", some) for some in pages(rows, tables.TOGETHER))
        entries = {entry.row: entry for some in read for entry in some}
        return [entries[row] for row in rows if row in entries]

    def entries(self, where: str, values: Sequence[object]) -> list[Entry]:
        """Return the documents that satisfy an SQL condition."""
        return entries_of(self, where, values)

    # --- what is done --------------------------------------------------------------------------------

    def intend(self, intents: Sequence[Intent], renewal: Renewal | None = None) -> None:
        """Mark slots as in doubt and clear the receipts of their documents. Call this before the index is
        written.

        ``renewal``: the generations that the collection may have until the end of the write.
        """
        with self.transaction() as db:
            tables.write_renewal(db, renewal)
            for intent in intents:
                if intent.renamed is not None:
                    tables.adopt(db, intent.renamed, intent.row)
                db.execute(f"{_VOID} WHERE id = ?", (intent.row,))
                query = """INSERT INTO records (document, slot, text_key, vector_key, meta_key, unsure)
                           VALUES (?, ?, '', '', '', 1) ON CONFLICT DO UPDATE SET unsure = 1"""
                db.executemany(query, [(intent.row, slot) for slot in intent.slots])

    def settle(self, receipts: Sequence[Receipt], renewal: Renewal | None = None) -> None:
        """Store the applied state of documents. Call this after the index was written.

        All documents must be prepared by the recipes of the present config. ``renewal``: the generation that
        the collection has now.
        """
        with self.transaction() as db:
            tables.write_renewal(db, renewal)
            tables.write_receipts(db, receipts)

    def remove(
        self, rows: Sequence[int], deleted: Sequence[Intent] = (), renewal: Renewal | None = None
    ) -> None:
        """Forget removed documents, after their records were deleted in the index.

        ``deleted``: records of these and other documents that were deleted. A document that was listed again
        meanwhile is kept, and becomes due. ``renewal``: the generation that the collection has now.
        """
        with self.transaction() as db:
            tables.write_renewal(db, renewal)
            tables.change_sums(db, dict.fromkeys(rows, (None, None)))
            query = "DELETE FROM records WHERE document = ? AND slot = ?"
            db.executemany(query, [(each.row, slot) for each in deleted for slot in each.slots])
            for row in rows:
                db.execute("DELETE FROM records WHERE document = ?", (row,))
                db.execute("DELETE FROM documents WHERE id = ? AND wanted_version IS NULL", (row,))
                void = "UPDATE documents SET done_version = NULL, statistic = NULL, sums = NULL WHERE id = ?"
                db.execute(void, (row,))

    def fail(self, row: int, version: str | None, failure: Failure) -> None:
        """Store a failed attempt at a version of a document, unless another version is listed by now."""
        with self.transaction() as db:
            query = "UPDATE documents SET done_version = NULL WHERE id = ? AND wanted_version IS ?"
            db.execute(query, (row, version))
            tables.write_failure(db, row, version, failure)

    def hasten(self) -> None:
        """Make all documents that wait for a retry due now. Their number of attempts is kept."""
        self.write("UPDATE documents SET retry_at = 0 WHERE attempts > 0 AND NOT quarantined")

    def wait_until(self, latest: float) -> None:
        """Move all retries that are planned after ``latest`` (POSIX seconds) to that time.

        Called when the clock was put back, because their times were set by a wrong clock.
        """
        query = "UPDATE documents SET retry_at = ?1 WHERE retry_at > ?1 AND retry_at < ?2"
        self.write(query, (latest, NEVER))

    def retry(self, rows: Sequence[int] | None = None) -> int:
        """Make failed documents due now, quarantined documents included. Return their number.

        A document that failed in several editions counts once. ``rows``: the documents to retry; None for all
        that failed. Unsupported documents did not fail, so they are retried only if they are named.
        """
        chosen = f"NOT {tables.UNSUPPORTED}" if rows is None else _is_one_of(rows)
        due = f"attempts = 0, retry_at = 0, quarantined = 0, done_version = NULL, {tables.DUE_SINCE}"
        which = f"(attempts > 0 OR quarantined) AND {chosen}"
        with self.transaction() as db:
            retried = db.execute(f"SELECT DISTINCT source, key FROM documents WHERE {which}").fetchall()
            db.execute(f"UPDATE documents SET {due} WHERE {which}")
        return len(retried)

    def doubt(self, edition: EditionName, rows: Sequence[int] | None = None) -> None:
        """Mark all records of an edition as in doubt, so that they are written again.

        ``rows``: the documents whose records are marked; None for all.
        """
        these = f"FROM documents WHERE collection = ? AND {'1' if rows is None else _is_one_of(rows)}"
        with self.transaction() as db:
            db.execute(f"{_VOID} WHERE id IN (SELECT id {these}) AND quarantined = 0", (edition,))
            db.execute(f"UPDATE records SET unsure = 1 WHERE document IN (SELECT id {these})", (edition,))

    def total(self, edition: EditionName, statistic: str) -> Sums | None:
        """Return the sums over all documents of an edition that have this statistic; None if there are none.

        Any thread may call.
        """
        query = "SELECT sums FROM statistics WHERE collection = ? AND statistic = ? AND documents > 0"
        rows = self.reader.select(query, (edition, statistic))
        return tables.unpack(rows[0][0]) if rows else None


class JournalReader:
    """A connection to the journal that only reads. Several threads may share it.

    Thanks to SQLite's write-ahead log, a reader does not wait for the writer, nor the writer for a reader.
    """

    def __init__(self, path: Path) -> None:
        """Open the journal's file. Raises sqlite3.Error."""
        self._db = _connect(path)
        self._db.execute("PRAGMA query_only=ON")
        self._lock = Lock()

    def select(self, query: str, values: Values = ()) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._db.execute(query, values).fetchall()

    def close(self) -> None:
        """Close the connection, after waiting for a running query. Otherwise SQLite would crash."""
        with self._lock:
            self._db.close()


Selecting = Journal | JournalReader  # anything that runs queries on the journal


def entries_of(journal: Selecting, where: str, values: Sequence[object]) -> list[Entry]:
    """Return the documents that satisfy an SQL condition."""
    rows = journal.select(f"SELECT {tables.COLUMNS} FROM documents WHERE {where}", values)
    known = tables.records_of(journal.select, [row[0] for row in rows])
    return [tables.to_entry(row, known[row[0]]) for row in rows]


def fact(journal: Selecting, key: str) -> str | None:
    """Return a single fact that ``Journal.set`` stored under this key, or None."""
    rows = journal.select("SELECT value FROM state WHERE key = ?", (key,))
    return next((str(value) for (value,) in rows), None)


def sources_of(journal: Selecting) -> list[SourceName]:
    """Return the names of all sources that have documents in the journal, sorted."""
    rows = journal.select("SELECT DISTINCT source FROM documents ORDER BY 1")
    return [SourceName(name) for (name,) in rows]


# The receipt of a quarantined document says that it has no records. It ends with the quarantine, or else the
# document would count as settled when its old version is listed again.
_NOT_QUARANTINED = "done_version = iif(quarantined, NULL, done_version), quarantined = 0"

# Begins a statement that makes receipts void.
_VOID = f"UPDATE documents SET done_version = NULL, {tables.DUE_SINCE}"

# Begins a statement that marks documents as vanished. Its parameter is the time of their removal.
_VANISH = f"""UPDATE documents SET wanted_version = NULL, attempts = 0, retry_at = ?, reason = NULL,
              {_NOT_QUARANTINED}, {tables.VANISHED_SINCE}"""

# Documents in the queue are ordered by ``retry_at``. This one is later than any that QueuePositions gives.
_LAST = 1e7

# A new document takes the id that it has in the live edition of the collection, unless another document has
# that id here. CROSS JOIN makes SQLite join in this order, in which each step is one look-up.
_DOCUMENT_ID = """COALESCE((
    SELECT other.document_id FROM collections AS ours
    CROSS JOIN collections AS theirs ON theirs.serves = ours.serves AND theirs.role = 'live'
    CROSS JOIN documents AS other
        ON other.source = ?1 AND other.collection = theirs.name AND other.key = ?3
    WHERE ours.name = ?2 AND ours.name != theirs.name AND NOT EXISTS (
        SELECT 1 FROM documents AS same
        WHERE same.collection = ?2 AND same.document_id = other.document_id)), ?9)"""


def _is_one_of(rows: Sequence[int]) -> str:
    """Return the SQL condition that a document has one of these rows, however many they are."""
    return f"id IN ({','.join(str(int(row)) for row in rows)})"


def _connect(path: Path) -> sqlite3.Connection:
    refuse_link(path)
    uri = str(path).startswith("file:")
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30, uri=uri)
    db.create_function("natural_key", 1, tables.natural_key, deterministic=True)
    return db


def _use_wal(db: sqlite3.Connection) -> None:
    """Switch the database to the write-ahead log, with retries.

    SQLite does not wait by itself if another process does the same at that moment.
    """
    for wait in (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2):
        with suppress(sqlite3.OperationalError):
            db.execute("PRAGMA journal_mode=WAL")
            return
        time.sleep(wait)
    db.execute("PRAGMA journal_mode=WAL")
