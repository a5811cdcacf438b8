"""Which collections of Chroma are ours, and how they are made.

A collection carries the mark of the state that wrote it. A collection with another mark, or with records but
without a mark, is never changed: a wrong name in a config must not destroy anyone's data. Other programs may
replace a collection's metadata, our mark included. The journal still knows its UUID, which nobody can change.
"""

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from ingestor.chroma.api import INVALID, DescribedCollection, Refused
from ingestor.chroma.client import Client, translated
from ingestor.chroma.index import ChromaIndex, listed
from ingestor.core.entries import ChromaName
from ingestor.core.events import event
from ingestor.core.generation import Home, home_of
from ingestor.model import ReaderModel
from ingestor.ports import Foreign, Gone, NeedsHuman, Torn, Transient
from ingestor.units import counted

_log = logging.getLogger(__name__)

OUR_FUNCTIONS = {"sentence_transformer", "huggingface_server"}  # of Chroma; others are looked up
OWNER = "ingestor_owner"  # key of the mark in a collection's own metadata

# Chroma's graph of vectors: links of each, and how many neighbours are looked at to add one, and to search.
# With 16 links, Chroma's default, no search however deep found two of 17,000 records that resembled each
# other. With 32, and 100 neighbours, search missed 1 to 25 of 25 records beside 2,975 copies of eight texts.
GRAPH = {"max_neighbors": 64, "ef_construction": 800, "ef_search": 400}


_EARLIER_GRAPH = {"ef_search": 100}  # of collections that were made before; neighbours vary
_WRITTEN = {"sync_threshold": 1000, "resize_factor": 1.2}  # when the graph is persisted, and how it grows
_NO_FUNCTION = {"type": "legacy"}  # as Chroma calls it
_READERS_EMBED = (None, _NO_FUNCTION)


@dataclass(frozen=True, slots=True)
class Ownership:
    """Marks of our own collections. ``mark``: of the state. ``uuids``: those that the journal knows."""

    mark: str
    uuids: Callable[[], Collection[str]] = tuple

    def of(self, found: DescribedCollection) -> str | None:
        """The mark of the state that wrote a collection; None if no ingestor did."""
        if (mark := _mark(found)) is None and str(found.id) in self.uuids():
            return self.mark
        return mark


def open_collection(
    client: Client,
    name: ChromaName,
    *,
    model: ReaderModel | None,
    dimensions: int,
    owner: Ownership,
    known: bool = False,
) -> ChromaIndex:
    """The collection. It is made if it does not exist, and adopted if it is empty and has no mark.

    ``model``: for readers' ``query(query_texts=...)``. ``known``: see core.backend.Model; of no model.
    ``dimensions``: 0 if unknown, for a collection to which nothing is added. Raises NeedsHuman, and changes
    nothing, if the collection is not ours or has vectors of another length.
    """
    found = _ours(client, name, owner)
    if found is not None and owner.of(found) is None:
        _delete(client, name)
        found = None
    if found is None:
        found = _created(client, name, model, owner.mark)
    elif dimensions and found.dimension not in (None, dimensions):
        raise NeedsHuman(
            f"collection {name!r} holds vectors of {found.dimension} dimensions, and the embedding model "
            f"makes {dimensions}: use another collection, or the model that wrote these vectors"
        )
    else:
        _restore(client, found, model, known or model is not None)
    index = ChromaIndex(client, found.id, found.name)
    if _mark(found) is None and str(found.id) in owner.uuids():
        _log.warning(
            "collection %s: its metadata was replaced; ingestor's mark is restored",
            name,
            extra=event("collection_changed_elsewhere", collection=str(name)),
        )
        index.note({OWNER: owner.mark})
    return index


def changed_settings(
    client: Client, name: ChromaName, model: ReaderModel | None, *, known: bool, restore: bool = False
) -> list[str]:
    """Return settings of a collection that somebody else changed, in words; empty if it does not exist.

    ``restore``: also give them their right values. Records and vectors stay as they are.
    """
    try:
        with translated():
            found = client.api.get_collection(name)
    except Gone:
        return []
    if restore:
        _restore(client, found, model, known)
    return _in_words(found, _right_settings(found, model, known))


