"""Compares a collection's records with the journal, and doubts those that differ.

After a restore of either side each record may be older or newer than the journal, and there may be records of
documents that the journal does not know. Chroma's records are read once. Documents whose records differ are
written again, with cached vectors; records of no document are deleted.
"""

import logging
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from ingestor.core.entries import EditionName
from ingestor.core.events import event
from ingestor.core.fingerprint import halved, metadata_digest, text_digest, vector_digest
from ingestor.core.listings.key_set import KeySet
from ingestor.core.listings.pages import pages
from ingestor.core.metadata_keys import KEYS
from ingestor.model import Known, Metadata, Record, RecordId, Vector
from ingestor.pipeline.prepare import record_id
from ingestor.ports import Index
from ingestor.state.journal import Journal
from ingestor.state.queries.kept_records import kept_records
from ingestor.units import counted

log = logging.getLogger("ingestor")

LAST_BITS, TINY = 2.0**-21, 1e-30  # relative and absolute change by Chroma (measured: 2**-23)
FEW_STALE = 0.1  # of the records: up to this share they are written again in place
_PAGE = 500  # records


def restore_order(journal: Journal, index: Index, collection: EditionName) -> str | None:
    """Make documents due whose records differ from the journal, and delete records of no document.

    Metadata keys that the journal does not know are noted, so that the next write of a record removes them:
    Chroma merges metadata. Returns why all records should go into a new collection, or None: Chroma's search
    loses records after many were replaced in place. Raises what the index raises; everything may be repeated.
    """
    seen, keys, rows, wrong, known = KeySet(), set[str](), set[int](), 0, 0
    for page in pages(kept_records(journal, collection), _PAGE):
        expected = {record_id(kept.document_id, kept.known.slot): kept for kept in page}
        records = {record.id: record for record in index.read([*expected], vectors=True)}
        seen.update(records)
        known += len(expected)
        keys |= other_keys(record.metadata for record in records.values())
        for id_, kept in expected.items():
            record = records.get(id_)
            if record is None or is_stale(record, kept.known) or has_other_metadata(record, kept.known):
                rows.add(kept.row)
                wrong += 1
    note_keys(journal, collection, keys)
    if rows:
        journal.doubt(collection, sorted(rows))
    orphans = sorted(map(RecordId, seen.absent(index.ids())))
    index.drop(orphans)
    log.warning(
        "collection %s compared: %s wrong or missing, rewriting; %s without a document deleted",
        collection,
        counted(wrong, "record"),
        len(orphans),
        extra=event("collection_compared", collection=str(collection), records=wrong, dropped=len(orphans)),
    )
    if wrong + len(orphans) <= FEW_STALE * known:
        return None
    return f"{wrong + len(orphans):,} of {counted(known, 'record')} differ from what was written"


def is_stale(record: Record, known: Known) -> bool:
    """Whether text or vector of a record differ from the ones that were written, as far as the journal
    knows."""
    if known.unsure or known.text_key != text_digest(record.text):
        return True
    restored = halved(record.vector)
    same = vector_digest(restored) == known.vector_digest and are_alike(restored, record.vector)
    return bool(known.vector_digest) and not same


def has_other_metadata(record: Record, known: Known) -> bool:
    return known.meta_key != metadata_digest(record.metadata)


def are_alike(written: Vector, found: Vector) -> bool:
    """Whether two vectors are equal but for the last bits, which Chroma's arithmetic changes."""
    return written.shape == found.shape and np.allclose(written, found, rtol=LAST_BITS, atol=TINY)


def other_keys(metadata: Iterable[Metadata]) -> set[str]:
    """The non-standard metadata keys of these records."""
    return {key for each in metadata for key in each} - KEYS


def note_keys(journal: Journal, collection: EditionName, keys: set[str]) -> None:
    """Note metadata keys that a collection's records have, so that writing a record removes them."""
    row = journal.collection(collection)
    if not keys <= row.extra_keys:
        journal.note_collection(collection, replace(row, extra_keys=row.extra_keys | keys))
