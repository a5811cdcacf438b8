"""Writes prepared documents in batches by a write-ahead protocol, and removes documents that vanished.

Small documents are written in batches. Large documents are written in slices, one slice of each in turn.
Small documents are written before each slice.

The protocol is at the end of this file. First the intent is stored in the journal, then the records are
written to the index, then the receipt is stored in the journal. From the intent to the receipt the slots are
in doubt (``unsure`` in the journal). The intent of a renamed document also merges it with the row of its
former name. So a crash at any point leaves no record that the journal does not know. Nor does it leave a
document that wrongly counts as settled. Every step can be repeated.

Each write also gives the collection a new generation (core/generations.py). The journal expects the new
generation before the collection gets it, and forgets the old one once the records are written. A write of
several requests changes the generation again at its end. So a backup taken during the write has another
generation.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ingestor.chroma.index import unreachable
from ingestor.core.decisions import NEVER
from ingestor.core.entries import EditionName, Entry, Intent, Renewal
from ingestor.core.errors import has_passed
from ingestor.core.events import event, name_all
from ingestor.core.generations import Home, generation_of, judge
from ingestor.core.listings import pages
from ingestor.core.metadata_keys import KEYS
from ingestor.engine.edition_store import renew
from ingestor.engine.flight import LINGER, BackgroundPace, Flight, InFlight, Phase, Queue
from ingestor.engine.health import TROUBLES, CollectionHealth
from ingestor.engine.outcomes import DocumentFlow, action_of, count_records
from ingestor.engine.scanner import Scanner
from ingestor.model import Metadata, Record
from ingestor.pipeline.prepare import Prepared, record_id
from ingestor.ports import Foreign, Index, NeedsHuman, Transient
from ingestor.state.backlog import still_wanted
from ingestor.state.editions import Editions
from ingestor.state.journal import Journal
from ingestor.units import quantity

if TYPE_CHECKING:
    from ingestor.engine.loop import EngineParts

log = logging.getLogger("ingestor")

MANY = 50  # records replaced or deleted in a batch, after which search may miss some: see chroma/index.py


class Writer:
    """Writes the documents that wait in the queues of ``flight``, and counts the writes.

    ``flow``: handles documents that Chroma refuses, and knows today's config.
    """

    def __init__(
        self,
        parts: EngineParts,
        flight: Flight,
        health: CollectionHealth,
        flow: DocumentFlow,
        scanner: Scanner,
    ) -> None:
        self._journal, self._store, self._clock = parts.journal, parts.store, parts.clock
        self._flight, self.health, self._flow, self.counts = flight, health, flow, flow.counts
        self._scanner, self._times, self._pace = scanner, parts.times, BackgroundPace()

    def full(self) -> list[Entry]:
        """Return the documents of full batches. They are to be written before more documents are begun.

        Batches of paused editions are left out, since they would stop the work for all other editions.
        """
        paused = self.health.editions_paused()
        queues = [each for name, each in self._flight.queues.items() if name not in paused and each.is_full]
        return [document.entry for each in queues for document in each.documents.values()]

    def wake_at(self) -> float:
        """Return the POSIX seconds at which the writer has work: a batch to write, or an edition to examine
        or retry."""
        now, known = self._clock(), self.health.of.values()
        later = self._pace.written_at + self._pace.seconds if self._yields() else 0.0
        times = [
            max(
                self.health.of[name].not_before,
                queue.since + LINGER,
                later if name in self._flow.background else 0.0,
            )
            for name, queue in self._flight.queues.items()
            if queue.documents
        ]
        times += [health.not_before for health in known if health.marked or now < health.not_before]
        return min(times, default=NEVER)

    def flush(self, *, everything: bool = False) -> None:
        """Write the batches that are full or have waited long enough, for editions that readers see first.

        ``everything``: write a batch of every edition in any case.
        """
        background = self._flow.background
        with self._times.measure("write"):
            for edition in sorted(self._flight.queues, key=background.__contains__):
                if edition not in background:
                    self._flush(edition, everything=everything)
                elif everything or not self._yields():
                    begun = self._clock()
                    if self._flush(edition, self._pace.size, everything=everything):
                        self._pace.note(begun, self._clock())

    def _yields(self) -> bool:
        """Return whether a batch of a background edition waits for documents of editions that readers see.

        The wait is at most as long as writing the last such batch took. So a rebuild gets at least half of
        the writing time.
        """
        if has_passed(self._pace.written_at, self._pace.seconds, self._clock()):
            return False
        at_work = self._flight.documents(Phase.PREPARING)
        first = (each.entry.edition not in self._flow.background for each in at_work)
        return bool(self._scanner.under_way()) or any(first)

    def _flush(self, edition: EditionName, size: int | None = None, *, everything: bool) -> bool:
        """Write a batch and a slice of a large document. Return whether anything was to be written.

        If no document of the edition is being prepared, the batch is written at once, since nothing can join
        it. ``size``: see ``Queue.batches``.
        """
        queue, health = self._flight.queues[edition], self.health.of[edition]
        at_work = self._flight.documents(Phase.PREPARING)
        alone = everything or all(each.entry.edition != edition for each in at_work)
        if not (queue.is_ripe(self._clock()) or (alone and queue.documents)):
            return False
        if self._clock() < health.not_before:
            return False
        for batch in queue.batches(size):
            if self._clock() < health.not_before:  # the batch before paused the edition
                break
            if self.health.attempt(edition, partial(self._write, edition, queue, batch)):
                for document in batch:
                    if document.phase is Phase.WRITING:  # other large documents are next
                        queue.documents[document.entry.row] = queue.documents.pop(document.entry.row)
                    else:
                        self._flight.land(document)
        return True

    def remove(self, entries: Sequence[Entry]) -> None:
        """Remove documents that their source no longer has.

        Each call deletes up to SLICE records of an edition.
        """
        for edition in dict.fromkeys(entry.edition for entry in entries):
            gone = [entry for entry in entries if entry.edition == edition]
            self.health.attempt(edition, partial(self._remove, edition, gone))

    def _remove(self, edition: EditionName, gone: Sequence[Entry]) -> None:
        """Delete records of vanished documents of one edition. Forget the documents that have no records
        left.

        If the collection now belongs to another program, its documents are forgotten at once.
        """
        try:
            index, home = self._store.open(edition), self._store.home
            removed, deleted = remove(self._journal, index, gone, home)
        except Foreign as error:
            about = event("documents_forgotten", collection=self._store.serves(edition), documents=len(gone))
            documents = quantity(len(gone), "document")
            log.warning("%s removed from the journal, but not from Chroma: %s", documents, error, extra=about)
            self._journal.remove([entry.row for entry in gone])
            self._store.disown(edition)
            removed, deleted = list(gone), 0
        except NeedsHuman as error:  # no source may be left that could be held
            raise Transient(str(error)) from error
        self.health.resume(edition)
        self.counts.records["dropped"] += deleted
        for entry in removed:
            self.counts.note_write(entry.source, "removed", self._clock())
        shown, keys = self._store.serves(edition), [entry.key for entry in removed or gone[:1]]
        numbers = {"documents": len(removed), "dropped": deleted}
        about = event("documents_removed", collection=shown, document=keys[0], **numbers)
        done, records = "removed" if removed else "is being removed", quantity(deleted, "record")
        log.info("%s: %s: %s; %s deleted from Chroma", shown, name_all(keys), done, records, extra=about)
        if deleted >= MANY:
            self.health.mark(edition)

    def _write(self, edition: EditionName, queue: Queue, batch: Sequence[InFlight]) -> None:
        """Write a batch of small documents, or the next slice of one large document.

        Documents that may not be written will be prepared again. Between two slices the document's row of the
        journal does not change: no other document adopts its records. Raises the errors of ``write``.
        """
        # before the documents are chosen: opening may find that the journal's records do not apply
        index, first = self._store.open(edition), batch[0]
        slices, first.slices = first.slices, None
        if slices is None:
            batch = self._choose_wanted(queue, batch)
        else:
            first.move(Phase.PREPARED)
            if slices[0] is not index or not (first.prepared and self._of_today([first.prepared])):
                return
        if batch:
            self._send(edition, index, batch, slices and slices[1])

    def _send(
        self,
        edition: EditionName,
        index: Index,
        batch: Sequence[InFlight],
        left: Iterator[None] | None = None,
    ) -> None:
        """Write documents. If Chroma refuses a batch, write each document alone, so that only the bad one
        fails.

        ``left``: the other slices of a large document. If slices are left afterwards, its phase is WRITING.
        """
        writes, home = [each.prepared for each in batch if each.prepared], self._store.home
        left = left or write(self._journal, index, writes, home)
        try:
            for _ in left:
                if batch[0].large:
                    batch[0].move(Phase.WRITING)
                    batch[0].slices = index, left
                    return
        except TROUBLES:
            raise
        except Exception as error:  # noqa: BLE001 - only a document is refused
            if len(batch) == 1:  # refused now, whatever follows for the rest of its former batch
                self._flow.refuse(batch[0], error)
            else:
                for document in batch:
                    self._send(edition, index, [document])
        else:
            self._note_written(edition, writes)

    def _choose_wanted(self, queue: Queue, batch: Sequence[InFlight]) -> list[InFlight]:
        """Return the documents of a batch that may be written now. The others will be prepared again.

        A document may be written if ``_of_today`` returns it, and its records in the journal did not change
        since it was prepared. Each row of the journal may occur once in the batch. No document may
        adopt the records of one that is only partly written.
        """
        partly = {row for row, each in queue.documents.items() if each.phase is Phase.WRITING}
        prepared = {each.prepared: each for each in batch if each.prepared}
        current = [each for each in self._of_today([*prepared]) if each.receipt.row not in partly]
        fitting = compatible(valid(self._journal, current))
        return [prepared[each] for each in fitting]

    def _of_today(self, documents: Sequence[Prepared]) -> list[Prepared]:
        """Return the documents that the same source still lists, and that were prepared by the recipe of
        today's config."""
        listed = still_wanted(self._journal, [each.entry.row for each in documents])
        own = (each for each in documents if listed.get(each.entry.row, ("",))[0] == each.entry.source)
        return [*filter(self._flow.is_current, own)]

    def _note_written(self, edition: EditionName, batch: Sequence[Prepared]) -> None:
        """Count and log written documents. If many records were replaced, have the collection examined."""
        self.health.resume(edition)
        building, done = self._store.is_building(edition), Counter[str]()
        for prepared in batch:
            done.update(count_records(prepared))
            action = action_of(prepared, building=building)
            self.counts.note_write(prepared.entry.source, action, self._clock())
        self.counts.records.update(done)
        if done["replaced"] + done["dropped"] >= MANY:
            self.health.mark(edition)
        if touched := [each.entry for each in batch if each.intent.slots]:
            shown, keys = self._store.serves(edition), [entry.key for entry in touched]
            written = done["added"] + done["replaced"]
            numbers = {"records": written, "patched": done["patched"], "dropped": done["dropped"]}
            facts = {"source": touched[0].source, "collection": shown, "document": keys[0], **numbers}
            about = event("documents_written", documents=len(keys), **facts)
            words = zip(numbers.values(), ("written", "patched", "dropped"), strict=True)
            changes = ", ".join(f"{quantity(number, 'record')} {deed}" for number, deed in words if number)
            level = logging.DEBUG if building else logging.INFO
            log.log(level, "%s: %s: %s", shown, name_all(keys), changes or "no record changed", extra=about)


