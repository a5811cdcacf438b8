"""Writes prepared documents to the collections in batches.

A document with many records is written a slice at a time, in turn with others of its kind, and small ones go
before each slice. A collection that cannot be written now is paused, and its documents wait. An error does
not mean that the write was refused (it may have been applied), so the same is sent again.
"""

import logging
import sqlite3
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from itertools import accumulate
from typing import Literal, Protocol

from ingestor.core.backoff import delay, has_passed
from ingestor.core.decisions import NEVER
from ingestor.core.entries import EditionName, Entry
from ingestor.core.events import event
from ingestor.core.work_counts import WorkCounts
from ingestor.engine import protocol
from ingestor.engine.edition_store import EditionStore
from ingestor.engine.flight import Flight, InFlight, Phase, Queue, Slices
from ingestor.pipeline.actions import Action, RemoveDocument, Tally, write_of
from ingestor.pipeline.prepare import Prepared
from ingestor.ports import Foreign, Gone, Later, NeedsHuman, Torn, Transient
from ingestor.state.journal import Journal
from ingestor.state.queries.backlog import still_wanted
from ingestor.units import counted

log = logging.getLogger("ingestor")

MANY = 50  # records replaced or dropped in a batch, after which search may miss some: see chroma/reach.py
LINGER = 0.5  # seconds that a prepared document waits for others to fill the batch
LONGEST_PAUSE = 15.0  # seconds
PERSISTENT = 3  # attempts in a row after which a collection counts as one that cannot be written
HELD = 300.0  # seconds until an edition in building that needs a person is tried again
LONGEST_ASKED = 300.0  # seconds, if a server asks for them


BATCH = 400  # records written at once; a document of more is large
BEHIND = 50  # records of a rebuild written at once: removals and edits wait for a few such writes


class Remedy(Enum):
    """Remedy for an error of a write."""

    RETRY = auto()  # the collection or the journal cannot be written now: pause
    REBUILD = auto()  # the collection, or one shard of it, is torn or was deleted
    HOLD = auto()  # only a person can repair the collection
    RAISE = auto()  # the journal itself is at fault
    REFUSE = auto()  # anything else: Chroma's refusals of a document are of no common kind


def classify(error: Exception) -> Remedy:
    if isinstance(error, Torn | Gone):
        return Remedy.REBUILD
    if isinstance(error, Transient | sqlite3.OperationalError):
        return Remedy.RETRY
    if isinstance(error, NeedsHuman):
        return Remedy.HOLD
    return Remedy.RAISE if isinstance(error, sqlite3.Error) else Remedy.REFUSE


WriteResult = Literal["done", "again", "dropped"]  # "dropped": the documents are prepared again if still due


@dataclass(slots=True)
class Health:
    """How writing to a collection goes. ``not_before``: POSIX seconds.

    ``look``: whether the collection must be examined. ``trouble``: why it is paused, which is logged once.
    """

    not_before: float = 0.0
    look: bool = False
    attempts: int = 0
    trouble: str | None = None


class Documents(Protocol):
    """Decides about documents whose writes come to an end. See DocumentFlow."""

    def wanted_recipe(self, prepared: Prepared) -> str:
        """Return the recipe that today's config asks of a document."""
        ...

    def refuse(self, document: InFlight, error: Exception, trace: str) -> None:
        """Withdraw or land a document that the index refuses."""
        ...

    def hold(self, collection: EditionName, error: Exception) -> None:
        """Hold the sources of a collection that only a person can repair."""
        ...


