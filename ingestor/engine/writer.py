"""Writes prepared documents to the collections in batches, and removes documents that vanished.

A document with many records is written a slice at a time, in turn with others of its kind, and small ones go
before each slice. After an error of a write a collection is paused, held or rebuilt, and its documents wait.
An error does not mean that the write was refused (it may have been applied), so the same is sent again.
"""

from __future__ import annotations

import logging
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING

from ingestor.core.decisions import NEVER
from ingestor.core.entries import EditionName, Entry
from ingestor.core.errors import delay
from ingestor.core.events import event
from ingestor.engine import protocol
from ingestor.engine.flight import Flight, InFlight, Phase, Queue, Slices
from ingestor.engine.parts import EngineParts
from ingestor.pipeline.actions import WorkCounts, WriteDocument, tally_of, write_of
from ingestor.pipeline.prepare import Prepared
from ingestor.ports import Foreign, Gone, Later, NeedsHuman, Torn, Transient
from ingestor.state.backlog import still_wanted
from ingestor.units import counted

if TYPE_CHECKING:
    from ingestor.engine.outcomes import DocumentFlow

log = logging.getLogger("ingestor")

LONGEST_PAUSE = 15.0  # seconds
LONGEST_ASKED = 300.0  # seconds, if a server asks for them
PERSISTENT = 3  # attempts in a row after which a collection counts as one that cannot be written
HELD = 300.0  # seconds until an edition in building that needs a person is tried again


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


class WriteResult(Enum):
    """WriteResult of an attempt at work on a collection."""

    DONE = auto()
    AGAIN = auto()  # the collection is paused, and the same is tried again
    DROPPED = auto()  # the documents are prepared again if they are still due


@dataclass(slots=True)
class Health:
    """The health of one collection.

    ``not_before``: POSIX seconds until which it is paused. ``marked``: whether it must be examined.
    ``attempts``: failures in a row. ``trouble``: reason of its pause, which is logged once.
    """

    not_before: float = 0.0
    marked: bool = False
    attempts: int = 0
    trouble: str | None = None


