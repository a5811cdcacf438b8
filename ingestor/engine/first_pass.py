"""The first documents of a collection whose cuts depend on all its documents wait for each other.

Every document moves the statistic of its collection (see Collective). If each were written at once, most
would be cut and written again. So prepared documents are held while they outnumber those that are settled,
until all that are due have been seen, within a bound of memory and time. Sums of what is held, or is being
written, count in the statistic, so that cuts are made for the value that it will have. While those that were
held are written, the next ones are prepared.

Nothing of this is durable: after a crash the documents are due again, and their vectors are in the cache.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ingestor.core.backoff import has_passed
from ingestor.core.decisions import NEVER
from ingestor.core.entries import EditionName, Entry
from ingestor.model import Sums
from ingestor.pipeline.prepare import Prepared
from ingestor.ports import Collective
from ingestor.state.journal import Journal

MOST_RECORDS = 20_000  # held of one collection
MOST_DOCUMENTS = 2_000
LONGEST = 60.0  # seconds that a document is held


@dataclass(slots=True)
class _Held:
    since: float
    documents: deque[Prepared] = field(default_factory=deque)
    records: int = 0

    @property
    def full(self) -> bool:
        return self.records >= MOST_RECORDS or len(self.documents) >= MOST_DOCUMENTS


@dataclass(frozen=True, slots=True, eq=False)
class _Share:
    """The share of an unsettled document in its statistic. ``change``: change to the sum in the journal."""

    of: tuple[EditionName, str]
    sums: Sums
    change: Sums


class FirstPass:
    """Prepared documents that are held, and the sums of all that are prepared and not settled."""

    def __init__(self, journal: Journal, clock: Callable[[], float]) -> None:
        self._journal, self._clock = journal, clock
        self._held: dict[EditionName, _Held] = {}
        self.released: dict[int, EditionName] = {}  # by row: those held before that are not settled yet
        self._shares: dict[int, _Share] = {}  # by row
        self._changes: dict[tuple[EditionName, str], Sums] = {}  # those of all shares

    # --- the statistic -----------------------------------------------------------------------------------

    def note(self, prepared: Prepared) -> None:
        """Count its sums from now on, until ``forget``."""
        receipt, entry = prepared.receipt, prepared.entry
        self.forget(entry.row)
        if receipt.sums is None or receipt.statistic is None:
            return
        settled = entry.sums if entry.statistic == receipt.statistic else None
        change = receipt.sums if settled is None else receipt.sums - settled
        share = _Share((entry.collection, receipt.statistic), receipt.sums, change)
        self._shares[entry.row] = share
        known = self._changes.get(share.of)
        self._changes[share.of] = change if known is None else known + change

    def forget(self, row: int) -> None:
        """The document is settled, or will be prepared again."""
        self.released.pop(row, None)
        share = self._shares.pop(row, None)
        if share is not None:
            self._changes[share.of] = self._changes[share.of] - share.change

    def total(self, edition: EditionName, statistic: str) -> Sums | None:
        """The sums over all documents that are settled or prepared; shape (k,), or None."""
        changes, settled = self._changes.get((edition, statistic)), self._journal.total(edition, statistic)
        if changes is None or settled is None:
            return settled if changes is None else changes
        return settled + changes

    def others(self, entry: Entry, statistic: str) -> Sums | None:
        """The sums over all but this document."""
        total, share = self.total(entry.collection, statistic), self._shares.get(entry.row)
        if total is None:
            return None
        if share is not None and share.of == (entry.collection, statistic):
            return total - share.sums
        return total - entry.sums if entry.sums is not None and entry.statistic == statistic else total

    # --- what is held --------------------------------------------------------------------------------------

    def hold(self, prepared: Prepared) -> bool:
        """Whether it is held. A renamed document is not: its row in the journal changes."""
        statistic = prepared.receipt.statistic
        if statistic is None or prepared.receipt.sums is None or prepared.intent.predecessor is not None:
            return False
        edition = prepared.entry.collection
        if edition in self.released.values():  # they outnumber all that would be held
            return False
        held = self._held.get(edition)
        waiting = 0 if held is None else len(held.documents)
        if self._journal.summed(edition, statistic) > waiting:
            return False
        held = self._held.setdefault(edition, _Held(self._clock()))
        held.documents.append(prepared)
        held.records += len(prepared.records)
        return True

    def release(self, seen: Callable[[EditionName], bool]) -> Iterator[Prepared]:
        """Documents that are held no longer. ``seen``: whether no other document of that edition is due.

        Each is held until the next is asked for: after an error it is the first of the next call.
        """
        for edition, held in list(self._held.items()):
            late = has_passed(held.since, LONGEST, self._clock())
            if late or held.full or seen(edition):
                held.since = 0.0  # after an error the next call goes on, whatever is due by then
                self.released |= {prepared.entry.row: edition for prepared in held.documents}
                yield from self._let_go(edition)

    def _let_go(self, edition: EditionName) -> Iterator[Prepared]:
        documents = self._held[edition].documents
        while documents:
            yield documents[0]
            documents.popleft()
        del self._held[edition]

    def fits(self, prepared: Prepared, chunker: Collective | None) -> bool:
        """Whether its cuts are those for the statistic as it is now. ``chunker``: of its source now."""
        statistic, interval = prepared.receipt.statistic, prepared.receipt.interval
        if statistic is None or interval is None or chunker is None or chunker.statistic != statistic:
            return True
        total = self.total(prepared.entry.collection, statistic)
        return total is None or interval[0] <= chunker.value(total) <= interval[1]

    def clear(self) -> list[Prepared]:
        """Hold nothing. Returns what was held."""
        dropped = [prepared for held in self._held.values() for prepared in held.documents]
        self._held.clear()
        return dropped

    def waiting(self, edition: EditionName | None = None) -> int:
        """Number of documents held, of this edition or of all."""
        return sum(len(held.documents) for name, held in self._held.items() if edition in (None, name))

    def wake_at(self) -> float:
        return min((held.since + LONGEST for held in self._held.values()), default=NEVER)