class Writer:
    """Batches writes per collection, and handles their errors.

    ``clock``: POSIX seconds. ``random``: evenly drawn from [0, 1).
    """

    def __init__(
        self,
        journal: Journal,
        collections: EditionStore,
        flight: Flight,
        flow: Documents,
        clock: Callable[[], float],
        random: Callable[[], float],
    ) -> None:
        self._journal, self._collections, self._flight = journal, collections, flight
        self._flow, self._clock, self._random = flow, clock, random
        self.health: dict[EditionName, Health] = {}
        self.tally, self.counts = Tally(), WorkCounts()

    def put(self, document: InFlight, prepared: Prepared) -> None:
        """Queue one document's writes."""
        self._health_of(document.entry.collection)
        self._flight.put(document, prepared, self._clock())

    def paused(self) -> set[EditionName]:
        now = self._clock()
        return {name for name, health in self.health.items() if now < health.not_before}

    def troubles(self) -> dict[str, str]:
        """Collections, as readers name them, that failed at the last attempt, with the reason.

        The reason of the collection that readers see goes before that of its replacement.
        """
        failed = {name: health.trouble for name, health in self.health.items() if health.trouble is not None}
        building_first = sorted(failed, key=self._collections.building, reverse=True)
        return {self._collections.serves(name): failed[name] for name in building_first}

    def unwritable(self) -> dict[str, str]:
        """Collections, as readers name them, whose writes fail again and again, with the reason."""
        return {
            self._collections.serves(name): health.trouble
            for name, health in self.health.items()
            if health.trouble is not None
            and health.attempts >= PERSISTENT
            and not self._collections.building(name)
        }

    def configure(self, editions: Collection[EditionName]) -> None:
        """Try paused collections again, and forget the troubles of editions that no source feeds any more."""
        for name, health in self.health.items():
            health.not_before, health.trouble = 0.0, health.trouble if name in editions else None

    def wait_no_longer(self) -> None:
        """Retry paused collections at once."""
        for health in self.health.values():
            health.not_before = 0.0

    def full(self) -> list[Entry]:
        """Return documents that wait though they fill a batch.

        Documents of paused collections count not: they would keep others from being begun.
        """
        paused = self.paused()
        queues = [each for name, each in self._flight.queues.items() if name not in paused]
        return [
            document.entry for each in queues if each.records >= BATCH for document in each.documents.values()
        ]

    def wake_at(self, later: Mapping[EditionName, float]) -> float:
        """Return when a batch is ripe, or a collection is examined or retried, in POSIX seconds.

        ``later``: before when an edition is not written.
        """
        now = self._clock()
        times = [
            max(self._health_of(name).not_before, queue.since + LINGER, later.get(name, 0.0))
            for name, queue in self._flight.queues.items()
            if queue.documents
        ]
        times += [
            health.not_before for health in self.health.values() if health.look or now < health.not_before
        ]
        return min(times, default=NEVER)

    def look(self) -> None:
        """Examine collections that are marked, before documents are prepared for them."""
        for collection, health in list(self.health.items()):
            if not health.look or self._clock() < health.not_before:
                continue
            if not self._collections.in_force(collection):  # its name may belong to another collection now
                health.look = False
                continue
            outcome = self._guard(collection, partial(self._collections.check, collection))
            if outcome == "done" and not self._queue(collection).documents:
                self._resume(collection)
            health.look = outcome == "again"

    def flush(self, collection: EditionName, *, everything: bool = False) -> bool:
        """Write a full or old batch, and a slice of a large document. Return whether any was ripe.

        A document lands as soon as its writes are done: what follows may raise sqlite3.Error.
        """
        queue, health, now = self._queue(collection), self._health_of(collection), self._clock()
        ripe = everything or queue.records >= BATCH or has_passed(queue.since, LINGER, now)
        if not (queue.documents and ripe and now >= health.not_before):
            return False
        self._write(collection, queue)
        if self._clock() >= health.not_before:
            self._write_slice(collection, queue)
        return True

    def check(self, collection: EditionName) -> None:
        """Mark a collection to be examined: it may have been deleted, replaced or torn."""
        self._health_of(collection).look = True

    def remove(self, entries: Sequence[Entry]) -> None:
        """Remove documents that their source no longer has: a slice of their records at each call."""
        paused = self.paused()
        for collection in dict.fromkeys(entry.collection for entry in entries):
            if collection in paused:
                continue
            gone = [entry for entry in entries if entry.collection == collection]
            if self._guard(collection, partial(self._remove, collection, gone)) == "done":
                self._resume(collection)

    def hold(self, collection: EditionName, reason: str) -> None:
        """Note that a person must repair a collection, and wait with one that readers do not see yet.

        A collection that readers see waits with its sources, which are held.
        """
        health, shown = self._health_of(collection), self._collections.serves(collection)
        if health.trouble != reason:
            log.error(
                "collection %s cannot be used: %s",
                shown,
                reason,
                extra=event("collection_unusable", collection=shown, reason=reason),
            )
        health.trouble, health.attempts = reason, max(health.attempts, PERSISTENT)
        if self._collections.building(collection):
            health.not_before = self._clock() + HELD

    def _health_of(self, collection: EditionName) -> Health:
        return self.health.setdefault(collection, Health())

    def _queue(self, collection: EditionName) -> Queue:
        return self._flight.queues.get(collection, Queue())

    def _remove(self, collection: EditionName, gone: Sequence[Entry]) -> None:
        try:
            index, home = self._collections.open(collection), self._collections.home
            removed, dropped = protocol.remove(self._journal, index, gone, home)
        except Foreign as error:
            log.warning(
                "%s removed from the journal only: %s",
                counted(len(gone), "document"),
                error,
                extra=event("documents_forgotten", collection=str(collection), documents=len(gone)),
            )
            self._journal.remove([entry.row for entry in gone])
            self._collections.disown(collection)
            for entry in gone:
                self._count(entry, RemoveDocument(0))
            return
        except NeedsHuman as error:  # there may be no source to hold: the collection has none any more
            raise Transient(str(error)) from error
        self.tally.records_dropped += dropped
        for entry in removed:
            self._count(entry, RemoveDocument(0))
        shown, documents = self._collections.serves(collection), name_all(removed or gone[:1])
        log.info(
            "%s: %s: %s, %s dropped",
            shown,
            documents,
            "removed" if removed else "is being removed",
            counted(dropped, "record"),
            extra=event(
                "documents_removed",
                collection=shown,
                document=(removed or gone)[0].key,
                documents=len(removed),
                dropped=dropped,
            ),
        )
        if dropped >= MANY:
            self.check(collection)

    def _write(self, collection: EditionName, queue: Queue) -> None:
        """Write the first documents that are not large, about a batch of records."""
        most = BEHIND if self._collections.building(collection) else BATCH
        whole = [each for each in queue.documents.values() if not is_large(each)]
        sizes = accumulate(each.records for each in whole)
        batch = whole[: 1 + sum(size < most for size in sizes)]
        if batch:
            writes = [each.prepared for each in batch]
            if self._guard(collection, partial(self._write_valid, collection, batch)) != "again":
                for document, prepared in zip(batch, writes, strict=True):
                    self._land(document, prepared)

    def _write_slice(self, collection: EditionName, queue: Queue) -> None:
        """Write a slice of the large document whose turn it is; then it is the turn of the next one."""
        large = next(filter(is_large, queue.documents.values()), None)
        if large is None:
            return
        prepared = large.prepared
        result = self._guard(collection, partial(self._advance, collection, large))
        if large.phase is Phase.WRITING:
            self._flight.rotate(large)
        elif result != "again":
            self._land(large, prepared)

    def _land(self, document: InFlight, prepared: Prepared | None) -> None:
        """Land a document whose writes are done. One that the index refused is in hand: to be withdrawn."""
        if document.prepared is prepared:
            self._flight.land(document)

    def _advance(self, collection: EditionName, large: InFlight) -> None:
        """Write the next slice. Afterwards the document is WRITING, or written, or to be prepared again.

        Its row of the journal stays as it is meanwhile: it is in flight, and no document adopts it. Raises as
        ``write`` does.
        """
        index, prepared, slices = self._collections.open(collection), large.prepared, large.slices
        assert prepared is not None
        large.slices = None
        if large.phase is Phase.WRITING:
            large.move(Phase.PREPARED)
        if slices is None and self._choose_wanted(collection, [large]):
            keys = self._collections.extra_keys(collection, [prepared])
            home = self._collections.home
            left = protocol.write(self._journal, index, [prepared], keys, self._flow.wanted_recipe, home)
            slices = Slices(index, left)
        if slices is None or slices.index is not index or not self._is_of_today(prepared):
            return
        try:
            next(slices.left)
        except StopIteration:
            self._note_written(collection, [prepared])
        except Exception as error:
            if classify(error) is not Remedy.REFUSE:
                raise
            self._flow.refuse(large, error, "".join(traceback.format_exception(error)))
        else:
            large.move(Phase.WRITING)
            large.slices = slices

    def _guard(self, collection: EditionName, work: Callable[[], None]) -> WriteResult:
        """Do the work; after an error pause, hold or rebuild the collection, depending on the error."""
        try:
            try:
                work()
            except (Torn, Gone) as error:
                self._rebuild(collection, error)
                return "dropped"
        except Exception as error:
            remedy, shown = classify(error), self._collections.serves(collection)
            if remedy is Remedy.RAISE:
                raise
            if remedy is Remedy.HOLD:
                self.hold(collection, str(error))
                self._flow.hold(collection, error)
                return "dropped"
            reason = str(error)
            if isinstance(error, sqlite3.OperationalError):
                reason = f"the journal cannot be written: {error}"
            elif remedy is not Remedy.RETRY:
                reason = f"{type(error).__name__}: {error}"
                log.exception(
                    "collection %s: unexpected error",
                    shown,
                    extra=event("collection_failed", collection=shown),
                )
            self._pause(collection, error, reason)
            return "again"
        return "done"

    def _write_valid(self, collection: EditionName, batch: Sequence[InFlight]) -> None:
        self._collections.open(collection)  # first: opening may find that the journal's records do not apply
        self._write_batch(collection, self._choose_wanted(collection, batch))

    def _choose_wanted(self, collection: EditionName, batch: Sequence[InFlight]) -> list[InFlight]:
        """Return the documents prepared by today's recipe, from records that the journal still knows.

        Each row of the journal occurs once. A document is prepared again while its predecessor is only partly
        written.
        """
        partly = {
            row for row, each in self._queue(collection).documents.items() if each.phase is Phase.WRITING
        }
        current = {
            each.prepared: each
            for each in batch
            if each.prepared and each.prepared.receipt.row not in partly and self._is_of_today(each.prepared)
        }
        valid = protocol.compatible(protocol.valid(self._journal, list(current)))
        return [current[prepared] for prepared in valid]

    def _is_of_today(self, prepared: Prepared) -> bool:
        of_today = self._flow.wanted_recipe(prepared) == prepared.receipt.recipe
        return of_today and prepared.entry.row in still_wanted(self._journal, [prepared.entry.row])

    def _write_batch(self, collection: EditionName, batch: Sequence[InFlight]) -> None:
        """Write a batch; after an unknown error each document alone, so that a bad one stops no other."""
        writes = [each.prepared for each in batch if each.prepared]
        if not writes:
            return
        try:
            index = self._collections.open(collection)
            keys, home = self._collections.extra_keys(collection, writes), self._collections.home
            for _ in protocol.write(self._journal, index, writes, keys, self._flow.wanted_recipe, home):
                pass
        except Exception as error:
            if classify(error) is not Remedy.REFUSE:
                raise
            if len(batch) == 1:  # it waits no longer, whatever becomes of the rest of its batch
                self._flow.refuse(batch[0], error, "".join(traceback.format_exception(error)))
                return
            for document in batch:
                self._write_batch(collection, [document])
            return
        self._note_written(collection, writes)

    def _note_written(self, collection: EditionName, batch: Sequence[Prepared]) -> None:
        self._resume(collection)
        if sum(len(p.records) - p.added + len(p.drops) for p in batch) >= MANY:
            self.check(collection)
        building = self._collections.building(collection)
        for prepared in batch:
            self._count(prepared.entry, write_of(prepared, building=building))
        _report(self._collections.serves(collection), batch, logging.DEBUG if building else logging.INFO)

    def _count(self, entry: Entry, action: Action) -> None:
        self.tally.count(action)
        kind = "removed" if isinstance(action, RemoveDocument) else action.kind
        self.counts.written(entry.source, kind, self._clock())

    def _pause(self, collection: EditionName, error: Exception, reason: str) -> None:
        self._collections.failed(collection, error)  # first: it may restart Chroma, which takes time
        health = self._health_of(collection)
        asked = min(error.wait, LONGEST_ASKED) if isinstance(error, Later) else 0.05
        wait = min(delay(health.attempts, self._random()), LONGEST_PAUSE)
        health.attempts += 1
        health.not_before = self._clock() + max(wait, asked)
        if reason != health.trouble:
            log.warning(
                "collection %s: write failed, will retry: %s",
                self._collections.serves(collection),
                reason,
                extra=event(
                    "collection_failed", collection=self._collections.serves(collection), reason=reason
                ),
            )
        health.trouble = reason

    def _resume(self, collection: EditionName) -> None:
        health = self._health_of(collection)
        if health.trouble is not None:
            log.info(
                "collection %s: writes resumed",
                self._collections.serves(collection),
                extra=event("collection_usable", collection=self._collections.serves(collection)),
            )
        health.attempts, health.trouble = 0, None

    def _rebuild(self, collection: EditionName, error: Torn | Gone) -> None:
        """The collection, or that shard of it, is torn or was deleted: write it again, from the cache."""
        shard = error.shard
        self._collections.doubt(collection, None if shard is None else [shard])
        self._collections.discard(collection, torn=isinstance(error, Torn), shard=shard)
        which = "" if shard is None else f", shard {shard},"
        log.error(
            "rebuilding collection %s%s: %s",
            self._collections.serves(collection),
            which,
            error,
            extra=event(
                "collection_rebuilt", collection=self._collections.serves(collection), reason=str(error)
            ),
        )


