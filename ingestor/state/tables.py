"""The journal's tables: numbered migrations, SQL conditions, entries, and statements about records.

A released migration is never edited; a further migration follows it. Every function that writes must run in a
transaction of the journal.
"""

from __future__ import annotations

import json
import re
import sqlite3
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ingestor.core.completeness import Shortfall
from ingestor.core.decisions import Failure
from ingestor.core.document_state import NO_PARSER
from ingestor.core.entries import Entry, Receipt, Renewal
from ingestor.core.listings import pages
from ingestor.model import Item, Known
from ingestor.ports import NeedsHuman

if TYPE_CHECKING:
    from ingestor.model import Sums

_FIRST = 15  # the format of a journal with the first migration only; no earlier one left development
_MIGRATIONS = (
    """
    CREATE TABLE state (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE sources (
        name TEXT PRIMARY KEY, last_scan REAL, identity TEXT, held TEXT, accepted INTEGER NOT NULL DEFAULT 0,
        loss INTEGER NOT NULL DEFAULT 0, trouble TEXT, paused REAL, documents INTEGER, origin TEXT,
        held_root TEXT
    ) WITHOUT ROWID;
    CREATE TABLE collections (
        name TEXT PRIMARY KEY, uuid TEXT, embedder TEXT, extra_keys TEXT NOT NULL DEFAULT '[]',
        serves TEXT, role TEXT NOT NULL DEFAULT 'live', choices TEXT, since REAL NOT NULL DEFAULT 0
    ) WITHOUT ROWID;
    CREATE TABLE documents (
        id INTEGER PRIMARY KEY,
        document_id TEXT NOT NULL,
        source TEXT NOT NULL, collection TEXT NOT NULL, key TEXT NOT NULL,
        wanted_version TEXT, wanted_recipe TEXT,
        uri TEXT, size INTEGER, modified REAL, extra TEXT,
        done_version TEXT, done_recipe TEXT, facts TEXT, digest TEXT, parser TEXT,
        statistic TEXT, sums BLOB, lo INTEGER, hi INTEGER,
        attempts INTEGER NOT NULL DEFAULT 0, retry_at REAL NOT NULL DEFAULT 0,
        reason TEXT, detail TEXT, quarantined INTEGER NOT NULL DEFAULT 0,
        shortfall TEXT, shortfall_reason TEXT, since REAL,
        UNIQUE (source, collection, key), UNIQUE (collection, document_id)
    );
    CREATE TABLE records (
        document INTEGER NOT NULL, slot INTEGER NOT NULL, text_key TEXT NOT NULL, vector_key TEXT NOT NULL,
        meta_key TEXT NOT NULL, unsure INTEGER NOT NULL, vector_digest BLOB NOT NULL DEFAULT x'',
        PRIMARY KEY (document, slot)
    ) WITHOUT ROWID;
    CREATE TABLE statistics (
        collection TEXT NOT NULL, statistic TEXT NOT NULL, documents INTEGER NOT NULL, sums BLOB NOT NULL,
        PRIMARY KEY (collection, statistic)
    ) WITHOUT ROWID;
    CREATE TABLE withdrawals (
        source TEXT PRIMARY KEY, documents INTEGER NOT NULL DEFAULT 0, kept TEXT,
        accepted INTEGER NOT NULL DEFAULT 0, indexed INTEGER NOT NULL DEFAULT 0
    ) WITHOUT ROWID;
    CREATE TABLE requests (
        kind TEXT NOT NULL, subject TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (kind, subject)
    ) WITHOUT ROWID;
    CREATE TABLE notices (
        kind TEXT NOT NULL, subject TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (kind, subject)
    ) WITHOUT ROWID;
    CREATE INDEX unsettled ON documents (source, collection, retry_at, id) WHERE
        (done_version IS NOT wanted_version OR done_recipe IS NOT wanted_recipe)
        AND wanted_version IS NOT NULL;
    CREATE INDEX gone ON documents (retry_at, id) WHERE wanted_version IS NULL;
    CREATE INDEX moved ON documents (collection, digest) WHERE wanted_version IS NULL;
    CREATE INDEX low ON documents (collection, statistic, lo) WHERE lo IS NOT NULL;
    CREATE INDEX high ON documents (collection, statistic, hi) WHERE hi IS NOT NULL;
    CREATE INDEX failed ON documents (source, key) WHERE reason IS NOT NULL;
    CREATE INDEX unread ON documents (collection, size)
        WHERE wanted_version IS NOT NULL AND digest IS NULL AND quarantined = 0;
    """,
    """
    ALTER TABLE sources ADD COLUMN most_at REAL;
    UPDATE sources SET most_at = last_scan;
    """,
    "ALTER TABLE collections ADD COLUMN generations TEXT NOT NULL DEFAULT '';",
    # The history (see state/reports.py) is written by triggers, so that no change of a row can miss it.
    """
    CREATE TABLE history (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        at REAL NOT NULL DEFAULT ((julianday('now') - 2440587.5) * 86400.0),
        what TEXT NOT NULL, source TEXT, document TEXT, document_id TEXT, collection TEXT, why TEXT
    );
    CREATE INDEX happened_to ON history (document_id, id);
    CREATE TRIGGER history_bound AFTER INSERT ON history BEGIN
        DELETE FROM history WHERE id <= NEW.id - 20000;
    END;
    CREATE TRIGGER history_done AFTER UPDATE OF digest ON documents
        WHEN NEW.digest != '' AND (OLD.digest IS NOT NEW.digest OR OLD.done_recipe IS NOT NEW.done_recipe)
        AND NEW.collection IN (SELECT name FROM collections WHERE role = 'live')
    BEGIN
        INSERT INTO history (what, source, document, document_id, collection, why) VALUES (
            CASE WHEN coalesce(OLD.digest, '') = '' THEN 'added' WHEN OLD.digest != NEW.digest THEN 'changed'
                ELSE 'rewritten' END,
            NEW.source, NEW.key, NEW.document_id, NEW.collection,
            CASE WHEN OLD.digest = NEW.digest THEN 'the config or the program changed' END);
    END;
    CREATE TRIGGER history_moved AFTER UPDATE OF key ON documents
        WHEN OLD.key != NEW.key AND NEW.collection IN (SELECT name FROM collections WHERE role = 'live')
    BEGIN
        INSERT INTO history (what, source, document, document_id, collection, why)
            VALUES ('moved', NEW.source, NEW.key, NEW.document_id, NEW.collection, 'it was ' || OLD.key);
    END;
    CREATE TRIGGER history_removed AFTER DELETE ON documents
        WHEN OLD.digest != '' AND OLD.collection IN (SELECT name FROM collections WHERE role = 'live')
    BEGIN
        INSERT INTO history (what, source, document, document_id, collection)
            VALUES ('removed', OLD.source, OLD.key, OLD.document_id, OLD.collection);
    END;
    CREATE TRIGGER history_failed AFTER UPDATE OF reason ON documents
        WHEN NEW.reason IS NOT NULL AND OLD.reason IS NOT NEW.reason AND NEW.parser IS NOT '-'
        AND NEW.collection IN (SELECT name FROM collections WHERE role = 'live')
    BEGIN
        INSERT INTO history (what, source, document, document_id, collection, why)
            VALUES (iif(NEW.quarantined, 'quarantined', 'failed'), NEW.source, NEW.key, NEW.document_id,
                NEW.collection, NEW.reason);
    END;
    CREATE TRIGGER history_held AFTER UPDATE OF held ON sources WHEN OLD.held IS NOT NEW.held
    BEGIN
        INSERT INTO history (what, source, why)
            VALUES (iif(NEW.held IS NULL, 'released', 'held'), NEW.name, NEW.held);
    END;
    CREATE TRIGGER history_held_new AFTER INSERT ON sources WHEN NEW.held IS NOT NULL
    BEGIN
        INSERT INTO history (what, source, why) VALUES ('held', NEW.name, NEW.held);
    END;
    CREATE TRIGGER history_config AFTER UPDATE OF choices ON collections
        WHEN NEW.role = 'live' AND OLD.choices IS NOT NULL AND OLD.choices IS NOT NEW.choices
    BEGIN
        INSERT INTO history (what, collection, why)
            VALUES ('config', NEW.name, json_array(OLD.choices, NEW.choices));
    END;
    CREATE TRIGGER history_switched AFTER UPDATE OF role ON collections
        WHEN NEW.role = 'live' AND OLD.role != 'live'
    BEGIN
        INSERT INTO history (what, collection, why) SELECT 'switched', NEW.name, json_array((
            SELECT choices FROM collections WHERE serves = NEW.serves AND name != NEW.name
                AND role IN ('live', 'previous') ORDER BY since DESC LIMIT 1), NEW.choices);
    END;
    """,
    """
    DROP TRIGGER history_switched;
    CREATE TRIGGER history_switched AFTER UPDATE OF role ON collections
        WHEN NEW.role = 'live' AND OLD.role != 'live'
    BEGIN
        INSERT INTO history (what, collection, why) SELECT 'switched', NEW.name, json_array((
            SELECT choices FROM collections WHERE serves = NEW.serves AND name != NEW.name
                AND role IN ('live', 'previous') ORDER BY since DESC LIMIT 1), NEW.choices, (
            SELECT value FROM requests WHERE kind = 'rebuilding' AND subject = NEW.serves));
    END;
    """,
)


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Run a transaction. It is undone if the context raises an exception."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    finally:
        if db.in_transaction:  # SQLite itself rolls back when the disk is full
            db.execute("ROLLBACK")


