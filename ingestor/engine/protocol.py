"""The write-ahead protocol: intent into the journal, write to the index, receipt into the journal.

Slots are *in doubt* (``unsure`` in the journal) before the index is written. So a crash at any point leaves
no record that the journal does not know, and no document that wrongly counts as settled. Every step is
idempotent.

Each write also renews the collection's generation (core/backend.py). The journal expects the new generation
before the collection gets it. The journal drops the old one once the records are written. A write of several
requests renews it again at its end, so that no half of it has the generation of the whole.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from secrets import token_hex
from typing import TypeVar

from ingestor.core.backend import Home, generation_of, judge, stamp
from ingestor.core.entries import EditionName, Entry, Intent, Renewal
from ingestor.core.metadata_keys import KEYS
from ingestor.engine.comparison import note_keys
from ingestor.model import Metadata, Record
from ingestor.pipeline.prepare import Prepared, record_id
from ingestor.ports import Index, Transient
from ingestor.state.editions import Editions
from ingestor.state.journal import Journal

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


def renew(journal: Journal, index: Index, now: Renewal, home: Home) -> Renewal:
    """Give a collection a new generation. ``now``: those that it may have. Returns the only one left."""
    fresh = token_hex(8)
    Editions(journal).renew(replace(now, generations=(*now.generations, fresh)))
    index.note(stamp(fresh, home))
    return replace(now, generations=(fresh,))


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
