"""The collections of a state in Chroma: their marks and settings; opened, checked, renamed and deleted.

A collection carries the mark of the state that wrote it. A collection with another mark, or with records and
no mark, is never changed: a wrong name in a config must not destroy anyone's data. Other programs may replace
a collection's metadata, our mark included. The journal still knows its UUID, which nobody can change.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import Any
from uuid import UUID

from ingestor.chroma.client import INVALID, Client, DescribedCollection, Refused
from ingestor.chroma.connection import ChromaConnection, connect_to_chroma
from ingestor.chroma.index import ChromaIndex, probe
from ingestor.chroma.shards import SearchedShards
from ingestor.chroma.supervision import DEATHS
from ingestor.config.servers import Chroma
from ingestor.core.backend import Model
from ingestor.core.entries import ChromaName, Edition
from ingestor.core.events import event
from ingestor.model import ReaderModel
from ingestor.ports import Foreign, Gone, NeedsHuman, Torn, Transient
from ingestor.units import quantity

log = logging.getLogger(__name__)

_EMPTIED = 2000  # records that one request deletes

# Chroma's embedding functions that our embedders name. Others are looked up in chromadb, a slow import.
OUR_FUNCTIONS = {"sentence_transformer", "huggingface_server"}
OWNER = "ingestor_owner"  # key of the mark in a collection's own metadata

# Chroma's graph of vectors: links of each vector; neighbours that are compared to add one, and to find one.
# With 16 links, Chroma's default, no search however deep found two of 17,000 records that resembled each
# other. With 32, and 100 neighbours, search missed 1 to 25 of 25 records beside 2,975 copies of eight texts.
GRAPH = {"max_neighbors": 64, "ef_construction": 800, "ef_search": 400}

_EARLIER_GRAPH = {"ef_search": 100}  # of collections that earlier versions created; their links cannot change
_WRITTEN = {"sync_threshold": 1000, "resize_factor": 1.2}  # when the graph is persisted, and how it grows
_NO_FUNCTION = {"type": "legacy"}  # Chroma's description of a collection without an embedding function


@dataclass(frozen=True, slots=True)
class Ownership:
    """The means to recognise our own collections.

    ``mark``: the mark of this state. ``uuids``: returns the UUIDs of the collections that the journal knows.
    """

    mark: str
    uuids: Callable[[], Collection[str]] = tuple

    def of(self, collection: DescribedCollection) -> str | None:
        """Return the mark of the state that wrote a collection; None if no ingestor did."""
        if (mark := mark_of(collection)) is None and str(collection.id) in self.uuids():
            return self.mark
        return mark


def mark_of(collection: DescribedCollection) -> str | None:
    """Return the mark that a collection carries, or None."""
    return (collection.metadata or {}).get(OWNER)


def new_configuration(model: ReaderModel | None) -> dict[str, Any]:
    """Return the settings of a new collection, in the form of Chroma's JSON.

    ``model``: the embedding function of Chroma that readers' ``query(query_texts=...)`` uses; None for none.
    Raises NeedsHuman if Chroma has no such function.
    """
    graph = {"hnsw": {"space": "cosine", **GRAPH, **_WRITTEN}}
    if model is None:
        return graph
    require_known(model)
    return {**graph, "embedding_function": _as_stored(model)}


def right_settings(collection: DescribedCollection, model: ReaderModel | None, known: bool) -> dict[str, Any]:
    """Return the settings that somebody else changed, with their right values, in the form of Chroma's JSON.

    ``model``: as in ``new_configuration``. ``known``: whether ``model`` is known; if not, the function that
    embeds readers' questions is not compared.
    """
    stored = collection.configuration_json or {}
    right: dict[str, Any] = {}
    if graph := stored.get("hnsw"):
        # Nobody can change ``ef_construction``, so that it tells which version created the collection.
        ours = graph.get("ef_construction") == GRAPH["ef_construction"]
        wanted = {**(GRAPH if ours else _EARLIER_GRAPH), **_WRITTEN}
        if wrong := {key: value for key, value in wanted.items() if graph.get(key) != value}:
            right["hnsw"] = {key: value for key, value in wrong.items() if key != "ef_construction"}
    function = stored.get("embedding_function")
    if model is not None and function != _as_stored(model):
        right["embedding_function"] = _as_stored(model)
    if model is None and known and function not in (None, _NO_FUNCTION):
        right["embedding_function"] = _NO_FUNCTION
    return right


def describe_differences(collection: DescribedCollection, right: Mapping[str, Any]) -> list[str]:
    """Describe each setting in ``right``: its value in the collection, and its right value."""
    stored = collection.configuration_json or {}
    words = [
        f"{key} is {stored['hnsw'].get(key)}, not {value}" for key, value in right.get("hnsw", {}).items()
    ]
    if "embedding_function" in right:
        now = _describe_function(stored.get("embedding_function"))
        words.append(f"readers embed by {now}, not {_describe_function(right['embedding_function'])}")
    return words


def model_of(collection: DescribedCollection) -> str | None:
    """Return the address or the name of the model that readers' queries load."""
    function = (collection.configuration_json or {}).get("embedding_function") or {}
    config = function.get("config") or {}
    return config.get("model_name") or config.get("url")


