"""Whether a search finds records by their own vectors.

Chroma's graph can lose records: a vector that is replaced in place, or a record that is added after others
were deleted, may cut the links to some record. ``count`` and ``get`` still find it. In collections that were
written once, no record was lost (``python -m benchmarks reach``).
"""

from collections.abc import Sequence

import numpy as np

from ingestor.model import Hit, Record, RecordId
from ingestor.ports import Index

PAGE = 300  # records searched at once
NEAR, DEEP = 10, 200  # neighbours asked for: at first, and for the few that were not found so
ITSELF, TWIN = 0.99, 1 - 1e-5  # least similarity of a vector with itself, as searched; of its twin with it
FEW = PAGE // 10  # of a page; if more are missed, the graph is torn, and a deeper search takes too long


def missed(index: Index, records: Sequence[Record]) -> list[RecordId]:
    """Ids of records that are not found by their own vectors, page by page."""
    pages = (records[start : start + PAGE] for start in range(0, len(records), PAGE))
    return [
        record.id
        for page in pages
        for found in [reachable(index, page)]
        for record in page
        if record.id not in found
    ]


def reachable(index: Index, records: Sequence[Record]) -> set[RecordId]:
    """Ids of a page that are found by their own vectors.

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
    """Whether a record, or a twin of the same text, is among the hits.

    Of equal vectors Chroma's graph leaves some out of reach, and no reader could tell them apart.
    """
    return any(
        (hit.id == record.id and hit.score > ITSELF) or (hit.text == record.text and hit.score > TWIN)
        for hit in hits
    )
