"""The journal's table of sources: their states, and requests of people."""

from ingestor.core.entries import SourceRow
from ingestor.model import SourceName
from ingestor.state.journal import Journal


class SourceRows:
    """Every method is one transaction."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def scanned(
        self, source: SourceName, at: float, identity: str, documents: int, trouble: str | None = None
    ) -> None:
        """Store that a whole listing was taken over; a hold on the source ends.

        ``documents``: their number now; ``trouble``: why the listing is incomplete, if it is.
        """
        with self._journal.transaction() as db:
            db.execute(
                """INSERT INTO sources (name, last_scan, identity, documents, trouble) VALUES (?, ?, ?, ?, ?)
                   ON CONFLICT DO UPDATE SET last_scan = excluded.last_scan, identity = excluded.identity,
                       documents = excluded.documents, trouble = excluded.trouble,
                       held = NULL, loss = 0, accepted = 0""",
                (source, at, identity, documents, trouble),
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
