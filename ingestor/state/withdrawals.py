"""The journal's table of withdrawals: how many documents left the index because they became unreadable.

The count of a source restarts at zero when nothing of it is due. While a count is too high for ``max_loss``
the records of further unreadable documents are kept, until a person accepts the loss.
"""

import logging
from collections.abc import Sequence

from ingestor.core import decisions
from ingestor.core.decisions import Failure
from ingestor.core.entries import EditionName, Entry
from ingestor.core.events import event
from ingestor.model import DocumentId, SourceName
from ingestor.state.journal import Journal

log = logging.getLogger("ingestor")


class Withdrawals:
    """Every method is one transaction."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def count(self, source: SourceName) -> int:
        """Documents withdrawn since the source was last in step."""
        return self.loss(source)[0]

    def loss(self, source: SourceName) -> tuple[int, int]:
        """Documents withdrawn since the source was last in step, and those that it had in the index then."""
        query = "SELECT documents, indexed FROM withdrawals WHERE source = ?"
        return next(((int(lost), int(of)) for lost, of in self._journal.select(query, (source,))), (0, 0))

    def accepted(self, source: SourceName) -> bool:
        """Whether a person accepted the loss of its unreadable documents."""
        query = "SELECT 1 FROM withdrawals WHERE source = ? AND accepted"
        return bool(self._journal.select(query, (source,)))

    def kept(self, source: SourceName) -> str | None:
        """Why records of unreadable documents are kept, or None."""
        query = "SELECT kept FROM withdrawals WHERE source = ?"
        return next((row[0] for row in self._journal.select(query, (source,))), None)

    def indexed(self, source: SourceName, collection: EditionName) -> int:
        """Documents of the source that have records."""
        query = """SELECT COUNT(*) FROM documents WHERE source = ? AND collection = ?
                   AND EXISTS (SELECT 1 FROM records WHERE document = id)"""
        return int(self._journal.select(query, (source, collection))[0][0])

    def add(self, source: SourceName, indexed: int) -> None:
        """Count one more withdrawn document.

        ``indexed``: number of documents in the index before the first withdrawal.
        """
        with self._journal.transaction() as db:
            db.execute(
                """INSERT INTO withdrawals (source, documents, indexed) VALUES (?, 1, ?)
                   ON CONFLICT DO UPDATE SET documents = documents + 1, indexed = excluded.indexed""",
                (source, indexed),
            )

    def keep(self, source: SourceName, reason: str) -> None:
        """Records of unreadable documents are kept, for this reason."""
        with self._journal.transaction() as db:
            db.execute(
                """INSERT INTO withdrawals (source, kept) VALUES (?, ?)
                   ON CONFLICT DO UPDATE SET kept = excluded.kept""",
                (source, reason),
            )

    def accept(self, source: SourceName) -> bool:
        """Withdraw them after all, at once. False if none are kept."""
        with self._journal.transaction() as db:
            query = "UPDATE withdrawals SET accepted = 1, kept = NULL WHERE source = ? AND kept IS NOT NULL"
            if not db.execute(query, (source,)).rowcount:
                return False
            db.execute(
                "UPDATE documents SET retry_at = 0 WHERE source = ? AND attempts > 0 AND NOT quarantined",
                (source,),
            )
        return True

    def settle(self, sources: Sequence[SourceName]) -> None:
        """Reset the counts of sources that have nothing due, and forget accepted losses.

        If records are kept, the count stays until no document waits for a retry.
        """
        if not self._journal.select("SELECT 1 FROM withdrawals LIMIT 1"):
            return
        with self._journal.transaction() as db:
            db.executemany(
                """DELETE FROM withdrawals WHERE source = ? AND (accepted OR kept IS NULL OR NOT EXISTS (
                       SELECT 1 FROM documents WHERE documents.source = withdrawals.source
                           AND attempts > 0 AND NOT quarantined))""",
                [(source,) for source in sources],
            )


class WithdrawalGuard:
    """Counts withdrawals, and stops them when a person must be asked.

    The journal keeps how many documents there were before the first. They cannot be counted afterwards: those
    that were withdrawn may be back in the index.
    """

    def __init__(self, journal: Journal) -> None:
        self._table = Withdrawals(journal)
        self._counted: set[tuple[SourceName, DocumentId]] = set()  # one whose write failed comes again

    def passes(self, entry: Entry, failure: Failure, max_loss: float) -> bool:
        """Whether the records of this document may be removed; if so, it counts as withdrawn."""
        document = entry.source, entry.document_id
        if not entry.known or document in self._counted or self._table.accepted(entry.source):
            return True
        withdrawn, indexed = self._table.loss(entry.source)
        indexed = indexed or self._table.indexed(*entry.feed)
        kept = decisions.withdrawal(failure, withdrawn, indexed, max_loss)
        if kept is None:
            self._table.add(entry.source, indexed)
            self._counted.add(document)
            return True
        if self._table.kept(entry.source) is None:
            reason = f"{kept}; their records are kept; if that is right, run: ingestor accept {entry.source}"
            log.error(
                "source %s: %s",
                entry.source,
                reason,
                extra=event("source_held", source=str(entry.source), reason=reason),
            )
            self._table.keep(entry.source, reason)
        return False

    def settle(self, sources: Sequence[SourceName]) -> None:
        """Reset the counts of sources that have nothing due."""
        self._table.settle(sources)
        kept = {source for source in {of for of, _ in self._counted} if self._table.count(source)}
        self._counted = {document for document in self._counted if document[0] in kept}
