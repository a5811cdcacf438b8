"""Vanished documents that may only have been renamed: a new one of the same size still waits to be read.

A new document takes over the records of a vanished one when its content turns out to be the same. Of a large
folder that is renamed, the last documents are read long after the first, and those of a server that is away
are retried for long. Until then their old records stay, so that readers find them and nothing is embedded
again.
"""

from collections.abc import Sequence

from ingestor.core.entries import Entry
from ingestor.state.columns import NOW, marks
from ingestor.state.journal import Journal

LONGEST = 6 * 3600.0  # seconds after which a vanished document is removed whatever still waits
AWAITED = f"""(since > {NOW} - {LONGEST}
    AND EXISTS (SELECT 1 FROM documents AS heir INDEXED BY unread
                WHERE heir.wanted_version IS NOT NULL AND heir.digest IS NULL AND heir.quarantined = 0
                AND heir.collection = documents.collection AND heir.size IS documents.size))"""


def without_heirs(journal: Journal, gone: Sequence[Entry], now: float, least: float) -> list[Entry]:
    """Those of some vanished documents that no waiting document can be. The others are put off, each by the
    time for which it was gone: so one is looked at a few times, however long it waits.

    ``now``: POSIX seconds. ``least``: seconds that a document is put off.
    """
    if not gone:
        return []
    rows = [entry.row for entry in gone]
    found = journal.select(f"SELECT id FROM documents WHERE id IN ({marks(rows)}) AND {AWAITED}", rows)
    if found:
        put_off = f"UPDATE documents SET retry_at = ? + max(?, {NOW} - since) WHERE id = ?"
        with journal.transaction() as db:
            db.executemany(put_off, [(now, least, row) for (row,) in found])
    awaited = {row for (row,) in found}
    return [entry for entry in gone if entry.row not in awaited]