def _restore(client: Client, found: DescribedCollection, model: ReaderModel | None, known: bool) -> None:
    right = _right_settings(found, model, known)
    if not right:
        return
    try:
        if model is not None:
            _require_known(model.function)
        with translated():
            client.api.reconfigure(found.id, right)
    except (Refused, NeedsHuman) as error:
        _log.warning(
            "collection %s: its settings cannot be restored: %s",
            found.name,
            error,
            extra=event("collection_changed_elsewhere", collection=found.name, reason=str(error)),
        )


def _right_settings(found: DescribedCollection, model: ReaderModel | None, known: bool) -> dict[str, Any]:
    """Return the right values of settings that differ, in the form of Chroma's JSON.

    Without ``known`` nothing is said of the function that embeds readers' questions.
    """
    stored = found.configuration_json or {}
    right: dict[str, Any] = {}
    if graph := stored.get("hnsw"):
        ours = graph.get("ef_construction") == GRAPH["ef_construction"]  # which cannot be changed
        wanted = {**(GRAPH if ours else _EARLIER_GRAPH), **_WRITTEN}
        if wrong := {key: value for key, value in wanted.items() if graph.get(key) != value}:
            right["hnsw"] = {key: value for key, value in wrong.items() if key != "ef_construction"}
    function = stored.get("embedding_function")
    if model is not None and function != _as_stored(model):
        right["embedding_function"] = _as_stored(model)
    if model is None and known and function not in _READERS_EMBED:
        right["embedding_function"] = _NO_FUNCTION
    return right


def _in_words(found: DescribedCollection, right: dict[str, Any]) -> list[str]:
    stored = found.configuration_json or {}
    graph = right.get("hnsw", {})
    said = [f"{key} is {stored['hnsw'].get(key)}, not {value}" for key, value in graph.items()]
    if "embedding_function" in right:
        function = stored.get("embedding_function")
        now, wanted = _function_in_words(function), _function_in_words(right["embedding_function"])
        said.append(f"readers embed by {now}, not {wanted}")
    return said


def _function_in_words(function: dict[str, Any] | None) -> str:
    config = (function or {}).get("config") or {}
    about = config.get("url") or config.get("model_name") or ""
    return " ".join(filter(None, ((function or {}).get("name") or "a function of their own", about)))


def find_collection(client: Client, name: ChromaName, *, owner: Ownership) -> ChromaIndex | None:
    """The collection; None if it does not exist. Raises NeedsHuman if it is not ours."""
    found = _ours(client, name, owner)
    is_ours = found is not None and owner.of(found) == owner.mark
    return ChromaIndex(client, found.id, found.name) if found is not None and is_ours else None


def delete_collection(client: Client, name: ChromaName, *, owner: Ownership) -> None:
    """Torn or whole, with all its records; harmless if there is none. Raises Foreign if it is not ours."""
    if _ours(client, name, owner) is not None:
        _delete(client, name)


@dataclass(frozen=True, slots=True)
class Described:
    """A collection of any owner. ``records``: None if it cannot be counted; ``trouble`` says why.

    ``owner``: the state that wrote it, None if no ingestor did. ``home``: where that state is.
    ``model``: that readers' queries load; ``strategy``: that one of its records names.
    """

    name: ChromaName
    uuid: str
    owner: str | None
    home: Home | None
    model: str | None
    dimensions: int | None
    records: int | None = None
    strategy: str | None = None
    trouble: str | None = None


def describe_collections(client: Client, owner: Ownership) -> list[Described]:
    """All collections, by name."""
    described = (_described(client, found, owner) for found in listed(client))
    return sorted(described, key=lambda found: found.name)


def delete_any_collection(client: Client, uuid: str) -> None:
    """Delete a collection of any owner and any name; harmless if it does not exist."""
    name = list_names(client).get(uuid)
    if name is not None:
        _delete(client, ChromaName(name))