def is_damage(error: BaseException) -> bool:
    """Return whether an error of SQLite means that the file is damaged, or no database."""
    return getattr(error, "sqlite_errorname", "").startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB"))


def read_number(db: sqlite3.Connection, query: str) -> int:
    """Return the number that a query or a pragma returns."""
    return int(db.execute(query).fetchone()[0])


def migrate(db: sqlite3.Connection) -> None:
    """Bring the journal's tables up to date, in one transaction.

    If two processes do that at the same time, the second one waits and then finds nothing to do. Raises
    NeedsHuman if a newer version wrote the journal, or if it is too old.
    """
    if _count_applied(db) == len(_MIGRATIONS):
        return
    with transaction(db):
        for script in _MIGRATIONS[_count_applied(db) :]:
            for statement in _statements(script):
                db.execute(statement)
        db.execute(f"PRAGMA user_version = {_FIRST + len(_MIGRATIONS) - 1}")


def _count_applied(db: sqlite3.Connection) -> int:
    """Return how many migrations were already applied to the file."""
    version, known = read_number(db, "PRAGMA user_version"), _FIRST + len(_MIGRATIONS) - 1
    if version > known:
        raise NeedsHuman(
            f"the journal has format {version}, and this program knows {known}: install a newer ingestor"
        )
    if 0 < version < _FIRST:
        raise NeedsHuman(
            f"the journal has format {version}, of a version that was never released: move it away, delete "
            "the collections that it wrote, and run `ingestor sync`: records are written again from the "
            "cache"
        )
    return max(0, version - _FIRST + 1)


