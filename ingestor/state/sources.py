"""The journal's table of sources: their states, and requests of people."""

from collections.abc import Sequence

from ingestor.core.decisions import PERIOD
from ingestor.core.entries import SourceRow
from ingestor.model import SourceName
from ingestor.state.columns import LIVE, marks
from ingestor.state.journal import Journal


class SourceRows:
    """Every method is one transaction."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def scanned(
        self, source: SourceName, at: float, identity: str, documents: int, trouble: str | None = None
    ) -> None:
        """Store that a whole listing was taken over; a hold on the source ends.

        ``documents``: their number now, the largest until a larger one, ``rest`` or an accepted loss.
        ``trouble``: why the listing is incomplete, if it is.
        """
        counts = "accepted OR excluded.documents >= coalesce(documents, 0)"
        with self._journal.transaction() as db:
            db.execute(
                f"""INSERT INTO sources (name, last_scan, identity, documents, most_at, trouble)
                   VALUES (?1, ?2, ?3, ?4, ?2, ?5)
                   ON CONFLICT DO UPDATE SET last_scan = excluded.last_scan, identity = excluded.identity,
                       documents = iif({counts}, excluded.documents, documents),
                       most_at = iif({counts}, excluded.most_at, most_at), trouble = excluded.trouble,
                       held = NULL, loss = 0, accepted = 0""",
                (source, at, identity, documents, trouble),
            )

    def rest(self, sources: Sequence[SourceName], now: float) -> None:
        """Count the documents of sources at rest anew where the largest number is PERIOD old."""
        old = f"name IN ({marks(sources)}) AND (most_at <= ? OR most_at > ?)"
        values = (*sources, now - PERIOD, now)
        if not self._journal.select(f"SELECT 1 FROM sources WHERE {old} LIMIT 1", values):
            return
        with self._journal.transaction() as db:
            db.execute(
                f"""UPDATE sources SET most_at = ?, documents = (
                        SELECT COUNT(*) FROM documents
                        WHERE source = name AND wanted_version IS NOT NULL AND {LIVE})
                    WHERE {old}""",
                (now, *values),
            )

    def identify(self, source: SourceName, identity: str) -> None:
        """Store the identity of its root at the first listing."""
        with self._journal.transaction() as db:
            db.execute(
                """INSERT INTO sources (name, identity) VALUES (?, ?)
                   ON CONFLICT DO UPDATE SET identity = excluded.identity""",
                (source, identity),
            )

    def troubled(self, source: SourceName, trouble: str) -> None:
        """Store why it could not be listed."""
        with self._journal.transaction() as db:
            db.execute(
                """INSERT INTO sources (name, trouble) VALUES (?, ?)
                   ON CONFLICT DO UPDATE SET trouble = excluded.trouble""",
                (source, trouble),
            )

    def hold(self, source: SourceName, reason: str, *, loss: bool = False, root: str | None = None) -> None:
        """Change nothing of this source until the reason is gone.

        ``loss``: a person may accept it, for the ``root`` of that identity.
        """
        with self._journal.transaction() as db:
            db.execute(
                """INSERT INTO sources (name, held, loss, held_root) VALUES (?, ?, ?, ?)
                   ON CONFLICT DO UPDATE SET held = excluded.held, loss = excluded.loss,
                       held_root = excluded.held_root, accepted = 0""",
                (source, reason, loss, root),
            )

    def accept(self, source: SourceName) -> bool:
        """Accept a loss: the next listing is taken over. False if the source is not held for a loss."""
        with self._journal.transaction() as db:
            query = "UPDATE sources SET accepted = 1 WHERE name = ? AND held IS NOT NULL AND loss"
            return db.execute(query, (source,)).rowcount > 0

    def pause(self, source: SourceName, since: float) -> None:
        """Do nothing for it until ``resume``."""
        with self._journal.transaction() as db:
            db.execute(
                """INSERT INTO sources (name, paused) VALUES (?, ?)
                   ON CONFLICT DO UPDATE SET paused = COALESCE(paused, excluded.paused)""",
                (source, since),
            )

    def resume(self, source: SourceName) -> bool:
        """False if it was not paused."""
        with self._journal.transaction() as db:
            query = "UPDATE sources SET paused = NULL WHERE name = ? AND paused IS NOT NULL"
            return db.execute(query, (source,)).rowcount > 0

    def of(self, source: SourceName) -> SourceRow:
        query = """SELECT last_scan, identity, held, accepted, trouble, paused, documents, loss, held_root
                   FROM sources
                   WHERE name = ?"""
        found = self._journal.select(query, (source,))
        rows = (SourceRow(a, b, c, bool(d), e, f, g, bool(h), i) for a, b, c, d, e, f, g, h, i in found)
        return next(rows, SourceRow())