def _described(client: Client, found: DescribedCollection, owner: Ownership) -> Described:
    function = (found.configuration_json or {}).get("embedding_function") or {}
    config = function.get("config") or {}
    model = config.get("model_name") or config.get("url")
    about = Described(
        ChromaName(found.name),
        str(found.id),
        owner.of(found),
        home_of(found.metadata or {}),
        model,
        found.dimension,
    )
    index = ChromaIndex(client, found.id)
    try:
        records, sample = index.count(), index.sample(0, 1)
    except (Gone, Torn, Transient) as error:
        return replace(about, trouble=str(error))
    strategy = sample[0].metadata.get("strategy") if sample else None
    return replace(about, records=records, strategy=None if strategy is None else str(strategy))


def list_names(client: Client) -> dict[str, str]:
    """Name by UUID of every collection of any owner."""
    return {str(collection.id): collection.name for collection in listed(client)}


def rename_collection(client: Client, uuid: str, name: str) -> bool:
    """False if another collection has that name. Readers' handles keep working: they hold the UUID."""
    try:
        with translated():
            client.api.rename_collection(UUID(uuid), name)
    except (Refused, Transient):
        if name in list_names(client).values():
            return False
        raise
    return True


def evict_collection(client: Client, name: str) -> str:
    """Free a name that a foreign collection has: delete it if empty, else rename it. Returns which."""
    with translated():
        found = client.api.get_collection(name)
    if not ChromaIndex(client, found.id).count():
        _delete(client, ChromaName(name))
        return "deleted, for it was empty"
    aside = f"{name}--aside-{str(found.id)[:8]}"
    with translated():
        client.api.rename_collection(found.id, aside)
    return f"kept, as {aside}"


def _ours(client: Client, name: ChromaName, owner: Ownership) -> DescribedCollection | None:
    """The collection's model, if it is ours or is empty and unmarked; None if there is none."""
    try:
        with translated():
            found = client.api.get_collection(name)
    except Gone:
        return None
    mark = owner.of(found)
    if mark not in (None, owner.mark):
        raise Foreign(
            f"collection {name!r} was written by another ingestor (state {mark}, ours is {owner.mark}): "
            "if that one is in use, give your sources another `collection` in the config; if its state is "
            f"lost, have the collection deleted and written again: ingestor collections --adopt {name}"
        )
    if mark is None and (records := ChromaIndex(client, found.id).count()):
        raise Foreign(
            f"collection {name!r} holds {counted(records, 'record')} that ingestor did not write: "
            "give your sources another `collection` in the config"
        )
    return found


def _mark(found: DescribedCollection) -> str | None:
    return (found.metadata or {}).get(OWNER)


def _created(client: Client, name: ChromaName, model: ReaderModel | None, owner: str) -> DescribedCollection:
    configuration: dict[str, Any] = {"hnsw": {"space": "cosine", **GRAPH, **_WRITTEN}}
    if model is not None:
        _require_known(model.function)
        configuration["embedding_function"] = _as_stored(model)
    try:
        with translated():
            return client.api.create_collection(name, configuration=configuration, metadata={OWNER: owner})
    except Refused as error:
        if error.kind == INVALID:
            raise NeedsHuman(f"Chroma rejects the collection name {name!r}: {error}") from error
        raise Transient(f"collection {name!r} could not be created: {error}") from error


def _delete(client: Client, name: ChromaName) -> None:
    try:
        with translated():
            client.api.delete_collection(name)
    except Gone:
        return


def _require_known(function: str) -> None:
    """Raises NeedsHuman if it is none of Chroma's embedding functions."""
    if function in OUR_FUNCTIONS:
        return
    from chromadb.utils.embedding_functions import known_embedding_functions

    if function not in known_embedding_functions:
        raise NeedsHuman(
            f"the embedder names {function!r} for readers, which is not one of Chroma's embedding "
            f"functions ({', '.join(sorted(known_embedding_functions))}): correct its plugin (reader_model)"
        )


def _as_stored(model: ReaderModel) -> dict[str, Any]:
    return {"type": "known", "name": model.function, "config": dict(model.config)}