def _statements(script: str) -> Iterator[str]:
    """Yield the SQL statements of a script.

    The semicolons in the body of a trigger do not end a statement.
    """
    gathered = ""
    for part in script.split(";"):
        gathered += f"{part};"
        if sqlite3.complete_statement(gathered):
            if gathered.strip(" \n;"):
                yield gathered
            gathered = ""


# Columns of ``documents`` in the order of ``to_entry``. The columns ``collection`` contain names of editions.
COLUMNS = """
    id, document_id, source, collection, key, done_version, done_recipe, facts, digest, parser, attempts,
    wanted_recipe, quarantined, statistic, wanted_version, uri, size, modified, extra, sums, lo, hi,
    shortfall, shortfall_reason"""

# Conditions on ``documents``: in an edition that is kept in step with its sources, in a live one, settled.
IN_FORCE = "collection NOT IN (SELECT name FROM collections WHERE role NOT IN ('live', 'staging'))"
LIVE = "collection NOT IN (SELECT name FROM collections WHERE role != 'live')"
SETTLED = "(done_version IS wanted_version AND done_recipe IS wanted_recipe)"
_UNSETTLED = "(done_version IS NOT wanted_version OR done_recipe IS NOT wanted_recipe)"
# Due or waiting for a retry. SQLite uses the index ``unsettled`` only for exactly its condition.
PENDING = f"({_UNSETTLED} AND wanted_version IS NOT NULL)"
GONE = "wanted_version IS NULL"

# Assigned when a document becomes due: ``since`` is the time of the oldest change that is not applied yet.
NOW = "((julianday('now') - 2440587.5) * 86400.0)"  # POSIX seconds
DUE_SINCE = f"since = CASE WHEN {_UNSETTLED} THEN coalesce(since, {NOW}) ELSE {NOW} END"
# Assigned when a document vanishes. From then on it waits for its removal, or for a new document that is it
# under another name (see backlog.predecessor).
VANISHED_SINCE = f"since = iif({GONE}, coalesce(since, {NOW}), {NOW})"
UNSUPPORTED = f"(quarantined AND parser IS '{NO_PARSER}')"