# --- the protocol ---------------------------------------------------------------------------------------

SLICE = 400  # records of a request


def valid(journal: Journal, batch: Sequence[Prepared]) -> list[Prepared]:
    """Return the documents whose rows in the journal are still as they were when they were prepared.

    That includes the row of the vanished document whose records one adopts.
    """
    rows = {row for prepared in batch for row in (prepared.entry.row, prepared.receipt.row)}
    entries, chosen = {entry.row: entry for entry in journal.of_rows(rows)}, list[Prepared]()
    for prepared in batch:
        was, entry = prepared.entry, entries.get(prepared.entry.row)
        owner = entries.get(prepared.receipt.row)
        # the row may belong to another document by now, or the source was renamed
        if (
            entry is None
            or owner is None
            or (entry.document_id, entry.source) != (was.document_id, was.source)
        ):
            continue
        may_own = owner is entry or (owner.item is None and not entry.records)
        if may_own and owner.records == prepared.compared_with:
            chosen.append(prepared)
    return chosen


def compatible(batch: Iterable[Prepared]) -> list[Prepared]:
    """Return the documents of a batch in order, leaving out any that concerns a row of an earlier one.

    Several copies of a renamed document can adopt the same row of the journal. Each was compared with the
    journal before the batch, so only the first comparison stays valid.
    """
    taken: set[int] = set()
    chosen: list[Prepared] = []
    for prepared in batch:
        rows = {prepared.entry.row, prepared.receipt.row}
        if taken.isdisjoint(rows):
            chosen.append(prepared)
            taken |= rows
    return chosen


