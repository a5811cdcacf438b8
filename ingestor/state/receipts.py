"""The journal's statements about a document's records, for intents, receipts and removals.

Every function must run in a transaction of the journal.
"""

import sqlite3

from ingestor.core.decisions import Failure
from ingestor.core.entries import Receipt
from ingestor.model import Known, Sums
from ingestor.state.columns import pack, unpack


def known_of(db: sqlite3.Connection, document: int) -> tuple[Known, ...]:
    query = """SELECT slot, text_key, vector_key, meta_key, unsure, vector_digest FROM records
               WHERE document = ? ORDER BY slot"""
    return tuple(
        Known(row[0], row[1], row[2], row[3], bool(row[4]), row[5]) for row in db.execute(query, (document,))
    )


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


def write_receipt(db: sqlite3.Connection, receipt: Receipt, wanted_recipe: str) -> None:
    add_sums(db, receipt.row, receipt.statistic, receipt.sums)
    lo, hi = receipt.interval or (None, None)
    short = receipt.shortfall
    failure = receipt.failure or Failure("", 0, 0, quarantined=False)
    db.execute(
        """UPDATE documents SET done_version = ?, done_recipe = ?, wanted_recipe = ?, facts = ?, digest = ?,
               parser = ?, lo = ?, hi = ?, attempts = ?, retry_at = ?, reason = ?, detail = ?,
               quarantined = ?, shortfall = ?, shortfall_reason = ?
           WHERE id = ?""",
        (receipt.version, receipt.recipe, wanted_recipe, receipt.facts, receipt.digest, receipt.parser,
         lo, hi, failure.attempts, failure.retry_at, failure.reason or None, failure.detail,
         failure.quarantined, short and short.state, short and short.reason, receipt.row),
    )  # fmt: skip
    db.execute("DELETE FROM records WHERE document = ?", (receipt.row,))
    db.executemany(
        """INSERT INTO records (document, slot, text_key, vector_key, meta_key, unsure, vector_digest)
           VALUES (?, ?, ?, ?, ?, 0, ?)""",
        (
            (receipt.row, k.slot, k.text_key, k.vector_key, k.meta_key, k.vector_digest)
            for k in receipt.records
        ),
    )


def add_sums(db: sqlite3.Connection, row: int, statistic: str | None, sums: Sums | None) -> None:
    """Replace the document's share of its collection's statistic. Integer sums do not depend on order."""
    found = db.execute("SELECT collection, statistic, sums FROM documents WHERE id = ?", (row,)).fetchone()
    if found is None:
        return
    collection, old_statistic, old_sums = found
    if old_sums is not None:
        _accumulate(db, collection, old_statistic, -unpack(old_sums), -1)
    if statistic is not None and sums is not None:
        _accumulate(db, collection, statistic, sums, 1)
    packed = None if sums is None else pack(sums)
    db.execute("UPDATE documents SET statistic = ?, sums = ? WHERE id = ?", (statistic, packed, row))


def _accumulate(db: sqlite3.Connection, collection: str, statistic: str, sums: Sums, documents: int) -> None:
    query = "SELECT sums FROM statistics WHERE collection = ? AND statistic = ?"
    found = db.execute(query, (collection, statistic)).fetchone()
    total = sums if found is None else unpack(found[0]) + sums
    db.execute(
        """INSERT INTO statistics (collection, statistic, documents, sums) VALUES (?, ?, ?, ?)
           ON CONFLICT DO UPDATE SET documents = documents + excluded.documents, sums = excluded.sums""",
        (collection, statistic, documents, pack(total)),
    )
