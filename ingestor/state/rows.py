"""The journal's tables of documents and records: conditions in SQL, entries, and statements about records.

Every function that writes must run in a transaction of the journal.
"""

from __future__ import annotations

import json
import re
import sqlite3
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ingestor.core.completeness import Shortfall
from ingestor.core.decisions import Failure
from ingestor.core.document_state import NO_PARSER
from ingestor.core.entries import Entry, Receipt, Renewal
from ingestor.core.listings import pages
from ingestor.model import Item, Known

if TYPE_CHECKING:
    from ingestor.model import Sums

_NAMES = (
    *("row", "document_id", "source", "collection", "key", "done_version", "done_recipe", "facts"),
    *("digest", "parser", "attempts", "wanted_recipe", "quarantined"),
    *("wanted_version", "uri", "size", "modified", "extra"),
    *("statistic", "sums", "lo", "hi", "shortfall", "shortfall_reason"),
)
COLUMNS = "id AS " + ", ".join(_NAMES)

# Conditions on ``documents``: in an edition that is kept in step; in a live one; not settled.
IN_FORCE = "collection NOT IN (SELECT name FROM collections WHERE role NOT IN ('live', 'staging'))"
LIVE = "collection NOT IN (SELECT name FROM collections WHERE role != 'live')"
SETTLED = "(done_version IS wanted_version AND done_recipe IS wanted_recipe)"
_UNSETTLED = "(done_version IS NOT wanted_version OR done_recipe IS NOT wanted_recipe)"
PENDING = (
    f"({_UNSETTLED} AND wanted_version IS NOT NULL)"  # due or waiting; as the index ``unsettled`` has it
)
GONE = "wanted_version IS NULL"

# Assigned where a document becomes due: ``since`` is the time of the oldest change that is not applied yet.
NOW = "((julianday('now') - 2440587.5) * 86400.0)"  # POSIX seconds
DUE_SINCE = f"since = CASE WHEN {_UNSETTLED} THEN coalesce(since, {NOW}) ELSE {NOW} END"
# Assigned where it vanishes: from then on it waits for its removal, or for its heir (heirs.py).
VANISHED_SINCE = f"since = iif({GONE}, coalesce(since, {NOW}), {NOW})"
UNSUPPORTED = f"(quarantined AND parser IS '{NO_PARSER}')"

# The state of a document, see core/document_state.py.
STATE = f"""CASE WHEN {GONE} THEN 'gone'
                WHEN {UNSUPPORTED} THEN 'unsupported'
                WHEN quarantined THEN 'quarantined'
                WHEN {SETTLED} THEN 'settled'
                WHEN attempts > 0 THEN 'waiting' ELSE 'due' END"""


_NO_EXTRA = json.dumps([])
_DIGITS, _LONGEST_NUMBER = re.compile("[0-9]+"), 20


def natural_key(key: str) -> str:
    """Return a key by which ``page-2`` comes before ``page-10``. Registered as a function of SQL."""
    return _DIGITS.sub(lambda run: run[0].zfill(_LONGEST_NUMBER), key).casefold()


def marks(values: Sequence[object]) -> str:
    """Return a placeholder for each value."""
    return ", ".join("?" * len(values))


def to_entry(row: tuple[Any, ...], known: tuple[Known, ...]) -> Entry:
    """Build an entry from a row with the values of COLUMNS."""
    id_, document_id, source, collection, key, done_version, done_recipe, facts = row[:8]
    digest, parser, attempts, wanted_recipe, quarantined = row[8:13]
    version, uri, size, modified, extra = row[13:18]
    statistic, sums, lo, hi, state, reason = row[18:]
    extras = () if extra == _NO_EXTRA else json.loads(extra)
    pairs = tuple((name, tuple(value) if isinstance(value, list) else value) for name, value in extras)
    item = None if version is None else Item(key, version, uri, size, modified, pairs)
    return Entry(
        id_, document_id, source, collection, key, item, done_version, done_recipe, facts, digest, parser,
        attempts, wanted_recipe, bool(quarantined), known, statistic,
        sums=None if sums is None else unpack(sums),
        interval=None if lo is None else (lo, hi),
        shortfall=None if state is None else Shortfall(state, reason),
    )  # fmt: skip


def item_columns(item: Item) -> tuple[object, ...]:
    """Return key, wanted_version, uri, size, modified and extra."""
    return item.key, item.version, item.uri, item.size, item.modified, json.dumps(item.extra)


def pack(sums: Sums) -> bytes:
    """Pack sums in the smallest integer type that fits, which the first byte names."""
    import numpy as np

    narrow = sums.astype(np.int32)
    plain = b"4" + narrow.tobytes() if np.array_equal(narrow, sums) else b"8" + sums.tobytes()
    small = b"z" + zlib.compress(plain, 1)
    return small if 2 * len(small) < len(plain) else plain


def unpack(packed: bytes) -> Sums:
    import numpy as np

    plain = zlib.decompress(packed[1:]) if packed[:1] == b"z" else packed
    return np.frombuffer(plain[1:], np.int32 if plain[:1] == b"4" else np.int64).astype(np.int64)


TOGETHER = 500  # documents that a query names

Changes = dict[tuple[str, str], tuple[int, "Sums"]]  # by collection and statistic: of documents, and of sums


def records_of(db: sqlite3.Connection, documents: Sequence[int]) -> dict[int, tuple[Known, ...]]:
    """Return the records of each of these documents, by slot."""
    stored: dict[int, list[Known]] = {document: [] for document in documents}
    for some in pages(documents, TOGETHER):
        query = f"""SELECT document, slot, text_key, vector_key, meta_key, unsure, vector_digest FROM records
                    WHERE document IN ({marks(some)}) ORDER BY document, slot"""
        for document, slot, text, vector, meta, unsure, digest in db.execute(query, some):
            stored[document].append(Known(slot, text, vector, meta, bool(unsure), digest))
    return {document: tuple(known) for document, known in stored.items()}