def _describe_function(function: Mapping[str, Any] | None) -> str:
    """Return the name of an embedding function, and its address or model."""
    config = (function or {}).get("config") or {}
    about = config.get("url") or config.get("model_name") or ""
    return " ".join(filter(None, ((function or {}).get("name") or "a function of their own", about)))


def require_known(model: ReaderModel) -> None:
    """Raise NeedsHuman if Chroma has no such embedding function."""
    if model.function in OUR_FUNCTIONS:
        return
    from chromadb.utils.embedding_functions import known_embedding_functions

    if model.function not in known_embedding_functions:
        raise NeedsHuman(
            f"the embedder names {model.function!r} for readers, which is not one of Chroma's embedding "
            f"functions ({', '.join(sorted(known_embedding_functions))}): correct its plugin (reader_model)"
        )


def _as_stored(model: ReaderModel) -> dict[str, Any]:
    return {"type": "known", "name": model.function, "config": dict(model.config)}


@contextmanager
def open_collections(
    chroma: Chroma, owner: Ownership, log_path: Path, *, serve: bool = False, attach: bool = False
) -> Iterator["Collections"]:
    """Open the collections of one state. See ``connection.connected``."""
    with connect_to_chroma(chroma, log_path, serve=serve, attach=attach) as connection:
        yield Collections(connection, owner)


