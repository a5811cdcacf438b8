"""What people and readers are told of the journal: counts and failures."""

from ingestor.journal import Journal
from ingestor.model import CollectionName
from ingestor.rows import IN_FORCE, LIVE, UNSETTLED


class Reports:
    """Each method is one query."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def counts(self) -> list[tuple[str, str, str, int]]:
        """(source, collection, state, documents) with state settled, due, waiting, quarantined or gone."""
        query = f"""SELECT source, collection, CASE WHEN wanted_version IS NULL THEN 'gone'
                        WHEN quarantined THEN 'quarantined'
                        WHEN NOT ({UNSETTLED}) THEN 'settled'
                        WHEN attempts > 0 THEN 'waiting' ELSE 'due' END AS state, COUNT(*)
                    FROM documents WHERE {IN_FORCE} GROUP BY source, collection, state"""
        return self._journal.select(query)

    def failures(self) -> list[tuple[str, str, str, int, float, bool, str | None]]:
        """(source, key, reason, attempts, retry_at, quarantined, detail) of what failed."""
        query = f"""SELECT source, key, reason, attempts, retry_at, quarantined, detail FROM documents
                    WHERE reason IS NOT NULL AND {LIVE} ORDER BY source, key"""
        return [(*row[:5], bool(row[5]), row[6]) for row in self._journal.select(query)]

    def due(self) -> int:
        """Documents that are not as they shall be, quarantined ones left out."""
        query = f"""SELECT (SELECT COUNT(*) FROM documents
                            WHERE {UNSETTLED} AND wanted_version IS NOT NULL AND {IN_FORCE})
                         + (SELECT COUNT(*) FROM documents WHERE wanted_version IS NULL AND {IN_FORCE})"""
        return int(self._journal.select(query)[0][0])

    def records(self, collection: CollectionName) -> int:
        query = "SELECT COUNT(*) FROM records JOIN documents ON id = document WHERE collection = ?"
        return int(self._journal.select(query, (collection,))[0][0])
