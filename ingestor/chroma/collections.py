"""Marks and settings of our collections in Chroma.

A collection carries the mark of the state that wrote it. A collection with another mark, or with records and
no mark, is never changed. A wrong name in a config must not destroy anyone's data. Other programs may
replace a collection's metadata, our mark included. The journal still knows its UUID, which nobody can change.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from ingestor.chroma.client import DescribedCollection
from ingestor.core.entries import ChromaName
from ingestor.core.generation import Home
from ingestor.model import ReaderModel
from ingestor.ports import NeedsHuman

OUR_FUNCTIONS = {"sentence_transformer", "huggingface_server"}  # of Chroma; others are looked up
OWNER = "ingestor_owner"  # key of the mark in a collection's own metadata

# Chroma's graph of vectors: links of each, and how many neighbours are looked at to add one, and to search.
# With 16 links, Chroma's default, no search however deep found two of 17,000 records that resembled each
# other. With 32, and 100 neighbours, search missed 1 to 25 of 25 records beside 2,975 copies of eight texts.
GRAPH = {"max_neighbors": 64, "ef_construction": 800, "ef_search": 400}

_EARLIER_GRAPH = {"ef_search": 100}  # of collections that were made before; neighbours vary
_WRITTEN = {"sync_threshold": 1000, "resize_factor": 1.2}  # when the graph is persisted, and how it grows
_NO_FUNCTION = {"type": "legacy"}  # as Chroma calls it


@dataclass(frozen=True, slots=True)
class Ownership:
    """Marks of our own collections. ``mark``: of the state. ``uuids``: those that the journal knows."""

    mark: str
    uuids: Callable[[], Collection[str]] = tuple

    def of(self, collection: DescribedCollection) -> str | None:
        """The mark of the state that wrote a collection; None if no ingestor did."""
        if (mark := mark_of(collection)) is None and str(collection.id) in self.uuids():
            return self.mark
        return mark


def mark_of(collection: DescribedCollection) -> str | None:
    return (collection.metadata or {}).get(OWNER)


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


def new_configuration(model: ReaderModel | None) -> dict[str, Any]:
    """Return the settings of a new collection, in the form of Chroma's JSON.

    ``model``: for readers' ``query(query_texts=...)``. Raises NeedsHuman if it is none of Chroma's.
    """
    graph = {"hnsw": {"space": "cosine", **GRAPH, **_WRITTEN}}
    if model is None:
        return graph
    require_known(model)
    return {**graph, "embedding_function": _as_stored(model)}


def right_settings(collection: DescribedCollection, model: ReaderModel | None, known: bool) -> dict[str, Any]:
    """Return the right values of settings that differ, in the form of Chroma's JSON.

    Without ``known`` the function that embeds readers' questions is not judged.
    """
    stored = collection.configuration_json or {}
    right: dict[str, Any] = {}
    if graph := stored.get("hnsw"):
        ours = graph.get("ef_construction") == GRAPH["ef_construction"]  # which cannot be changed
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
    """Describe settings whose right values are given."""
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
    config = (function or {}).get("config") or {}
    about = config.get("url") or config.get("model_name") or ""
    return " ".join(filter(None, ((function or {}).get("name") or "a function of their own", about)))


def require_known(model: ReaderModel) -> None:
    """Raise NeedsHuman if the function is none of Chroma's embedding functions."""
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
