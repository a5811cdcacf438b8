"""The engine's writing hand: gathers what is prepared, and brings it to the collections in batches.

A collection that can't be written for now is paused with what waits for it; an error is no refusal (what
was sent may have been applied), so the same is sent again.
"""

import logging
import sqlite3
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Literal, TypeVar

from ingestor.core.backoff import delay
from ingestor.core.decisions import NEVER
from ingestor.core.interruptions import Stopped
from ingestor.engine import protocol
from ingestor.engine.open_collections import OpenCollections
from ingestor.model import CollectionName
from ingestor.pipeline.prepare import Prepared
from ingestor.ports import Foreign, Gone, NeedsHuman, Torn, Transient
from ingestor.state.journal import Journal
from ingestor.state.rows import Entry

log = logging.getLogger("ingestor")

Row = TypeVar("Row")

BATCH = 400  # records written at once
SLICE = 2000  # records of one document that are written between two looks at ``stopping``
MANY = 50  # records replaced or dropped in a batch, after which search may miss some: see chroma/reach.py
LINGER = 0.5  # seconds that a prepared document waits for company
LONGEST_PAUSE = 15.0  # seconds


@dataclass(slots=True)
class Tally:
    """What was done since the start; the numbers of ``sync``."""

    added: int = 0
    changed: int = 0
    moved: int = 0
    rebuilt: int = 0  # written into a collection that is to take another one's place
    removed: int = 0
    records_added: int = 0
    records_replaced: int = 0
    records_patched: int = 0
    records_dropped: int = 0


@dataclass(slots=True)
class _Outbox:
    prepared: list[Prepared] = field(default_factory=list)
    since: float = 0.0
    not_before: float = 0.0
    look: bool = False  # whether the collection may have been harmed since it was looked at
    attempts: int = 0
    said: str | None = None  # why it waits: logged once, not at every try

    @property
    def size(self) -> int:
        return sum(map(_size, self.prepared))

    def batch(self) -> list[Prepared]:
        """The first documents, about BATCH records: writing them all could take minutes without a pause."""
        sizes = accumulate(map(_size, self.prepared))
        return self.prepared[: 1 + sum(size < BATCH for size in sizes)]


WriteResult = Literal["done", "again", "dropped"]  # "dropped": prepare these documents again, if at all


