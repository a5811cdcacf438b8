"""Vanished documents that may only have been renamed: a new one of the same size still waits to be read.

A new document takes over the records of a vanished one when its content turns out to be the same. Of a large
folder that is renamed, the last documents are read long after the first, and those of a server that is away
are retried for long. Until then their old records stay, so that readers find them and nothing is embedded
again.

Of several new documents with its content, that takes over which is the moved one, where the connector can
tell: the others are copies.
"""

from collections.abc import Callable, Sequence
from itertools import chain

from ingestor.core.entries import Entry, Feed
from ingestor.state.columns import GONE, NOW, marks
from ingestor.state.journal import Journal

Moved = Callable[[str, str], bool]  # whether items of two versions are one under two keys

LONGEST = 6 * 3600.0  # seconds after which a vanished document is removed whatever still waits
_MOST = 100  # documents that are compared with one
AWAITED = f"""(since > {NOW} - {LONGEST}
    AND EXISTS (SELECT 1 FROM documents AS heir INDEXED BY unread
                WHERE heir.wanted_version IS NOT NULL AND heir.digest IS NULL AND heir.quarantined = 0
                AND heir.collection = documents.collection AND heir.size IS documents.size))"""


def predecessor(journal: Journal, moved: Moved, new: Entry, digest: str) -> Entry | None:
    """The vanished document with this content whose records a new one takes over, or None. Any thread.

    ``moved``: of versions in the new one's source.
    """
    query = f"""SELECT id, source, done_version, size FROM documents
                WHERE collection = ? AND digest = ? AND {GONE} ORDER BY id LIMIT {_MOST}"""
    gone = journal.read(query, (new.collection, digest))
    known = {row: (version, size) for row, source, version, size in gone if version and source == new.source}
    own = (row for row, (version, _) in known.items() if new.item and moved(version, new.item.version))
    free = (
        row for row, *_ in gone if row not in known or not _claimed(journal, moved, new.feed, *known[row])
    )
    row = next(chain(own, free), None)
    found = None if row is None else journal.vanished(row)
    return found if found is not None and found.digest == digest else None  # as it is by now


def _claimed(journal: Journal, moved: Moved, feed: Feed, version: str, size: int | None) -> bool:
    """Whether a document that waits to be read is the moved one."""
    query = f"""SELECT wanted_version FROM documents INDEXED BY unread
                WHERE wanted_version IS NOT NULL AND digest IS NULL AND quarantined = 0
                AND collection = ? AND size IS ? AND source = ? LIMIT {_MOST}"""
    waiting = journal.read(query, (feed.edition, size, feed.source))
    return any(moved(version, wanted) for (wanted,) in waiting)


def without_heirs(journal: Journal, gone: Sequence[Entry], now: float, least: float) -> list[Entry]:
    """Return the vanished documents that no waiting document can be a rename of.

    Postpone the others, each by the time since it vanished: a document is checked only a few times, however
    long it waits.

    ``now``: POSIX seconds. ``least``: fewest seconds that a document is postponed.
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
