"""Chroma in this process, by the public classes of ``chromadb``.

A ``Collection`` of chromadb that knows its schema builds the embedding function at every write (measured on
1.5.9), which loads the model a second time. Each call here makes a ``Collection`` that knows only its UUID.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import UUID

from ingestor.chroma.api.values import INVALID, DescribedCollection, Refused
from ingestor.model import Metadata, RecordId

if TYPE_CHECKING:
    from ingestor.model import Vector


class InProcess:
    """``api``: chromadb's ServerAPI."""

    def __init__(self, api: Any) -> None:
        self._api = api

    def most_records(self) -> int:
        return int(self._api.get_max_batch_size())

    def get_collection(self, name: str) -> DescribedCollection:
        with _refusals():
            return _found(self._api.get_collection(name))

    def list_collections(self, limit: int, offset: int) -> list[DescribedCollection]:
        with _refusals():
            return [_found(each) for each in self._api.list_collections(limit=limit, offset=offset)]

    def create_collection(
        self,
        name: str,
        configuration: Mapping[str, Any] | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> DescribedCollection:
        wanted = dict(configuration or {})
        if (function := wanted.pop("embedding_function", None)) is not None:
            wanted["embedding_function"] = _described(function["name"], function["config"])
        with _refusals():
            return _found(self._api.create_collection(name, configuration=wanted or None, metadata=metadata))

    def reconfigure(self, collection: UUID, configuration: Mapping[str, Any]) -> None:
        """Replace settings; not a function by none, which chromadb cannot express."""
        wanted = dict(configuration)
        function = wanted.pop("embedding_function", {})
        if "name" in function:
            wanted["embedding_function"] = _described(function["name"], function["config"])
        if wanted:
            with _refusals():
                self._api._modify(collection, new_configuration=wanted)

    def replace_metadata(self, collection: UUID, metadata: Mapping[str, Any]) -> None:
        with _refusals():
            self._bare(collection).modify(metadata=dict(metadata))

    def rename_collection(self, collection: UUID, name: str) -> None:
        with _refusals():
            self._bare(collection).modify(name=name)

    def delete_collection(self, name: str) -> None:
        with _refusals():
            self._api.delete_collection(name)

    def count(self, collection: UUID) -> int:
        with _refusals():
            return int(self._bare(collection).count())

    def get(self, collection: UUID, *, ids: Sequence[RecordId] | None = None, **wanted: Any) -> Any:
        if ids is not None and not ids:
            return {"ids": [], "documents": [], "metadatas": [], "embeddings": None}
        with _understood():
            return self._bare(collection).get(ids=ids, **wanted)

    def query(
        self,
        collection: UUID,
        *,
        vectors: Sequence[Vector | list[float]],
        n: int,
        where: Mapping[str, object] | None,
        include: Sequence[str],
    ) -> Any:
        with _understood():
            return self._bare(collection).query(
                query_embeddings=list(vectors), n_results=n, where=where, include=include
            )

    def upsert(
        self,
        collection: UUID,
        *,
        ids: Sequence[RecordId],
        vectors: Sequence[Vector],
        metadatas: Sequence[Metadata],
        documents: Sequence[str],
    ) -> None:
        with _refusals():
            self._bare(collection).upsert(
                ids=list(ids),
                embeddings=list(vectors),
                metadatas=[dict(each) or None for each in metadatas],
                documents=list(documents),
            )

    def update(self, collection: UUID, *, ids: Sequence[RecordId], metadatas: Sequence[Metadata]) -> None:
        with _refusals():
            self._bare(collection).update(ids=list(ids), metadatas=[dict(each) or None for each in metadatas])

    def delete(self, collection: UUID, *, ids: Sequence[RecordId]) -> None:
        with _refusals():
            self._bare(collection).delete(ids=list(ids))

    def _bare(self, collection: UUID) -> Any:
        from chromadb import Collection
        from chromadb.types import Collection as Description

        description = Description(
            id=collection,
            name=str(collection),
            configuration_json={},
            serialized_schema=None,
            metadata=None,
            dimension=None,
            tenant="default_tenant",
            database="default_database",
        )
        return Collection(client=self._api, model=description, embedding_function=None)


@contextmanager
def _refusals() -> Iterator[None]:
    from chromadb.errors import ChromaError

    try:
        yield
    except ChromaError as error:
        raise Refused(str(error), type(error).__name__, error.code()) from error


@contextmanager
def _understood() -> Iterator[None]:
    """A filter that chromadb itself refuses is as one that the server refuses."""
    try:
        with _refusals():
            yield
    except ValueError as error:
        raise Refused(str(error), INVALID, 400) from error


def _found(said: Any) -> DescribedCollection:
    return DescribedCollection(said.id, said.name, said.metadata, said.dimension, said.configuration_json)


def _described(name: str, config: dict[str, Any]) -> Any:
    """What Chroma stores of one of its embedding functions, without building it, which may load a model.

    Chroma keeps the class of the function that was last created under its name and builds that again from the
    stored options. ``build_from_config`` is inherited and gives the true one.
    """
    from chromadb.utils.embedding_functions import known_embedding_functions

    function: Any = known_embedding_functions[name]

    class Described(function):  # type: ignore[misc]
        def __init__(self) -> None:
            pass

        def get_config(self) -> dict[str, Any]:
            return dict(config)

        def is_legacy(self) -> bool:  # asked of the true class, this builds it, and so loads the model
            return False

    return Described()
