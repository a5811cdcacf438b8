"""A collection of Chroma as an ``Index``.

Vectors are always passed, so Chroma never embeds by itself. Chroma merges metadata, so a removed key must be
passed as None.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from struct import pack
from time import monotonic
from typing import Any, TypeVar
from uuid import UUID

import numpy as np
import orjson

from ingestor.chroma.api.requests import rounds, sent, within_quotas
from ingestor.chroma.api.values import INVALID, Refused
from ingestor.chroma.api.write_pace import WritePace
from ingestor.chroma.client import Client, translated
from ingestor.chroma.limits import check_patches, check_records
from ingestor.chroma.reach import missed
from ingestor.core.listings.pages import pages
from ingestor.model import Hit, Metadata, Record, RecordId, Vector, Vectors
from ingestor.ports import BadDocument

_RECORDS = 500  # a request; Chroma takes 5,461
_LEAST, _LEAST_ELSEWHERE = 25, 100  # of a request that writes; each costs a way to others' servers
_PATCHES = 1000
_BYTES = 20_000_000  # a request; Chroma takes 40 MiB
_MOST_BYTES = 40_000_000  # a record by itself
_PAGE, _MOST_IDS = 2000, 100_000  # ids of an answer: of the first one, and of any
SAMPLE, CLOSER, PAGES = 50, 500, 5  # records that a probe looks at: first, then; from so many places
OUT_OF_REACH = 1 / 400  # of the records looked at, that may be lost to search before the collection is sick
_NO_VECTOR = np.empty(0, dtype=np.float32)

Row = TypeVar("Row")


class ChromaIndex:
    """One collection, by its UUID. If another one took its name, methods raise Gone."""

    def __init__(self, client: Client, uuid: UUID) -> None:
        self._client, self._api, self._uuid = client, client.api, uuid
        self._pace = WritePace(_LEAST_ELSEWHERE if client.foreign else _LEAST)

    @property
    def uuid(self) -> str:
        return str(self._uuid)

    def upsert(self, records: Sequence[Record]) -> None:
        check_records(records)
        first, *others = rounds([(r.id, r.metadata) for r in records], self._client.quotas.metadata_keys)
        within, most = dict(first), self._written(_RECORDS)
        for batch in _batches(records, _record_size, lambda: min(self._pace.records, most)):
            self._client.require_room()
            began = monotonic()
            sent(batch, lambda part: self._upsert(part, within))
            self._pace.wrote(len(batch), monotonic() - began)
        for more in others:
            self.patch(more)

    def _upsert(self, batch: Sequence[Record], metadata: Mapping[RecordId, Metadata]) -> None:
        with translated():
            self._api.upsert(
                self._uuid,
                ids=[record.id for record in batch],
                vectors=[record.vector for record in batch],
                metadatas=[dict(metadata[record.id]) for record in batch],
                documents=[record.text for record in batch],
            )

    def patch(self, metadata: Sequence[tuple[RecordId, Metadata]]) -> None:
        check_patches(metadata)
        most = self._written(_PATCHES)
        for rows in rounds(metadata, self._client.quotas.metadata_keys):
            for batch in _batches(rows, lambda row: _json_size(dict(row[1])), lambda: most):
                sent(batch, self._update)

    def _update(self, batch: Sequence[tuple[RecordId, Metadata]]) -> None:
        with translated():
            self._api.update(
                self._uuid,
                ids=[name for name, _ in batch],
                metadatas=[dict(changes) for _, changes in batch],
            )

    def drop(self, ids: Sequence[RecordId]) -> None:
        for batch in pages(dict.fromkeys(ids), self._written(_PATCHES)):
            sent(batch, self._delete)

    def _delete(self, batch: Sequence[RecordId]) -> None:
        with translated():
            self._api.delete(self._uuid, ids=batch)

    def _written(self, usual: int) -> int:
        """Records of a request that writes."""
        return min(usual, self._client.most_written or usual)

    def _read(self, usual: int) -> int:
        """Records of an answer."""
        return min(usual, self._client.quotas.read_records or usual)

    def count(self) -> int:
        with translated():
            return self._api.count(self._uuid)

    def read(self, ids: Sequence[RecordId], *, vectors: bool = False) -> list[Record]:
        include = ["metadatas", "documents", *(["embeddings"] if vectors else [])]
        return [
            record
            for batch in pages(dict.fromkeys(ids), self._read(_RECORDS))
            for record in _records(self._get(ids=batch, include=include))
        ]

    def ids(self) -> Iterator[RecordId]:
        """All ids, page by page; complete if nothing is deleted meanwhile.

        For each page Chroma walks over all records. So each is as large as all before it together, but on
        others' servers, which may have limits that they do not tell.
        """
        offset, size, most = 0, _PAGE, _PAGE if self._client.foreign else _MOST_IDS
        while page := self._get(limit=self._read(size), offset=offset, include=[])["ids"]:
            yield from map(RecordId, page)
            offset += len(page)
            size = min(max(_PAGE, offset), most)

    def query(self, vectors: Vectors, n: int, where: dict[str, object] | None = None) -> list[list[Hit]]:
        """The ``n`` nearest records of each vector. Raises ValueError if Chroma rejects the filter."""
        most, batches = self._read(n), pages(vectors, self._read(_RECORDS))
        return [hits for batch in batches for hits in self._query(batch, most, where)]

    def nearest(
        self, vectors: Vectors, n: int, where: dict[str, object] | None = None
    ) -> list[list[tuple[RecordId, float]]]:
        """Ids and scores as ``query`` has them: cheaper, for no record is read."""
        answers = (self._queried(page, self._read(n), where) for page in pages(vectors, self._read(_RECORDS)))
        rows = (row for page in answers for row in zip(page["ids"], page["distances"], strict=True))
        return [
            [(RecordId(id_), 1.0 - distance) for id_, distance in zip(ids, distances, strict=True)]
            for ids, distances in rows
        ]

    def vectors(self, ids: Sequence[RecordId]) -> dict[RecordId, Vector]:
        """Of those records that exist."""
        wanted = pages(dict.fromkeys(ids), self._read(_RECORDS))
        found = [self._get(ids=page, include=["embeddings"]) for page in wanted]
        return {
            RecordId(id_): _vector(vector)
            for page in found
            for id_, vector in zip(page["ids"], page["embeddings"], strict=True)
        }

    def matching(self, ids: Sequence[RecordId], where: Mapping[str, Any]) -> set[RecordId]:
        """Those of ``ids`` that a filter lets pass. Raises ValueError if Chroma rejects the filter."""
        with _understood(dict(where)):
            found = [
                self._get(ids=page, where=dict(where), include=[])
                for page in pages(ids, self._read(_RECORDS))
            ]
        return {RecordId(id_) for page in found for id_ in page["ids"]}

    def select(self, where: Mapping[str, Any], most: int = 2000) -> list[Record]:
        """The first ``most`` records that a filter lets pass, in no order, without vectors."""
        found: list[Record] = []
        include = ["metadatas", "documents"]
        page_size = self._read(_RECORDS)
        for offset in range(0, most, page_size):
            limit = min(page_size, most - offset)
            page = self._get(where=dict(where), limit=limit, offset=offset, include=include)
            found += _records(page)
            if len(page["ids"]) < limit:
                break
        return found

    def check_filter(self, where: dict[str, object]) -> None:
        """Raises ValueError if Chroma rejects the filter. Cheap: no record is read."""
        with _understood(where):
            self._get(ids=["-"], where=where, limit=1, include=[])

    def sample(self, offset: int, size: int) -> list[Record]:
        """Records with their vectors, from a position in Chroma's own order on."""
        include, page = ["metadatas", "documents", "embeddings"], self._read(max(size, 1))
        return [
            record
            for at in range(0, size, page)
            for record in _records(self._get(limit=min(page, size - at), offset=offset + at, include=include))
        ]

    def _queried(self, vectors: list[Any], n: int, where: dict[str, object] | None, *include: str) -> Any:
        with within_quotas(), _understood(where), translated():
            wanted = ["distances", *include]
            return self._api.query(self._uuid, vectors=vectors, n=n, where=where or None, include=wanted)

    def _get(self, **wanted: Any) -> Any:
        with within_quotas(), translated():
            return self._api.get(self._uuid, **wanted)

    def _query(self, vectors: list[Any], n: int, where: dict[str, object] | None) -> Iterator[list[Hit]]:
        found = self._queried(vectors, n, where, "metadatas", "documents")
        columns = (found[key] for key in ("ids", "distances", "documents", "metadatas"))
        return (_hits(*rows) for rows in zip(*columns, strict=True))


