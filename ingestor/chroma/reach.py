"""A check that searches find records by their own vectors.

Chroma's graph can lose records. A vector that is replaced in place may cut the links to some record. So may a
record that is added after others were deleted. ``count`` and ``get`` still return it. Collections that were
written once lost no record (``python -m benchmarks reach``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ingestor.model import RecordId
from ingestor.units import quantity

if TYPE_CHECKING:
    from ingestor.chroma.index import ChromaIndex, PlacedRecord
    from ingestor.ports import Index

    Read = Callable[[Sequence[RecordId]], Sequence["Locatable"]]

PAGE = 300  # records searched at once
NEAREST, NEAR, DEEP = 1, 10, 200  # neighbours asked for: at first, and for the few that were not found so
ITSELF, TWIN = 0.99, 1 - 1e-5  # least similarity of a vector with itself, as searched; of its twin with it
FEW = PAGE // 10  # of a page; if more are missed, the graph is torn, and a deeper search takes too long
SAMPLE, CLOSER, PAGES = 50, 500, 5  # records that a probe looks at: first, then; from so many places
OUT_OF_REACH = 1 / 400  # of the records looked at, that may be lost to search before the collection is sick

_Neighbours = list[tuple[RecordId, float]]  # of one record, with their similarity


class Locatable(Protocol):
    """A record with its text and vector. ``vector``: an array, or numbers as Chroma returned them."""

    @property
    def id(self) -> RecordId: ...
    @property
    def text(self) -> str: ...
    @property
    def vector(self) -> Any: ...


def probe(index: ChromaIndex, turn: int = 0) -> str | None:
    """Return why the collection is not healthy; None if it is counted and its records are found.

    Examines a sample of fixed size, other records at each ``turn``, and a larger one if a record is not
    found. Raises Torn or Gone, or Transient if there was no answer. A server that dies during the probe
    cannot load this collection.
    """
    for size in (SAMPLE, CLOSER):
        records = _sample(index, size, turn)
        lost = unreachable(index, records, index.texts)
        if not lost:
            return None
    if len(lost) <= OUT_OF_REACH * len(records):
        return None
    share = f"{len(lost)} of {quantity(len(records), 'record')}"
    return f"search does not find {share} by their own vectors, such as {lost[0]}"


def _sample(index: ChromaIndex, size: int, turn: int) -> list[PlacedRecord]:
    """Return all records if there are at most ``size``, else pages spread over the collection."""
    count = index.count()
    if count <= size:
        return index.sample_plainly(0, size)
    page, stride = size // PAGES, count // PAGES
    return [
        record
        for n in range(PAGES)
        for record in index.sample_plainly(n * stride + turn * page % stride, page)
    ]


def unreachable(index: Index, records: Sequence[Locatable], read: Read | None = None) -> list[RecordId]:
    """Return ids of records that are not found by their own vectors, page by page.

    ``read``: see ``reachable``.
    """
    pages = (records[start : start + PAGE] for start in range(0, len(records), PAGE))
    return [
        record.id
        for page in pages
        for reached in [reachable(index, page, read)]
        for record in page
        if record.id not in reached
    ]


def reachable(index: Index, records: Sequence[Locatable], read: Read | None = None) -> set[RecordId]:
    """Return ids of a page that are found by their own vectors.

    Chroma's search approximates: of 17,000 whole records it missed two among their own nearest hundred, and
    found them among two hundred. Only what a deep search does not find either is out of reach.

    ``read``: returns records without arrays: NumPy takes longer to import than a probe of a small collection.
    """
    reached = set[RecordId]()
    for depth in (NEAREST, NEAR, DEEP):
        left = [record for record in records if record.id not in reached]
        if left and (depth < DEEP or len(left) <= FEW):
            reached |= _reach(index, left, depth, read or index.read)
    return reached


def _reach(index: Index, records: Sequence[Locatable], depth: int, read: Read) -> set[RecordId]:
    """Return ids of records that are among their nearest ``depth``, themselves or a twin of the same text.

    Of equal vectors Chroma's graph leaves some out of reach, and no reader could tell them apart.
    Texts are read of those alone that may be twins: Chroma takes six times as long to answer with all.
    """
    nearest = index.nearest([record.vector for record in records], depth)
    answers: dict[RecordId, _Neighbours] = {
        record.id: near for record, near in zip(records, nearest, strict=True)
    }
    reached = {id_ for id_, near in answers.items() if any(n == id_ and s > ITSELF for n, s in near)}
    left = {record.id: record.text for record in records if record.id not in reached}
    like = {id_: [other for other, score in answers[id_] if score > TWIN] for id_ in left}
    alike = {other for others in like.values() for other in others}
    twins = read([*alike])
    texts = {twin.id: twin.text for twin in twins}
    return reached | {id_ for id_, text in left.items() if any(texts.get(n) == text for n in like[id_])}
