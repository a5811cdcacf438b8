"""Compares an edition in Chroma with the journal, record by record, and repairs the differences.

After a backup of Chroma or of the journal was restored, each record may be older or newer than the journal
says. Chroma may also have records of documents that the journal does not know. The command `verify` checks
more: search must find each record by its own vector, and the lexical index must have the words of each
record.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ingestor.chroma.index import PAGE, reachable
from ingestor.core.entries import Edition, EditionName, shard_of
from ingestor.core.fingerprint import combine, metadata_digest, round_to_half, text_digest, vector_digest
from ingestor.core.listings import KeySet, pages
from ingestor.core.metadata_keys import KEYS
from ingestor.lexical.check import Words
from ingestor.model import Digest, Fingerprint, Known, Record, RecordId, Vector
from ingestor.pipeline.prepare import record_id
from ingestor.ports import Index
from ingestor.state.cache import VectorCache
from ingestor.state.editions import Editions
from ingestor.state.journal import Journal
from ingestor.state.reports import journal_records
from ingestor.units import quantity

LAST_BITS, TINY = 2.0**-21, 1e-30  # relative and absolute change by Chroma (measured: 2**-23)
FEW_STALE = 0.1  # of the records; if more differ, all are written into a new collection


@dataclass(frozen=True, slots=True)
class ThoroughCheck:
    """The parts that `verify` needs for its closer comparison.

    ``cache``: the vector cache. The journal has no digest of some vectors; these are compared with the cached
    vector of the same text. ``words``: compares the words in the lexical index.
    """

    cache: VectorCache
    words: Words


@dataclass(slots=True)
class Findings:
    """The differences between the collections of one edition in Chroma and the journal."""

    checked: int = 0  # records
    missing: list[RecordId] = field(default_factory=list)
    orphaned: list[RecordId] = field(default_factory=list)  # of no document of the journal
    orphans: dict[int, list[RecordId]] = field(default_factory=dict)  # the same by the shard that has them
    stale: list[RecordId] = field(default_factory=list)  # with another text or vector
    wrong_metadata: list[RecordId] = field(default_factory=list)
    unreachable: list[RecordId] = field(default_factory=list)  # not found by their own vector
    words: list[RecordId] = field(default_factory=list)  # with other words in the lexical index
    settings: list[str] = field(default_factory=list)  # of the collection, that somebody else changed
    rows: set[int] = field(default_factory=set)  # documents that must be written again
    keys: set[str] = field(default_factory=set)  # non-standard metadata keys of records that differ
    broken: str | None = None  # why the collection cannot be read

    @property
    def rebuild(self) -> str | None:
        """Return why all records must be written into a new collection, or None if a repair in place
        suffices.

        Chroma's search stops finding some records if many others are replaced in place.
        """
        if self.unreachable:
            records = quantity(len(self.unreachable), "record")
            return f"search does not find {records} by their own vectors"
        return self.too_many(len(self.stale))

    def too_many(self, differing: int) -> str | None:
        """Return why all records must be written into a new collection, or None if few records differ.

        ``differing``: the number of records that differ from the journal.
        """
        if differing <= FEW_STALE * (number := self.checked + len(self.missing)):
            return None
        return f"{differing:,} of {quantity(number, 'record')} differ from what was written"

    @property
    def clean(self) -> bool:
        lists = (self.missing, self.orphaned, self.stale, self.wrong_metadata, self.unreachable, self.words)
        return not any(lists) and not self.settings and self.broken is None


def compare(
    journal: Journal, shards: Sequence[Index], edition: Edition, closer: ThoroughCheck | None = None
) -> Findings:
    """Compare every record of an edition with the journal, reading each record once.

    ``shards``: the edition's shards, ordered by number. ``closer``: further checks for the command `verify`.
    If it is None, only texts, vectors and metadata are compared. Raises the errors of the index.
    """
    findings, present = Findings(), [KeySet() for _ in shards]
    embedder = Fingerprint(edition.embedder or "")
    for page in pages(journal_records(journal, edition.name), PAGE):
        parts: list[dict[RecordId, tuple[int, Known]]] = [{} for _ in shards]
        for row, document_id, known in page:
            parts[shard_of(document_id, len(shards))][record_id(document_id, known.slot)] = row, known
        for shard, ids, wanted in zip(shards, present, parts, strict=True):
            records = shard.read([*wanted], vectors=True) if wanted else []
            ids.update(record.id for record in records)
            _compare_records(findings, wanted, records, shard, embedder, closer)
    for number, shard in enumerate(shards):
        if shard.count() > len(present[number]):  # only then the ids of all records are read
            findings.orphans[number] = sorted(map(RecordId, present[number].absent(shard.ids())))
            findings.orphaned += findings.orphans[number]
            present[number].update(findings.orphans[number])
    if closer is not None:
        findings.words += closer.words.surplus(present)
    return findings


def repair_differences(
    journal: Journal, shards: Sequence[Index], edition: EditionName, findings: Findings
) -> None:
    """Delete records that belong to no document, and mark the other differing records to be written again.

    The metadata keys of differing records are stored, too. Chroma merges metadata, so the next write must
    name the wrong keys to remove them.
    """
    for number, shard in enumerate(shards):
        if findings.orphans.get(number):
            shard.drop(findings.orphans[number])
    Editions(journal).note_keys(edition, findings.keys)
    if findings.rows:
        journal.doubt(edition, sorted(findings.rows))


def _compare_records(
    findings: Findings,
    wanted: Mapping[RecordId, tuple[int, Known]],
    records: Sequence[Record],
    shard: Index,
    embedder: Fingerprint,
    closer: ThoroughCheck | None,
) -> None:
    """Compare some records of a shard with the journal, and add the differences to ``findings``.

    ``wanted``: the row of each record's document, and the journal's value. ``records``: the same records as
    Chroma returned them.
    """
    findings.checked += len(records)
    for id_ in wanted.keys() - {record.id for record in records}:
        row, known = wanted[id_]
        findings.rows.add(row)
        findings.missing += [] if known.unsure else [id_]
    reached, vectors = set(wanted), dict[Digest, Vector]()
    if closer is not None and records:
        findings.words += closer.words.find_differing(records)
        reached = reachable(shard, records)
        vectors = closer.cache.get(embedder, [text_digest(record.text) for record in records])
    for record in records:
        row, known = wanted[record.id]
        digest = text_digest(record.text)
        made_of_text = not known.vector_digest and known.vector_key == combine(embedder, digest)
        cached = vectors.get(digest) if made_of_text else None
        if is_stale(record, known) or not (cached is None or are_alike(cached, record.vector)):
            findings.stale.append(record.id)
        elif known.meta_key != metadata_digest(record.metadata):
            findings.wrong_metadata.append(record.id)
        elif record.id not in reached:
            findings.unreachable.append(record.id)
        else:
            continue
        findings.rows.add(row)
        findings.keys |= record.metadata.keys() - KEYS


def is_stale(record: Record, known: Known) -> bool:
    """Return whether a record must be written again: it is in doubt, or its text or vector is not the
    journal's."""
    if known.unsure or known.text_key != text_digest(record.text):
        return True
    restored = round_to_half(record.vector)
    same = vector_digest(restored) == known.vector_digest and are_alike(restored, record.vector)
    return bool(known.vector_digest) and not same


def are_alike(written: Vector, other: Vector) -> bool:
    """Return whether two vectors are equal up to rounding: Chroma's arithmetic changes the last bits of
    numbers."""
    return written.shape == other.shape and np.allclose(written, other, rtol=LAST_BITS, atol=TINY)