# The state of a document, see core/document_state.py.
STATE = f"""CASE WHEN {GONE} THEN 'gone'
                WHEN {UNSUPPORTED} THEN 'unsupported'
                WHEN quarantined THEN 'quarantined'
                WHEN {SETTLED} THEN 'settled'
                WHEN attempts > 0 THEN 'waiting' ELSE 'due' END"""


Select = Callable[[str, Sequence[object]], list[tuple[Any, ...]]]
_NO_EXTRA = json.dumps([])
_DIGITS, _LONGEST_NUMBER = re.compile("[0-9]+"), 20
TOGETHER = 500  # documents that one query names


def natural_key(key: str) -> str:
    """Return a sorting key that orders numbers by value: ``page-2`` before ``page-10``.

    Queries can call it as an SQL function.
    """
    return _DIGITS.sub(lambda run: run[0].zfill(_LONGEST_NUMBER), key).casefold()


def marks(values: Sequence[object]) -> str:
    """Return SQL placeholders for these values, such as ``?, ?`` for two values."""
    return ", ".join("?" * len(values))


def to_entry(row: tuple[Any, ...], known: tuple[Known, ...]) -> Entry:
    """Build an entry from a row of the table of documents.

    ``row``: the values of the columns in COLUMNS. ``known``: the document's records.
    """
    version, uri, size, modified, extra, sums, lo, hi, state, reason = row[14:]
    extras = () if extra == _NO_EXTRA else json.loads(extra)
    pairs = tuple((name, tuple(value) if isinstance(value, list) else value) for name, value in extras)
    item = None if version is None else Item(row[4], version, uri, size, modified, pairs)
    interval = None if lo is None else (lo, hi)
    shortfall = None if state is None else Shortfall(state, reason)
    more = None if sums is None else unpack(sums), interval, shortfall
    fields = (*row[:5], item, *row[5:12], bool(row[12]), known, row[13], *more)
    return Entry(*fields)


def item_columns(item: Item) -> tuple[object, ...]:
    """Return the values of an item for the columns key, wanted_version, uri, size, modified and extra."""
    return item.key, item.version, item.uri, item.size, item.modified, json.dumps(item.extra)


def pack(sums: Sums) -> bytes:
    """Pack sums as bytes: the kinds of the packing and of the integers, and the compressed integers."""
    return b"z" + zlib.compress(b"8" + sums.tobytes(), 1)


def unpack(packed: bytes) -> Sums:
    """Return the sums that ``pack`` packed. Earlier versions also packed 4-byte and uncompressed integers."""
    import numpy as np

    plain = zlib.decompress(packed[1:]) if packed[:1] == b"z" else packed
    return np.frombuffer(plain[1:], np.int32 if plain[:1] == b"4" else np.int64).astype(np.int64)


def records_of(select: Select, documents: Sequence[int]) -> dict[int, tuple[Known, ...]]:
    """Return the records of each document, ordered by slot.

    ``select``: runs a query on the journal. ``documents``: rows of documents in the journal.
    """
    stored: dict[int, list[Known]] = {document: [] for document in documents}
    for some in pages(documents, TOGETHER):
        query = f"""SELECT document, slot, text_key, vector_key, meta_key, unsure, vector_digest FROM records
                    WHERE document IN ({marks(some)}) ORDER BY document, slot"""
        for document, slot, text, vector, meta, unsure, digest in select(query, some):
            stored[document].append(Known(slot, text, vector, meta, bool(unsure), digest))
    return {document: tuple(known) for document, known in stored.items()}


def adopt(db: sqlite3.Connection, row: int, predecessor: int) -> None:
    """Merge a new document with the vanished document that it was before it got another name.

    The vanished document's row is kept, with its id and records, and gets the desired state of the new
    document. The new document's row is deleted. ``row``, ``predecessor``: the rows of the new and of the
    vanished document.
    """
    names = "source, key, wanted_version, uri, size, modified, extra, attempts, retry_at, quarantined, since"
    desired = db.execute(f"SELECT {names} FROM documents WHERE id = ?", (row,)).fetchone()
    if desired is None:  # merged before: the batch failed after its intents, and is written one by one
        return
    db.execute("DELETE FROM documents WHERE id = ?", (row,))
    values = (*desired, predecessor)
    db.execute(f"UPDATE documents SET ({names}) = ({marks(desired)}) WHERE id = ?", values)


