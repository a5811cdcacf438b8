"""Rows of the journal about documents, sources and collections, as frozen values. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
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
    """The journal's row of a document in one edition.

    ``item``: the listed item; None if the source no longer has the document. ``done_version``,
    ``done_recipe``: the version and recipe applied last. They are None before the first time, and while a
    write is under way. ``facts``: digest of content and item as they were applied last. ``digest``: digest of
    that content. ``parser``: the parser that read the document last. ``attempts``: number of failures in a
    row. ``records``: its records. ``statistic``, ``sums``, ``interval``: see Chunking and Collective.
    """

    row: int
    document_id: DocumentId
    source: SourceName
    edition: EditionName
    key: str
    item: Item | None
    done_version: str | None
    done_recipe: str | None
    facts: str | None
    digest: str | None
    parser: str | None
    attempts: int
    wanted_recipe: str | None = None
    quarantined: bool = False
    records: tuple[Known, ...] = ()
    statistic: str | None = None
    sums: Sums | None = None
    interval: tuple[int, int] | None = None
    shortfall: Shortfall | None = None

    @property
    def feed(self) -> Feed:
        return Feed(self.source, self.edition)

    @property
    def size(self) -> int:
        """Return the listed bytes of the document; 0 if unknown."""
        return 0 if self.item is None else self.item.size or 0

    @property
    def state(self) -> State:
        wanted = None if self.item is None else self.item.version, self.wanted_recipe
        done = self.done_version, self.done_recipe
        return state_of(wanted, done, self.attempts, self.parser, quarantined=self.quarantined)


@dataclass(frozen=True, slots=True, eq=False)
class Intent:
    """The slots of one document whose records are about to be written or deleted. ``row``: its row in the
    journal.

    ``renamed``: the row of a new document that this one became by a rename, and that is merged into ``row``.
    """

    row: int
    slots: tuple[int, ...]
    renamed: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Receipt:
    """The applied state of one document, stored after its records were written. The fields are as in Entry.

    ``failure``: if set, the document is quarantined and has no records.
    """

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
    """The journal's row of a source.

    ``last_scan``: POSIX seconds of the last complete listing. ``identity``: identity of the file system at
    its root. ``held``: why the source is held. ``accepted``: whether a person accepted the loss of documents
    for which it is held. ``trouble``: why its last listing is incomplete. ``paused``: POSIX seconds since
    when it is paused. ``documents``: the largest number of its documents lately (see
    SourceRows.note_listing). ``loss``: whether it is held for a loss of documents. ``held_root``: identity of
    the root that lacked the documents. ``kept``: why the records of its unreadable documents are kept.
    """

    last_scan: float | None = None
    identity: str | None = None
    held: str | None = None
    accepted: bool = False
    trouble: str | None = None
    paused: float | None = None
    documents: int | None = None
    loss: bool = False
    held_root: str | None = None
    kept: str | None = None

    @property
    def hold(self) -> str | None:
        """Return why a person must decide before documents of the source are removed; None if nobody must."""
        return self.held or self.kept

    @property
    def ready(self) -> bool:
        """Return whether documents of the source may be changed: it is neither held nor paused."""
        return self.held is None and self.paused is None

    def may_lose(self, root: str) -> bool:
        """Return whether a person accepted the loss of documents that listings of this root show."""
        return self.accepted and self.held_root in (None, root)


@dataclass(frozen=True, slots=True)
class Renewal:
    """The generations that an edition may have from now on, to be stored in the journal."""

    edition: EditionName
    generations: tuple[str, ...]


Role = Literal["staging", "live", "previous", "deleted"]
Choices = Mapping[str, Any]  # the settings that decide an edition's recipes: see rechunk/policy.py


@dataclass(frozen=True, slots=True)
class Edition:
    """A version of a collection that readers see, saw or will see under the name ``serves``.

    Its role is ``live`` while readers see it, and ``staging`` while it is built to replace the live edition.
    It is ``previous`` if it was live before, and is kept for a while. It is ``deleted`` if it is about to be
    deleted.
    """

    name: EditionName  # in the journal
    serves: CollectionName  # the name that readers use
    role: Role = "live"
    choices: Choices | None = None  # None if unknown
    since: float = 0.0  # POSIX seconds when the edition got this role
    embedder: str | None = None  # recipe of its vectors
    uuids: tuple[str, ...] = ()  # of its shards in Chroma; empty before they are created
    extra_keys: frozenset[str] = frozenset()  # non-standard metadata keys that were ever written
    generations: tuple[str, ...] = ()  # that the collection may have now: see core/generations.py

    @property
    def shards(self) -> int:
        """Return the number of shards: the collections in Chroma over which the edition's records are
        divided."""
        return int((self.choices or {}).get("shards", 1))

    @property
    def in_chroma(self) -> tuple[tuple[str, ChromaName], ...]:
        """Return for each shard its UUID ("" before it is created) and its name in Chroma."""
        names = [ChromaName(name) for name in shard_names(self.chroma_name, self.shards)]
        uuids = self.uuids if len(self.uuids) == len(names) else [""] * len(names)
        return tuple(zip(uuids, names, strict=True))

    @property
    def chroma_name(self) -> ChromaName:
        """Return the name in Chroma that the edition's role demands.

        For the names of shards see ``shard_names``.
        """
        if self.role == "live":
            return ChromaName(self.serves)
        return ChromaName(f"{self.name}--1" if str(self.name) == self.serves else self.name)


MOST = 64  # shards of a collection
_SHARD = re.compile(r"-\d+-of-\d+$")  # end of a shard's name
# The ends of names of an edition, of a shard, and of a collection that lost its name to another.
_ENDINGS = r"(--\d+)?(-\d+-of-\d+)?(--aside-\w+)?"
_BETWEEN = "+"  # separates the UUIDs of shards in columns of the journal and of the lexical index


# An edition can be divided into shards, each a collection in Chroma. The hash of a document's id decides
# which shard has the document's records. The id stays when a document is renamed, so its records stay in
# their shard. Names contain the number of shards, so that no reader mistakes one shard for the whole.


def shard_of(id_: str, shards: int) -> int:
    """Return the number, from 0, of the shard that has the records of a document.

    ``id_``: id of the document, or of one of its records. ``shards``: number of shards.
    """
    document = id_.partition("#")[0]
    return int.from_bytes(blake2b(document.encode(), digest_size=8).digest()) % shards


def shard_names(name: str, shards: int) -> tuple[str, ...]:
    """Return the names in Chroma of a collection's shards. A single shard has the collection's own name."""
    return tuple(f"{name}-{number}-of-{shards}" for number in range(shards)) if shards > 1 else (name,)


def name_for_readers(name: str) -> str:
    """Return the name under which readers find a collection in Chroma, which may be a shard."""
    return _SHARD.sub("", name)


def collection_of(name: str, among: Iterable[CollectionName]) -> CollectionName | None:
    """Return the collection to which a name in Chroma belongs, of an edition or shard; None for other names.

    ``among``: the known collections.
    """
    matching = (each for each in among if re.fullmatch(re.escape(each) + _ENDINGS, name))
    return max(matching, key=len, default=None)


def join(uuids: Sequence[str]) -> str:
    """Join the UUIDs of all shards into one text; a single UUID is unchanged."""
    return _BETWEEN.join(uuids)


def separate(joined: str | None) -> tuple[str, ...]:
    """Return the UUIDs that ``join`` joined; empty for an empty text."""
    return tuple(joined.split(_BETWEEN)) if joined else ()
