"""The write-ahead protocol: intent into the journal, write to the index, receipt into the journal.

Slots are *in doubt* (``unsure`` in the journal) before the index is written. So a crash at any point leaves
no record that the journal does not know, and no document that wrongly counts as settled. Every step is
idempotent.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from ingestor.core.entries import Entry, Intent
from ingestor.model import Metadata, Record
from ingestor.pipeline.prepare import Prepared, record_id
from ingestor.ports import Index
from ingestor.state.journal import Journal

WantedRecipe = Callable[[Prepared], str]
Row = TypeVar("Row")

SLICE = 400  # records of a request


def valid(journal: Journal, batch: Sequence[Prepared]) -> list[Prepared]:
    """Those whose records in the journal are still the compared ones; the others are prepared again."""
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
    """Documents that can be written together: each row of the journal occurs once.

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
    journal: Journal,
    index: Index,
    batch: Sequence[Prepared],
    extra_keys: frozenset[str],
    wanted: WantedRecipe,
) -> Iterator[None]:
    """Write these documents to the index and settle them in the journal; yields between two requests.

    ``batch``: compatible documents. ``extra_keys``: see Journal.collection. ``wanted``: the recipe that
    today's config asks of a document. Left between two requests, it has the records in doubt.

    Raises what the index raises (Transient, Torn, Gone, NeedsHuman, or its refusal) and sqlite3.Error. The
    records are then in doubt and are written again.
    """
    journal.intend(
        [prepared.intent for prepared in batch if prepared.intent.slots or prepared.intent.predecessor]
    )
    for records in _slices([record for prepared in batch for record in _to_write(prepared, extra_keys)]):
        index.upsert(records)
        yield
    for patches in _slices([patch for prepared in batch for patch in prepared.patches]):
        index.patch([(id_, _padded(meta, extra_keys)) for id_, meta in patches])
        yield
    for drops in _slices([id_ for prepared in batch for id_ in prepared.drops]):
        index.drop(drops)
        yield
    journal.settle([prepared.receipt for prepared in batch], [wanted(prepared) for prepared in batch])


def remove(journal: Journal, index: Index, entries: Sequence[Entry]) -> tuple[list[Entry], int]:
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
    journal.intend(slices)
    if drops := [record_id(entry.document_id, slot) for entry, part in parts for slot in part.slots]:
        index.drop(drops)
    removed = [entry for entry, part in parts if len(part.slots) == len(entry.known)]
    journal.remove([entry.row for entry in removed], slices)
    return removed, len(drops)


def _slices(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    return (rows[start : start + SLICE] for start in range(0, len(rows), SLICE))


def _padded(meta: Metadata, extra_keys: frozenset[str]) -> Metadata:
    """With None for each extra key that is not in ``meta``: Chroma merges metadata and keeps others."""
    return {**dict.fromkeys(extra_keys), **meta}


def _to_write(prepared: Prepared, extra_keys: frozenset[str]) -> Iterator[Record]:
    """A new record has nothing to remove, and Chroma takes a quarter more of them without keys of no value.

    A record in doubt is never new (core/slots.py).
    """
    for at, record in enumerate(prepared.records):
        if at < prepared.added:
            metadata: Metadata = {key: value for key, value in record.metadata.items() if value is not None}
        else:
            metadata = _padded(record.metadata, extra_keys)
        yield Record(record.id, record.text, metadata, record.vector)
