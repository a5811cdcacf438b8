"""The write protocol: intend, touch the index, settle.

The order is the whole point. What is about to be touched is in the journal as unsure before the index is
touched, so a crash anywhere leaves no record that the journal doesn't know, and no document that counts
as settled but isn't. Everything here may be repeated.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ingestor.model import Metadata, Record
from ingestor.pipeline.prepare import Prepared, record_id
from ingestor.ports import Index
from ingestor.state.journal import Journal
from ingestor.state.rows import Entry, Intent

WantedRecipe = Callable[[Prepared], str]


def valid(journal: Journal, prepared: Prepared) -> bool:
    """Whether the journal still knows what this was compared with; if not, prepare it again."""
    entry = journal.entry(prepared.entry.row)
    if entry is None or (entry.document_id, entry.source) != (
        prepared.entry.document_id,
        prepared.entry.source,
    ):
        return False  # another document, or one whose source has another name since
    if prepared.intent.predecessor is None:
        return entry.known == prepared.basis
    owner = journal.entry(prepared.intent.predecessor)
    return owner is not None and owner.item is None and owner.known == prepared.basis and not entry.known


def compatible(batch: Iterable[Prepared]) -> list[Prepared]:
    """Documents that can be written together: no row of the journal is touched twice.

    Copies of a renamed document all want to adopt the same row. Each was compared with the journal as it is
    before the batch, so only the first comparison holds; the others are prepared again.
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
    sliced: Callable[[Sequence[Any]], Iterable[Sequence[Any]]] = lambda rows: [rows],
) -> None:
    """Make journal and index agree on these documents.

    ``extra_keys``: see Journal.collection; ``sliced``: how many rows the index is given at once.
    """
    journal.intend(
        [prepared.intent for prepared in batch if prepared.intent.slots or prepared.intent.predecessor]
    )
    records = [_whole(record, extra_keys) for prepared in batch for record in prepared.records]
    patches = [(id_, _padded(meta, extra_keys)) for prepared in batch for id_, meta in prepared.patches]
    drops = [id_ for prepared in batch for id_ in prepared.drops]
    if records:
        for part in sliced(records):
            index.upsert(part)
    if patches:
        for part in sliced(patches):
            index.patch(part)
    if drops:
        index.drop(drops)
    journal.settle([prepared.receipt for prepared in batch], [wanted(prepared) for prepared in batch])


def remove(journal: Journal, index: Index, entries: Sequence[Entry]) -> int:
    """Drop every record of documents that are gone, then forget them. Returns how many records."""
    journal.intend([Intent(entry.row, tuple(known.slot for known in entry.known)) for entry in entries])
    drops = [record_id(entry.document_id, known.slot) for entry in entries for known in entry.known]
    if drops:
        index.drop(drops)
    journal.remove([entry.row for entry in entries])
    return len(drops)


def _padded(meta: Metadata, extra_keys: frozenset[str]) -> Metadata:
    """Chroma merges metadata: a key that went away must be named to vanish."""
    return {**dict.fromkeys(extra_keys), **meta}


def _whole(record: Record, extra_keys: frozenset[str]) -> Record:
    return Record(record.id, record.text, _padded(record.metadata, extra_keys), record.vector)
