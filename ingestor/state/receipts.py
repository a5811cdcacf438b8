"""The journal's statements about a document's records, for intents, receipts and removals.

Every function must run in a transaction of the journal.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ingestor.core.decisions import Failure
from ingestor.core.entries import Receipt
from ingestor.core.listings.pages import pages
from ingestor.model import Known
from ingestor.state.columns import marks, pack, unpack

if TYPE_CHECKING:
    from ingestor.model import Sums

TOGETHER = 500  # documents that a query names

Changes = dict[tuple[str, str], tuple[int, "Sums"]]  # by collection and statistic: of documents, and of sums


def known_of(db: sqlite3.Connection, documents: Sequence[int]) -> dict[int, tuple[Known, ...]]:
    """The records of each of these documents, by slot."""
    found: dict[int, list[Known]] = {document: [] for document in documents}
    for some in pages(documents, TOGETHER):
        query = f"""SELECT document, slot, text_key, vector_key, meta_key, unsure, vector_digest FROM records
                    WHERE document IN ({marks(some)}) ORDER BY document, slot"""
        for document, slot, text, vector, meta, unsure, digest in db.execute(query, some):
            found[document].append(Known(slot, text, vector, meta, bool(unsure), digest))
    return {document: tuple(known) for document, known in found.items()}


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


def take_out(db: sqlite3.Connection, rows: Sequence[int]) -> None:
    """Documents that are removed no longer have a share in their collection's statistic."""
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
    """It failed in this version: another one that is wanted by now has not been tried."""
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
    found = db.execute("SELECT collection, statistic, sums FROM documents WHERE id = ?", (row,)).fetchone()
    if found is None:
        return
    collection, old_statistic, old_sums = found
    if old_sums is not None:
        _add(changes, (collection, old_statistic), -1, -unpack(old_sums))
    if statistic is not None and sums is not None:
        _add(changes, (collection, statistic), 1, sums)


def _add(changes: Changes, of: tuple[str, str], documents: int, sums: Sums) -> None:
    known = changes.get(of)
    changes[of] = (documents, sums) if known is None else (known[0] + documents, known[1] + sums)


def _accumulate(db: sqlite3.Connection, changes: Changes) -> None:
    """Integer sums do not depend on order."""
    for of, (documents, sums) in changes.items():
        query = "SELECT sums FROM statistics WHERE collection = ? AND statistic = ?"
        found = db.execute(query, of).fetchone()
        total = sums if found is None else unpack(found[0]) + sums
        db.execute(
            """INSERT INTO statistics (collection, statistic, documents, sums) VALUES (?, ?, ?, ?)
               ON CONFLICT DO UPDATE SET documents = documents + excluded.documents, sums = excluded.sums""",
            (*of, documents, pack(total)),
        )