class Collections:
    """The collections of one state, as ``core.backend.Backend``."""

    def __init__(self, connection: ChromaConnection, owner: Ownership) -> None:
        self.connection, self._client, self._owner = connection, connection.client, owner
        self._models = dict[str, Model]()  # by UUID of the collection
        self._refused = set[str]()  # UUIDs of collections whose records could not be deleted
        self._checks = 0

    def for_readers(self, uuids: Sequence[str]) -> SearchedShards:
        """Return an edition by the UUIDs of its shards, over the connection for readers. Any thread."""
        return SearchedShards([ChromaIndex(self.connection.readers, UUID(uuid)) for uuid in uuids])

    def open(self, name: ChromaName, model: Model) -> tuple[ChromaIndex, str]:
        """Return our collection of that name, and its UUID; create it if it does not exist.

        An empty collection without a mark is replaced by ours. Raises NeedsHuman, and changes nothing, if the
        collection is not ours or has vectors of another length. Raises Torn if it crashes Chroma, and
        Transient if Chroma is away.
        """
        if (server := self.connection.server) is not None:
            if server.supervision.suspects(name):
                server.test(name, lambda client: _use(self._find(client, name)))
            if name in server.supervision.fatal:
                raise Torn(
                    f"Chroma crashed {DEATHS} times while reading collection {name!r}, and again in a test"
                )
        dimensions = model.dimensions()
        collection = self._ours(self._client, name)
        if collection is not None and self._owner.of(collection) is None:
            self._client.delete_collection(name)
            collection = None
        if collection is None:
            collection = self._create(name, model.reader)
        elif dimensions and collection.dimension not in (None, dimensions):
            raise NeedsHuman(
                f"collection {name!r} holds vectors of {collection.dimension} dimensions, and the embedding "
                f"model makes {dimensions}: use another collection, or the model that wrote these vectors"
            )
        else:
            known = model.known or model.reader is not None
            self._restore(collection, model.reader, right_settings(collection, model.reader, known))
        index = ChromaIndex(self._client, collection.id, collection.name)
        if mark_of(collection) is None:
            log.warning(
                "collection %s: its metadata was replaced; ingestor's mark is restored",
                name,
                extra=event("collection_changed_elsewhere", collection=str(name)),
            )
            index.note({OWNER: self._owner.mark})
        self._models[index.uuid] = model
        return index, index.uuid

    def _create(self, name: ChromaName, model: ReaderModel | None) -> DescribedCollection:
        try:
            return self._client.create_collection(name, new_configuration(model), {OWNER: self._owner.mark})
        except Refused as error:
            if error.kind == INVALID:
                raise NeedsHuman(f"Chroma rejects the collection name {name!r}: {error}") from error
            raise Transient(f"collection {name!r} could not be created: {error}") from error

    def find(self, name: ChromaName) -> ChromaIndex | None:
        """Return our collection of that name, or None. Raises NeedsHuman if it is not ours."""
        return self._find(self._client, name)

    def _find(self, client: Client, name: ChromaName) -> ChromaIndex | None:
        collection = self._ours(client, name)
        if collection is None or self._owner.of(collection) != self._owner.mark:
            return None
        return ChromaIndex(client, collection.id, collection.name)

    def _ours(self, client: Client, name: ChromaName) -> DescribedCollection | None:
        """Return the collection of that name, or None.

        Raises Foreign unless it is ours, or empty and unmarked.
        """
        try:
            collection = client.get_collection(name)
        except Gone:
            return None
        mark = self._owner.of(collection)
        if mark not in (None, self._owner.mark):
            raise Foreign(
                f"collection {name!r} was written by another ingestor (state {mark}, ours is "
                f"{self._owner.mark}): if that one is in use, give your sources another `collection` in the "
                "config; if its state is lost, have the collection deleted and written again: "
                f"ingestor collections --adopt {name}"
            )
        if mark is None and (records := client.count(collection.id)):
            raise Foreign(
                f"collection {name!r} holds {quantity(records, 'record')} that ingestor did not write: "
                "give your sources another `collection` in the config"
            )
        return collection

    def edition(self, edition: Edition) -> SearchedShards | None:
        """Return the collection of an edition; None if it, or one of its shards, is gone.

        It is found by UUID, because its name may not match its role yet after a crash.
        """
        parts = [self.find(name) for name in self._names_now(edition)]
        present = [part for part in parts if part is not None]
        return SearchedShards(present) if len(present) == len(parts) else None

    def _names_now(self, edition: Edition) -> list[ChromaName]:
        """Return the names of an edition's shards in Chroma now. A shard that is gone has its last name."""
        here = self.names()
        return [ChromaName(here.get(uuid, name)) for uuid, name in edition.places]

    def list_changed_settings(self, edition: Edition, model: Model, *, restore: bool = False) -> list[str]:
        """Describe the settings of an edition's collections that somebody else changed.

        ``restore``: give them their right values, and describe only these settings. Records and vectors stay
        as they are.
        """
        return [
            f"{name}: {each}"
            for name in self._names_now(edition)
            for each in self._list_changes(name, model, restore=restore)
        ]

    def _list_changes(self, name: ChromaName, model: Model, *, restore: bool) -> list[str]:
        try:
            collection = self._client.get_collection(name)
        except Gone:
            return []
        right = right_settings(collection, model.reader, model.known)
        if restore and not self._restore(collection, model.reader, right):
            return []
        return describe_differences(collection, right)

    def _restore(
        self, collection: DescribedCollection, model: ReaderModel | None, right: Mapping[str, Any]
    ) -> bool:
        """Give settings their right values. If that is not possible, log why and return False."""
        try:
            if right and model is not None:
                require_known(model)
            if right:
                self._client.change_collection(collection.id, "configuration", right)
        except (Refused, NeedsHuman) as error:
            log.warning(
                "collection %s: its settings cannot be restored: %s",
                collection.name,
                error,
                extra=event("collection_changed_elsewhere", collection=collection.name, reason=str(error)),
            )
            return False
        return True

    def empty(self, name: ChromaName, most: int) -> bool:
        """Delete at most ``most`` records of our collection of that name. Return whether records are left.

        This comes before the deletion of a collection: Chroma 1.5 would keep the lists in the metadata of its
        records, and give them to new records of any collection. A collection that refuses is not tried again,
        because a torn one may end the server.
        """
        with suppress(Foreign, Torn, Gone, Transient, NeedsHuman, Refused):
            if (collection := self._ours(self._client, name)) is not None:
                index = ChromaIndex(self._client, collection.id, name)
                if index.uuid not in self._refused:
                    self._refused.add(index.uuid)
                    ids = [*islice(index.ids(), most)]
                    index.drop(ids)
                    self._refused.remove(index.uuid)
                    return len(ids) == most
        return False

    def delete(self, name: ChromaName) -> None:
        """Delete our collection of that name, also a torn one, after its records.

        Others' collections stay.
        """
        while self.empty(name, _EMPTIED):
            pass
        with suppress(Foreign):
            if self._ours(self._client, name) is not None:
                self._client.delete_collection(name)
        if self.connection.server:
            self.connection.server.supervision.forget(name)

    def delete_any(self, uuid: str) -> None:
        """Delete a collection of any owner, because a person decided so."""
        if (name := self.names().get(uuid)) is not None:
            self._client.delete_collection(name)

    def note(self, uuid: str, facts: Mapping[str, str]) -> None:
        """Add to the metadata of a collection of any owner, because a person decided so."""
        self.index(uuid).note(facts)

    def names(self) -> Mapping[str, str]:
        """Return name by UUID of every collection of any owner."""
        return self._client.names()

    def rename(self, uuid: str, name: str) -> bool:
        """Rename a collection. Return False if another collection has that name.

        Readers' handles keep working: they hold the UUID.
        """
        try:
            self._client.change_collection(UUID(uuid), "name", name)
        except (Refused, Transient):
            if name in self.names().values():
                return False
            raise
        return True

    def evict(self, name: str) -> str:
        """Free a name that a foreign collection has: delete the collection if it is empty, else rename it.

        Return in words what was done.
        """
        collection = self._client.get_collection(name)
        if not self._client.count(collection.id):
            self._client.delete_collection(name)
            return "deleted, since it was empty"
        aside = f"{name}--aside-{str(collection.id)[:8]}"
        self._client.change_collection(collection.id, "name", aside)
        return f"kept, as {aside}"

    def describe_all(self) -> list[tuple[DescribedCollection, str | None]]:
        """Return all collections of any owner by name, each with the mark of the state that wrote it, or
        None.
        """
        everything = sorted(self._client.collections(), key=lambda collection: collection.name)
        return [(collection, self._owner.of(collection)) for collection in everything]

    def index(self, uuid: str) -> ChromaIndex:
        """Return a collection of any owner."""
        return ChromaIndex(self._client, UUID(uuid))

    def probe(self, name: ChromaName) -> str | None:
        """Return why a collection or shard is not healthy or cannot grow, or None."""
        try:
            self._client.require_room()
            index = self.find(name)
            return probe(index, int(monotonic())) if index is not None else "the collection does not exist"
        except (Transient, Gone, Torn, NeedsHuman) as error:
            return str(error)

    def reach_problem(self, name: ChromaName) -> str | None:
        """Return why search misses too many records of a collection, or None.

        Each call examines other records. It also restores settings that somebody else changed.
        """
        index = self.find(name)
        if index is None:
            raise Gone(f"collection {name!r} does not exist")
        if (model := self._models.get(index.uuid)) is not None:
            for words in self._list_changes(name, model, restore=True):
                log.warning(
                    "collection %s: another program changed a setting, now restored: %s",
                    name,
                    words,
                    extra=event("collection_changed_elsewhere", collection=str(name)),
                )
        self._checks += 1
        return probe(index, self._checks)

    def trouble(self, name: ChromaName, error: Exception) -> None:
        """Restart our server if it died over a request for a collection, met a full disk, or hangs."""
        if self.connection.server:
            self.connection.server.trouble(name, error, lambda client: _count(self._find(client, name)))


def _count(index: ChromaIndex | None) -> None:
    if index is not None:
        index.count()


def _use(index: ChromaIndex | None) -> None:
    """Read and search a collection, and write one of its records again."""
    if index is not None:
        probe(index)
        index.upsert(index.read([*islice(index.ids(), 1)], vectors=True))
        probe(index)
