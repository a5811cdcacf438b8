"""Writes prepared documents to the collections in batches.

A document with many records is written a slice at a time, in turn with others of its kind, and small ones go
before each slice. A collection that cannot be written now is paused, and its documents wait. An error does
not mean that the write was refused (it may have been applied), so the same is sent again.
"""

import logging
import sqlite3
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from ingestor.core.backoff import delay, has_passed
from ingestor.core.decisions import NEVER
from ingestor.core.entries import EditionName, Entry
from ingestor.core.events import event
from ingestor.core.work_counts import WorkCounts
from ingestor.engine import protocol
from ingestor.engine.open_collections import OpenCollections
from ingestor.engine.outbox import BATCH, BEHIND, Outbox, UnderWay
from ingestor.pipeline.actions import Action, RemoveDocument, Tally, write_of
from ingestor.pipeline.prepare import Prepared
from ingestor.ports import Foreign, Gone, Later, NeedsHuman, Torn, Transient
from ingestor.state.journal import Journal
from ingestor.units import counted

log = logging.getLogger("ingestor")

MANY = 50  # records replaced or dropped in a batch, after which search may miss some: see chroma/reach.py
LINGER = 0.5  # seconds that a prepared document waits for others to fill the batch
LONGEST_PAUSE = 15.0  # seconds
PERSISTENT = 3  # attempts in a row after which a collection counts as one that cannot be written
LONGEST_TOLD = 300.0  # seconds, if a server asks for them


WriteResult = Literal["done", "again", "dropped"]  # "dropped": the documents are prepared again if still due