@contextmanager
def _understood(where: dict[str, object] | None) -> Iterator[None]:
    try:
        yield
    except Refused as error:
        if error.kind != INVALID:
            raise
        raise ValueError(f"Chroma refuses the query (filter {json.dumps(where)}): {error}") from error


def probe(index: ChromaIndex, turn: int = 0) -> str | None:
    """Why the collection is not healthy; None if it can be counted and records are found by their vectors.

    Examines a sample of fixed size, other records at each ``turn``, and a larger one if a record is not
    found. Raises Torn or Gone, or Transient if there was no answer. A server that dies during the probe
    cannot load this collection.
    """
    for size in (SAMPLE, CLOSER):
        records = _sampled(index, size, turn)
        lost = missed(index, records)
        if not lost:
            return None
    if len(lost) <= OUT_OF_REACH * len(records):
        return None
    return f"{len(lost)} of {len(records)} records are not found by their own vectors, such as {lost[0]}"


def _sampled(index: ChromaIndex, size: int, turn: int) -> list[Record]:
    """All records if there are at most ``size``, else pages spread over the collection."""
    count = index.count()
    if count <= size:
        return index.sample(0, size)
    page, stride = size // PAGES, count // PAGES
    return [record for n in range(PAGES) for record in index.sample(n * stride + turn * page % stride, page)]


