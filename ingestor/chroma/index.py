"""A collection of Chroma as an ``Index``, and a check that searches find its records.

Vectors are always passed, so Chroma never embeds anything itself. Chroma merges metadata, so a key to be
removed must be passed as None. In Chroma 1.5 the row of a new record may still have lists of an earlier
record whose collection was deleted. So lists that a record does not have are passed as None, too.

Chroma's graph of vectors can lose records, although ``count`` and ``get`` still return them. If a vector is
replaced in place, the links to some other record may be cut. The same may happen when a record is added after
others were deleted. Collections that were written once lost no record (``python -m benchmarks reach``).
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from struct import pack
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

import orjson

from ingestor.chroma.client import INVALID, Client, Refused, Verb
from ingestor.core.listings import pages
from ingestor.core.metadata_keys import LISTS
from ingestor.model import Hit, Metadata, Record, RecordId
from ingestor.ports import BadDocument, Gone, NeedsHuman, Torn
from ingestor.units import quantity

if TYPE_CHECKING:
    from ingestor.model import Vector, Vectors
    from ingestor.ports import Index

SECONDS = 0.5  # that a request which writes should take; decision 0058 has the figures
_FIRST = 100  # records of the first request that writes
_RECORDS = 500  # records of a request; Chroma takes 5,461
# The least number of records of a request that writes. Each request costs a way to servers of others.
_LEAST, _LEAST_ELSEWHERE = 25, 100
_PATCHES = 1000  # records of a request that changes metadata or deletes
_BYTES = 20_000_000  # bytes of a request; Chroma takes 40 MiB
_MOST_BYTES = 40_000_000  # bytes of a request with one record
_PAGE, _MOST_IDS = 2000, 100_000  # ids of the first answer, and of any answer
_TOO_LARGE = 413  # HTTP's status
_QUOTA = re.compile(r"'(?P<what>[^']+)' exceeded quota limit")

Row = TypeVar("Row")
Patches = Sequence[tuple[RecordId, Metadata]]


class WritePace:
    """Decides how many records a request writes: as many as Chroma adds in half a second.

    While Chroma adds the records of a request to its graph, it answers no reader of the collection.
    ``least``: a request writes at least this many records, however long they take.
    """

    def __init__(self, least: int) -> None:
        self._least, self._each = least, SECONDS / _FIRST

    @property
    def records(self) -> int:
        return max(self._least, int(SECONDS / self._each))

    def wrote(self, records: int, seconds: float) -> None:
        """Adapt the pace to a request that took ``seconds``.

        If it was slower than expected, the pace changes at once; if it was faster, only half way.
        """
        if records >= self._least:
            now = max(seconds / records, 1e-9)
            self._each = max(now, (self._each + now) / 2)


def rounds(rows: Sequence[tuple[RecordId, Metadata]], most: int | None) -> Iterator[Patches]:
    """Divide the metadata of records into rounds, since some servers accept only ``most`` keys of a record at
    once.

    The first round has every record. New values are sent before removals of keys.
    """
    if most is None:
        yield rows
        return
    parts = [(id_, sorted(metadata.items(), key=lambda item: item[1] is None)) for id_, metadata in rows]
    longest = max((len(items) for _, items in parts), default=0) or 1
    for at in range(0, longest, most):
        yield [(id_, dict(items[at : at + most])) for id_, items in parts if not at or items[at:]]


def send_in_halves(rows: Sequence[Row], send: Callable[[Sequence[Row]], None]) -> None:
    """Send rows in one request. If the server answers that the request is too large, send them in halves.

    Raises BadDocument for a text that is too long, and the errors of ``send``. Raises NeedsHuman if the
    collection is full, or if the config does not name the server's quotas.
    """
    try:
        send(rows)
    except Refused as error:
        quota = _QUOTA.search(str(error))
        if quota and "ollection" in quota["what"]:
            raise NeedsHuman(
                f"the collection has reached its quota of records in Chroma: {error}; have the quota "
                "raised, or set another `collection`"
            ) from error
        if not quota and error.status != _TOO_LARGE:
            raise
        if len(rows) == 1 and quota and "ocument" not in quota["what"]:
            raise _quota_of(error) from error
        if len(rows) == 1:
            raise BadDocument(
                f"Chroma rejects a record of the document: {error}; use smaller chunks"
            ) from error
        half = len(rows) // 2
        send_in_halves(rows[:half], send)
        send_in_halves(rows[half:], send)


def _quota_of(error: Refused) -> NeedsHuman:
    return NeedsHuman(f"Chroma refuses a request: {error}; set `chroma.quotas` to the limits of this server")


class ChromaIndex:
    """A collection in Chroma, identified by its UUID.

    Methods raise Gone if it was deleted, even if another collection has its name now. ``name``: its last
    known name, because Chroma returns the description of a collection only by its name.
    """

    def __init__(self, client: Client, uuid: UUID, name: str = "") -> None:
        self._client, self._uuid, self._name = client, uuid, name
        self._pace = WritePace(_LEAST_ELSEWHERE if client.foreign else _LEAST)

    @property
    def uuid(self) -> str:
        return str(self._uuid)

    def upsert(self, records: Sequence[Record]) -> None:
        from numpy import isfinite

        if unsound := [record.id for record in records if not isfinite(record.vector).all()]:
            raise ValueError(f"record {unsound[0]!r}: the vector contains NaN or infinity")
        most = self._client.quotas.metadata_keys  # servers that have this quota keep no lists
        without: Metadata = dict.fromkeys(LISTS) if most is None else {}
        first, *others = rounds([(r.id, {**without, **r.metadata}) for r in records], most)
        within, at_once = dict(first), self._most_written(_RECORDS)
        for batch in _batches(records, _record_size, lambda: min(self._pace.records, at_once)):
            began = monotonic()
            send_in_halves(batch, lambda part: self._upsert(part, within))
            self._pace.wrote(len(batch), monotonic() - began)
        for more in others:
            self.patch(more)

    def _upsert(self, batch: Sequence[Record], metadata: Mapping[RecordId, Metadata]) -> None:
        self._client.post(
            self._uuid,
            "upsert",
            ids=[record.id for record in batch],
            embeddings=[_pack(record.vector) for record in batch],
            metadatas=[dict(metadata[record.id]) for record in batch],
            documents=[record.text for record in batch],
        )

    def patch(self, metadata: Sequence[tuple[RecordId, Metadata]]) -> None:
        most = self._most_written(_PATCHES)
        for rows in rounds(metadata, self._client.quotas.metadata_keys):
            for batch in _batches(rows, lambda row: len(orjson.dumps(dict(row[1]))), lambda: most):
                send_in_halves(batch, self._update)

    def _update(self, batch: Sequence[tuple[RecordId, Metadata]]) -> None:
        ids, metadatas = zip(*batch, strict=True)
        self._client.post(self._uuid, "update", ids=ids, metadatas=[*map(dict, metadatas)])

    def drop(self, ids: Sequence[RecordId]) -> None:
        for batch in pages(dict.fromkeys(ids), self._most_written(_PATCHES)):
            send_in_halves(batch, lambda part: self._client.post(self._uuid, "delete", ids=part))

    def _most_written(self, usual: int) -> int:
        """Return how many records a request may write: ``usual``, or less if the server's quota is less."""
        return min(usual, self._client.most_written or usual)

    def _read(self, usual: int) -> int:
        """Return how many records an answer may have: ``usual``, or less if the server's quota is less."""
        return min(usual, self._client.quotas.read_records or usual)

    def count(self) -> int:
        return self._client.count(self._uuid)

    def read(self, ids: Sequence[RecordId], *, vectors: bool = False) -> list[Record]:
        """Return the records with these ids, without those that do not exist.

        ``vectors``: whether to read the vectors, too; otherwise they are empty.
        """
        columns = ("documents", "metadatas", *(["embeddings"] if vectors else []))
        return [_record(*row) for row in self._rows(ids, *columns)]

    def _rows(self, ids: Sequence[RecordId], *columns: str) -> Iterator[tuple[Any, ...]]:
        """Yield the id and the given columns of each of these records that exists."""
        for page in pages(dict.fromkeys(ids), self._read(_RECORDS)):
            yield from _columns(self._ask("get", ids=page, include=columns), columns)

    def ids(self) -> Iterator[RecordId]:
        """Yield the ids of all records, page by page. Ids may be missed if records are deleted meanwhile.

        For each page Chroma walks over all records. So each page is as large as all pages before it together.
        Only on servers of somebody else, whose limits may be unknown, pages stay small.
        """
        offset, size, most = 0, _PAGE, _PAGE if self._client.foreign else _MOST_IDS
        while page := self._ask("get", limit=self._read(size), offset=offset, include=[])["ids"]:
            yield from map(RecordId, page)
            offset += len(page)
            size = min(max(_PAGE, offset), most)

    def facts(self) -> Mapping[str, object]:
        """Return the metadata of the collection itself, not of its records."""
        with suppress(Gone):
            if self._name and (answer := self._client.get_collection(self._name)).id == self._uuid:
                return answer.metadata or {}
        for answer in self._client.collections():
            if answer.id == self._uuid:
                self._name = answer.name
                return answer.metadata or {}
        raise Gone(f"collection {self._uuid} does not exist in Chroma")

    def note(self, facts: Mapping[str, str]) -> None:
        """Add facts to the metadata of the collection itself.

        Chroma replaces all metadata at once. So the keys of other programs are read first, and stored again.
        """
        self._client.change_collection(self._uuid, "metadata", {**self.facts(), **facts})

    def query(self, vectors: Vectors, n: int, where: dict[str, object] | None = None) -> list[list[Hit]]:
        """Return for each vector the ``n`` nearest records. Raises ValueError if Chroma rejects the filter.

        Chroma returns a record that is deleted meanwhile without its text. Such records are left out.
        """
        batches = pages(vectors, self._read(_RECORDS))
        return [hits for batch in batches for hits in self._query(batch, self._read(n), where)]

    def nearest(
        self,
        vectors: Vectors | Sequence[Vector | list[float]],
        n: int,
        where: dict[str, object] | None = None,
    ) -> list[list[tuple[RecordId, float]]]:
        """Return ids and scores of the hits that ``query`` would return.

        That is faster, because no record is read.
        """
        answers = (
            self._query_columns(page, self._read(n), where) for page in pages(vectors, self._read(_RECORDS))
        )
        rows = (row for page in answers for row in zip(page["ids"], page["distances"], strict=True))
        return [
            [(RecordId(id_), 1.0 - distance) for id_, distance in zip(ids, distances, strict=True)]
            for ids, distances in rows
        ]

    def vectors(self, ids: Sequence[RecordId]) -> dict[RecordId, Vector]:
        """Return the vectors of the records with these ids that exist, by id."""
        return {RecordId(id_): _vector(vector) for id_, vector in self._rows(ids, "embeddings")}

    def filter_ids(self, ids: Sequence[RecordId], where: Mapping[str, Any]) -> set[RecordId]:
        """Return those of the given ids whose records match a filter.

        Raises ValueError if Chroma rejects the filter.
        """
        answer = (self._ask("get", where, ids=page, include=[]) for page in pages(ids, self._read(_RECORDS)))
        return {RecordId(id_) for page in answer for id_ in page["ids"]}

    def select(self, where: Mapping[str, Any] | None, most: int = 2000) -> list[Record]:
        """Return up to ``most`` records that match a filter, in no particular order and without vectors.

        ``where``: the filter; None matches all records. Raises ValueError if Chroma rejects the filter.
        """
        return [_record(*row) for row in self._rows_from(0, most, "documents", "metadatas", where=where)]

    def sample(self, offset: int, size: int) -> list[Record]:
        """Return ``size`` records without metadata, beginning at a position in Chroma's own order.

        Their vectors are lists of numbers: importing NumPy takes longer than a short command runs.
        """
        rows = self._rows_from(offset, size, "documents", "embeddings")
        return [Record(RecordId(id_), text or "", {}, vector) for id_, text, vector in rows]

    def _rows_from(
        self, offset: int, size: int, *columns: str, where: Mapping[str, Any] | None = None
    ) -> Iterator[tuple[Any, ...]]:
        """Yield the id and the given columns of at most ``size`` records that match a filter, read in pages.

        ``offset``: the position in Chroma's order at which to begin.
        """
        page = self._read(_RECORDS)
        for at in range(0, size, page):
            limit = min(page, size - at)
            answer = self._ask("get", where, limit=limit, offset=offset + at, include=columns)
            yield from _columns(answer, columns)
            if len(answer["ids"]) < limit:
                return

    def _query_columns(
        self, vectors: list[Any], n: int, where: dict[str, object] | None, *include: str
    ) -> Any:
        lists = [vector if isinstance(vector, list) else vector.tolist() for vector in vectors]
        wanted = ["distances", *include]
        return self._ask("query", where or None, query_embeddings=lists, n_results=n, include=wanted)

    def _ask(self, verb: Verb, where: Mapping[str, Any] | None = None, **wanted: Any) -> Any:
        """Send a request that reads records, and return Chroma's answer.

        Raises NeedsHuman if the request exceeds a quota, and ValueError if Chroma rejects the filter.
        """
        filtered = {} if where is None else {"where": dict(where)}
        try:
            return self._client.post(self._uuid, verb, **filtered, **wanted)
        except Refused as error:
            if _QUOTA.search(str(error)):
                raise _quota_of(error) from error
            if error.kind != INVALID:
                raise
            raise ValueError(f"Chroma refuses the query (filter {json.dumps(where)}): {error}") from error

    def _query(self, vectors: list[Any], n: int, where: dict[str, object] | None) -> Iterator[list[Hit]]:
        answer = self._query_columns(vectors, n, where, "metadatas", "documents")
        columns = (answer[key] for key in ("ids", "distances", "documents", "metadatas"))
        for rows in zip(*columns, strict=True):
            hits = zip(*rows, strict=True)
            yield [
                Hit(RecordId(id_), 1.0 - distance, text, meta or {})
                for id_, distance, text, meta in hits
                if text is not None
            ]