class Writer:
    """``hold`` is told of a collection that only a person can mend, ``failed`` of a document that is refused.

    ``stopping``: whether the program is to end; it is asked between two slices of a large document.
    """

    stopping: Callable[[], bool] = staticmethod(lambda: False)

    def __init__(
        self,
        journal: Journal,
        collections: OpenCollections,
        clock: Callable[[], float],
        random: Callable[[], float],
        wanted_recipe: Callable[[Prepared], str],
        hold: Callable[[CollectionName, Exception], None],
        failed: Callable[[Entry, Exception, str], None],
    ) -> None:
        self._journal, self._collections, self._clock, self._random = journal, collections, clock, random
        self._wanted_recipe, self._hold, self._failed = wanted_recipe, hold, failed
        self._outboxes: dict[CollectionName, _Outbox] = {}
        self.tally = Tally()

    def put(self, prepared: Prepared) -> None:
        """Take over one document's writes."""
        outbox = self._outbox(prepared.entry.collection)
        if not outbox.prepared:
            outbox.since = self._clock()
        outbox.prepared.append(prepared)

    def paused(self) -> set[CollectionName]:
        now = self._clock()
        return {name for name, outbox in self._outboxes.items() if now < outbox.not_before}

    def troubles(self) -> dict[CollectionName, str]:
        """Collections that could not be used when that was last tried, and why."""
        return {name: outbox.said for name, outbox in self._outboxes.items() if outbox.said is not None}

    def wait_no_longer(self) -> None:
        """Try at once what was put off."""
        for outbox in self._outboxes.values():
            outbox.not_before = 0.0

    def waiting(self) -> int:
        """Documents that are prepared and not written yet."""
        return sum(len(outbox.prepared) for outbox in self._outboxes.values())

    def wake_at(self) -> float:
        times = [max(o.not_before, o.since + LINGER) for o in self._outboxes.values() if o.prepared]
        times += [o.not_before for o in self._outboxes.values() if o.look]
        return min(times, default=NEVER)

    def look(self) -> None:
        """See that the collections can be used and are ours, before anything is prepared for them."""
        for collection, outbox in self._outboxes.items():
            if outbox.look and self._clock() >= outbox.not_before:
                self._look(collection, outbox)

    def flush(self, *, everything: bool = False) -> list[Entry]:
        """Write what is ripe; returns the documents that are off our hands, written or not."""
        done: list[Entry] = []
        for collection, outbox in self._outboxes.items():
            ripe = everything or outbox.size >= BATCH or self._clock() >= outbox.since + LINGER
            if outbox.prepared and ripe and self._clock() >= outbox.not_before:
                done += self._write(collection, outbox)
        return done

    def check(self, collection: CollectionName) -> None:
        """Notice at the next look whether it was deleted, replaced or torn while nothing was written."""
        self._outbox(collection).look = True

    def remove(self, entries: Sequence[Entry]) -> None:
        """Drop documents whose source has them no more."""
        for collection in {entry.collection for entry in entries} - self.paused():
            gone = [entry for entry in entries if entry.collection == collection]
            if self._guarded(collection, self._remover(collection, gone)) == "done":
                self._resume(collection)
                self.tally.removed += len(gone)
                if sum(len(entry.known) for entry in gone) >= MANY:
                    self.check(collection)

    def _outbox(self, collection: CollectionName) -> _Outbox:
        return self._outboxes.setdefault(collection, _Outbox())

    def _remover(self, collection: CollectionName, gone: Sequence[Entry]) -> Callable[[], None]:
        def remove() -> None:
            try:
                dropped = protocol.remove(self._journal, self._collections.open(collection), gone)
            except Foreign as error:
                log.warning("%d documents are forgotten instead of removed: %s", len(gone), error)
                self._journal.remove([entry.row for entry in gone])
                self._collections.disown(collection)
                return
            except NeedsHuman as error:  # there may be no source to hold: nothing feeds it any more
                raise Transient(str(error)) from error
            self.tally.records_dropped += dropped

        return remove

    def _write(self, collection: CollectionName, outbox: _Outbox) -> list[Entry]:
        batch = outbox.batch()
        if self._guarded(collection, lambda: self._write_valid(collection, batch)) == "again":
            return []
        outbox.prepared = [prepared for prepared in outbox.prepared if prepared not in batch]
        return [prepared.entry for prepared in batch]

    def _look(self, collection: CollectionName, outbox: _Outbox) -> None:
        if not self._collections.in_force(collection):  # by its name one would open another
            outbox.look = False
            return
        outcome = self._guarded(collection, lambda: self._collections.check(collection))
        if outcome == "done" and not outbox.prepared:
            self._resume(collection)
        outbox.look = outcome == "again"

    def _guarded(self, collection: CollectionName, work: Callable[[], None]) -> WriteResult:
        """Do the work; after an error do what the error asks for."""
        try:
            return self._whole(collection, work)
        except Stopped:
            return "again"
        except Transient as error:
            self._pause(collection, error, str(error))
        except sqlite3.OperationalError as error:
            self._pause(collection, error, f"the journal can't be written: {error}")
        except NeedsHuman as error:
            log.error("collection %s can't be used: %s", collection, error)
            self._hold(collection, error)
            return "dropped"
        except sqlite3.Error:
            raise
        except Exception as error:
            log.exception("collection %s: unexpected error", collection)
            self._pause(collection, error, f"{type(error).__name__}: {error}")
        return "again"

    def _whole(self, collection: CollectionName, work: Callable[[], None]) -> WriteResult:
        """``dropped`` where the work found the collection torn or gone, and it is made anew."""
        try:
            work()
        except (Torn, Gone) as error:
            self._rebuild(collection, error)
            return "dropped"
        return "done"

    def _write_valid(self, collection: CollectionName, prepared: Sequence[Prepared]) -> None:
        self._collections.open(collection)  # first: opening may find that nothing known of it holds any more
        self._write_batch(collection, protocol.compatible(filter(self._wanted, prepared)))

    def _wanted(self, prepared: Prepared) -> bool:
        """Nothing is written by a recipe that a changed config has put out of force meanwhile."""
        valid = protocol.valid(self._journal, prepared)
        return valid and self._wanted_recipe(prepared) == prepared.receipt.recipe

    def _write_batch(self, collection: CollectionName, batch: Sequence[Prepared]) -> None:
        """One bad document never stops the others: a batch that fails for no known reason is taken apart."""
        if not batch:
            return
        try:
            index = self._collections.open(collection)
            keys = self._collections.extra_keys(collection, batch)
            protocol.write(self._journal, index, batch, keys, self._wanted_recipe, self._sliced)
        except (Stopped, Transient, Torn, Gone, NeedsHuman, sqlite3.Error):
            raise
        except Exception as error:  # noqa: BLE001 - Chroma's refusals are of no common kind
            if len(batch) == 1:
                self._refused(batch[0], error)
                return
            for prepared in batch:
                self._write_batch(collection, [prepared])
            return
        self._resume(collection)
        if sum(len(p.records) - p.added + len(p.drops) for p in batch) >= MANY:
            self.check(collection)
        for prepared in batch:
            self._count(prepared)
        _report(collection, batch)

    def _refused(self, prepared: Prepared, error: Exception) -> None:
        """The index does not take this document. Its entry is read again: the intents changed it."""
        entry = self._journal.entry(prepared.receipt.row)
        if entry is not None:
            self._failed(entry, error, "".join(traceback.format_exception(error)))

    def _sliced(self, rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
        """Raises Stopped between two slices: what was written is in doubt, and is written again."""
        for start in range(0, len(rows), SLICE):
            if start and self.stopping():
                raise Stopped
            yield rows[start : start + SLICE]

    def _pause(self, collection: CollectionName, error: Exception, reason: str) -> None:
        self._collections.failed(collection, error)  # first: it may start Chroma again, which takes its time
        outbox = self._outbox(collection)
        wait = min(delay(outbox.attempts, self._random()), LONGEST_PAUSE)
        outbox.attempts += 1
        outbox.not_before = self._clock() + max(wait, 0.05)
        if reason != outbox.said:
            log.warning("collection %s waits, and is tried again until it succeeds: %s", collection, reason)
        outbox.said = reason

    def _resume(self, collection: CollectionName) -> None:
        outbox = self._outbox(collection)
        if outbox.said is not None:
            log.info("collection %s can be used again", collection)
        outbox.attempts, outbox.said = 0, None

    def _rebuild(self, collection: CollectionName, error: Exception) -> None:
        """The collection is torn or was deleted: write it anew, from the cache."""
        log.error("collection %s is rebuilt: %s", collection, error)
        self._journal.doubt(collection)
        self._collections.discard(collection, torn=isinstance(error, Torn))

    def _count(self, prepared: Prepared) -> None:
        tally = self.tally
        tally.records_added += prepared.added
        tally.records_replaced += len(prepared.records) - prepared.added
        tally.records_patched += len(prepared.patches)
        tally.records_dropped += len(prepared.drops)
        if prepared.receipt.failure is not None:
            return
        if self._collections.building(prepared.entry.collection):
            tally.rebuilt += 1
        elif prepared.intent.predecessor is not None:
            tally.moved += 1
        elif prepared.entry.digest is None:
            tally.added += 1
        elif prepared.intent.slots:
            tally.changed += 1


def _size(prepared: Prepared) -> int:
    return len(prepared.records) + len(prepared.patches) + len(prepared.drops)


def _report(collection: CollectionName, batch: Sequence[Prepared]) -> None:
    touched = [prepared for prepared in batch if prepared.intent.slots]
    if touched:
        log.info(
            "%s: %s%s: %d records written, %d patched, %d dropped",
            collection,
            touched[0].entry.key,
            f" and {len(touched) - 1} more documents" if len(touched) > 1 else "",
            sum(len(prepared.records) for prepared in touched),
            sum(len(prepared.patches) for prepared in touched),
            sum(len(prepared.drops) for prepared in touched),
        )