def write_receipts(db: sqlite3.Connection, receipts: Sequence[Receipt]) -> None:
    """Store the applied state of documents, and update the statistics of their collections."""
    change_sums(db, {receipt.row: (receipt.statistic, receipt.sums) for receipt in receipts})
    for receipt in receipts:
        _write_receipt(db, receipt)


def write_renewal(db: sqlite3.Connection, renewal: Renewal | None) -> None:
    """Store the generations that an edition may have from now on."""
    if renewal is not None:
        values = " ".join(renewal.generations), renewal.edition
        db.execute("UPDATE collections SET generations = ? WHERE name = ?", values)


def _write_receipt(db: sqlite3.Connection, receipt: Receipt) -> None:
    query = """UPDATE documents SET done_version = ?, done_recipe = ?, wanted_recipe = ?, facts = ?,
            digest = ?, parser = ?, statistic = ?, sums = ?, lo = ?, hi = ?, shortfall = ?,
            shortfall_reason = ?, attempts = 0, retry_at = iif(wanted_version IS NULL, retry_at, 0),
            reason = NULL, quarantined = 0 WHERE id = ?"""
    read = receipt.version, receipt.recipe, receipt.recipe, receipt.facts, receipt.digest, receipt.parser
    sums, short = None if receipt.sums is None else pack(receipt.sums), receipt.shortfall
    cuts = receipt.statistic, sums, *(receipt.interval or (None, None))
    lacks = (None, None) if short is None else (short.state, short.reason)
    db.execute(query, (*read, *cuts, *lacks, receipt.row))
    if receipt.failure is not None:
        write_failure(db, receipt.row, receipt.version, receipt.failure)
    db.execute("DELETE FROM records WHERE document = ?", (receipt.row,))
    query = """INSERT INTO records (document, slot, text_key, vector_key, meta_key, unsure, vector_digest)
               VALUES (?, ?, ?, ?, ?, 0, ?)"""
    row, records = receipt.row, receipt.records
    values = [(row, r.slot, r.text_key, r.vector_key, r.meta_key, r.vector_digest) for r in records]
    db.executemany(query, values)


def write_failure(db: sqlite3.Connection, row: int, version: str | None, failure: Failure) -> None:
    """Store a failed attempt at a version, unless another version is listed by now and has not been tried."""
    query = """UPDATE documents SET attempts = ?, retry_at = ?, reason = ?, quarantined = ?
               WHERE id = ? AND wanted_version IS ?"""
    values = failure.attempts, failure.retry_at, failure.reason, failure.quarantined
    db.execute(query, (*values, row, version))


def change_sums(db: sqlite3.Connection, documents: Mapping[int, tuple[str | None, Sums | None]]) -> None:
    """Update the statistics of collections whose documents get new sums.

    Call this before the documents' rows are written: the old sums are read from them. ``documents``: by row,
    the statistic and the new sums; None if a document has none. Sums are integers, so the order of the
    additions does not matter.
    """
    changes: dict[tuple[str, str], tuple[int, Sums]] = {}  # by collection and statistic: documents and sums
    for row, (statistic, sums) in documents.items():
        stored = db.execute("SELECT collection, statistic, sums FROM documents WHERE id = ?", (row,))
        for collection, old_statistic, old in stored.fetchall():
            old_sums = None if old is None else unpack(old)
            for name, sign, added in ((old_statistic, -1, old_sums), (statistic, 1, sums)):
                if name is not None and added is not None:
                    number, total = changes.get((collection, name), (0, 0 * added))
                    changes[collection, name] = number + sign, total + sign * added
    for of, (number, change) in changes.items():
        query = "SELECT sums FROM statistics WHERE collection = ? AND statistic = ?"
        before = db.execute(query, of).fetchone()
        db.execute(
            """INSERT INTO statistics (collection, statistic, documents, sums) VALUES (?, ?, ?, ?)
               ON CONFLICT DO UPDATE SET documents = documents + excluded.documents, sums = excluded.sums""",
            (*of, number, pack(change if before is None else unpack(before[0]) + change)),
        )
