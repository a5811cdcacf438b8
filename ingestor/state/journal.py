"""The journal: one SQLite file that says what is wanted, what was done, and what is unsure.

Rules of this file. Every method is one transaction, durable when it returns. ``intend`` names every slot
that is about to be touched *before* the index is touched, and clears the receipt; ``settle`` names what
is there afterwards. So the journal's records are at all times a superset of the index's. A document is
settled when its done version and recipe equal the wanted ones; a wanted version of NULL asks for removal.
The connection belongs to one thread; what other threads may ask goes through ``reader``.
"""

import json
import sqlite3
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from secrets import token_hex
from typing import Any

from ingestor.core.decisions import NEVER, Changes, Failure, queue_turns
from ingestor.model import CollectionName, SourceName, Sums
from ingestor.ports import NeedsHuman
from ingestor.state.receipts import add_sums, adopt, known_of, write_receipt
from ingestor.state.rows import (
    COLUMNS,
    IN_FORCE,
    LIVE,
    UNSETTLED,
    UNSUPPORTED,
    CollectionRow,
    Entry,
    Feed,
    Intent,
    Receipt,
    item_columns,
    to_entry,
    unpack,
)
from ingestor.state.schema import migrate


@contextmanager
def opened(path: Path) -> Iterator["Journal"]:
    """The journal until the context ends; made if need be, in a folder that exists.

    Raises NeedsHuman when the file can't be used, be it at once or in between.
    """
    try:
        journal = Journal(path)
        try:
            yield journal
        finally:
            journal.close()
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorname", "").startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
            raise NeedsHuman(
                f"the journal {path} is damaged ({error}): put a backup of it in its place, or move it away, "
                "delete the collections that it wrote, and sync: all is written anew from the vector cache"
            ) from error
        if isinstance(error, sqlite3.OperationalError):
            raise NeedsHuman(
                f"the journal {path} can't be used ({error}): see that this user may write there and that "
                "the disk has room"
            ) from error
        raise


