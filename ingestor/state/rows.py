"""The journal's rows as frozen values, and how they are packed into columns. Pure."""

import json
import zlib
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ingestor.core.completeness import Shortfall
from ingestor.core.decisions import Failure
from ingestor.model import CollectionName, DocumentId, Item, Known, SourceName, Sums

Feed = tuple[SourceName, CollectionName]  # the documents of one source in one edition of a collection


@dataclass(frozen=True, slots=True)
class Entry:
    """One document's row. ``item`` is None when its source no longer has it."""

    row: int
    document_id: DocumentId
    source: SourceName
    collection: CollectionName
    key: str
    item: Item | None
    done_version: str | None
    done_recipe: str | None
    facts: str | None  # digest of content and item metadata at the receipt
    digest: str | None
    parser: str | None
    attempts: int
    known: tuple[Known, ...] = ()
    statistic: str | None = None
    sums: Sums | None = None
    interval: tuple[int, int] | None = None
    shortfall: Shortfall | None = None

    @property
    def feed(self) -> Feed:
        return self.source, self.collection


@dataclass(frozen=True, slots=True, eq=False)
class Intent:
    """Slots of one document that are about to be written; ``predecessor``: the row that it takes over."""

    row: int
    slots: tuple[int, ...]
    predecessor: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Receipt:
    """The applied state of one document. ``failure`` set: it is quarantined and has no records."""

    row: int
    version: str
    recipe: str
    facts: str
    digest: str
    parser: str
    records: tuple[Known, ...] = ()
    statistic: str | None = None
    sums: Sums | None = None
    interval: tuple[int, int] | None = None
    failure: Failure | None = None
    shortfall: Shortfall | None = None


@dataclass(frozen=True, slots=True)
class SourceRow:
    """The state of one source.

    ``held``: why nothing of it is changed. ``trouble``: why its last listing is incomplete. ``accepted``: a
    person confirmed the loss for which it is held. ``paused``: POSIX seconds, since when. ``documents``:
    their number after its last accepted whole listing.
    """

    last_scan: float | None = None
    identity: str | None = None
    held: str | None = None
    accepted: bool = False
    trouble: str | None = None
    paused: float | None = None
    documents: int | None = None
    loss: bool = False  # whether it is held for a loss of documents

    @property
    def ready(self) -> bool:
        """Whether its documents may be changed."""
        return self.held is None and self.paused is None


@dataclass(frozen=True, slots=True)
class CollectionRow:
    """One collection. ``extra_keys``: every non-standard metadata key that was ever written to it."""

    uuid: str | None = None
    embedder: str | None = None
    extra_keys: frozenset[str] = frozenset()


Role = Literal["live", "building", "retired", "dropped"]


@dataclass(frozen=True, slots=True)
class Edition:
    """One of the collections in Chroma that serve one name in turn.

    Roles: ``live`` has that name now; ``building`` will replace it; ``retired`` was live before, and is kept
    for a while; ``dropped`` will be deleted.
    """

    name: CollectionName  # its name in the journal
    serves: CollectionName  # the name that readers use
    role: Role = "live"
    choices: str | None = None  # JSON: what its documents are made by (see rechunk/recipes.py)
    since: float = 0.0  # POSIX seconds: when it took on this role
    uuid: str | None = None
    embedder: str | None = None

    @property
    def shown(self) -> CollectionName:
        """Its name in Chroma."""
        if self.role == "live":
            return self.serves
        return CollectionName(f"{self.name}--1") if self.name == self.serves else self.name


_NAMES = (
    *("row", "document_id", "source", "collection", "key", "done_version", "done_recipe", "facts"),
    *("digest", "parser", "attempts", "wanted_version", "uri", "size", "modified", "extra"),
    *("statistic", "sums", "lo", "hi", "shortfall", "shortfall_reason"),
)
COLUMNS = "id AS " + ", ".join(_NAMES)

# Conditions on ``documents``: in an edition that is kept in step; in a live one; not settled.
IN_FORCE = "collection NOT IN (SELECT name FROM collections WHERE role NOT IN ('live', 'building'))"
LIVE = "collection NOT IN (SELECT name FROM collections WHERE role != 'live')"
UNSETTLED = "(done_version IS NOT wanted_version OR done_recipe IS NOT wanted_recipe)"

# Assigned where a document becomes due: ``since`` is the time of the oldest change that is not applied yet.
NOW = "((julianday('now') - 2440587.5) * 86400.0)"  # POSIX seconds
DUE_SINCE = f"since = CASE WHEN {UNSETTLED} THEN coalesce(since, {NOW}) ELSE {NOW} END"

NO_PARSER = "-"  # in place of the parser of an unsupported document
UNSUPPORTED = f"(quarantined AND parser IS '{NO_PARSER}')"

# The state of a document in one word, for everything that is shown to people.
STATE = f"""CASE WHEN wanted_version IS NULL THEN 'gone'
                WHEN {UNSUPPORTED} THEN 'unsupported'
                WHEN quarantined THEN 'quarantined'
                WHEN NOT {UNSETTLED} THEN 'settled'
                WHEN attempts > 0 THEN 'waiting' ELSE 'due' END"""


def to_entry(row: tuple[Any, ...], known: tuple[Known, ...]) -> Entry:
    """``row``: the values of COLUMNS."""
    values = dict(zip(_NAMES, row, strict=True))
    version, uri, size, modified, extra = (values.pop(name) for name in _NAMES[11:16])
    sums, lo, hi, state, reason = (values.pop(name) for name in _NAMES[17:])
    pairs = tuple((name, value) for name, value in json.loads(extra))
    return Entry(
        **values,
        item=None if version is None else Item(values["key"], version, uri, size, modified, pairs),
        known=known,
        sums=None if sums is None else unpack(sums),
        interval=None if lo is None else (lo, hi),
        shortfall=None if state is None else Shortfall(state, reason),
    )


def item_columns(item: Item) -> tuple[object, ...]:
    """key, wanted_version, uri, size, modified, extra."""
    return item.key, item.version, item.uri, item.size, item.modified, json.dumps(item.extra)


def pack(sums: Sums) -> bytes:
    """Packed in the smallest integer type that fits; the first byte says which."""
    narrow = sums.astype(np.int32)
    plain = b"4" + narrow.tobytes() if np.array_equal(narrow, sums) else b"8" + sums.tobytes()
    small = b"z" + zlib.compress(plain, 1)
    return small if 2 * len(small) < len(plain) else plain


def unpack(packed: bytes) -> Sums:
    plain = zlib.decompress(packed[1:]) if packed[:1] == b"z" else packed
    return np.frombuffer(plain[1:], np.int32 if plain[:1] == b"4" else np.int64).astype(np.int64)
