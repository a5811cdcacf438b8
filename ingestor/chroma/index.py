"""A collection of Chroma as an ``Index``.

Vectors are always passed, so Chroma never embeds by itself. Chroma merges metadata, so a removed key must be
passed as None. The row of a new record may hold lists of a record whose collection was deleted (Chroma 1.5).
So lists that a record lacks are passed as None, too.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from struct import pack
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar
from uuid import UUID

import orjson

from ingestor.chroma.client import INVALID, Client, DescribedCollection, Refused
from ingestor.core.listings import pages
from ingestor.core.metadata_keys import LISTS
from ingestor.model import Hit, Metadata, Record, RecordId
from ingestor.ports import BadDocument, Gone, NeedsHuman
from ingestor.units import quantity

SECONDS = 0.5  # of a request that writes; decision 0058 has the figures
_FIRST = 100  # records, before anything is known
_TOO_LARGE = 413  # HTTP's status
_QUOTA = re.compile(r"'(?P<what>[^']+)' exceeded quota limit")

Row = TypeVar("Row")
Patches = list[tuple[RecordId, Metadata]]


class WritePace:
    """The number of records that a request writes: as many as Chroma adds in half a second.

    Chroma answers no reader of a collection while it adds the records of a request to its graph.
    ``least``: records of a request, however long they take.
    """

    def __init__(self, least: int) -> None:
        self._least, self._each = least, SECONDS / _FIRST

    @property
    def records(self) -> int:
        return max(self._least, int(SECONDS / self._each))

    def wrote(self, records: int, seconds: float) -> None:
        """Adapt the pace to a request that took ``seconds``: at once if slower, by halves if faster."""
        if records >= self._least:
            now = max(seconds / records, 1e-9)
            self._each = max(now, (self._each + now) / 2)


def rounds(rows: Sequence[tuple[RecordId, Metadata]], most: int | None) -> Iterator[Patches]:
    """Yield the changes of each record in parts of at most ``most`` keys, the values first, then removals.

    The first round has every record.
    """
    parts = [(name, _parts(metadata, most)) for name, metadata in rows]
    for turn in range(max((len(each) for _, each in parts), default=1)):
        yield [(name, each[turn]) for name, each in parts if turn < len(each)]


def _parts(metadata: Metadata, most: int | None) -> list[Metadata]:
    if most is None or len(metadata) <= most:
        return [metadata]
    rest = iter(sorted(metadata.items(), key=lambda item: item[1] is None))
    parts: list[Metadata] = []
    while part := dict(islice(rest, most)):
        parts.append(part)
    return parts


def send_in_halves(rows: Sequence[Row], send: Callable[[Sequence[Row]], None]) -> None:
    """Send the rows in one request; in halves while the server says that it is too much.

    Raises BadDocument for a text that is too long, and what ``send`` raises. Raises NeedsHuman if the
    collection is full or the config does not know the server's quotas.
    """
    try:
        send(rows)
    except Refused as error:
        quota = _QUOTA.search(str(error))
        if quota and "ollection" in quota["what"]:
            raise NeedsHuman(
                f"Chroma takes no more records into this collection: {error}; have the quota raised, or feed "
                "another collection"
            ) from error
        if not quota and error.status != _TOO_LARGE:
            raise
        if len(rows) == 1 and quota and "ocument" not in quota["what"]:
            raise _untold(error) from error
        if len(rows) == 1:
            raise BadDocument(
                f"Chroma rejects a record of the document: {error}; use smaller chunks"
            ) from error
        half = len(rows) // 2
        send_in_halves(rows[:half], send)
        send_in_halves(rows[half:], send)


@contextmanager
def within_quotas() -> Iterator[None]:
    """Raise NeedsHuman if a request to read is more than the server allows."""
    try:
        yield
    except Refused as error:
        if _QUOTA.search(str(error)):
            raise _untold(error) from error
        raise


def _untold(error: Refused) -> NeedsHuman:
    return NeedsHuman(f"Chroma: {error}; set chroma.quotas to what this server allows")


if TYPE_CHECKING:
    from ingestor.model import Vector, Vectors

_RECORDS = 500  # a request; Chroma takes 5,461
_LEAST, _LEAST_ELSEWHERE = 25, 100  # of a request that writes; each costs a way to others' servers
_PATCHES = 1000
_BYTES = 20_000_000  # a request; Chroma takes 40 MiB
_MOST_BYTES = 40_000_000  # a record by itself
_PAGE, _MOST_IDS = 2000, 100_000  # ids of an answer: of the first one, and of any
_TRIES = 3  # of a question whose answer holds records without text


class PlacedRecord(NamedTuple):
    """A record and where it is. ``vector``: the numbers as Chroma returned them."""

    id: RecordId
    text: str
    vector: list[float]


class ChromaIndex:
    """A collection in Chroma, by its UUID. Methods raise Gone if another collection took the name.

    ``name``: last known name of the collection. Chroma describes collections by their names only.
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
            raise ValueError(f"record {unsound[0]!r}: the vector holds NaN or infinity")
        most = self._client.quotas.metadata_keys  # servers that have this quota keep no lists
        without: Metadata = dict.fromkeys(LISTS) if most is None else {}
        first, *others = rounds([(r.id, {**without, **r.metadata}) for r in records], most)
        within, at_once = dict(first), self._most_written(_RECORDS)
        for batch in _batches(records, _record_size, lambda: min(self._pace.records, at_once)):
            self._client.require_room()
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
        """Return the number of records of a request that writes."""
        return min(usual, self._client.most_written or usual)

    def _read(self, usual: int) -> int:
        """Return the number of records of an answer."""
        return min(usual, self._client.quotas.read_records or usual)

    def count(self) -> int:
        return self._client.count(self._uuid)

    def read(self, ids: Sequence[RecordId], *, vectors: bool = False) -> list[Record]:
        columns = ("documents", "metadatas", *(["embeddings"] if vectors else []))
        return [_record(*row) for row in self._rows(ids, *columns)]

    def _rows(self, ids: Sequence[RecordId], *columns: str) -> Iterator[tuple[Any, ...]]:
        """Yield id and columns of the records that exist."""
        for page in pages(dict.fromkeys(ids), self._read(_RECORDS)):
            yield from _columns(self._get(ids=page, include=columns), columns)

    def ids(self) -> Iterator[RecordId]:
        """Yield all ids, page by page; complete if nothing is deleted meanwhile.

        Chroma walks over all records for each page. So each page is as large as all before it together,
        except on servers of others, whose limits may be unknown.
        """
        offset, size, most = 0, _PAGE, _PAGE if self._client.foreign else _MOST_IDS
        while page := self._get(limit=self._read(size), offset=offset, include=[])["ids"]:
            yield from map(RecordId, page)
            offset += len(page)
            size = min(max(_PAGE, offset), most)

    def facts(self) -> Mapping[str, object]:
        return self._describe().metadata or {}

    def note(self, facts: Mapping[str, str]) -> None:
        """Store facts in the metadata. Other programs' keys are read first: Chroma replaces all metadata."""
        self._client.change_collection(self._uuid, "metadata", {**self.facts(), **facts})

    def _describe(self) -> DescribedCollection:
        with suppress(Gone):
            if self._name and (answer := self._client.get_collection(self._name)).id == self._uuid:
                return answer
        for answer in self._client.collections():
            if answer.id == self._uuid:
                self._name = answer.name
                return answer
        raise Gone(f"collection {self._uuid} does not exist in Chroma")

    def query(self, vectors: Vectors, n: int, where: dict[str, object] | None = None) -> list[list[Hit]]:
        """Return the ``n`` nearest records of each vector. Raises ValueError if Chroma rejects the filter.

        A record that is deleted while Chroma answers comes without its text: Chroma is asked again.
        """
        most, batches = self._read(n), pages(vectors, self._read(_RECORDS))
        answer = [hits for batch in batches for hits in self._query(batch, most, where)]
        for at, hits in enumerate(answer):
            tries = 0
            while tries < _TRIES and any(hit.text is None for hit in hits):
                (hits,), tries = self._query([vectors[at]], most, where), tries + 1
            answer[at] = [hit for hit in hits if hit.text is not None]
        return answer

    def nearest(
        self,
        vectors: Vectors | Sequence[Vector | list[float]],
        n: int,
        where: dict[str, object] | None = None,
    ) -> list[list[tuple[RecordId, float]]]:
        """Return ids and scores as ``query`` does. It is cheaper: no record is read."""
        answers = (
            self._query_columns(page, self._read(n), where) for page in pages(vectors, self._read(_RECORDS))
        )
        rows = (row for page in answers for row in zip(page["ids"], page["distances"], strict=True))
        return [
            [(RecordId(id_), 1.0 - distance) for id_, distance in zip(ids, distances, strict=True)]
            for ids, distances in rows
        ]

    def vectors(self, ids: Sequence[RecordId]) -> dict[RecordId, Vector]:
        """Return the vectors of the records that exist."""
        return {RecordId(id_): _vector(vector) for id_, vector in self._rows(ids, "embeddings")}

    def filter_ids(self, ids: Sequence[RecordId], where: Mapping[str, Any]) -> set[RecordId]:
        """Return the ids that pass a filter. Raises ValueError if Chroma rejects the filter."""
        with _understood(dict(where)):
            answer = [
                self._get(ids=page, where=dict(where), include=[])
                for page in pages(ids, self._read(_RECORDS))
            ]
        return {RecordId(id_) for page in answer for id_ in page["ids"]}

    def select(self, where: Mapping[str, Any], most: int = 2000) -> list[Record]:
        """Return the first ``most`` records that a filter lets pass, in no order, without vectors."""
        answer: list[Record] = []
        columns, page_size = ("documents", "metadatas"), self._read(_RECORDS)
        for offset in range(0, most, page_size):
            limit = min(page_size, most - offset)
            page = self._get(where=dict(where), limit=limit, offset=offset, include=columns)
            answer += (_record(*row) for row in _columns(page, columns))
            if len(page["ids"]) < limit:
                break
        return answer

    def sample(self, offset: int, size: int) -> list[Record]:
        """Return records with their vectors, from a position in Chroma's own order on."""
        return [
            _record(*row) for row in self._rows_from(offset, size, "documents", "metadatas", "embeddings")
        ]

    def sample_plainly(self, offset: int, size: int) -> list[PlacedRecord]:
        """Return records like ``sample``, without metadata and without NumPy, which is slow to import."""
        rows = self._rows_from(offset, size, "documents", "embeddings")
        return [PlacedRecord(RecordId(id_), text or "", vector) for id_, text, vector in rows]

    def texts(self, ids: Sequence[RecordId]) -> list[PlacedRecord]:
        """Return the texts of records like ``read``, without metadata, vectors and NumPy."""
        return [PlacedRecord(RecordId(id_), text or "", []) for id_, text in self._rows(ids, "documents")]

    def _rows_from(self, offset: int, size: int, *columns: str) -> Iterator[tuple[Any, ...]]:
        page = self._read(max(size, 1))
        for at in range(0, size, page):
            limit = min(page, size - at)
            yield from _columns(self._get(limit=limit, offset=offset + at, include=columns), columns)

    def _query_columns(
        self, vectors: list[Any], n: int, where: dict[str, object] | None, *include: str
    ) -> Any:
        with within_quotas(), _understood(where):
            lists = [vector if isinstance(vector, list) else vector.tolist() for vector in vectors]
            wanted = {"n_results": n, "where": where or None, "include": ["distances", *include]}
            return self._client.post(self._uuid, "query", query_embeddings=lists, **wanted)

    def _get(self, **wanted: Any) -> Any:
        with within_quotas():
            return self._client.post(self._uuid, "get", **wanted)

    def _query(self, vectors: list[Any], n: int, where: dict[str, object] | None) -> Iterator[list[Hit]]:
        answer = self._query_columns(vectors, n, where, "metadatas", "documents")
        columns = (answer[key] for key in ("ids", "distances", "documents", "metadatas"))
        for rows in zip(*columns, strict=True):
            hits = zip(*rows, strict=True)
            yield [Hit(RecordId(id_), 1.0 - distance, text, meta or {}) for id_, distance, text, meta in hits]


