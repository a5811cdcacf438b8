"""Journal against collection, record by record: what is missing, orphaned, stale, wrong or unreachable.

What is off is mended by doubting it: the journal calls those records unsure, and the next pass writes them
again, with vectors from the cache. Orphans are dropped.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ingestor.cache import VectorCache
from ingestor.fingerprint import combine, halved, metadata_digest, text_digest, vector_digest
from ingestor.journal import Journal
from ingestor.model import CollectionName, Digest, Fingerprint, Hit, Known, Record, RecordId, Vector
from ingestor.ports import Index, Torn
from ingestor.prepare import record_id

PAGE = 300  # records read at once
NEAR, DEEP = 10, 1000  # neighbours asked for: at first, and for the few that were not found so
LAST_BITS, TINY = 2.0**-21, 1e-30  # by how much Chroma may change a number (measured: 2**-23 of it)
FEW = PAGE // 10  # of a page; where more are not found, the graph is torn, and looking deeper takes for ever


@dataclass(slots=True)
class Findings:
    """Of one collection. ``rows``: the documents that must be written again."""

    checked: int = 0
    missing: list[RecordId] = field(default_factory=list)
    orphaned: list[RecordId] = field(default_factory=list)
    stale: list[RecordId] = field(default_factory=list)
    wrong_metadata: list[RecordId] = field(default_factory=list)
    unreachable: list[RecordId] = field(default_factory=list)
    rows: set[int] = field(default_factory=set)
    broken: str | None = None  # the collection as a whole can't be read

    @property
    def clean(self) -> bool:
        lists = (self.missing, self.orphaned, self.stale, self.wrong_metadata, self.unreachable)
        return not any(lists) and self.broken is None


def examine(
    journal: Journal, index: Index, collection: CollectionName, cache: VectorCache, embedder: Fingerprint
) -> Findings:
    """Reads every record once and looks each up by its own vector. Transient when the server is away."""
    entries = journal.of_collection(collection)
    expected = {record_id(e.document_id, k.slot): (e.row, k) for e in entries for k in e.known}
    found = Findings()
    try:
        present = set(index.ids())
        found.orphaned = sorted(present - expected.keys())
        for page in _pages([id_ for id_ in expected if id_ in present]):
            _examine_page(found, expected, index.read(page, vectors=True), index, cache, embedder)
    except Torn as error:
        found.broken = str(error)
        return found
    absent = [id_ for id_ in expected if id_ not in present]
    found.missing = sorted(id_ for id_ in absent if not expected[id_][1].unsure)
    found.rows.update(expected[id_][0] for id_ in absent)
    return found


def mend(journal: Journal, index: Index, collection: CollectionName, found: Findings) -> None:
    """Make due again whatever is off; the pass that must follow writes it."""
    if found.orphaned:
        index.drop(found.orphaned)
    if found.rows:
        journal.doubt(collection, sorted(found.rows))


def _examine_page(
    found: Findings,
    expected: dict[RecordId, tuple[int, Known]],
    records: Sequence[Record],
    index: Index,
    cache: VectorCache,
    embedder: Fingerprint,
) -> None:
    found.checked += len(records)
    reachable = _reachable(index, records)
    vectors = cache.get(embedder, [text_digest(record.text) for record in records])
    for record in records:
        row, known = expected[record.id]
        if (
            known.unsure
            or known.text_key != text_digest(record.text)
            or _other_vector(record, known, vectors, embedder)
        ):
            found.stale.append(record.id)
        elif known.meta_key != metadata_digest(record.metadata):
            found.wrong_metadata.append(record.id)
        elif record.id not in reachable:
            found.unreachable.append(record.id)
        else:
            continue
        found.rows.add(row)


def _other_vector(
    record: Record, known: Known, vectors: Mapping[Digest, Vector], embedder: Fingerprint
) -> bool:
    """Whether the vector is not the one that was written.

    Where the journal has no digest of it, the cached vector tells, if the vector is made of the text alone.
    """
    if known.vector_digest:
        restored = halved(record.vector)
        return vector_digest(restored) != known.vector_digest or not _alike(restored, record.vector)
    digest = text_digest(record.text)
    if digest not in vectors or known.vector_key != combine(embedder, digest):
        return False
    return not _alike(vectors[digest], record.vector)


def _alike(written: Vector, found: Vector) -> bool:
    """Equal but for what Chroma's own arithmetic does to a number's last bits."""
    return written.shape == found.shape and np.allclose(written, found, rtol=LAST_BITS, atol=TINY)


def _reachable(index: Index, records: Sequence[Record]) -> set[RecordId]:
    """Those found by their own vector.

    Chroma's search approximates: of 17,000 whole records it missed two among their own nearest hundred, and
    found them among two hundred. Only what a deep search does not find either is out of reach.
    """
    if not records:
        return set()
    answers = index.query(np.stack([record.vector for record in records]), NEAR)
    found = {record.id for record, hits in zip(records, answers, strict=True) if _among(hits, record)}
    missed = [record for record in records if record.id not in found]
    if len(missed) <= FEW:
        found |= {r.id for r in missed if _among(index.query(r.vector[np.newaxis], DEEP)[0], r)}
    return found


def _among(hits: Sequence[Hit], record: Record) -> bool:
    """A twin (another record of the same text) may answer in its place: among equal vectors Chroma's graph
    keeps some out of reach, and no reader could tell them apart.
    """
    return any(hit.id == record.id or (hit.text == record.text and hit.score > 1 - 1e-5) for hit in hits)


def _pages(ids: Sequence[RecordId]) -> Iterator[Sequence[RecordId]]:
    for start in range(0, len(ids), PAGE):
        yield ids[start : start + PAGE]