class CollectionHealth:
    """Attempts work on collections, and carries out the remedy for each error.

    ``hold_sources``: called with a collection that only a person can repair.
    """

    def __init__(self, parts: EngineParts, hold_sources: Callable[[EditionName, str], None]) -> None:
        self._collections, self._clock, self._random = parts.collections, parts.clock, parts.random
        self._hold_sources = hold_sources
        self.of = defaultdict[EditionName, Health](Health)

    def paused(self) -> set[EditionName]:
        now = self._clock()
        return {name for name, health in self.of.items() if now < health.not_before}

    def troubles(self) -> dict[str, str]:
        """Return collections, as readers name them, that failed at the last attempt, with the reason.

        The reason of the collection that readers see goes before that of its replacement.
        """
        failed = {name: health.trouble for name, health in self.of.items() if health.trouble is not None}
        building_first = sorted(failed, key=self._collections.is_building, reverse=True)
        return {self._collections.serves(name): failed[name] for name in building_first}

    def unwritable(self) -> dict[str, str]:
        """Return collections, as readers name them, whose writes fail again and again, with the reason."""
        return {
            self._collections.serves(name): health.trouble
            for name, health in self.of.items()
            if health.trouble is not None
            and health.attempts >= PERSISTENT
            and not self._collections.is_building(name)
        }

    def configure(self, editions: Collection[EditionName]) -> None:
        """Retry paused collections, and forget the troubles of editions that no source feeds any more."""
        self.wait_no_longer()
        for name in self.of.keys() - editions:
            self.of[name].trouble = None

    def wait_no_longer(self) -> None:
        """Retry paused collections at once."""
        for health in self.of.values():
            health.not_before = 0.0

    def mark(self, collection: EditionName) -> None:
        """Have a collection examined: it may have been deleted, replaced or torn."""
        self.of[collection].marked = True

    def examine(self, busy: Collection[EditionName]) -> None:
        """Examine marked collections, before documents are prepared for them.

        ``busy``: collections whose next write shows whether they can be written.
        """
        for collection, health in list(self.of.items()):
            if not health.marked or self._clock() < health.not_before:
                continue
            if not self._collections.is_in_force(collection):  # its name may belong to another collection now
                health.marked = False
                continue
            result = self.attempt(collection, partial(self._collections.check, collection))
            if result is WriteResult.DONE and collection not in busy:
                self.resume(collection)
            health.marked = result is WriteResult.AGAIN

    def attempt(self, collection: EditionName, work: Callable[[], None]) -> WriteResult:
        """Do the work; after an error pause, hold or rebuild the collection. Raises sqlite3.Error."""
        try:
            try:
                work()
            except (Torn, Gone) as error:
                self._rebuild(collection, error)
                return WriteResult.DROPPED
        except Exception as error:
            remedy = classify(error)
            if remedy is Remedy.RAISE:
                raise
            if remedy is Remedy.HOLD:
                self.hold(collection, str(error))
                self._hold_sources(collection, str(error))
                return WriteResult.DROPPED
            self._pause(collection, error)
            return WriteResult.AGAIN
        return WriteResult.DONE

    def resume(self, collection: EditionName) -> None:
        """Note that a collection was written or examined without an error."""
        health = self.of[collection]
        if health.trouble is not None:
            shown = self._collections.serves(collection)
            about = event("collection_usable", collection=shown)
            log.info("collection %s: writes resumed", shown, extra=about)
        health.attempts, health.trouble = 0, None

    def hold(self, collection: EditionName, reason: str) -> None:
        """Note that a person must repair a collection, and pause one that readers do not see yet.

        A collection that readers see waits with its sources, which are held.
        """
        health, shown = self.of[collection], self._collections.serves(collection)
        if health.trouble != reason:
            about = event("collection_unusable", collection=shown, reason=reason)
            log.error("collection %s cannot be used: %s", shown, reason, extra=about)
        health.trouble, health.attempts = reason, max(health.attempts, PERSISTENT)
        if self._collections.is_building(collection):
            health.not_before = self._clock() + HELD

    def _pause(self, collection: EditionName, error: Exception) -> None:
        health, shown, reason = self.of[collection], self._collections.serves(collection), str(error)
        if isinstance(error, sqlite3.OperationalError):
            reason = f"the journal cannot be written: {error}"
        elif not isinstance(error, Transient):
            reason = f"{type(error).__name__}: {error}"
            about = event("collection_failed", collection=shown)
            log.exception("collection %s: unexpected error", shown, extra=about)
        self._collections.note_failure(collection, error)  # first: it may restart Chroma, which takes time
        wait = min(delay(health.attempts, self._random()), LONGEST_PAUSE)
        asked = min(error.wait, LONGEST_ASKED) if isinstance(error, Later) else 0.05
        health.attempts += 1
        health.not_before = self._clock() + max(wait, asked)
        if reason != health.trouble:
            about = event("collection_failed", collection=shown, reason=reason)
            log.warning("collection %s: write failed, will retry: %s", shown, reason, extra=about)
        health.trouble = reason

    def _rebuild(self, collection: EditionName, error: Torn | Gone) -> None:
        """Write a collection, or one shard of it, again from the cache."""
        shown, shard = self._collections.serves(collection), error.shard
        self._collections.doubt(collection, None if shard is None else [shard])
        self._collections.discard(collection, torn=isinstance(error, Torn), shard=shard)
        which = "" if shard is None else f", shard {shard},"
        about = event("collection_rebuilt", collection=shown, reason=str(error))
        log.error("rebuilding collection %s%s: %s", shown, which, error, extra=about)


MANY = 50  # records replaced or dropped in a batch, after which search may miss some: see chroma/reach.py


