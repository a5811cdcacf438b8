"""Queries for the next work of the engine, made in every step.

Each query uses an index, and its time depends only on the rows found. Settled documents and the backlog of a
paused source cost nothing.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from ingestor.core.decisions import NEVER
from ingestor.core.entries import EditionName, Entry, Feed
from ingestor.model import SourceName
from ingestor.state.journal import Journal
from ingestor.state.rows import GONE, IN_FORCE, NOW, PENDING, SETTLED, marks

Moved = Callable[[str, str], bool]  # whether items of two versions are one under two keys

LONGEST = 6 * 3600.0  # seconds after which a vanished document is removed whatever still waits
_MOST = 100  # documents that are compared with one
AWAITED = f"""(since > {NOW} - {LONGEST}
    AND EXISTS (SELECT 1 FROM documents AS heir INDEXED BY unread
                WHERE heir.wanted_version IS NOT NULL AND heir.digest IS NULL AND heir.quarantined = 0
                AND heir.collection = documents.collection AND heir.size IS documents.size))"""


def predecessor(journal: Journal, moved: Moved, new: Entry, digest: str) -> Entry | None:
    """Return the vanished document with this content whose records a new one takes over, or None. Any thread.

    ``moved``: judges versions in the new document's source.
    """
    query = f"""SELECT id, source, done_version, size FROM documents
                WHERE collection = ? AND digest = ? AND {GONE} ORDER BY id LIMIT {_MOST}"""
    gone = journal.read(query, (new.collection, digest))
    known = {row: (version, size) for row, source, version, size in gone if version and source == new.source}
    own = (row for row, (version, _) in known.items() if new.item and moved(version, new.item.version))
    free = (
        row for row, *_ in gone if row not in known or not _is_claimed(journal, moved, new.feed, *known[row])
    )
    row = next(chain(own, free), None)
    where = f"id = ? AND digest = ? AND {GONE}"  # as it is by now
    return next(iter(journal.entries(where, (row, digest), reads_only=True)), None)


def _is_claimed(journal: Journal, moved: Moved, feed: Feed, version: str, size: int | None) -> bool:
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
    chosen = journal.select(f"SELECT id FROM documents WHERE id IN ({marks(rows)}) AND {AWAITED}", rows)
    if chosen:
        put_off = f"UPDATE documents SET retry_at = ? + max(?, {NOW} - since) WHERE id = ?"
        with journal.transaction() as db:
            db.executemany(put_off, [(now, least, row) for (row,) in chosen])
    awaited = {row for (row,) in chosen}
    return [entry for entry in gone if entry.row not in awaited]


_AHEAD = 500  # due documents that are read before they are asked for
_OF_FEED = f"FROM documents INDEXED BY unsettled WHERE source = ? AND collection = ? AND {PENDING}"


def still_wanted(journal: Journal, rows: Collection[int]) -> dict[int, str]:
    """Return the wanted version of each row, without removed documents and paused sources."""
    query = f"""SELECT documents.id, wanted_version FROM documents
                LEFT JOIN sources ON sources.name = documents.source
                WHERE documents.id IN ({marks([*rows])}) AND wanted_version IS NOT NULL AND paused IS NULL"""
    return dict(journal.select(query, list(rows)))


@dataclass(frozen=True, slots=True)
class _Due:
    """The rows that were due at a time, the longest waiting first."""

    at: float  # POSIX seconds
    rows: Sequence[int]
    until: float | None  # these are all, until then; None if there are more

    def answers(self, now: float, number: int) -> bool:
        """Whether the first ``number`` rows, or all, are the same now."""
        known = len(self.rows) >= number if self.until is None else now < self.until
        return known and now >= self.at


class Backlog:
    """The next work of the engine. Each method is a few queries, and raises sqlite3.Error."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._mark: object = None  # of the journal when what follows was read
        self._known: dict[tuple[object, ...], _Due] = {}  # by feeds and ``largest``
        self._gone: dict[EditionName, bool] = {}  # whether any document of the edition vanished
        self._awaited = set[frozenset[str]]()  # sources, paused editions: all vanished documents have heirs

    def due(
        self,
        feeds: Sequence[Feed],
        now: float,
        limit: int,
        without: Collection[int] = (),
        largest: int | None = None,
    ) -> list[Entry]:
        """Return documents to ingest, the longest waiting first, except for the rows ``without``.

        ``largest``: most bytes of a document; documents of unknown size are included.
        """
        chosen = [row for row in self._rows(feeds, now, limit + len(without), largest) if row not in without]
        entries = self._journal.of_rows(chosen[:limit])
        return [entries[row] for row in chosen[:limit] if row in entries]

    def _rows(self, feeds: Sequence[Feed], now: float, number: int, largest: int | None) -> Sequence[int]:
        """The first due rows, ``number`` or more, or all. Read once between two writes to the journal."""
        self._refresh()
        asked = (*feeds, largest)
        known = self._known.get(asked)
        if known is None or not known.answers(now, number):
            known = self._known[asked] = self._read(feeds, now, number + _AHEAD, largest)
        return known.rows

    def _refresh(self) -> None:
        """Drop the rows that were read before the last write to the journal."""
        if (mark := self._journal.mark()) != self._mark:
            self._mark, self._known, self._gone, self._awaited = mark, {}, {}, set()

    def _read(self, feeds: Sequence[Feed], now: float, number: int, largest: int | None) -> _Due:
        small = "" if largest is None else "AND coalesce(size, 0) <= ?"
        query = f"SELECT retry_at, id {_OF_FEED} AND retry_at <= ? {small} ORDER BY retry_at, id LIMIT ?"
        values = (now, *(() if largest is None else (largest,)), number)
        rows = sorted(row for feed in feeds for row in self._journal.select(query, (*feed, *values)))
        until = None if len(rows) >= number else self._next_due(feeds, now)
        return _Due(now, [row for _, row in rows[:number]], until)

    def _next_due(self, feeds: Sequence[Feed], now: float) -> float:
        """Return when the next document is due that is not due now."""
        query = f"SELECT retry_at {_OF_FEED} AND retry_at > ? ORDER BY retry_at LIMIT 1"
        chosen = (self._journal.select(query, (*feed, now)) for feed in feeds)
        return min((float(retry_at) for rows in chosen for (retry_at,) in rows), default=NEVER)

    def any_gone(self, edition: EditionName) -> bool:
        """Whether a document of this edition vanished and is not removed yet."""
        self._refresh()
        if edition not in self._gone:
            query = f"SELECT 1 FROM documents INDEXED BY moved WHERE collection = ? AND {GONE} LIMIT 1"
            self._gone[edition] = bool(self._journal.select(query, (edition,)))
        return self._gone[edition]

    def gone(
        self,
        sources: Sequence[SourceName],
        now: float,
        limit: int,
        without: Collection[int] = (),
        paused: Collection[EditionName] = (),
    ) -> list[Entry]:
        """Return documents that their source no longer has. About as many as have ``limit`` records.

        ``without``: rows to leave out. ``paused``: editions to leave out.
        """
        return self._few("retry_at <= ?", (now,), sources, limit, without, paused)

    def heirless(
        self,
        sources: Sequence[SourceName],
        limit: int,
        without: Collection[int] = (),
        paused: Collection[EditionName] = (),
    ) -> list[Entry]:
        """Documents to remove that no new one can be, whenever that is read. See ``gone``.

        Sizes must be known for it: a page that can never be read would else hold up whatever is removed.
        Where there are none, that is read once between two writes to the journal.
        """
        self._refresh()
        if (asked := frozenset([*sources, *paused])) in self._awaited:
            return []
        chosen = self._few(f"(size IS NULL OR NOT {AWAITED})", (), sources, limit, without, paused)
        if not (chosen or without):
            self._awaited.add(asked)
        return chosen

    def _few(
        self,
        where: str,
        values: Sequence[object],
        sources: Sequence[SourceName],
        limit: int,
        without: Collection[int],
        paused: Collection[EditionName],
    ) -> list[Entry]:
        """Return vanished documents, the longest gone first, until they have ``limit`` records."""
        query = f"""SELECT id, (SELECT COUNT(*) FROM records WHERE document = id) FROM documents
                    WHERE {GONE} AND {where} AND +source IN ({marks(sources)}) AND {IN_FORCE}
                    AND +collection NOT IN ({marks([*paused])}) ORDER BY retry_at, id LIMIT ?"""
        rows, room = list[int](), limit
        for row, records in self._journal.select(query, (*values, *sources, *paused, limit + len(without))):
            if row not in without and room > 0:
                rows.append(row)
                room -= max(1, records)
        entries = self._journal.of_rows(rows)
        return [entries[row] for row in rows if row in entries]

    def drifted(
        self,
        sources: Sequence[SourceName],
        collection: EditionName,
        statistic: str,
        value: int,
        limit: int,
        without: Collection[int] = (),
    ) -> list[Entry]:
        """Return settled documents whose cuts are not optimal at this value of their statistic, except for
        the rows ``without``.

        Two indexed range queries; documents whose interval contains the value are not visited.
        """
        same = f"""collection = ? AND statistic = ? AND quarantined = 0 AND wanted_version IS NOT NULL
                   AND {SETTLED} AND source IN ({marks(sources)}) AND id NOT IN ({marks([*without])})"""
        known = (collection, statistic, *sources, *without, value, limit)
        low = self._journal.entries(f"{same} AND lo > ? LIMIT ?", known)
        high = self._journal.entries(f"{same} AND hi < ? LIMIT ?", known)
        return (low + high)[:limit]

    def next_retry(self, feeds: Sequence[Feed]) -> float:
        """Return when the next waiting document is due, in POSIX seconds; NEVER if none waits."""
        pending = f"SELECT retry_at {_OF_FEED} AND quarantined = 0 ORDER BY retry_at LIMIT 1"
        gone = f"""SELECT retry_at FROM documents WHERE {GONE} AND quarantined = 0
                   AND (+source, +collection) IN (VALUES {", ".join(["(?, ?)"] * len(feeds))})
                   ORDER BY retry_at LIMIT 1"""
        select = self._journal.select
        chosen: list[tuple[Any, ...]] = [row for feed in feeds for row in select(pending, feed)]
        chosen += select(gone, [value for feed in feeds for value in feed]) if feeds else []
        return min((float(retry_at) for (retry_at,) in chosen), default=NEVER)