def adopt(db: sqlite3.Connection, row: int, predecessor: int) -> None:
    """Merge a new document into the vanished one that it was: one row, the old id, the new desired state."""
    columns = (
        "source, key, wanted_version, uri, size, modified, extra, attempts, retry_at, quarantined, since"
    )
    desired = db.execute(f"SELECT {columns} FROM documents WHERE id = ?", (row,)).fetchone()
    if desired is None:  # adopted already: the batch failed after its intents, and is written one by one
        return
    db.execute("DELETE FROM documents WHERE id = ?", (row,))
    assigned = ", ".join(f"{column.strip()} = ?" for column in columns.split(","))
    db.execute(f"UPDATE documents SET {assigned} WHERE id = ?", (*desired, predecessor))


def write_receipts(
    db: sqlite3.Connection, receipts: Sequence[Receipt], wanted_recipes: Sequence[str]
) -> None:
    """Write receipts. ``wanted_recipes``: the wanted recipe for each receipt."""
    changes: Changes = {}
    for receipt, wanted in zip(receipts, wanted_recipes, strict=True):
        _note(db, changes, receipt.row, receipt.statistic, receipt.sums)
        _write(db, receipt, wanted)
    _accumulate(db, changes)


def write_renewal(db: sqlite3.Connection, renewal: Renewal | None) -> None:
    if renewal is not None:
        values = " ".join(renewal.generations), renewal.collection
        db.execute("UPDATE collections SET generations = ? WHERE name = ?", values)


def take_out(db: sqlite3.Connection, rows: Sequence[int]) -> None:
    """Subtract removed documents from the statistic of their collection."""
    changes: Changes = {}
    for row in rows:
        _note(db, changes, row, None, None)
        db.execute("UPDATE documents SET statistic = NULL, sums = NULL WHERE id = ?", (row,))
    _accumulate(db, changes)


def _write(db: sqlite3.Connection, receipt: Receipt, wanted_recipe: str) -> None:
    lo, hi = receipt.interval or (None, None)
    short = receipt.shortfall
    sums = None if receipt.sums is None else pack(receipt.sums)
    db.execute(
        """UPDATE documents SET done_version = ?, done_recipe = ?, wanted_recipe = ?, facts = ?, digest = ?,
               parser = ?, statistic = ?, sums = ?, lo = ?, hi = ?, attempts = 0,
               retry_at = iif(wanted_version IS NULL, retry_at, 0), reason = NULL, detail = NULL,
               quarantined = 0, shortfall = ?, shortfall_reason = ?
           WHERE id = ?""",
        (receipt.version, receipt.recipe, wanted_recipe, receipt.facts, receipt.digest, receipt.parser,
         receipt.statistic, sums, lo, hi, short and short.state, short and short.reason, receipt.row),
    )  # fmt: skip
    if receipt.failure is not None:
        write_failure(db, receipt.row, receipt.version, receipt.failure)
    db.execute("DELETE FROM records WHERE document = ?", (receipt.row,))
    db.executemany(
        """INSERT INTO records (document, slot, text_key, vector_key, meta_key, unsure, vector_digest)
           VALUES (?, ?, ?, ?, ?, 0, ?)""",
        (
            (receipt.row, k.slot, k.text_key, k.vector_key, k.meta_key, k.vector_digest)
            for k in receipt.records
        ),
    )


def write_failure(db: sqlite3.Connection, row: int, version: str | None, failure: Failure) -> None:
    """Store a failure of this version; another one that is wanted by now has not been tried."""
    db.execute(
        """UPDATE documents SET attempts = ?, retry_at = ?, reason = ?, detail = ?, quarantined = ?
           WHERE id = ? AND wanted_version IS ?""",
        (
            failure.attempts,
            failure.retry_at,
            failure.reason,
            failure.detail,
            failure.quarantined,
            row,
            version,
        ),
    )


def _note(
    db: sqlite3.Connection, changes: Changes, row: int, statistic: str | None, sums: Sums | None
) -> None:
    """Add what the document changes in its collection's statistics. Before its row is written."""
    stored = db.execute("SELECT collection, statistic, sums FROM documents WHERE id = ?", (row,)).fetchone()
    if stored is None:
        return
    collection, old_statistic, old_sums = stored
    if old_sums is not None:
        _add(changes, (collection, old_statistic), -1, -unpack(old_sums))
    if statistic is not None and sums is not None:
        _add(changes, (collection, statistic), 1, sums)


def _add(changes: Changes, of: tuple[str, str], documents: int, sums: Sums) -> None:
    known = changes.get(of)
    changes[of] = (documents, sums) if known is None else (known[0] + documents, known[1] + sums)


def _accumulate(db: sqlite3.Connection, changes: Changes) -> None:
    """Add changes to the sums. Integer sums do not depend on order."""
    for of, (documents, sums) in changes.items():
        query = "SELECT sums FROM statistics WHERE collection = ? AND statistic = ?"
        stored = db.execute(query, of).fetchone()
        total = sums if stored is None else unpack(stored[0]) + sums
        db.execute(
            """INSERT INTO statistics (collection, statistic, documents, sums) VALUES (?, ?, ?, ?)
               ON CONFLICT DO UPDATE SET documents = documents + excluded.documents, sums = excluded.sums""",
            (*of, documents, pack(total)),
        )