def _columns(answer: Any, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Return the id and the given columns of each record of an answer.

    Raises Torn if a vector has NaN, which Chroma's JSON writes as null: a damaged file was read.
    """
    vectors = zip(answer["ids"], answer.get("embeddings") or (), strict=False)
    if damaged := next((id_ for id_, vector in vectors if None in vector), None):
        raise Torn(f"Chroma: the vector of record {damaged} has NaN, so its files are damaged")
    return zip(answer["ids"], *map(answer.get, columns), strict=True)


def _record(id_: str, text: str | None, metadata: Metadata | None, vector: Any = ()) -> Record:
    """Build a record. Without a vector it gets an empty tuple, so that NumPy need not be imported."""
    return Record(RecordId(id_), text or "", metadata or {}, _vector(vector) if vector else vector)


def _pack(vector: Vector) -> str:
    """Return a vector in the form that is short and exact in Chroma's JSON."""
    return b64encode(vector.astype("<f4").tobytes()).decode()


def _vector(numbers: Sequence[float]) -> Vector:
    """Build an array from a list of numbers.

    The module ``struct`` needs a third of the time that NumPy needs.
    """
    import numpy as np

    return np.frombuffer(pack(f"={len(numbers)}f", *numbers), np.float32)


def _batches(rows: Sequence[Row], size: Callable[[Row], int], most: Callable[[], int]) -> Iterator[list[Row]]:
    """Divide rows into batches, in their order. A batch is within two limits: number of rows, and bytes.

    A single row that exceeds the limit of bytes is a batch of its own. ``size``: returns the bytes of a row.
    ``most``: returns the limit of rows. It is called again after each batch was sent, since the pace may have
    changed.
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
    """Return how many bytes a record takes in a request.

    Raises BadDocument if Chroma accepts no record of that size.
    """
    size = len(orjson.dumps([record.id, record.text, dict(record.metadata)])) + 6 * record.vector.size
    if size > _MOST_BYTES:
        raise BadDocument(
            f"record {record.id} has {size / 1e6:.0f} MB, but Chroma accepts at most "
            f"{_MOST_BYTES / 1e6:.0f} MB: use smaller chunks, or split the document"
        )
    return size


PAGE = 300  # records that are searched for at once
NEAREST, NEAR, DEEP = 1, 10, 200  # neighbours asked for; more for the few records not found among them
ITSELF = 0.99  # least similarity of a vector with itself, as Chroma computes it
TWIN = 1 - 1e-5  # least similarity of a vector with that of a record with the same text
FEW = PAGE // 10  # records of a page that a deep search looks for; if more are missed, the graph is torn
SAMPLE, CLOSER = 50, 500  # records that a probe looks for: at first, and if one of them is not found
PLACES = 5  # positions in the collection from which these records come
OUT_OF_REACH = 1 / 400  # part of these records that search may miss before the collection is unhealthy


def probe(index: ChromaIndex, turn: int = 0, *, restore: bool = False) -> str | None:
    """Return why a collection is not healthy; None if Chroma can count it and search finds its records.

    A small sample of records is examined, another one for each ``turn``. If a record is not found, a larger
    sample follows. ``restore``: examine all records of a small collection, and write few missed ones again.
    Many are not written again, since then the graph is damaged. Raises Torn, Gone, or Transient if Chroma
    does not answer. If our server dies during the call, the collection cannot be loaded.
    """
    small = restore and index.count() <= CLOSER
    if not small and not unreachable(index, _sample(index, SAMPLE, turn)):
        return None
    records = _sample(index, CLOSER, turn)
    lost = unreachable(index, records)
    if restore and 0 < len(lost) <= FEW:
        index.upsert(index.read(lost, vectors=True))
        lost = unreachable(index, records)
    if len(lost) <= OUT_OF_REACH * len(records):
        return None
    share = f"{len(lost)} of {quantity(len(records), 'record')}"
    return f"search does not find {share} by their own vectors, such as {lost[0]}"


def _sample(index: ChromaIndex, size: int, turn: int) -> list[Record]:
    """Return all records if there are at most ``size``. Otherwise return ``size`` records from several
    positions.

    ``turn``: another number gives other records.
    """
    number = index.count()
    if number <= size:
        return index.sample(0, size)
    part, stride = size // PLACES, number // PLACES
    starts = (place * stride + turn * part % stride for place in range(PLACES))
    return [record for start in starts for record in index.sample(start, part)]


def unreachable(index: Index, records: Sequence[Record]) -> list[RecordId]:
    """Return the ids of the records that a search for their own vector does not find."""
    reached = {id_ for page in pages(records, PAGE) for id_ in reachable(index, page)}
    return [record.id for record in records if record.id not in reached]


def reachable(index: Index, records: Sequence[Record]) -> set[RecordId]:
    """Return the ids of those records of one page that a search for their own vector finds.

    Chroma's search is approximate. In 17,000 intact records it missed two among their nearest hundred, and
    found them among the nearest two hundred. So a record counts as lost only if a search for many more hits
    misses it, too.
    """
    reached = set[RecordId]()
    for depth in (NEAREST, NEAR, DEEP):
        left = [record for record in records if record.id not in reached]
        if left and (depth < DEEP or len(left) <= FEW):
            reached |= _reach(index, left, depth)
    return reached


def _reach(index: Index, records: Sequence[Record], depth: int) -> set[RecordId]:
    """Return the ids of the records that are among the ``depth`` nearest to their own vectors.

    If a hit has the same text as the record, the record counts as found. Chroma's graph leaves some of
    several equal vectors out of reach, and no reader could tell such records apart. Only the texts of hits
    with an equal vector are read: Chroma needs six times as long to return the texts of all hits.
    """
    vectors: list[Any] = [record.vector for record in records]
    answers = index.nearest(vectors, depth)
    near = {record.id: hits for record, hits in zip(records, answers, strict=True)}
    reached = {id_ for id_, hits in near.items() if any(hit == id_ and score > ITSELF for hit, score in hits)}
    left = {record.id: record.text for record in records if record.id not in reached}
    twins = {id_: [hit for hit, score in near[id_] if score > TWIN] for id_ in left}
    texts = {twin.id: twin.text for twin in index.read([*{hit for hits in twins.values() for hit in hits}])}
    return reached | {id_ for id_, text in left.items() if any(texts.get(hit) == text for hit in twins[id_])}
