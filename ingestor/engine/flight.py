"""Documents in flight: one record a document, its phase, and the table of the moves between phases.

The journal knows what is due. A record exists from the moment at which the engine begins a document until it
lands: it is settled, or due again. Everything else that is asked of documents in flight is a function over
the records. The engine's thread owns them; the worker that has a document moves it between PREPARING and
WAITING. The way of a document goes on in pipeline/prepare.py.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import accumulate

import numpy as np

from ingestor.core.entries import EditionName, Entry
from ingestor.core.errors import Stopped, has_passed, longest_wait
from ingestor.model import Sums
from ingestor.pipeline.prepare import Prepared
from ingestor.ports import Index
from ingestor.state.journal import Journal

BATCH = 400  # records written at once; a document of more is large
BEHIND = 50  # records of a rebuild written at once: removals and edits wait for a few such writes
LINGER = 0.5  # seconds that a prepared document waits for others to fill the batch
_KNOWN = 10_000  # documents that are not in flight and of which something is remembered
_AT_ONCE = 3  # versions of a document that are tried as they come, though each fails
_RAREST = 30.0  # seconds between two attempts at a document that always changes
_QUIET = 60.0  # seconds between two lines of the log about such a document


class Phase(Enum):
    DUE = auto()  # not in flight: the journal has its state
    BEGUN = auto()  # submitted: waits for a worker
    PREPARING = auto()  # on a worker, or its outcome is not taken yet
    WAITING = auto()  # for vectors, or for a process that parses: keeps no worker
    PREPARED = auto()  # waits to be written
    WRITING = auto()  # some of its slices are written


MOVES: Mapping[Phase, Collection[Phase]] = {
    Phase.DUE: (Phase.BEGUN,),
    Phase.BEGUN: (Phase.PREPARING, Phase.DUE),  # due: cancelled before a worker took it
    Phase.PREPARING: (Phase.WAITING, Phase.PREPARED, Phase.DUE),  # due: failed, cancelled or too slow
    Phase.WAITING: (Phase.PREPARING,),
    Phase.PREPARED: (Phase.WRITING, Phase.PREPARED, Phase.DUE),  # prepared: refused, and to be withdrawn
    Phase.WRITING: (Phase.PREPARED,),  # while the next slice is written, and after an error
}
AT_WORK = Phase.BEGUN, Phase.PREPARING, Phase.WAITING
IN_HAND = Phase.PREPARED, Phase.WRITING


@dataclass(slots=True)
class Attempts:
    """Memory of earlier attempts at a document.

    ``spared``: whether work on a version was cancelled; the next version is then finished. ``versions``:
    number of versions that failed in a row. ``until``, ``logged``: POSIX seconds.
    """

    spared: bool = False
    version: str | None = None
    versions: int = 0
    until: float = 0.0
    logged: float = 0.0

    def note_failure(self, entry: Entry, now: float) -> bool:
        """Note that a version failed. Return whether to log it: the first failure, others once a minute.

        Attempts become rarer if version after version fails because the document changes while it is read.
        """
        version = entry.item.version if entry.item else ""
        if self.version is None:
            self.version, self.versions, self.logged = version, 1, now
            return not entry.attempts
        other, self.version = self.version != version, version
        self.versions += other
        if self.versions > _AT_ONCE:
            self.until = now + longest_wait(self.versions - _AT_ONCE, _RAREST)
        logs = other and has_passed(self.logged, _QUIET, now)
        self.logged = now if logs else self.logged
        return logs

    def waits_until(self, now: float) -> float | None:
        """Return when the document is tried again, in POSIX seconds; None if it may be tried now."""
        return self.until if now < self.until <= now + _RAREST else None

    def forget_failures(self) -> None:
        """Note that a version was prepared to its end."""
        self.version, self.versions, self.until, self.logged = None, 0, 0.0, 0.0


@dataclass(frozen=True, slots=True)
class Slices:
    """Remaining writes of a large document. ``index``: their target."""

    index: Index
    left: Iterator[None]


@dataclass(slots=True, eq=False)
class InFlight:
    """Record of a document in flight, and the tag of its work.

    ``again``: it is settled, and its cuts no longer fit the statistic. ``refused``: recipe under which it is
    quarantined if its parser refuses it; noted at the start, since the config may change meanwhile.
    ``cancelled``: the outcome is not wanted. ``sums``: its share of ``statistic``, which counts for other
    documents until the journal has it.
    """

    entry: Entry
    again: bool = False
    refused: str = ""
    statistic: str | None = None
    attempts: Attempts = field(default_factory=Attempts)
    phase: Phase = Phase.DUE
    cancelled: bool = False
    sums: Sums | None = None
    prepared: Prepared | None = None
    slices: Slices | None = None

    @property
    def records(self) -> int:
        """Return how many records its writes concern."""
        writes = self.prepared
        return 0 if writes is None else len(writes.records) + len(writes.patches) + len(writes.drops)

    @property
    def large(self) -> bool:
        """Return whether it is written by slices.

        A renamed document is not: its row in the journal changes.
        """
        prepared = self.prepared
        return prepared is not None and self.records > BATCH and prepared.intent.predecessor is None

    def move(self, to: Phase) -> None:
        assert to in MOVES[self.phase], f"a document cannot move from {self.phase} to {to}"
        self.phase = to

    def take(self) -> None:
        """Note that a worker takes it. Raises Stopped if it is cancelled."""
        if self.cancelled:
            raise Stopped
        self.move(Phase.PREPARING)

    def wait(self) -> None:
        """Note that its worker waits, and needs no turn meanwhile. Raises Stopped if it is cancelled."""
        if self.cancelled:
            raise Stopped
        self.move(Phase.WAITING)


@dataclass(slots=True)
class Queue:
    """Documents of an edition that wait to be written, by row, in the order of their turns.

    ``records``: number of records of all their writes. ``since``: POSIX seconds of the first arrival.
    """

    documents: dict[int, InFlight] = field(default_factory=dict)
    records: int = 0
    since: float = 0.0

    @property
    def is_full(self) -> bool:
        return self.records >= BATCH

    def is_ripe(self, now: float) -> bool:
        """Return whether a batch is full, or has waited long enough for others to fill it."""
        return bool(self.documents) and (self.is_full or has_passed(self.since, LINGER, now))

    @property
    def ripe_at(self) -> float:
        """Return the time at which a batch is ripe, in POSIX seconds."""
        return self.since + LINGER

    def batch(self, *, behind: bool) -> list[InFlight]:
        """Return the first documents that are not large: about a batch of records, at least one document.

        ``behind``: whether readers do not see the edition yet.
        """
        most = BEHIND if behind else BATCH
        small = [each for each in self.documents.values() if not each.large]
        sizes = accumulate(each.records for each in small)
        return small[: 1 + sum(size < most for size in sizes)]

    def next_large(self) -> InFlight | None:
        """Return the large document whose turn it is."""
        return next((each for each in self.documents.values() if each.large), None)

    def partly_written(self) -> set[int]:
        return {row for row, each in self.documents.items() if each.phase is Phase.WRITING}


class Flight:
    """Records of all documents in flight and of documents with remembered attempts, by row.

    ``queues``: index by edition of the documents that wait to be written; the cost of a step must not grow
    with them.
    """

    def __init__(self) -> None:
        self._records: dict[int, InFlight] = {}
        self.queues: dict[EditionName, Queue] = {}

    def documents(self, *phases: Phase) -> list[InFlight]:
        """Return the documents in these phases; all that are in flight if none is named. Any thread."""
        phases = phases or (*AT_WORK, *IN_HAND)
        return [each for each in list(self._records.values()) if each.phase in phases]

    def rows(self) -> set[int]:
        return {row for row, each in self._records.items() if each.phase is not Phase.DUE}

    def of(self, row: int) -> InFlight | None:
        """Return the document of this row if it is in flight."""
        known = self._records.get(row)
        return None if known is None or known.phase is Phase.DUE else known

    def attempts(self, row: int) -> Attempts:
        """Return what is remembered of a document; blank if nothing is."""
        return self._records[row].attempts if row in self._records else Attempts()

    def is_preparing(self, edition: EditionName) -> bool:
        """Return whether a document of this edition waits for a worker, or is on one."""
        return any(each.entry.collection == edition for each in self.documents(*AT_WORK))

    def editions(self) -> set[EditionName]:
        return {each.entry.collection for each in self.documents()}

    def begin(self, document: InFlight) -> None:
        """Put a document into flight, right before it is submitted: nothing may fail in between."""
        document.move(Phase.BEGUN)
        self._records[document.entry.row] = document

    def put(self, document: InFlight, prepared: Prepared, now: float) -> None:
        """Note the writes for a document. They replace writes that the index refused."""
        document.move(Phase.PREPARED)
        self._leave(document)
        document.prepared = prepared
        queue = self.queues.setdefault(document.entry.collection, Queue())
        queue.since = queue.since if queue.documents else now
        queue.documents[document.entry.row] = document
        queue.records += document.records

    def rotate(self, document: InFlight) -> None:
        """Give their turn to the documents that wait behind this one."""
        waiting = self.queues[document.entry.collection].documents
        waiting[document.entry.row] = waiting.pop(document.entry.row)

    def follow(self, document: InFlight, entry: Entry) -> None:
        """Note that a refused document has another row in the journal: it adopted that of its former name."""
        waiting, before = self.queues[document.entry.collection].documents, document.entry.row
        document.entry = entry
        waiting[entry.row] = waiting.pop(before)
        self._records[entry.row] = self._records.pop(before)

    def land(self, document: InFlight) -> None:
        """End a flight: the document is settled, or due again. Nothing happens if it has landed."""
        if document.phase is Phase.DUE:
            return
        document.move(Phase.DUE)
        self._leave(document)
        document.sums = None
        if document.attempts == Attempts():
            self._records.pop(document.entry.row, None)
        elif len(self._records) > _KNOWN:
            self._records = {row: each for row, each in self._records.items() if each.phase is not Phase.DUE}

    def _leave(self, document: InFlight) -> None:
        """Drop the writes of a document."""
        queue = self.queues.get(document.entry.collection, Queue())
        if queue.documents.pop(document.entry.row, None) is not None:
            queue.records -= document.records
            document.prepared = document.slices = None

    def sums_of_others(self, journal: Journal, document: InFlight, own: Sums | None = None) -> Sums | None:
        """Return the sums over all documents read except this one; None if there are none. Any thread.

        A first pass moves the statistic with each document. No document waits for it to settle: each document
        is cut by the documents read so far. When nothing new is left to read, documents whose interval does
        not contain the settled value are cut again. Cuts do not change sums, so that happens once.

        ``own``: the sums of this document, which count for other documents from now on, until it lands.
        """
        entry, statistic = document.entry, document.statistic
        assert statistic is not None
        settled = entry.sums if entry.statistic == statistic else None
        total = journal.total(entry.collection, statistic)
        if own is not None and settled is None:
            document.sums = own
        read = [
            each.sums for each in list(self._records.values())
            if each.sums is not None and each.entry.row != entry.row
            and (each.entry.collection, each.statistic) == (entry.collection, statistic)
        ]  # fmt: skip
        if settled is not None:
            read.append(-settled)
        if total is not None:
            read.append(total)
        return np.sum(read, axis=0) if read else None


def cancel_overtaken(documents: Collection[InFlight], wanted: Mapping[int, str]) -> None:
    """Cancel work on documents that are no longer wanted or whose version changed.

    ``wanted``: versions by row. Of a document that changes all the time, every other version is finished, so
    that readers get a version now and then.
    """
    for document in documents:
        entry, version = document.entry, wanted.get(document.entry.row)
        changed = entry.item is None or version != entry.item.version
        if version is None:
            document.cancelled = True
        elif changed and not document.attempts.spared:
            document.attempts.spared = document.cancelled = True
