"""Whether a search finds records by their own vectors.

Chroma's graph can lose records: a vector that is replaced in place, or a record that is added after others
were deleted, may cut the links to some record. ``count`` and ``get`` still find it. In collections that were
written once, no record was lost (``python -m benchmarks reach``).
"""

from collections.abc import Sequence

import numpy as np

from ingestor.model import Record, RecordId
from ingestor.ports import Index

PAGE = 300  # records searched at once
NEAREST, NEAR, DEEP = 1, 10, 200  # neighbours asked for: at first, and for the few that were not found so
ITSELF, TWIN = 0.99, 1 - 1e-5  # least similarity of a vector with itself, as searched; of its twin with it
FEW = PAGE // 10  # of a page; if more are missed, the graph is torn, and a deeper search takes too long

_Neighbours = list[tuple[RecordId, float]]  # of one record, with their similarity


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
    found = set[RecordId]()
    for depth in (NEAREST, NEAR, DEEP):
        left = [record for record in records if record.id not in found]
        if left and (depth < DEEP or len(left) <= FEW):
            found |= _found(index, left, depth)
    return found


def _found(index: Index, records: Sequence[Record], depth: int) -> set[RecordId]:
    """Ids of records that are among their nearest ``depth``, themselves or a twin of the same text.

    Of equal vectors Chroma's graph leaves some out of reach, and no reader could tell them apart.
    Texts are read of those alone that may be twins: Chroma takes six times as long to answer with all.
    """
    nearest = index.nearest(np.stack([record.vector for record in records]), depth)
    answers: dict[RecordId, _Neighbours] = {
        record.id: near for record, near in zip(records, nearest, strict=True)
    }
    found = {id_ for id_, near in answers.items() if any(n == id_ and s > ITSELF for n, s in near)}
    left = {record.id: record.text for record in records if record.id not in found}
    like = {id_: [other for other, score in answers[id_] if score > TWIN] for id_ in left}
    twins = index.read([*{other for others in like.values() for other in others}])
    texts = {twin.id: twin.text for twin in twins}
    return found | {id_ for id_, text in left.items() if any(texts.get(n) == text for n in like[id_])}
