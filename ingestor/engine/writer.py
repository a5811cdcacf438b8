"""Writes prepared documents in batches by a write-ahead protocol, and removes documents that vanished.

A document with many records is written a slice at a time, in turn with others of its kind. Small documents go
before each slice. Below the writer stands the protocol: intent into the journal, write to the index, receipt
into the journal. Slots are *in doubt* (``unsure`` in the journal) before the index is written. So a crash at
any point leaves no record that the journal does not know, and no document that wrongly counts as settled.
Every step is idempotent.

Each write also renews the collection's generation (core/backend.py). The journal expects the new generation
before the collection gets it. The journal drops the old one once the records are written. A write of several
requests renews it again at its end, so that no half of it has the generation of the whole.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from secrets import token_hex
from typing import TYPE_CHECKING, TypeVar

from ingestor.core.backend import Home, generation_of, judge, stamp
from ingestor.core.decisions import NEVER
from ingestor.core.entries import EditionName, Entry, Intent, Renewal
from ingestor.core.events import event
from ingestor.core.metadata_keys import KEYS
from ingestor.engine.comparison import note_keys
from ingestor.engine.edition_store import renew
from ingestor.engine.flight import Flight, InFlight, Phase, Queue, Slices
from ingestor.engine.health import CollectionHealth, Remedy, WriteResult, classify
from ingestor.engine.parts import EngineParts
from ingestor.model import Metadata, Record
from ingestor.pipeline.actions import WorkCounts, WriteDocument, tally_of, write_of
from ingestor.pipeline.prepare import Prepared, record_id
from ingestor.ports import Foreign, Index, NeedsHuman, Transient
from ingestor.state.backlog import still_wanted
from ingestor.state.editions import Editions
from ingestor.state.journal import Journal
from ingestor.units import quantity

if TYPE_CHECKING:
    from ingestor.engine.loop import DocumentFlow

log = logging.getLogger("ingestor")

MANY = 50  # records replaced or dropped in a batch, after which search may miss some: see chroma/index.py


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
        paused = self.health.collections_paused()
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
        paused = self.health.collections_paused()
        for collection in dict.fromkeys(entry.collection for entry in entries):
            if collection in paused:
                continue
            gone = [entry for entry in entries if entry.collection == collection]
            if self.health.attempt(collection, partial(self._remove, collection, gone)) is WriteResult.DONE:
                self.health.resume(collection)

    def _remove(self, collection: EditionName, gone: Sequence[Entry]) -> None:
        try:
            index, home = self._collections.open(collection), self._collections.home
            removed, dropped = remove(self._journal, index, gone, home)
        except Foreign as error:
            about = event("documents_forgotten", collection=str(collection), documents=len(gone))
            documents = quantity(len(gone), "document")
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
        done, records = "removed" if removed else "is being removed", quantity(dropped, "record")
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
        ``write`` does.
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
        return Slices(index, write(self._journal, index, writes, self._flow.current_recipe, home))

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
        fitting = compatible(valid(self._journal, list(current)))
        return [current[prepared] for prepared in fitting]

    def _is_of_today(self, prepared: Prepared) -> bool:
        of_today = self._flow.current_recipe(prepared) == prepared.receipt.recipe
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
    return entries[0].key + (f" and {quantity(more, 'more document')}" if more else "")


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
    changes = ", ".join(f"{quantity(number, 'record')} {done}" for number, done in words if number)
    first, documents = touched[0].entry, name_all([prepared.entry for prepared in touched])
    about = event(
        "documents_written", source=str(first.source), collection=collection, document=first.key,
        documents=len(touched), **numbers,
    )  # fmt: skip
    log.log(level, "%s: %s: %s", collection, documents, changes or "no record changed", extra=about)


# --- the protocol ---------------------------------------------------------------------------------------

WantedRecipe = Callable[[Prepared], str]
Row = TypeVar("Row")

SLICE = 400  # records of a request


def valid(journal: Journal, batch: Sequence[Prepared]) -> list[Prepared]:
    """Return the documents whose records in the journal are still those compared.

    The other documents are prepared again.
    """
    rows = {row for prepared in batch for row in (prepared.entry.row, prepared.receipt.row)}
    entries = journal.of_rows(rows)
    return [prepared for prepared in batch if _is_valid(entries, prepared)]


def _is_valid(entries: Mapping[int, Entry], prepared: Prepared) -> bool:
    entry = entries.get(prepared.entry.row)
    if entry is None or (entry.document_id, entry.source) != (
        prepared.entry.document_id,
        prepared.entry.source,
    ):
        return False  # another document, or one whose source has another name since
    if prepared.intent.predecessor is None:
        return entry.known == prepared.basis
    owner = entries.get(prepared.intent.predecessor)
    return owner is not None and owner.item is None and owner.known == prepared.basis and not entry.known


def compatible(batch: Iterable[Prepared]) -> list[Prepared]:
    """Return documents that can be written together: each row of the journal occurs once.

    Several copies of a renamed document can claim the same row. Each was compared with the journal before the
    batch, so only the first comparison stays valid; the others are prepared again.
    """
    taken: set[int] = set()
    chosen: list[Prepared] = []
    for prepared in batch:
        rows = {prepared.entry.row, prepared.receipt.row}
        if taken.isdisjoint(rows):
            chosen.append(prepared)
            taken |= rows
    return chosen


def write(
    journal: Journal, index: Index, batch: Sequence[Prepared], wanted: WantedRecipe, home: Home
) -> Iterator[None]:
    """Write these documents to the index and settle them in the journal; yields between two requests.

    ``batch``: compatible documents. ``wanted``: the recipe that today's config asks of a document. ``home``:
    of this state. Left between two requests, it has the records in doubt.

    Raises what the index raises (Transient, Torn, Gone, NeedsHuman, or its refusal) and sqlite3.Error. The
    records are then in doubt and are written again.
    """
    metas = [record.metadata for each in batch for record in each.records]
    metas += [metadata for each in batch for _, metadata in each.patches]
    others = {key for each in metas for key in each} - KEYS
    extra_keys = note_keys(journal, batch[0].entry.collection, others)
    upserts = _slices([record for prepared in batch for record in _to_write(prepared, extra_keys)])
    patches = _slices([patch for prepared in batch for patch in prepared.patches])
    drops = _slices([id_ for prepared in batch for id_ in prepared.drops])
    requests = [
        *(partial(index.upsert, some) for some in upserts),
        *(partial(index.patch, [(id_, _pad(meta, extra_keys)) for id_, meta in some]) for some in patches),
        *(partial(index.drop, some) for some in drops),
    ]
    intents = [each.intent for each in batch if each.intent.slots or each.intent.predecessor]
    renewal = None
    if intents and requests:
        renewal = _begin(journal, index, batch[0].entry.collection, home, intents)
    else:
        journal.intend(intents)
    for request in requests:
        request()
        yield
    if renewal is not None and len(requests) > 1:
        renewal = renew(journal, index, renewal, home)
    journal.settle([each.receipt for each in batch], [wanted(each) for each in batch], renewal)


def remove(journal: Journal, index: Index, entries: Sequence[Entry], home: Home) -> tuple[list[Entry], int]:
    """Delete up to SLICE records of removed documents, and forget documents that have none left.

    Returns the forgotten documents, and the number of deleted records. Raises as ``write`` does.
    """
    slices, room = list[Intent](), SLICE
    for entry in entries:
        slices.append(Intent(entry.row, tuple(known.slot for known in entry.known[:room])))
        room -= len(slices[-1].slots)
        if room <= 0:
            break
    parts = list(zip(entries, slices, strict=False))
    renewal = None
    if drops := [record_id(entry.document_id, slot) for entry, part in parts for slot in part.slots]:
        renewal = _begin(journal, index, entries[0].collection, home, slices)
        index.drop(drops)
    removed = [entry for entry, part in parts if len(part.slots) == len(entry.known)]
    journal.remove([entry.row for entry in removed], slices, renewal)
    return removed, len(drops)


def _begin(
    journal: Journal, index: Index, collection: EditionName, home: Home, intents: Sequence[Intent]
) -> Renewal:
    """Renew the generation together with the intents. Return the one that holds once the records are written.

    Raises Transient if the collection has another generation than the last write gave it.
    """
    facts = index.facts()
    if judge(facts, Editions(journal).of_name(collection).generations, home) != "same":
        raise Transient("another program changed the collection; comparing records with the journal")
    present, fresh = generation_of(facts), token_hex(8)
    expected = (fresh,) if present is None else (present, fresh)
    journal.intend(intents, Renewal(collection, expected))
    index.note(stamp(fresh, home))
    return Renewal(collection, (fresh,))


def _slices(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    return (rows[start : start + SLICE] for start in range(0, len(rows), SLICE))


def _pad(meta: Metadata, extra_keys: frozenset[str]) -> Metadata:
    """Add None for each extra key that is not in ``meta``: Chroma merges metadata and keeps other keys."""
    return {**dict.fromkeys(extra_keys), **meta}


def _to_write(prepared: Prepared, extra_keys: frozenset[str]) -> Iterator[Record]:
    """Yield the records to write, new records without keys of no value: Chroma writes a quarter more of them.

    A record in doubt is never new (core/slots.py).
    """
    for at, record in enumerate(prepared.records):
        if at < prepared.added:
            metadata: Metadata = {key: value for key, value in record.metadata.items() if value is not None}
        else:
            metadata = _pad(record.metadata, extra_keys)
        yield Record(record.id, record.text, metadata, record.vector)