@contextmanager
def _understood(where: dict[str, object] | None) -> Iterator[None]:
    try:
        yield
    except Refused as error:
        if error.kind != INVALID:
            raise
        raise ValueError(f"Chroma refuses the query (filter {json.dumps(where)}): {error}") from error


def _columns(answer: Any, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    return zip(answer["ids"], *map(answer.get, columns), strict=True)


def _record(
    name: str, text: str | None, metadata: dict[str, Any] | None, vector: Sequence[float] = ()
) -> Record:
    return Record(RecordId(name), text if text is not None else "", metadata or {}, _vector(vector))


def _pack(vector: Vector) -> str:
    """Return a vector in a form that is short, and exact."""
    return b64encode(vector.astype("<f4").tobytes()).decode()


def _vector(numbers: Sequence[float]) -> Vector:
    """Build a vector by struct, which takes a third of the time of NumPy for a list."""
    import numpy as np

    return np.frombuffer(pack(f"={len(numbers)}f", *numbers), np.float32)


def _batches(rows: Sequence[Row], size: Callable[[Row], int], most: Callable[[], int]) -> Iterator[list[Row]]:
    """Yield batches in order, each within both bounds unless a single row exceeds them.

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
    """Return a record's size on the wire, in bytes. Raises BadDocument if Chroma does not accept as many."""
    size = len(orjson.dumps([record.id, record.text, dict(record.metadata)])) + 6 * record.vector.size
    if size > _MOST_BYTES:
        raise BadDocument(
            f"record {record.id} takes {size / 1e6:.0f} MB, and Chroma no more than {_MOST_BYTES / 1e6:.0f}: "
            "cut the document into smaller chunks"
        )
    return size


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