def is_large(document: InFlight) -> bool:
    """Whether it is written a slice at a time. A renamed document is not: its row in the journal changes."""
    prepared = document.prepared
    return prepared is not None and document.records > BATCH and prepared.intent.predecessor is None


def name_all(entries: Sequence[Entry]) -> str:
    """Documents in a line of the log: the first, and how many more."""
    more = len(entries) - 1
    return entries[0].key + (f" and {counted(more, 'more document')}" if more else "")


def _report(collection: str, batch: Sequence[Prepared], level: int) -> None:
    touched = [prepared for prepared in batch if prepared.intent.slots]
    if touched:
        records = sum(len(prepared.records) for prepared in touched)
        patched = sum(len(prepared.patches) for prepared in touched)
        dropped = sum(len(prepared.drops) for prepared in touched)
        counts = ((records, "written"), (patched, "patched"), (dropped, "dropped"))
        changes = ", ".join(f"{counted(number, 'record')} {what}" for number, what in counts if number)
        log.log(
            level,
            "%s: %s: %s",
            collection,
            name_all([prepared.entry for prepared in touched]),
            changes or "no record changed",
            extra=event(
                "documents_written",
                source=str(touched[0].entry.source),
                collection=collection,
                document=touched[0].entry.key,
                documents=len(touched),
                records=records,
                patched=patched,
                dropped=dropped,
            ),
        )
