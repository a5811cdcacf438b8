"""The settings of a collection in Chroma: its graph of vectors, and the function that embeds queries."""

from collections.abc import Mapping
from typing import Any

from ingestor.chroma.client import DescribedCollection
from ingestor.core.generations import Model
from ingestor.model import ReaderModel

# Chroma's graph of vectors: links of each vector; neighbours that are compared to add one, and to find one.
# With 16 links, Chroma's default, no search however deep found two of 17,000 records that resembled each
# other. With 32, and 100 neighbours, search missed 1 to 25 of 25 records beside 2,975 copies of eight texts.
GRAPH = {"max_neighbors": 64, "ef_construction": 800, "ef_search": 400}

_EARLIER_GRAPH = {"ef_search": 100}  # of collections that earlier versions created; their links cannot change
_WRITTEN = {"sync_threshold": 1000, "resize_factor": 1.2}  # when the graph is persisted, and how it grows
_NO_FUNCTION = {"type": "legacy"}  # Chroma's description of a collection without an embedding function


def new_configuration(model: ReaderModel | None) -> dict[str, Any]:
    """Return the settings for a new collection, in the form of Chroma's JSON.

    ``model``: the embedding function that Chroma uses for readers' ``query(query_texts=...)``; None to set
    none.
    """
    graph = {"hnsw": {"space": "cosine", **GRAPH, **_WRITTEN}}
    if model is None:
        return graph
    return {**graph, "embedding_function": _as_stored(model)}


def right_settings(collection: DescribedCollection, model: Model) -> dict[str, Any]:
    """Return the settings of a collection that somebody else changed, with their right values, as Chroma's
    JSON."""
    stored = collection.configuration_json or {}
    right: dict[str, Any] = {}
    if graph := stored.get("hnsw"):
        # Nobody can change ``ef_construction``, so it shows which version created the collection.
        ours = graph.get("ef_construction") == GRAPH["ef_construction"]
        wanted = {**(GRAPH if ours else _EARLIER_GRAPH), **_WRITTEN}
        if wrong := {key: value for key, value in wanted.items() if graph.get(key) != value}:
            right["hnsw"] = wrong
    if model.reader is not None or model.known:
        function = _NO_FUNCTION if model.reader is None else _as_stored(model.reader)
        if (stored.get("embedding_function") or _NO_FUNCTION) != function:
            right["embedding_function"] = function
    return right


def describe_differences(collection: DescribedCollection, right: Mapping[str, Any]) -> list[str]:
    """Describe for each setting in ``right`` its value in the collection, and its right value."""
    stored = collection.configuration_json or {}
    words = [
        f"{key} is {stored['hnsw'].get(key)}, not {value}" for key, value in right.get("hnsw", {}).items()
    ]
    if wanted := right.get("embedding_function"):
        now, then = map(_describe_function, (stored.get("embedding_function"), wanted))
        words.append(f"readers embed by {now}, not {then}")
    return words


def model_of(collection: DescribedCollection) -> str | None:
    """Return the name or the address of the model that embeds readers' queries to a collection, or None."""
    return _model_in((collection.configuration_json or {}).get("embedding_function"))


def _model_in(function: Mapping[str, Any] | None) -> str | None:
    config = (function or {}).get("config") or {}
    return config.get("model_name") or config.get("url")


def _describe_function(function: Mapping[str, Any] | None) -> str:
    """Return the name of an embedding function together with its address or model."""
    name = (function or {}).get("name") or "a function of their own"
    return " ".join(filter(None, (name, _model_in(function))))


def _as_stored(model: ReaderModel) -> dict[str, Any]:
    return {"type": "known", "name": model.function, "config": dict(model.config)}