class Journal:
    """See the module's rules. ``synchronous`` is lowered only by simulations."""

    def __init__(self, path: Path, synchronous: str = "FULL") -> None:
        self._db = _connect(path)
        _use_wal(self._db)
        self._db.execute(f"PRAGMA synchronous={synchronous}")
        migrate(self._db)
        self._reader = _connect(path)
        self._reader.execute("PRAGMA query_only=ON")
        if self.get("owner") is None:  # whoever only looks waits for nobody who writes
            with self.transaction():
                self._db.execute("INSERT OR IGNORE INTO state VALUES ('owner', ?)", (token_hex(8),))

    @classmethod
    def blank(cls) -> "Journal":
        """Of a state that does not exist yet, for those who only look."""
        return cls(Path("file::memory:?cache=shared"))

    def copied(self, path: Path) -> "Journal":
        """A journal of its own that says the same."""
        copy = Journal(path, synchronous="OFF")
        self._db.backup(copy._db)
        return copy

    def close(self) -> None:
        self._reader.close()
        self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing; durable when it ends."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield self._db
            self._db.execute("COMMIT")
        finally:
            if self._db.in_transaction:  # SQLite itself rolls back when the disk is full
                self._db.execute("ROLLBACK")

    def select(self, query: str, values: Sequence[object] | dict[str, object] = ()) -> list[tuple[Any, ...]]:
        """What a query finds, for the tables that have a file of their own (state/editions.py)."""
        return self._db.execute(query, values).fetchall()

    # --- small facts ---------------------------------------------------------------------------------

    def get(self, key: str) -> str | None:
        row = self._db.execute("SELECT value FROM state WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def set(self, key: str, value: str) -> None:
        with self.transaction() as db:
            db.execute(
                "INSERT INTO state VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value",
                (key, value),
            )

    @property
    def owner(self) -> str:
        """Names this state; the collections it writes bear the name."""
        return str(self.get("owner"))

    # --- what is wanted ------------------------------------------------------------------------------

    def wanted_versions(self, source: SourceName, collection: CollectionName) -> dict[str, str]:
        """Version by key of every document the source had when last listed. Any thread."""
        query = """SELECT key, wanted_version FROM documents
                   WHERE source = ? AND collection = ? AND wanted_version IS NOT NULL"""
        return dict(self._reader.execute(query, (source, collection)))

    def observe(
        self, source: SourceName, collection: CollectionName, changes: Changes, remove_at: float
    ) -> None:
        """Take over what a listing says. Whatever failed before is tried again in its new version.

        ``remove_at``: how long what vanished waits for a document of the same content to take it over.
        Members of a container are due behind all other documents, those of several containers in turn.
        """
        turns = queue_turns(item.key for item in changes.changed)
        with self.transaction() as db:
            db.executemany(
                f"""INSERT INTO documents (document_id, source, collection, key, wanted_version, uri, size,
                                           modified, extra, retry_at)
                   VALUES ({_DOCUMENT_ID}, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?10)
                   ON CONFLICT (source, collection, key) DO UPDATE SET
                       wanted_version = excluded.wanted_version, uri = excluded.uri, size = excluded.size,
                       modified = excluded.modified, extra = excluded.extra,
                       attempts = 0, retry_at = excluded.retry_at, reason = NULL, detail = NULL,
                       quarantined = 0""",
                (
                    (source, collection, *item_columns(item), token_hex(8), turn)
                    for item, turn in zip(changes.changed, turns, strict=True)
                ),
            )
            db.executemany(
                """UPDATE documents SET wanted_version = NULL, attempts = 0, retry_at = ?, reason = NULL,
                       detail = NULL, quarantined = 0 WHERE source = ? AND collection = ? AND key = ?""",
                ((remove_at, source, collection, key) for key in changes.vanished),
            )

    def relocate(self, source: SourceName, collections: Sequence[CollectionName]) -> None:
        """The source feeds these now: its documents in others that are not retired are to be removed."""
        with self.transaction() as db:
            db.execute(
                f"""UPDATE documents SET wanted_version = NULL, retry_at = 0
                    WHERE source = ? AND collection NOT IN ({_marks(collections)}) AND {IN_FORCE}
                      AND wanted_version IS NOT NULL""",
                (source, *collections),
            )

    def parsers(self, feed: Feed) -> list[str]:
        """The parser kinds that the settled documents were read with."""
        query = "SELECT DISTINCT parser FROM documents WHERE source = ? AND collection = ? AND parser NOTNULL"
        return [row[0] for row in self._db.execute(query, feed)]

    def want_recipe(self, feed: Feed, parser: str, recipe: str) -> None:
        """Documents of that feed and parser are due unless they were done by this recipe."""
        with self.transaction() as db:
            db.execute(
                """UPDATE documents SET wanted_recipe = ?, attempts = 0, retry_at = 0, quarantined = 0,
                       reason = NULL
                   WHERE source = ? AND collection = ? AND parser = ? AND wanted_recipe IS NOT ?""",
                (recipe, *feed, parser, recipe),
            )

    # --- what is due ---------------------------------------------------------------------------------

    def due(
        self,
        feeds: Sequence[Feed],
        now: float,
        limit: int,
        but: Collection[int] = (),
        largest: int | None = None,
    ) -> list[Entry]:
        """Documents to ingest, those that have waited longest first, without the rows ``but``.

        ``largest``: no document of more bytes; documents of unknown size are taken.
        """
        small = "" if largest is None else "AND coalesce(size, 0) <= ?"
        query = f"""SELECT id FROM documents WHERE {UNSETTLED} AND wanted_version IS NOT NULL
                    AND retry_at <= ? AND {_fed_by(feeds)} {small} ORDER BY retry_at, id LIMIT ?"""
        values = (now, *chain(*feeds), *([] if largest is None else [largest]), limit + len(but))
        rows = self._db.execute(query, values)
        chosen = [row[0] for row in rows if row[0] not in but][:limit]
        return [entry for row in chosen if (entry := self.entry(row)) is not None]

    def gone(self, sources: Sequence[SourceName], now: float, limit: int) -> list[Entry]:
        """Documents to remove: their source has them no more."""
        return self._entries(
            f"""wanted_version IS NULL AND retry_at <= ? AND +source IN ({_marks(sources)}) AND {IN_FORCE}
                ORDER BY retry_at, id LIMIT ?""",
            (now, *sources, limit),
        )

    def drifted(
        self,
        sources: Sequence[SourceName],
        collection: CollectionName,
        statistic: str,
        value: int,
        limit: int,
    ) -> list[Entry]:
        """Settled documents whose cuts are no longer optimal at this value of their statistic.

        Two indexed range look-ups; documents whose interval holds the value are not visited.
        """
        same = f"""collection = ? AND statistic = ? AND quarantined = 0 AND wanted_version IS NOT NULL
                   AND NOT {UNSETTLED} AND source IN ({_marks(sources)})"""
        known = (collection, statistic, *sources, value, limit)
        low = self._entries(f"{same} AND lo > ? LIMIT ?", known)
        high = self._entries(f"{same} AND hi < ? LIMIT ?", known)
        return (low + high)[:limit]

    def next_retry(self, feeds: Sequence[Feed]) -> float:
        """When the next document that waits is due; NEVER when none does."""
        first = f"SELECT MIN(retry_at) FROM documents WHERE quarantined = 0 AND {_fed_by(feeds)} AND"
        queries = (
            f"{first} {UNSETTLED} AND wanted_version IS NOT NULL",
            f"{first} wanted_version IS NULL",
        )
        values = [self._db.execute(query, tuple(chain(*feeds))).fetchone()[0] for query in queries]
        return min((float(value) for value in values if value is not None), default=NEVER)

    def predecessor(self, collection: CollectionName, digest: str) -> Entry | None:
        """A document with this content whose source has it no more. Any thread."""
        query = "collection = ? AND digest = ? AND wanted_version IS NULL ORDER BY id LIMIT 1"
        found = self._entries(query, (collection, digest), self._reader)
        return found[0] if found else None

    def entry(self, row: int) -> Entry | None:
        found = self._entries("id = ?", (row,))
        return found[0] if found else None

    def of_source(self, source: SourceName) -> list[Entry]:
        """Every document of a source as readers see it, those that it has no more included."""
        return self._entries(f"source = ? AND {LIVE} ORDER BY key", (source,))

    def of_feed(self, feed: Feed) -> list[Entry]:
        """Every document of a source in one edition, be it one that readers see or one being built."""
        return self._entries("source = ? AND collection = ? ORDER BY key", feed)

    def named(self, wanted: str) -> list[Entry]:
        """By key, URI or id, as readers see them."""
        return self._entries(f"(key = ? OR uri = ? OR document_id = ?) AND {LIVE}", (wanted, wanted, wanted))

    def sources(self) -> list[SourceName]:
        """Every source that ever had documents here."""
        rows = self._db.execute("SELECT DISTINCT source FROM documents ORDER BY 1")
        return [SourceName(row[0]) for row in rows]

    def of_collection(self, collection: CollectionName) -> list[Entry]:
        return self._entries("collection = ? ORDER BY id", (collection,))

    def collections(self) -> list[CollectionName]:
        """Every collection that documents are or were in."""
        query = "SELECT DISTINCT collection FROM documents UNION SELECT name FROM collections ORDER BY 1"
        return [CollectionName(row[0]) for row in self._db.execute(query)]

    def _entries(
        self, where: str, values: tuple[object, ...], db: sqlite3.Connection | None = None
    ) -> list[Entry]:
        db = db or self._db
        rows = db.execute(f"SELECT {COLUMNS} FROM documents WHERE {where}", values).fetchall()
        return [to_entry(row, known_of(db, row[0])) for row in rows]

    # --- what is done --------------------------------------------------------------------------------

    def intend(self, intents: Sequence[Intent]) -> None:
        """Before the index is touched: these slots become unsure and the receipts are void."""
        with self.transaction() as db:
            for intent in intents:
                if intent.predecessor is not None:
                    adopt(db, intent.row, intent.predecessor)
                row = intent.row if intent.predecessor is None else intent.predecessor
                db.execute("UPDATE documents SET done_version = NULL WHERE id = ?", (row,))
                db.executemany(
                    """INSERT INTO records (document, slot, text_key, vector_key, meta_key, unsure)
                       VALUES (?, ?, '', '', '', 1) ON CONFLICT DO UPDATE SET unsure = 1""",
                    ((row, slot) for slot in intent.slots),
                )

    def settle(self, receipts: Sequence[Receipt], wanted_recipes: Sequence[str]) -> None:
        """After the index was touched: what these documents are now.

        ``wanted_recipes``: what today's config asks of each, which may have changed on the way.
        """
        with self.transaction() as db:
            for receipt, wanted in zip(receipts, wanted_recipes, strict=True):
                write_receipt(db, receipt, wanted)

    def remove(self, rows: Sequence[int]) -> None:
        """Their records are dropped: forget the documents."""
        with self.transaction() as db:
            for row in rows:
                add_sums(db, row, None, None)
                db.execute("DELETE FROM records WHERE document = ?", (row,))
                db.execute("DELETE FROM documents WHERE id = ? AND wanted_version IS NULL", (row,))
                db.execute("UPDATE documents SET done_version = NULL WHERE id = ?", (row,))

    def fail(self, row: int, version: str | None, failure: Failure) -> None:
        """Note a failed attempt, unless another version is wanted by now. The document is not settled."""
        with self.transaction() as db:
            db.execute(
                """UPDATE documents SET attempts = ?, retry_at = ?, reason = ?, detail = ?, quarantined = ?,
                       done_version = NULL WHERE id = ? AND wanted_version IS ?""",
                (failure.attempts, failure.retry_at, failure.reason, failure.detail,
                 failure.quarantined, row, version),
            )  # fmt: skip

    def hasten(self) -> None:
        """What waits for another try need not wait any longer; how often it failed is not forgotten."""
        with self.transaction() as db:
            db.execute("UPDATE documents SET retry_at = 0 WHERE attempts > 0 AND NOT quarantined")

    def wait_until(self, latest: float) -> None:
        """Bring later retries forward to that time: they were computed by a clock that was wrong."""
        with self.transaction() as db:
            query = "UPDATE documents SET retry_at = ?1 WHERE retry_at > ?1 AND retry_at < ?2"
            db.execute(query, (latest, NEVER))

    def retry(self, rows: Sequence[int] | None = None) -> int:
        """Make failed documents due now: these, or all. Returns how many.

        What no parser reads did not fail.
        """
        these = "" if rows is None else f"id IN ({','.join(str(int(row)) for row in rows)})"
        chosen = these or f"NOT {UNSUPPORTED}"
        with self.transaction() as db:
            return db.execute(
                f"""UPDATE documents SET attempts = 0, retry_at = 0, quarantined = 0, done_version = NULL
                    WHERE (attempts > 0 OR quarantined) AND {chosen}"""
            ).rowcount

    def doubt(self, collection: CollectionName, rows: Sequence[int] | None = None) -> None:
        """Trust nothing in the index of these documents, or of the whole collection: write them again."""
        chosen = "" if rows is None else f"AND id IN ({','.join(str(int(row)) for row in rows)})"
        with self.transaction() as db:
            where = f"collection = ? {chosen}"
            db.execute(
                f"UPDATE documents SET done_version = NULL WHERE {where} AND quarantined = 0", (collection,)
            )
            db.execute(
                f"UPDATE records SET unsure = 1 WHERE document IN (SELECT id FROM documents WHERE {where})",
                (collection,),
            )

    # --- statistics ----------------------------------------------------------------------------------

    def total(self, collection: CollectionName, statistic: str) -> Sums | None:
        """The sums over every settled document of the collection that shares this statistic."""
        query = "SELECT sums FROM statistics WHERE collection = ? AND statistic = ? AND documents > 0"
        row = self._db.execute(query, (collection, statistic)).fetchone()
        return None if row is None else unpack(row[0])

    def statistics(self) -> list[tuple[CollectionName, str]]:
        rows = self._db.execute("SELECT collection, statistic FROM statistics WHERE documents > 0")
        return [(CollectionName(row[0]), row[1]) for row in rows]

    # --- collections ----------------------------------------------------------------------------------

    def collection(self, name: CollectionName) -> CollectionRow:
        query = "SELECT uuid, embedder, extra_keys FROM collections WHERE name = ?"
        row = self._db.execute(query, (name,)).fetchone()
        return CollectionRow(row[0], row[1], frozenset(json.loads(row[2]))) if row else CollectionRow()

    def note_collection(self, name: CollectionName, row: CollectionRow) -> None:
        with self.transaction() as db:
            db.execute(
                """INSERT INTO collections (name, serves, uuid, embedder, extra_keys) VALUES (?, ?, ?, ?, ?)
                   ON CONFLICT DO UPDATE SET uuid = excluded.uuid, embedder = excluded.embedder,
                       extra_keys = excluded.extra_keys""",
                (name, name, row.uuid, row.embedder, json.dumps(sorted(row.extra_keys))),
            )


# A document bears one id in all editions of a collection, so far as history allows. CROSS JOIN keeps the
# order of the tables, in which each step is one look-up.
_DOCUMENT_ID = """COALESCE((
    SELECT other.document_id FROM collections AS ours
    CROSS JOIN collections AS theirs ON theirs.serves = ours.serves AND theirs.role = 'live'
    CROSS JOIN documents AS other
        ON other.source = ?1 AND other.collection = theirs.name AND other.key = ?3
    WHERE ours.name = ?2 AND ours.name != theirs.name AND NOT EXISTS (
        SELECT 1 FROM documents AS same
        WHERE same.collection = ?2 AND same.document_id = other.document_id)), ?9)"""


def _connect(path: Path) -> sqlite3.Connection:
    uri = str(path).startswith("file:")
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30, uri=uri)


def _use_wal(db: sqlite3.Connection) -> None:
    """SQLite does not wait for other processes that switch the same new file at the same time: try again."""
    for wait in (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2):
        with suppress(sqlite3.OperationalError):
            db.execute("PRAGMA journal_mode=WAL")
            return
        time.sleep(wait)
    db.execute("PRAGMA journal_mode=WAL")


# The plus keeps SQLite from the index of all documents of a source: what is due is a small part of them.
def _fed_by(feeds: Sequence[Feed]) -> str:
    return f"(+source, +collection) IN (VALUES {', '.join(['(?, ?)'] * len(feeds))})" if feeds else "FALSE"


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))
