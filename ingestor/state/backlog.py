"""Queries that find the next work of the engine. They run in each of its steps.

Each query uses an index, so that its time depends only on the number of rows that it returns. Settled
documents and the backlog of a paused source cost nothing.
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from itertools import chain
from typing import Any, NamedTuple

from ingestor.core.decisions import NEVER
from ingestor.core.entries import EditionName, Entry, Feed
from ingestor.model import SourceName
from ingestor.state.journal import Journal, entries_of
from ingestor.state.tables import GONE, IN_FORCE, NOW, PENDING, SETTLED, marks

Moved = Callable[[str, str], bool]  # whether the items of two versions are one item that was moved

LONGEST = 6 * 3600.0  # seconds after which a vanished document is removed although unread documents wait
_MOST = 100  # documents that are compared with one

# A vanished document may have another name now: then a document of its size waits to be read.
AWAITED = f"""(since > {NOW} - {LONGEST}
    AND EXISTS (SELECT 1 FROM documents AS heir INDEXED BY unread
                WHERE heir.wanted_version IS NOT NULL AND heir.digest IS NULL AND heir.quarantined = 0
                AND heir.collection = documents.collection AND heir.size IS documents.size))"""


def predecessor(journal: Journal, moved: Moved, new: Entry, digest: str) -> Entry | None:
    """Return the vanished document that a new document was before it got another name, or None.

    Both have the same content, so the new document can reuse the records of the vanished one. ``moved``:
    returns whether two versions of the source belong to one item that was moved; such a document is
    preferred. ``digest``: digest of the new document's content. Any thread may call.
    """
    query = f"""SELECT id, source, done_version FROM documents
                WHERE collection = ? AND digest = ? AND {GONE} ORDER BY id LIMIT {_MOST}"""
    if not (gone := journal.reader.select(query, (new.edition, digest))):
        return None
    known = ((row, version) for row, source, version in gone if version and source == new.source)
    own = (row for row, version in known if new.item and moved(version, new.item.version))
    row = next(chain(own, (row for row, *_ in gone)), None)
    where = f"id = ? AND digest = ? AND {GONE}"  # again, since the engine's thread may have changed the row
    return next(iter(entries_of(journal.reader, where, (row, digest))), None)


_OF_FEED = f"FROM documents INDEXED BY unsettled WHERE source = ? AND collection = ? AND {PENDING}"


def still_wanted(journal: Journal, rows: Collection[int]) -> dict[int, tuple[SourceName, str]]:
    """Return the source and the listed version of each of these documents, by row.

    Vanished documents and documents of paused sources are left out.
    """
    query = f"""SELECT documents.id, source, wanted_version FROM documents
                LEFT JOIN sources ON sources.name = documents.source
                WHERE documents.id IN ({marks([*rows])}) AND wanted_version IS NOT NULL AND paused IS NULL"""
    return {row: (source, version) for row, source, version in journal.select(query, list(rows))}


class Queued(NamedTuple):
    """A due document with the facts by which the queue orders it. ``size``: listed bytes; 0 if unknown."""

    row: int
    source: SourceName
    size: int
    attempts: int


class Backlog:
    """Finds the next work of the engine. Each method makes a few queries, and raises sqlite3.Error."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        # Queries of ``documents_gone`` without a result, and the journal's mark at that time.
        self._none = set[object]()
        self._mark: object = None

    def queue(
        self, feeds: Sequence[Feed], now: float, limit: int, in_flight: Collection[Entry] = ()
    ) -> list[Queued]:
        """Return the due documents of some feeds in the order of the queue, without documents in flight.

        ``now``: POSIX seconds. ``limit``: about how many documents to return. It is divided among the feeds,
        so that a long backlog of one source does not hide the others.
        """
        rows = {entry.row for entry in in_flight}
        begun = Counter([(entry.source, entry.edition) for entry in in_flight])
        part = max(100, limit // max(1, len(feeds)))
        waiting = [row for feed in feeds for row in self._first(feed, now, part + begun[feed])]
        return [Queued(*row[1:]) for row in sorted(waiting) if row[1] not in rows]

    def _first(self, feed: Feed, now: float, limit: int) -> list[tuple[Any, ...]]:
        query = f"""SELECT retry_at, id, source, coalesce(size, 0), attempts {_OF_FEED} AND retry_at <= ?
                    ORDER BY retry_at, id LIMIT ?"""
        return self._journal.select(query, (*feed, now, limit))

    def documents_gone(
        self,
        sources: Sequence[SourceName],
        now: float,
        limit: int,
        without: Collection[int] = (),
        paused: Collection[EditionName] = (),
        *,
        unknown: bool = False,
    ) -> list[Entry]:
        """Return vanished documents to remove, those that vanished first at the start.

        ``limit``: about how many records they may have together. A document is left out while a document of
        its size waits to be read, which may be the same one under another name. ``now``: POSIX seconds.
        ``without``: rows to leave out. ``paused``: editions to leave out. ``unknown``: whether documents of
        unknown size are returned in any case. Otherwise a web page that can never be read would delay their
        removal.
        """
        # The engine asks in every step; without a write since then, the result is empty again.
        asked = (frozenset([*sources, *paused]), now, unknown)
        if (mark := self._journal.mark()) != self._mark:
            self._mark, self._none = mark, set()
        if asked in self._none:
            return []
        awaited = f"({AWAITED} AND size IS NOT NULL)" if unknown else AWAITED
        query = f"""SELECT id, (SELECT COUNT(*) FROM records WHERE document = id) FROM documents
                    WHERE {GONE} AND retry_at <= ? AND NOT {awaited} AND +source IN ({marks(sources)})
                    AND {IN_FORCE} AND +collection NOT IN ({marks([*paused])})
                    ORDER BY retry_at, id LIMIT ?"""
        rows, room = list[int](), limit
        for row, records in self._journal.select(query, (now, *sources, *paused, limit + len(without))):
            if row not in without and room > 0:
                rows.append(row)
                room -= max(1, records)
        if not (rows or without):
            self._none.add(asked)
        return self._journal.of_rows(rows)

    def find_drifted(
        self, feeds: Sequence[Feed], statistic: str, value: int, limit: int, without: Collection[int] = ()
    ) -> list[Entry]:
        """Return settled documents whose chunks are no longer optimal for this value of their statistic.

        For each document the journal stores the interval of values for which its chunks are optimal. Two
        range queries by index find the documents whose interval does not contain the value. ``feeds``: of one
        edition. ``without``: rows to leave out.
        """
        if not feeds:
            return []
        same = f"""collection = ? AND statistic = ? AND quarantined = 0 AND wanted_version IS NOT NULL
                   AND {SETTLED} AND source IN ({marks(feeds)}) AND id NOT IN ({marks([*without])})"""
        sources = (feed.source for feed in feeds)
        known = (feeds[0].edition, statistic, *sources, *without, value, limit)
        low = self._journal.entries(f"{same} AND lo > ? LIMIT ?", known)
        high = self._journal.entries(f"{same} AND hi < ? LIMIT ?", known)
        return (low + high)[:limit]

    def next_retry(self, feeds: Sequence[Feed]) -> float:
        """Return the POSIX seconds at which the next document of these feeds becomes due; NEVER if none
        waits."""
        pending = f"SELECT retry_at {_OF_FEED} AND quarantined = 0 ORDER BY retry_at LIMIT 1"
        gone = f"""SELECT retry_at FROM documents WHERE {GONE} AND quarantined = 0 AND NOT {AWAITED}
                   AND (+source, +collection) IN (VALUES {", ".join(["(?, ?)"] * len(feeds))})
                   ORDER BY retry_at LIMIT 1"""
        select = self._journal.select
        chosen: list[tuple[Any, ...]] = [row for feed in feeds for row in select(pending, feed)]
        chosen += select(gone, [value for feed in feeds for value in feed]) if feeds else []
        return min((float(retry_at) for (retry_at,) in chosen), default=NEVER)
