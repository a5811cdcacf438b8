"""Which collections in Chroma are ours, and how they are created.

A collection carries the mark of the state that wrote it. Collections with another mark, or with records and
no mark, are never changed: a wrong name in a config must not destroy data.
"""

from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from ingestor.chroma.client import Client, translated
from ingestor.chroma.index import ChromaIndex
from ingestor.model import CollectionName, ReaderModel
from ingestor.ports import Foreign, Gone, NeedsHuman, Torn, Transient

_PAGE = 100  # collections listed at once
OWNER = "ingestor_owner"  # key of the mark in a collection's own metadata

# Links of a vector in Chroma's graph. With 16, Chroma's default, no search however deep found two of 17,000
# records that resembled each other, and writing them again did not help; with 32 a search for ten finds all.
NEIGHBOURS = 32


def open_collection(
    client: Client, name: CollectionName, *, model: ReaderModel | None, dimensions: int, owner: str
) -> ChromaIndex:
    """The collection; created if there is none, or only an empty one without a mark.

    ``model``: for readers' ``query(query_texts=...)``. ``dimensions``: 0 if unknown, since nothing will be
    added. Raises NeedsHuman, and changes nothing, if the collection is not ours or has vectors of another
    length.
    """
    found = _ours(client, name, owner)
    if found is not None and _mark(found) is None:
        _delete(client, name)
        found = None
    if found is None:
        found = _created(client, name, model, owner)
    elif dimensions and found.dimension not in (None, dimensions):
        raise NeedsHuman(
            f"collection {name!r} holds vectors of {found.dimension} dimensions, and the embedding model "
            f"makes {dimensions}: use another collection, or the model it was made with"
        )
    return ChromaIndex(client, found.id)


def find_collection(client: Client, name: CollectionName, *, owner: str) -> ChromaIndex | None:
    """The collection, or None if it does not exist. Raises NeedsHuman if it is not ours."""
    found = _ours(client, name, owner)
    return ChromaIndex(client, found.id) if found is not None and _mark(found) == owner else None


def delete_collection(client: Client, name: CollectionName, *, owner: str) -> None:
    """Delete a collection, torn or whole, if it exists. Raises Foreign if it is not ours."""
    if _ours(client, name, owner) is not None:
        _delete(client, name)


@dataclass(frozen=True, slots=True)
class Described:
    """A collection, ours or not.

    ``owner``: the state that wrote it, None if no ingestor did. ``records``: None if Chroma cannot count
    them, for the reason ``trouble``. ``model``: loaded by readers' queries. ``strategy``: of one of its
    records.
    """

    name: CollectionName
    uuid: str
    owner: str | None
    model: str | None
    dimensions: int | None
    records: int | None = None
    strategy: str | None = None
    trouble: str | None = None


def describe_collections(client: Client) -> list[Described]:
    """All collections, by name."""
    return sorted((_described(client, found) for found in _listed(client)), key=lambda found: found.name)


def delete_any_collection(client: Client, uuid: str) -> None:
    """Delete the collection with this UUID, ours or not, if it exists."""
    name = list_names(client).get(uuid)
    if name is not None:
        _delete(client, CollectionName(name))


def _described(client: Client, found: Any) -> Described:
    function = (found.configuration_json or {}).get("embedding_function") or {}
    model = (function.get("config") or {}).get("model_name")
    about = Described(found.name, str(found.id), _mark(found), model, found.dimension)
    index = ChromaIndex(client, found.id)
    try:
        records, sample = index.count(), index.sample(0, 1)
    except (Gone, Torn, Transient) as error:
        return replace(about, trouble=str(error))
    strategy = sample[0].metadata.get("strategy") if sample else None
    return replace(about, records=records, strategy=None if strategy is None else str(strategy))


def list_names(client: Client) -> dict[str, str]:
    """Name by UUID of every collection, ours or not."""
    return {str(collection.id): collection.name for collection in _listed(client)}


def _listed(client: Client) -> list[Any]:
    found: list[Any] = []
    while True:
        with translated():
            page = client.api.list_collections(limit=_PAGE, offset=len(found))
        found += page
        if len(page) < _PAGE:
            return found


def rename_collection(client: Client, uuid: str, name: str) -> bool:
    """False if the name is taken. Handles of readers still work: they hold the UUID."""
    from chromadb.errors import ChromaError

    try:
        with translated():
            client.api._modify(id=UUID(uuid), new_name=name)
    except (ChromaError, Transient):
        if name in list_names(client).values():
            return False
        raise
    return True


def evict_collection(client: Client, name: str) -> str:
    """Free a name that a collection not ours took: delete it if empty, else rename it. Returns which."""
    with translated():
        found = client.api.get_collection(name)
    if not ChromaIndex(client, found.id).count():
        _delete(client, CollectionName(name))
        return "deleted, for it was empty"
    aside = f"{name}--aside-{str(found.id)[:8]}"
    with translated():
        client.api._modify(id=found.id, new_name=aside)
    return f"kept, as {aside}"


def _ours(client: Client, name: CollectionName, owner: str) -> Any:
    """Chroma's description of the collection, if it has our mark or is empty and unmarked; None if
    missing."""
    try:
        with translated():
            found = client.api.get_collection(name)
    except Gone:
        return None
    mark = _mark(found)
    if mark not in (None, owner):
        raise Foreign(
            f"collection {name!r} was written by another ingestor (state {mark}, ours is {owner}): if that "
            "one is in use, give your sources another `collection` in the config; if its state is lost, have "
            f"the collection deleted and written again: ingestor collections --adopt {name}"
        )
    if mark is None and (records := ChromaIndex(client, found.id).count()):
        raise Foreign(
            f"collection {name!r} holds {records} records that ingestor did not write: give your sources "
            "another `collection` in the config"
        )
    return found


def _mark(found: Any) -> str | None:
    return (found.metadata or {}).get(OWNER)


def _created(client: Client, name: CollectionName, model: ReaderModel | None, owner: str) -> Any:
    from chromadb.errors import ChromaError, InvalidArgumentError

    configuration: dict[str, Any] = {"hnsw": {"space": "cosine", "max_neighbors": NEIGHBOURS}}
    if model is not None:
        configuration["embedding_function"] = _embedding_function(model)
    try:
        with translated():
            return client.api.create_collection(name, configuration=configuration, metadata={OWNER: owner})
    except InvalidArgumentError as error:
        raise NeedsHuman(f"Chroma does not take the collection name {name!r}: {error}") from error
    except ChromaError as error:
        raise Transient(f"collection {name!r} could not be made: {error}") from error


def _delete(client: Client, name: CollectionName) -> None:
    try:
        with translated():
            client.api.delete_collection(name)
    except Gone:
        return


def _embedding_function(model: ReaderModel) -> Any:
    """A stand-in for one of Chroma's embedding functions, with its name and options, that loads no model.

    Chroma stores name and options, and builds the true function from them. Raises NeedsHuman if Chroma has no
    function of that name.
    """
    from chromadb.utils.embedding_functions import known_embedding_functions

    function: Any = known_embedding_functions.get(model.function)
    if function is None:
        raise NeedsHuman(
            f"the embedder wants readers to use {model.function!r}, which is none of Chroma's embedding "
            f"functions ({', '.join(sorted(known_embedding_functions))}): mend its plugin (reader_model)"
        )

    class Described(function):  # type: ignore[misc]
        def __init__(self) -> None:
            pass

        def get_config(self) -> dict[str, Any]:
            return dict(model.config)

        def is_legacy(self) -> bool:  # asked of the true class, this builds it, and so loads the model
            return False

    return Described()