class Writer:
    """Batches writes per collection, and handles their errors.

    ``clock``: POSIX seconds. ``random``: evenly drawn from [0, 1). ``wanted_recipe``: the recipe that today's
    config asks of a document. ``unwanted``: whether a document must not be written. ``hold``: called for a
    collection that only a person can repair. ``refused``: called for a document that the index refuses, with
    the traceback.
    """

    def __init__(
        self,
        journal: Journal,
        collections: OpenCollections,
        clock: Callable[[], float],
        random: Callable[[], float],
        wanted_recipe: Callable[[Prepared], str],
        unwanted: Callable[[Entry], bool],
        hold: Callable[[EditionName, Exception], None],
        refused: Callable[[Prepared, Exception, str], None],
    ) -> None:
        self._journal, self._collections, self._clock, self._random = journal, collections, clock, random
        self._wanted_recipe, self._unwanted = wanted_recipe, unwanted
        self._hold, self._tell_refused = hold, refused
        self._outboxes: dict[EditionName, Outbox] = {}
        self.tally, self.counts = Tally(), WorkCounts()

    def put(self, prepared: Prepared) -> None:
        """Queue one document's writes."""
        self._outbox(prepared.entry.collection).put(prepared, self._clock())

    def paused(self) -> set[EditionName]:
        now = self._clock()
        return {name for name, outbox in self._outboxes.items() if now < outbox.not_before}

    def troubles(self) -> dict[EditionName, str]:
        """Collections that failed at the last attempt, with the reason."""
        return {name: outbox.said for name, outbox in self._outboxes.items() if outbox.said is not None}

    def unwritable(self) -> dict[str, str]:
        """Collections, as readers name them, whose writes fail again and again, with the reason."""
        return {
            self._collections.serves(name): outbox.said
            for name, outbox in self._outboxes.items()
            if outbox.said is not None and outbox.attempts >= PERSISTENT
        }

    def wait_no_longer(self) -> None:
        """Retry paused collections at once."""
        for outbox in self._outboxes.values():
            outbox.not_before = 0.0

    def waiting(self, collection: EditionName | None = None) -> int:
        """Number of documents that wait to be written, to this collection or to all."""
        outboxes = self._outboxes.items()
        return sum(len(outbox.prepared) for name, outbox in outboxes if collection in (None, name))

    def full(self) -> dict[int, Entry]:
        """Return documents that wait though they fill a batch, by row.

        Documents of paused collections count not: they would keep others from being begun.
        """
        now = self._clock()
        outboxes = [o for o in self._outboxes.values() if o.size >= BATCH and now >= o.not_before]
        return {prepared.entry.row: prepared.entry for outbox in outboxes for prepared in outbox.prepared}

    def wake_at(self) -> float:
        times = [max(o.not_before, o.since + LINGER) for o in self._outboxes.values() if o.prepared]
        times += [o.not_before for o in self._outboxes.values() if o.look]
        return min(times, default=NEVER)

    def look(self) -> None:
        """Examine collections that are marked, before documents are prepared for them."""
        for collection, outbox in self._outboxes.items():
            if outbox.look and self._clock() >= outbox.not_before:
                self._look(collection, outbox)

    def editions(self) -> list[EditionName]:
        """Editions for which documents wait or waited to be written."""
        return list(self._outboxes)

    def flush(self, collection: EditionName, *, everything: bool = False) -> Iterator[Entry]:
        """Write a full or old batch, and a slice of a large document.

        Yields the documents that are no longer in flight, written or not: at once, since what follows may
        raise sqlite3.Error.
        """
        outbox = self._outbox(collection)
        ripe = everything or outbox.size >= BATCH or has_passed(outbox.since, LINGER, self._clock())
        if outbox.prepared and ripe and self._clock() >= outbox.not_before:
            yield from self._write(collection, outbox)
            yield from self._write_slice(collection, outbox)

    def check(self, collection: EditionName) -> None:
        """Mark a collection to be examined: it may have been deleted, replaced or torn."""
        self._outbox(collection).look = True

    def remove(self, entries: Sequence[Entry]) -> None:
        """Remove documents that their source no longer has: a slice of their records at each call."""
        for collection in {entry.collection for entry in entries} - self.paused():
            gone = [entry for entry in entries if entry.collection == collection]
            if self._guarded(collection, self._remover(collection, gone)) == "done":
                self._resume(collection)

    def _outbox(self, collection: EditionName) -> Outbox:
        return self._outboxes.setdefault(collection, Outbox())

    def _remover(self, collection: EditionName, gone: Sequence[Entry]) -> Callable[[], None]:
        def remove() -> None:
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
            shown, documents = self._collections.serves(collection), named(removed or gone[:1])
            done = "removed" if removed else "is being removed"
            log.info(
                "%s: %s: %s, %s dropped",
                shown,
                documents,
                done,
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

        return remove

    def _write(self, collection: EditionName, outbox: Outbox) -> list[Entry]:
        batch = outbox.batch(BEHIND if self._collections.building(collection) else BATCH)
        if not batch:
            return []
        if self._guarded(collection, lambda: self._write_valid(collection, batch)) == "again":
            return []
        return outbox.done(batch)

    def _write_slice(self, collection: EditionName, outbox: Outbox) -> list[Entry]:
        large = outbox.large()
        if large is None or self._clock() < outbox.not_before:
            return []
        result = self._guarded(collection, lambda: self._advance(collection, outbox, large))
        if large in outbox.under_way:
            outbox.rotate(large)
        return [] if result == "again" or large in outbox.under_way else outbox.done([large])

    def _advance(self, collection: EditionName, outbox: Outbox, large: Prepared) -> None:
        """Write the next slice. Afterwards the document is under way, or written, or to be prepared again.

        Its row of the journal stays as it is meanwhile: it is in flight, and no document adopts it. Raises as
        ``write`` does.
        """
        index, under_way = self._collections.open(collection), outbox.under_way.pop(large, None)
        if under_way is None and self._wanted(collection, [large]):
            keys = self._collections.extra_keys(collection, [large])
            home = self._collections.home
            rest = protocol.write(self._journal, index, [large], keys, self._wanted_recipe, home)
            under_way = UnderWay(index, rest)
        if under_way is None or under_way.index is not index or not self._is_of_today(large):
            return
        try:
            next(under_way.rest)
        except StopIteration:
            self._written(collection, [large])
        except (Transient, Torn, Gone, NeedsHuman, sqlite3.Error):
            raise
        except Exception as error:  # noqa: BLE001 - Chroma's refusals are of no common kind
            self._refused(large, error)
        else:
            outbox.under_way[large] = under_way

    def _look(self, collection: EditionName, outbox: Outbox) -> None:
        if not self._collections.in_force(collection):  # its name may belong to another collection now
            outbox.look = False
            return
        outcome = self._guarded(collection, lambda: self._collections.check(collection))
        if outcome == "done" and not outbox.prepared:
            self._resume(collection)
        outbox.look = outcome == "again"

    def _guarded(self, collection: EditionName, work: Callable[[], None]) -> WriteResult:
        """Do the work; after an error pause, hold or rebuild the collection, depending on the error."""
        try:
            return self._whole(collection, work)
        except Transient as error:
            self._pause(collection, error, str(error))
        except sqlite3.OperationalError as error:
            self._pause(collection, error, f"the journal cannot be written: {error}")
        except NeedsHuman as error:
            log.error(
                "collection %s cannot be used: %s",
                self._collections.serves(collection),
                error,
                extra=event(
                    "collection_unusable", collection=self._collections.serves(collection), reason=str(error)
                ),
            )
            outbox = self._outbox(collection)
            outbox.said, outbox.attempts = str(error), max(outbox.attempts, PERSISTENT)
            self._hold(collection, error)
            return "dropped"
        except sqlite3.Error:
            raise
        except Exception as error:
            log.exception(
                "collection %s: unexpected error",
                self._collections.serves(collection),
                extra=event("collection_failed", collection=self._collections.serves(collection)),
            )
            self._pause(collection, error, f"{type(error).__name__}: {error}")
        return "again"

    def _whole(self, collection: EditionName, work: Callable[[], None]) -> WriteResult:
        """``dropped`` if the collection was torn or gone; it is then rebuilt."""
        try:
            work()
        except (Torn, Gone) as error:
            self._rebuild(collection, error, error.shard)
            return "dropped"
        return "done"

    def _write_valid(self, collection: EditionName, prepared: Sequence[Prepared]) -> None:
        self._collections.open(collection)  # first: opening may find that the journal's records do not apply
        self._write_batch(collection, protocol.compatible(self._wanted(collection, prepared)))

    def _wanted(self, collection: EditionName, batch: Sequence[Prepared]) -> list[Prepared]:
        """Return the documents prepared by today's recipe, from records that the journal still knows.

        A document is prepared again while its predecessor is only partly written.
        """
        under_way = {large.entry.row for large in self._outbox(collection).under_way}
        current = [each for each in batch if each.receipt.row not in under_way and self._is_of_today(each)]
        return protocol.valid(self._journal, current)

    def _is_of_today(self, prepared: Prepared) -> bool:
        of_today = self._wanted_recipe(prepared) == prepared.receipt.recipe
        return of_today and not self._unwanted(prepared.entry)

    def _write_batch(self, collection: EditionName, batch: Sequence[Prepared]) -> None:
        """Write a batch; after an unknown error each document alone, so that a bad one stops no other."""
        if not batch:
            return
        try:
            index = self._collections.open(collection)
            keys, home = self._collections.extra_keys(collection, batch), self._collections.home
            for _ in protocol.write(self._journal, index, batch, keys, self._wanted_recipe, home):
                pass
        except (Transient, Torn, Gone, NeedsHuman, sqlite3.Error):
            raise
        except Exception as error:  # noqa: BLE001 - Chroma's refusals are of no common kind
            if len(batch) == 1:
                self._refused(batch[0], error)
                return
            for prepared in batch:
                self._write_batch(collection, [prepared])
            return
        self._written(collection, batch)

    def _written(self, collection: EditionName, batch: Sequence[Prepared]) -> None:
        self._resume(collection)
        if sum(len(p.records) - p.added + len(p.drops) for p in batch) >= MANY:
            self.check(collection)
        building = self._collections.building(collection)
        for prepared in batch:
            self._count(prepared.entry, write_of(prepared, building=building))
        _report(self._collections.serves(collection), batch)

    def _count(self, entry: Entry, action: Action) -> None:
        self.tally.count(action)
        kind = "removed" if isinstance(action, RemoveDocument) else action.kind
        self.counts.written(entry.source, kind, self._clock())

    def _refused(self, prepared: Prepared, error: Exception) -> None:
        """The index refuses this document: it waits no longer, whatever becomes of the rest of its batch."""
        self._tell_refused(prepared, error, "".join(traceback.format_exception(error)))
        self._outbox(prepared.entry.collection).done([prepared])

    def _pause(self, collection: EditionName, error: Exception, reason: str) -> None:
        self._collections.failed(collection, error)  # first: it may restart Chroma, which takes time
        outbox = self._outbox(collection)
        told = min(error.wait, LONGEST_TOLD) if isinstance(error, Later) else 0.05
        wait = min(delay(outbox.attempts, self._random()), LONGEST_PAUSE)
        outbox.attempts += 1
        outbox.not_before = self._clock() + max(wait, told)
        if reason != outbox.said:
            log.warning(
                "collection %s: write failed, will retry: %s",
                self._collections.serves(collection),
                reason,
                extra=event(
                    "collection_failed", collection=self._collections.serves(collection), reason=reason
                ),
            )
        outbox.said = reason

    def _resume(self, collection: EditionName) -> None:
        outbox = self._outbox(collection)
        if outbox.said is not None:
            log.info(
                "collection %s: writes resumed",
                self._collections.serves(collection),
                extra=event("collection_usable", collection=self._collections.serves(collection)),
            )
        outbox.attempts, outbox.said = 0, None

    def _rebuild(self, collection: EditionName, error: Exception, shard: int | None) -> None:
        """The collection, or that shard of it, is torn or was deleted: write it again, from the cache."""
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


def named(entries: Sequence[Entry]) -> str:
    """Documents in a line of the log: the first, and how many more."""
    more = len(entries) - 1
    return entries[0].key + (f" and {counted(more, 'more document')}" if more else "")


def _report(collection: str, batch: Sequence[Prepared]) -> None:
    touched = [prepared for prepared in batch if prepared.intent.slots]
    if touched:
        records = sum(len(prepared.records) for prepared in touched)
        patched = sum(len(prepared.patches) for prepared in touched)
        dropped = sum(len(prepared.drops) for prepared in touched)
        log.info(
            "%s: %s: %s written, %d patched, %d dropped",
            collection,
            named([prepared.entry for prepared in touched]),
            counted(records, "record"),
            patched,
            dropped,
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