def _hits(ids: list[str], distances: list[float], texts: list[str], metas: list[Any]) -> list[Hit]:
    rows = zip(ids, distances, texts, metas, strict=True)
    return [Hit(RecordId(name), 1.0 - distance, text, meta or {}) for name, distance, text, meta in rows]


def _records(found: Any) -> list[Record]:
    vectors = found["embeddings"]
    return [
        Record(
            RecordId(name),
            text if text is not None else "",
            metadata or {},
            _vector(vectors[at]) if vectors is not None else _NO_VECTOR,
        )
        for at, (name, text, metadata) in enumerate(
            zip(found["ids"], found["documents"], found["metadatas"], strict=True)
        )
    ]


def _vector(numbers: Sequence[float]) -> Vector:
    """By struct, which takes a third of the time of NumPy for a list."""
    return np.frombuffer(pack(f"={len(numbers)}f", *numbers), np.float32)


def _batches(rows: Sequence[Row], size: Callable[[Row], int], most: Callable[[], int]) -> Iterator[list[Row]]:
    """Batches in order, each within both bounds unless a single row exceeds them.

    ``most``: rows, asked anew for each batch, when the one before was used.
    """
    batch: list[Row] = []
    total, bound = 0, most()
    for row in rows:
        weight = size(row)
        if batch and (len(batch) >= bound or total + weight > _BYTES):
            yield batch
            batch, total, bound = [], 0, most()
        batch.append(row)
        total += weight
    if batch:
        yield batch


def _record_size(record: Record) -> int:
    """Bytes on the wire. Raises BadDocument if Chroma does not accept as many."""
    size = _json_size([record.id, record.text, dict(record.metadata)]) + 6 * record.vector.size
    if size > _MOST_BYTES:
        raise BadDocument(
            f"record {record.id} takes {size / 1e6:.0f} MB, and Chroma no more than {_MOST_BYTES / 1e6:.0f}: "
            "cut the document into smaller chunks"
        )
    return size


def _json_size(value: object) -> int:
    """``value`` was checked (limits.py), so it can be written."""
    return len(orjson.dumps(value))
