"""Rows of the journal about documents, sources and collections, as frozen values. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NewType

from ingestor.core.completeness import Shortfall
from ingestor.core.decisions import Failure
from ingestor.core.document_state import State, state_of
from ingestor.model import CollectionName, DocumentId, Item, Known, SourceName

if TYPE_CHECKING:
    from ingestor.model import Sums

ChromaName = NewType("ChromaName", str)  # of a collection in Chroma, ours or not
EditionName = NewType("EditionName", str)  # of an edition in the journal; its name in Chroma changes


class Feed(NamedTuple):
    """The documents of one source in one edition of a collection."""

    source: SourceName
    edition: EditionName


@dataclass(frozen=True, slots=True)
class Entry:
    """The row of a document. ``item`` is None when the source no longer has the document."""

    row: int
    document_id: DocumentId
    source: SourceName
    collection: EditionName
    key: str
    item: Item | None
    done_version: str | None
    done_recipe: str | None
    facts: str | None  # digest of content and item metadata at the receipt
    digest: str | None
    parser: str | None
    attempts: int
    wanted_recipe: str | None = None
    quarantined: bool = False
    known: tuple[Known, ...] = ()
    statistic: str | None = None
    sums: Sums | None = None
    interval: tuple[int, int] | None = None
    shortfall: Shortfall | None = None

    @property
    def feed(self) -> Feed:
        return Feed(self.source, self.collection)

    @property
    def state(self) -> State:
        wanted = None if self.item is None else self.item.version, self.wanted_recipe
        done = self.done_version, self.done_recipe
        return state_of(wanted, done, self.attempts, self.parser, quarantined=self.quarantined)


@dataclass(frozen=True, slots=True, eq=False)
class Intent:
    """Slots of one document that are about to be written. ``predecessor``: row whose records are reused."""

    row: int
    slots: tuple[int, ...]
    predecessor: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Receipt:
    """The applied state of one document. ``failure``: if set, the document is quarantined without records."""

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

    ``held``: why its documents are kept as they are. ``trouble``: why its last listing is incomplete.
    ``accepted``: a person confirmed the loss for which it is held. ``paused``: POSIX seconds, since when.
    ``documents``: largest number of documents (see SourceRows.note_listing). ``held_root``: identity of the
    root that lacked documents.
    """

    last_scan: float | None = None
    identity: str | None = None
    held: str | None = None
    accepted: bool = False
    trouble: str | None = None
    paused: float | None = None
    documents: int | None = None
    loss: bool = False  # whether it is held for a loss of documents
    held_root: str | None = None

    @property
    def ready(self) -> bool:
        """Return whether the source's documents may be changed."""
        return self.held is None and self.paused is None

    def may_lose(self, root: str) -> bool:
        """Return whether a person accepted the loss in a listing of this root; another root needs its own."""
        return self.accepted and self.held_root in (None, root)


@dataclass(frozen=True, slots=True)
class Renewal:
    """The generations that a collection may have from now on."""

    collection: EditionName
    generations: tuple[str, ...]


Role = Literal["staging", "live", "previous", "deleted"]
Choices = Mapping[str, Any]  # strategy, embedder and such of an edition: see rechunk/recipes.py


@dataclass(frozen=True, slots=True)
class Edition:
    """A collection in Chroma among those that serve one name in turn.

    Roles: ``live`` has the name now; ``staging`` is built to replace the live edition; ``previous`` was live
    before, and is kept for a while; ``deleted`` is to be deleted.
    """

    name: EditionName  # its name in the journal
    serves: CollectionName  # the name that readers use
    role: Role = "live"
    choices: Choices | None = None  # None if unknown
    since: float = 0.0  # POSIX seconds: when it took on this role
    embedder: str | None = None
    uuids: tuple[str, ...] = ()  # of its shards in Chroma; empty before it is made
    extra_keys: frozenset[str] = frozenset()  # every non-standard metadata key that was ever written to it
    generations: tuple[str, ...] = ()  # that it may have now, see core/backend.py

    @property
    def shards(self) -> int:
        """Return the number of collections in Chroma that hold the edition."""
        return int((self.choices or {}).get("shards", 1))

    @property
    def places(self) -> tuple[tuple[str, ChromaName], ...]:
        """Return UUID ("" before creation) and name in Chroma of each shard."""
        names = [ChromaName(name) for name in shard_names(self.chroma_name, self.shards)]
        uuids = self.uuids if len(self.uuids) == len(names) else [""] * len(names)
        return tuple(zip(uuids, names, strict=True))

    @property
    def chroma_name(self) -> ChromaName:
        """Return the name of this edition in Chroma."""
        if self.role == "live":
            return ChromaName(self.serves)
        return ChromaName(f"{self.name}--1" if str(self.name) == self.serves else self.name)


MOST = 64  # shards of a collection
_BETWEEN = "+"  # the UUIDs of the shards, in columns of the journal and the lexical index


# A collection can be made of several shards, each a collection in Chroma. A record is in the shard given by
# the hash of its document's id. The id stays when a document is renamed, so its records stay where they are.
# Names carry the number of shards, so that no reader takes a part for all.


def shard_of(id_: str, shards: int) -> int:
    """Return the shard, from 0, for the id of a document or of a record."""
    document = id_.partition("#")[0]
    return int.from_bytes(blake2b(document.encode(), digest_size=8).digest()) % shards


def shard_names(name: str, shards: int) -> tuple[str, ...]:
    """Return the names in Chroma of a collection's shards; its own name if it has one shard."""
    return tuple(f"{name}-{number}-of-{shards}" for number in range(shards)) if shards > 1 else (name,)


def join(uuids: Sequence[str]) -> str:
    """Join the UUIDs of all shards into one text; a single UUID is unchanged."""
    return _BETWEEN.join(uuids)


def separate(joined: str | None) -> tuple[str, ...]:
    """Return the UUIDs that ``join`` joined; empty for an empty text."""
    return tuple(joined.split(_BETWEEN)) if joined else ()