def write(journal: Journal, index: Index, batch: Sequence[Prepared], home: Home) -> Iterator[None]:
    """Write documents to the index, and store in the journal that they are written. Yield after each request.

    ``batch``: documents of one edition, compatible with each other, prepared by the recipes of today's
    config. ``home``: the machine and folder of this state.

    Raises the errors of the index (Transient, Torn, Gone, NeedsHuman, or a refusal) and sqlite3.Error. After
    an error, or if the generator is closed early, the records are in doubt and will be written again.
    """
    metas = [record.metadata for each in batch for record in each.records]
    metas += [metadata for each in batch for _, metadata in each.patches]
    others = {key for each in metas for key in each} - KEYS
    # noted before the write: after a crash Chroma may have the keys, and a later write must remove them
    edition = batch[0].entry.edition
    extra_keys = Editions(journal).note_keys(edition, others)
    records = [record for prepared in batch for record in _to_write(prepared, extra_keys)]
    patches = ((id_, _pad(meta, extra_keys)) for prepared in batch for id_, meta in prepared.patches)
    deletes = (id_ for prepared in batch for id_ in prepared.deletes)
    replaces = any(prepared.added < len(prepared.records) for prepared in batch)
    requests = [
        *(partial(_upsert, index, some, replaces=replaces) for some in pages(records, SLICE)),
        *(partial(index.patch, some) for some in pages(patches, SLICE)),
        *(partial(index.drop, some) for some in pages(deletes, SLICE)),
    ]
    intents = [each.intent for each in batch if each.intent.slots or each.intent.renamed]
    renewal = None
    if intents and requests:
        renewal = _begin(journal, index, edition, home, intents)
    else:  # Chroma does not change, and keeps its generation
        journal.intend(intents)
    for request in requests:
        request()
        yield
    if renewal is not None and len(requests) > 1:  # others may have been written between the requests
        renewal = _begin(journal, index, edition, home, ())
    journal.settle([each.receipt for each in batch], renewal)


