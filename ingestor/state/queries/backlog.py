"""What the engine has to do next, as the journal finds it: look-ups that every step makes.

Each goes by an index and takes as long as what it finds, whatever else the journal holds: settled documents,
or the backlog of a source that is paused.
"""

import json
from collections.abc import Collection, Sequence
from typing import Any

from ingestor.core.decisions import NEVER
from ingestor.core.entries import EditionName, Entry, Feed
from ingestor.model import SourceName
from ingestor.state.columns import GONE, IN_FORCE, PENDING, SETTLED, marks
from ingestor.state.journal import Journal

_OF_FEED = f"FROM documents INDEXED BY unsettled WHERE source = ? AND collection = ? AND {PENDING}"


class Backlog:
    """Each method is a few queries. Methods raise sqlite3.Error."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def due(
        self,
        feeds: Sequence[Feed],
        now: float,
        limit: int,
        but: Collection[int] = (),
        largest: int | None = None,
    ) -> list[Entry]:
        """Documents to ingest, the longest waiting first, without the rows ``but``.

        ``largest``: most bytes of a document; documents of unknown size are included.
        """
        small = "" if largest is None else "AND coalesce(size, 0) <= ?"
        query = f"""SELECT retry_at, id {_OF_FEED} AND retry_at <= ? {small}
                    AND id NOT IN (SELECT value FROM json_each(?)) ORDER BY retry_at, id LIMIT ?"""
        values = (now, *(() if largest is None else (largest,)), json.dumps(list(but)), limit)
        rows = sorted(row for feed in feeds for row in self._journal.select(query, (*feed, *values)))
        return [entry for _, row in rows[:limit] if (entry := self._journal.entry(row)) is not None]

    def gone(self, sources: Sequence[SourceName], now: float, limit: int) -> list[Entry]:
        """Documents to remove: their source no longer has them."""
        return self._journal.entries(
            f"""{GONE} AND retry_at <= ? AND +source IN ({marks(sources)}) AND {IN_FORCE}
                ORDER BY retry_at, id LIMIT ?""",
            (now, *sources, limit),
        )

    def drifted(
        self, sources: Sequence[SourceName], collection: EditionName, statistic: str, value: int, limit: int
    ) -> list[Entry]:
        """Settled documents whose cuts are not optimal at this value of their statistic.

        Two indexed range queries; documents whose interval contains the value are not visited.
        """
        same = f"""collection = ? AND statistic = ? AND quarantined = 0 AND wanted_version IS NOT NULL
                   AND {SETTLED} AND source IN ({marks(sources)})"""
        known = (collection, statistic, *sources, value, limit)
        low = self._journal.entries(f"{same} AND lo > ? LIMIT ?", known)
        high = self._journal.entries(f"{same} AND hi < ? LIMIT ?", known)
        return (low + high)[:limit]

    def next_retry(self, feeds: Sequence[Feed]) -> float:
        """When the next waiting document is due, in POSIX seconds; NEVER if none waits."""
        pending = f"SELECT retry_at {_OF_FEED} AND quarantined = 0 ORDER BY retry_at LIMIT 1"
        gone = f"""SELECT retry_at FROM documents WHERE {GONE} AND quarantined = 0
                   AND (+source, +collection) IN (VALUES {", ".join(["(?, ?)"] * len(feeds))})
                   ORDER BY retry_at LIMIT 1"""
        select = self._journal.select
        found: list[tuple[Any, ...]] = [row for feed in feeds for row in select(pending, feed)]
        found += select(gone, [value for feed in feeds for value in feed]) if feeds else []
        return min((float(retry_at) for (retry_at,) in found), default=NEVER)