class Writer:
    """Writes what is ripe in the queues of documents in flight."""

    def __init__(self, parts: EngineParts, flight: Flight, flow: DocumentFlow) -> None:
        self._journal, self._collections, self._clock = parts.journal, parts.collections, parts.clock
        self._flight, self._flow = flight, flow
        self.health = CollectionHealth(parts, flow.hold)
        self.tally, self.counts = Counter[str](), WorkCounts()

    def full(self) -> list[Entry]:
        """Return documents that wait though they fill a batch.

        Documents of paused collections do not count: they would keep others from being begun.
        """
        paused = self.health.paused()
        queues = [each for name, each in self._flight.queues.items() if name not in paused and each.is_full]
        return [document.entry for each in queues for document in each.documents.values()]

    def wake_at(self, later: Mapping[EditionName, float]) -> float:
        """Return when a batch is ripe, or a collection is examined or retried, in POSIX seconds.

        ``later``: before when an edition is not written.
        """
        now, known = self._clock(), self.health.of.values()
        times = [
            max(self.health.of[name].not_before, queue.ripe_at, later.get(name, 0.0))
            for name, queue in self._flight.queues.items()
            if queue.documents
        ]
        times += [health.not_before for health in known if health.marked or now < health.not_before]
        return min(times, default=NEVER)

    def flush(self, collection: EditionName, *, everything: bool = False) -> bool:
        """Write a full or old batch, and a slice of a large document. Return whether any was ripe.

        A document lands as soon as its writes are done: what follows may raise sqlite3.Error.
        """
        queue, health = self._flight.queues[collection], self.health.of[collection]
        ripe = queue.is_ripe(self._clock()) or (everything and queue.documents)
        if not ripe or self._clock() < health.not_before:
            return False
        self._write(collection, queue)
        if self._clock() >= health.not_before:
            self._write_slice(collection, queue)
        return True

    def remove(self, entries: Sequence[Entry]) -> None:
        """Remove documents that their source no longer has: a slice of their records at each call."""
        paused = self.health.paused()
        for collection in dict.fromkeys(entry.collection for entry in entries):
            if collection in paused:
                continue
            gone = [entry for entry in entries if entry.collection == collection]
            if self.health.attempt(collection, partial(self._remove, collection, gone)) is WriteResult.DONE:
                self.health.resume(collection)

    def _remove(self, collection: EditionName, gone: Sequence[Entry]) -> None:
        try:
            index, home = self._collections.open(collection), self._collections.home
            removed, dropped = protocol.remove(self._journal, index, gone, home)
        except Foreign as error:
            about = event("documents_forgotten", collection=str(collection), documents=len(gone))
            documents = counted(len(gone), "document")
            log.warning("%s removed from the journal only: %s", documents, error, extra=about)
            self._journal.remove([entry.row for entry in gone])
            self._collections.disown(collection)
            for entry in gone:
                self._count(entry, WriteDocument("removed"))
            return
        except NeedsHuman as error:  # there may be no source to hold: the collection has none any more
            raise Transient(str(error)) from error
        self.tally["records_dropped"] += dropped
        for entry in removed:
            self._count(entry, WriteDocument("removed"))
        shown, some = self._collections.serves(collection), removed or gone[:1]
        numbers = {"documents": len(removed), "dropped": dropped}
        about = event("documents_removed", collection=shown, document=some[0].key, **numbers)
        done, records = "removed" if removed else "is being removed", counted(dropped, "record")
        log.info("%s: %s: %s, %s dropped", shown, name_all(some), done, records, extra=about)
        if dropped >= MANY:
            self.health.mark(collection)

    def _write(self, collection: EditionName, queue: Queue) -> None:
        batch = queue.batch(behind=self._collections.is_building(collection))
        if not batch:
            return
        writes = [each.prepared for each in batch]

        def write() -> None:
            self._collections.open(collection)  # first: it may find that the journal's records do not apply
            self._write_batch(collection, self._choose_wanted(queue, batch))

        if self.health.attempt(collection, write) is not WriteResult.AGAIN:
            for document, prepared in zip(batch, writes, strict=True):
                self._land(document, prepared)

    def _write_slice(self, collection: EditionName, queue: Queue) -> None:
        """Write a slice of the large document whose turn it is; then it is the turn of the next one."""
        if (large := queue.next_large()) is None:
            return
        prepared = large.prepared
        result = self.health.attempt(collection, partial(self._advance, collection, queue, large))
        if large.phase is Phase.WRITING:
            self._flight.rotate(large)
        elif result is not WriteResult.AGAIN:
            self._land(large, prepared)

    def _land(self, document: InFlight, prepared: Prepared | None) -> None:
        """Land a document whose writes are done. One that the index refused is in hand: to be withdrawn."""
        if document.prepared is prepared:
            self._flight.land(document)

    def _advance(self, collection: EditionName, queue: Queue, large: InFlight) -> None:
        """Write the next slice. Afterwards the document is WRITING, or written, or to be prepared again.

        Its row of the journal stays as it is meanwhile: it is in flight, and no document adopts it. Raises as
        ``protocol.write`` does.
        """
        index, prepared, slices = self._collections.open(collection), large.prepared, large.slices
        assert prepared is not None
        large.slices = None
        if large.phase is Phase.WRITING:
            large.move(Phase.PREPARED)
        if slices is None and self._choose_wanted(queue, [large]):
            slices = self._begin(collection, [prepared])
        if slices is None or slices.index is not index or not self._is_of_today(prepared):
            return
        try:
            next(slices.left)
        except StopIteration:
            self._note_written(collection, [prepared])
        except Exception as error:
            if classify(error) is not Remedy.REFUSE:
                raise
            self._flow.refuse(large, error)
        else:
            large.move(Phase.WRITING)
            large.slices = slices

    def _write_batch(self, collection: EditionName, batch: Sequence[InFlight]) -> None:
        """Write a batch; after an unknown error each document alone, so that a bad one stops no other."""
        writes = [each.prepared for each in batch if each.prepared]
        if not writes:
            return None
        try:
            for _ in self._begin(collection, writes).left:
                pass
        except Exception as error:
            if classify(error) is not Remedy.REFUSE:
                raise
            if len(batch) == 1:  # it waits no longer, whatever becomes of the rest of its batch
                return self._flow.refuse(batch[0], error)
            for document in batch:
                self._write_batch(collection, [document])
        else:
            self._note_written(collection, writes)

    def _begin(self, collection: EditionName, writes: Sequence[Prepared]) -> Slices:
        index, home = self._collections.open(collection), self._collections.home
        return Slices(index, protocol.write(self._journal, index, writes, self._flow.wanted_recipe, home))

    def _choose_wanted(self, queue: Queue, batch: Sequence[InFlight]) -> list[InFlight]:
        """Return the documents prepared by today's recipe, from records that the journal still knows.

        Each row of the journal occurs once. A document is prepared again while its predecessor is only partly
        written.
        """
        partly = queue.partly_written()
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

    def _note_written(self, collection: EditionName, batch: Sequence[Prepared]) -> None:
        self.health.resume(collection)
        if sum(len(p.records) - p.added + len(p.drops) for p in batch) >= MANY:
            self.health.mark(collection)
        building = self._collections.is_building(collection)
        for prepared in batch:
            self._count(prepared.entry, write_of(prepared, building=building))
        _report(self._collections.serves(collection), batch, logging.DEBUG if building else logging.INFO)

    def _count(self, entry: Entry, action: WriteDocument) -> None:
        self.tally += tally_of(action)
        self.counts.note_write(entry.source, action.kind, self._clock())


def name_all(entries: Sequence[Entry]) -> str:
    """Return documents for a line of the log: the first, and how many more."""
    more = len(entries) - 1
    return entries[0].key + (f" and {counted(more, 'more document')}" if more else "")


def _report(collection: str, batch: Sequence[Prepared], level: int) -> None:
    """Log a batch, without documents of which only the receipt was renewed."""
    touched = [prepared for prepared in batch if prepared.intent.slots]
    if not touched:
        return
    numbers = {
        "records": sum(len(prepared.records) for prepared in touched),
        "patched": sum(len(prepared.patches) for prepared in touched),
        "dropped": sum(len(prepared.drops) for prepared in touched),
    }
    words = zip(numbers.values(), ("written", "patched", "dropped"), strict=True)
    changes = ", ".join(f"{counted(number, 'record')} {done}" for number, done in words if number)
    first, documents = touched[0].entry, name_all([prepared.entry for prepared in touched])
    about = event(
        "documents_written", source=str(first.source), collection=collection, document=first.key,
        documents=len(touched), **numbers,
    )  # fmt: skip
    log.log(level, "%s: %s: %s", collection, documents, changes or "no record changed", extra=about)