def _upsert(index: Index, records: Sequence[Record], *, replaces: bool) -> None:
    """Write records. Write those again that search then does not find by their own vectors.

    Chroma's graph reaches some records only from a similar one. If the same write replaces that one, search
    misses them until they are written again. ``replaces``: whether any of the records may exist already.
    """
    index.upsert(records)
    if replaces and (missed := {*unreachable(index, records)}):
        index.upsert([record for record in records if record.id in missed])


def remove(journal: Journal, index: Index, entries: Sequence[Entry], home: Home) -> tuple[list[Entry], int]:
    """Delete up to SLICE records of removed documents, and forget the documents that have no records left.

    Returns the forgotten documents, and the number of deleted records. Raises the errors of ``write``.
    """
    slices, room = list[Intent](), SLICE
    for entry in entries:
        slices.append(Intent(entry.row, tuple(known.slot for known in entry.records[:room])))
        room -= len(slices[-1].slots)
        if room <= 0:
            break
    parts = list(zip(entries, slices, strict=False))
    renewal = None
    if deleted := [record_id(entry.document_id, slot) for entry, part in parts for slot in part.slots]:
        renewal = _begin(journal, index, entries[0].edition, home, slices)
        index.drop(deleted)
    removed = [entry for entry, part in parts if len(part.slots) == len(entry.records)]
    journal.remove([entry.row for entry in removed], slices, renewal)
    return removed, len(deleted)


def _begin(
    journal: Journal, index: Index, edition: EditionName, home: Home, intents: Sequence[Intent]
) -> Renewal:
    """Store intents in the journal and give the collection a new generation, as ``renew`` does.

    Raises Transient if the collection does not have the generation of our last write: another program changed
    it.
    """
    facts = index.facts()
    if judge(facts, Editions(journal).of_name(edition).generations, home) != "same":
        raise Transient("another program changed the collection; its records are compared with the journal")
    present = tuple(filter(None, (generation_of(facts),)))
    return renew(journal, index, Renewal(edition, present), home, intents)


def _pad(meta: Metadata, extra_keys: frozenset[str]) -> Metadata:
    """Add None for each extra key that ``meta`` lacks: Chroma merges metadata, and removes a key only if it
    is None."""
    return {**dict.fromkeys(extra_keys), **meta}


def _to_write(prepared: Prepared, extra_keys: frozenset[str]) -> Iterator[Record]:
    """Yield the records of a prepared document in the form in which they are sent.

    New records omit keys without a value, so that Chroma writes a quarter more records a second. Records that
    may exist already name every key, so that no old value stays.
    """
    for at, record in enumerate(prepared.records):
        if at < prepared.added:
            metadata: Metadata = {key: value for key, value in record.metadata.items() if value is not None}
        else:
            metadata = _pad(record.metadata, extra_keys)
        yield Record(record.id, record.text, metadata, record.vector)
