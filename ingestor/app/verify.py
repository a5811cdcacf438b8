"""Journal, collection and lexical index, record by record: what is missing, stale, wrong or unreachable.

Wrong records are repaired by doubting them: the journal marks them as in doubt, and the next pass writes
them again, with cached vectors. Orphans are deleted. Words are indexed again from Chroma. If records are out
of reach, or many are wrong, all are written into a new collection.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ingestor.chroma.reach import PAGE, reachable
from ingestor.core.entries import EditionName
from ingestor.core.fingerprint import combine, text_digest
from ingestor.core.listings.key_set import KeySet
from ingestor.core.listings.pages import pages
from ingestor.core.shards import shard_of
from ingestor.engine.comparison import (
    FEW_STALE,
    are_alike,
    has_other_metadata,
    is_stale,
    note_keys,
    other_keys,
)
from ingestor.lexical.check import Words
from ingestor.model import Digest, Fingerprint, Known, Record, RecordId, Vector
from ingestor.pipeline.prepare import record_id
from ingestor.ports import Index, Torn
from ingestor.state.cache.store import VectorCache
from ingestor.state.journal import Journal
from ingestor.state.queries.kept_records import KeptRecord, kept_records
from ingestor.units import counted

Expected = dict[RecordId, tuple[int, Known]]  # of one page: the row of its document, what the journal knows


@dataclass(slots=True)
class Findings:
    """Findings in one collection. ``rows``: documents that must be written again."""

    checked: int = 0
    missing: list[RecordId] = field(default_factory=list)
    orphaned: list[RecordId] = field(default_factory=list)
    orphans: dict[int, list[RecordId]] = field(default_factory=dict)  # the same by the shard that has them
    stale: list[RecordId] = field(default_factory=list)
    wrong_metadata: list[RecordId] = field(default_factory=list)
    unreachable: list[RecordId] = field(default_factory=list)
    words: list[RecordId] = field(default_factory=list)  # not in step in the lexical index
    settings: list[str] = field(default_factory=list)  # of the collection, that somebody else changed
    rows: set[int] = field(default_factory=set)
    keys: set[str] = field(default_factory=set)  # non-standard metadata keys of records with wrong metadata
    broken: str | None = None  # why the collection cannot be read

    @property
    def rebuild(self) -> str | None:
        """Why all records must go into a new collection, or None. Replacing many in place loses others."""
        if self.unreachable:
            return f"search does not find {counted(len(self.unreachable), 'record')} "
        if len(self.stale) > FEW_STALE * self.checked:
            return f"{len(self.stale):,} of {counted(self.checked, 'record')} differ from what was written"
        return None

    @property
    def clean(self) -> bool:
        lists = (self.missing, self.orphaned, self.stale, self.wrong_metadata, self.unreachable, self.words)
        return not any(lists) and not self.settings and self.broken is None


def examine(
    journal: Journal,
    shards: Sequence[Index],
    collection: EditionName,
    cache: VectorCache,
    embedder: Fingerprint,
    words: Words,
) -> Findings:
    """Read every record once and search each by its own vector. Raises Transient if the server is away.

    ``shards``: of the collection, in their order.
    """
    found, present = Findings(), [KeySet() for _ in shards]
    try:
        for page in pages(kept_records(journal, collection), PAGE):
            for number, wanted in _by_shard(page, len(shards)):
                records = shards[number].read([*wanted], vectors=True)
                present[number].update(record.id for record in records)
                found.words += words.differing(records)
                _examine_page(found, wanted, records, shards[number], cache, embedder)
                _note_absent(found, wanted, records)
        for number, shard in enumerate(shards):
            found.orphans[number] = _orphans(shard, present[number])
            found.orphaned += found.orphans[number]
            present[number].update(found.orphans[number])
        found.words += words.surplus(present)
    except Torn as error:
        found.broken = str(error)
    return found


def mend(journal: Journal, shards: Sequence[Index], collection: EditionName, found: Findings) -> None:
    """Make wrong documents due; the pass that must follow writes them, and removes metadata of others."""
    for number, shard in enumerate(shards):
        if found.orphans.get(number):
            shard.drop(found.orphans[number])
    note_keys(journal, collection, found.keys)
    if found.rows:
        journal.doubt(collection, sorted(found.rows))


def _orphans(shard: Index, present: KeySet) -> list[RecordId]:
    """Records of a shard besides those ``present``; they are listed only if there are more than these."""
    return sorted(map(RecordId, present.absent(shard.ids()))) if shard.count() > len(present) else []


def _examine_page(
    found: Findings,
    expected: Expected,
    records: Sequence[Record],
    index: Index,
    cache: VectorCache,
    embedder: Fingerprint,
) -> None:
    found.checked += len(records)
    found_by_vector = reachable(index, records)
    vectors = cache.get(embedder, [text_digest(record.text) for record in records])
    for record in records:
        row, known = expected[record.id]
        if is_stale(record, known) or _other_vector(record, known, vectors, embedder):
            found.stale.append(record.id)
        elif has_other_metadata(record, known):
            found.wrong_metadata.append(record.id)
            found.keys |= other_keys([record.metadata])
        elif record.id not in found_by_vector:
            found.unreachable.append(record.id)
        else:
            continue
        found.rows.add(row)


def _other_vector(
    record: Record, known: Known, vectors: Mapping[Digest, Vector], embedder: Fingerprint
) -> bool:
    """Whether the vector differs from the cached one, if that is made of the text alone.

    Only for records of whose vector the journal has no digest.
    """
    digest = text_digest(record.text)
    if known.vector_digest or digest not in vectors or known.vector_key != combine(embedder, digest):
        return False
    return not are_alike(vectors[digest], record.vector)


def _by_shard(page: Sequence[KeptRecord], shards: int) -> list[tuple[int, Expected]]:
    parts: dict[int, Expected] = {}
    for kept in page:
        part = parts.setdefault(shard_of(kept.document_id, shards), {})
        part[record_id(kept.document_id, kept.known.slot)] = kept.row, kept.known
    return sorted(parts.items())


def _note_absent(found: Findings, expected: Expected, records: Sequence[Record]) -> None:
    for id_ in expected.keys() - {record.id for record in records}:
        row, known = expected[id_]
        found.rows.add(row)
        if not known.unsure:
            found.missing.append(id_)
