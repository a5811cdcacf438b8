"""Documents in flight: the documents that the engine works on now, each with a phase and a table of moves.

The journal knows which documents are due. A record (``InFlight``) is created when the engine begins a
document, and is deleted when the document lands. A document lands when its work ends: it is settled, or due
again. Other facts are computed from the records, except queues and totals, which each step needs. The
engine's thread owns the records. Only the worker that prepares a document adds its sums to the total.

The work on a document continues in pipeline/prepare.py.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import reduce
from itertools import accumulate
from operator import add
from threading import Lock
from typing import Any

from ingestor.core.entries import EditionName, Entry
from ingestor.core.errors import Stopped, has_passed, longest_wait
from ingestor.model import Sums
from ingestor.pipeline.prepare import Prepared
from ingestor.ports import Index
from ingestor.state.journal import Journal

BATCH = 400  # records written at once; a document of more is large
BACKGROUND_BATCH = 50  # the fewest records that are written at once to an edition that readers do not see
BACKGROUND_SECONDS = 0.5  # that writing a batch to such an edition may take: removals and edits wait for it
LINGER = 0.5  # seconds that a prepared document waits for other documents to fill the batch
_REMEMBERED = 10_000  # documents that landed and whose attempts are remembered
_AT_ONCE = 3  # failing versions of a document that are tried as soon as they are listed
RAREST = 30.0  # seconds between two attempts at a document that always changes


class Phase(Enum):
    """Phase of a document while the engine works on it."""

    IDLE = auto()  # not in flight: the journal has its state
    PREPARING = auto()  # submitted to the workers, until the engine processes the outcome
    PREPARED = auto()  # waits to be written
    WRITING = auto()  # some of its slices are written


MOVES: Mapping[Phase, Collection[Phase]] = {
    Phase.IDLE: (Phase.PREPARING,),
    Phase.PREPARING: (Phase.PREPARED, Phase.IDLE),  # idle: failed, cancelled or too slow
    Phase.PREPARED: (Phase.WRITING, Phase.IDLE),
    Phase.WRITING: (Phase.PREPARED,),  # while the next slice is written, and after an error
}


@dataclass(slots=True)
class Attempts:
    """Earlier attempts at one document, remembered after the attempt ended.

    ``cancelled``: whether work on the last version was cancelled. Then work on the next version is not. So
    readers get a version from time to time even if the document changes all the time. ``versions``: how many
    versions failed in a row. ``version``: the last of them. ``until``: POSIX seconds before which the
    document is not tried again. If it is more than RAREST ahead, the clock was put back since.
    """

    cancelled: bool = False
    version: str | None = None
    versions: int = 0
    until: float = 0.0

    def note_failure(self, entry: Entry, now: float) -> bool:
        """Count a failed version. Return whether it is the first failure, which is logged.

        If version after version fails because the document changes while it is read, attempts become rarer.
        """
        version, first = entry.item.version if entry.item else "", self.version is None
        self.versions += version != self.version
        self.version = version
        if self.versions > _AT_ONCE:
            self.until = now + longest_wait(self.versions - _AT_ONCE, RAREST)
        return first and not entry.attempts

    def forget_failures(self) -> None:
        """Forget failed versions, because a version could be prepared."""
        self.version, self.versions, self.until = None, 0, 0.0


@dataclass(slots=True, eq=False)
class InFlight:
    """A document that the engine works on. The object is also the tag by which its outcome is recognised.

    ``drifted``: the document is up to date, but its cuts no longer fit the statistic of its collection.
    ``quarantine_recipe``: the recipe to store if the parser refuses the document. It is set at the start,
    since the config may change meanwhile. ``cancelled``: the outcome will be discarded. ``sums``: what the
    document adds to ``statistic``. Other documents are cut with these sums before the journal has them.
    ``slices``: the edition to which a large document is written, and an iterator whose steps write one slice
    each.
    """

    entry: Entry
    drifted: bool = False
    quarantine_recipe: str = ""
    statistic: str | None = None
    attempts: Attempts = field(default_factory=Attempts)
    phase: Phase = Phase.IDLE
    cancelled: bool = False
    sums: Sums | None = None
    prepared: Prepared | None = None
    slices: tuple[Index, Iterator[None]] | None = None

    @property
    def records(self) -> int:
        """Return how many records the document writes, patches or deletes; 0 before it is prepared."""
        writes = self.prepared
        return 0 if writes is None else len(writes.records) + len(writes.patches) + len(writes.deletes)

    @property
    def large(self) -> bool:
        """Return whether the document is written in slices, because it has many records.

        A renamed document never is: its row of the journal changes with the write.
        """
        prepared = self.prepared
        return prepared is not None and self.records > BATCH and prepared.intent.renamed is None

    def move(self, to: Phase) -> None:
        assert to in MOVES[self.phase], f"a document cannot move from {self.phase} to {to}"
        self.phase = to

    def require_wanted(self) -> None:
        """Raise Stopped if work on the document was cancelled. Called by the worker that prepares it."""
        if self.cancelled:
            raise Stopped


@dataclass(slots=True)
class Queue:
    """Prepared documents of one edition that wait to be written, by row of the journal.

    The first large document in the queue is the one whose slice is written next. ``records``: number of
    records that all the documents write, patch or delete. ``since``: POSIX seconds at which the empty queue
    got a document.
    """

    documents: dict[int, InFlight] = field(default_factory=dict)
    records: int = 0
    since: float = 0.0

    @property
    def is_full(self) -> bool:
        return self.records >= BATCH

    def is_ripe(self, now: float) -> bool:
        """Return whether to write now: a batch is full, or the first document has waited LINGER seconds."""
        return bool(self.documents) and (self.is_full or has_passed(self.since, LINGER, now))

    def batches(self, size: int | None = None) -> list[list[InFlight]]:
        """Return what is written next: documents that fill a batch, and the first large document.

        ``size``: number of records that fill the batch; by default BATCH.
        """
        most = BATCH if size is None else size
        small, large = list[InFlight](), list[InFlight]()
        for document in self.documents.values():
            (large if document.large else small).append(document)
        sizes = accumulate(each.records for each in small)
        return [*filter(None, (small[: 1 + sum(records < most for records in sizes)], large[:1]))]


@dataclass(slots=True)
class BackgroundPace:
    """When batches are written to editions that readers do not see, and how large they are.

    Larger batches cost less for each record, but removals and edits wait longer for each. ``written_at``:
    POSIX seconds at which the last batch was written. ``seconds``: how long that took. ``size``: number of
    records that fill the next batch.
    """

    written_at: float = 0.0
    seconds: float = 0.0
    size: int = field(default_factory=lambda: BACKGROUND_BATCH)

    def note(self, begun: float, ended: float) -> None:
        """Note that a batch was written between these POSIX seconds."""
        self.written_at, self.seconds = ended, ended - begun
        if self.seconds > BACKGROUND_SECONDS:
            self.size = max(BACKGROUND_BATCH, self.size // 2)
        elif self.seconds < BACKGROUND_SECONDS / 3:
            self.size = min(BATCH, self.size * 2)


class Flight:
    """All documents in flight by row of the journal, and earlier attempts at documents that landed.

    ``queues``: by edition, the prepared documents that wait to be written. These queues could be computed
    from all documents, and so could the totals of sums. But the cost of a step must not grow with the number
    of documents.
    """

    def __init__(self) -> None:
        self._documents: dict[int, InFlight] = {}
        self._attempts: dict[int, Attempts] = {}
        self.queues: dict[EditionName, Queue] = {}
        self._totals: dict[tuple[EditionName, str | None], Sums] = {}  # by edition and statistic
        self._counting = Lock()

    def documents(self, *phases: Phase) -> list[InFlight]:
        """Return the documents that are in one of these phases; all documents in flight if no phase is given.

        Any thread may call.
        """
        return [each for each in list(self._documents.values()) if not phases or each.phase in phases]

    def rows(self) -> set[int]:
        return set(self._documents)

    def get(self, row: int) -> InFlight | None:
        """Return the document with this row of the journal; None if it is not in flight."""
        return self._documents.get(row)

    def attempts(self, row: int) -> Attempts:
        """Return the remembered attempts at the document of this row, or empty ``Attempts``."""
        return self._attempts.get(row) or Attempts()

    def editions(self) -> set[EditionName]:
        return {each.entry.edition for each in self.documents()}

    def begin(self, document: InFlight) -> None:
        """Add a document to those in flight.

        Call this right before it is submitted: nothing may fail in between.
        """
        document.move(Phase.PREPARING)
        self._documents[document.entry.row] = document

    def put(self, document: InFlight, prepared: Prepared, now: float) -> None:
        """Queue the writes of a prepared document."""
        document.move(Phase.PREPARED)
        document.prepared = prepared
        queue = self.queues.setdefault(document.entry.edition, Queue())
        queue.since = queue.since if queue.documents else now
        queue.documents[document.entry.row] = document
        queue.records += document.records

    def land(self, document: InFlight) -> None:
        """Take a document out of the documents in flight: it is up to date, or will be tried again.

        Its prepared writes are discarded. Do nothing if that happened already.
        """
        if document.phase is Phase.IDLE:
            return
        row, queue = document.entry.row, self.queues.get(document.entry.edition)
        if queue is not None and queue.documents.pop(row, None) is not None:
            queue.records -= document.records
        document.move(Phase.IDLE)
        document.prepared = document.slices = None
        if document.sums is not None:
            with self._counting:
                self._totals[document.entry.edition, document.statistic] -= document.sums
                document.sums = None
        self._documents.pop(row, None)
        self._attempts.pop(row, None)
        if document.attempts != Attempts():
            self._attempts[row] = document.attempts
            if len(self._attempts) > _REMEMBERED:
                self._attempts.pop(next(iter(self._attempts)))

    def sums_of_others(self, journal: Journal, document: InFlight, own: Sums | None = None) -> Sums | None:
        """Return the statistic's sums over all documents read so far, without this one; None if none was
        read.

        Each document of a first pass changes the statistic of its collection. No document waits until all are
        read: each is cut by the documents read so far. When no new document is left to read, documents are
        cut again if the final value lies outside their interval. Cuts do not change the sums, so that happens
        once.

        ``own``: the sums of this document. They count for other documents from now on, until it lands. Any
        thread may call.
        """
        entry, statistic = document.entry, document.statistic
        assert statistic is not None
        settled = entry.sums if entry.statistic == statistic else None
        stored, key = journal.total(entry.edition, statistic), (entry.edition, statistic)
        with self._counting:
            if own is not None and settled is None:
                before: Any = 0 if document.sums is None else document.sums
                self._totals[key] = self._totals.get(key, 0) - before + own
                document.sums = own
            own = settled if document.sums is None else document.sums
            # within the lock: a document that lands changes the total in place
            read = [sums for sums in (stored, self._totals.get(key)) if sums is not None]
            return reduce(add, read) - (0 if own is None else own) if read else None
