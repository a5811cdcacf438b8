"""Chroma in this process, by chromadb's ``PersistentClient``, with the calls of ``api.RestApi``.

A ``Collection`` of chromadb that knows its configuration builds the embedding function at every write
(measured on 1.5.9), which loads the model a second time. So each call makes one that knows only its UUID.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from ingestor.chroma.api import INVALID, DescribedCollection, Refused
from ingestor.model import Metadata, RecordId

if TYPE_CHECKING:
    from ingestor.model import Vector


class EmbeddedApi:
    """Nobody else may use the folder until it is closed. All calls raise Refused.

    Neither telemetry nor an .env file of the working directory is read.
    """

    def __init__(self, path: Path) -> None:
        import chromadb

        settings = chromadb.Settings(_env_file=None, anonymized_telemetry=False)
        with _refusals():
            self._client = chromadb.PersistentClient(path, settings)

    def close(self) -> None:
        self._client.close()

    def most_records(self) -> int:
        return int(self._client.get_max_batch_size())

    def get_collection(self, name: str) -> DescribedCollection:
        with _refusals():
            return _found(self._client.get_collection(name, embedding_function=None))

    def list_collections(self, limit: int, offset: int) -> list[DescribedCollection]:
        with _refusals():
            return [_found(each) for each in self._client.list_collections(limit=limit, offset=offset)]

    def create_collection(
        self,
        name: str,
        configuration: Mapping[str, Any] | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> DescribedCollection:
        wanted = _with_function(configuration or {})
        function = wanted.pop("embedding_function", None)
        with _refusals():
            made = self._client.create_collection(
                name,
                configuration=wanted or None,
                metadata=dict(metadata) if metadata else None,
                embedding_function=function,
            )
            return _found(made)

    def reconfigure(self, collection: UUID, configuration: Mapping[str, Any]) -> None:
        """Replace settings like ``RestApi``, but never remove a function: chromadb cannot express that."""
        if wanted := _with_function(configuration):
            with _refusals():
                self._client._server._modify(collection, new_configuration=wanted)

    def replace_metadata(self, collection: UUID, metadata: Mapping[str, Any]) -> None:
        with _refusals():
            self._bare(collection).modify(metadata=dict(metadata))

    def rename_collection(self, collection: UUID, name: str) -> None:
        with _refusals():
            self._bare(collection).modify(name=name)

    def delete_collection(self, name: str) -> None:
        with _refusals():
            self._client.delete_collection(name)

    def count(self, collection: UUID) -> int:
        with _refusals():
            return int(self._bare(collection).count())

    def get(self, collection: UUID, *, ids: Sequence[RecordId] | None = None, **wanted: Any) -> Any:
        if ids is not None and not ids:
            return {"ids": [], "documents": [], "metadatas": [], "embeddings": None}
        with _refusals():
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
        with _refusals():
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
        rows = [dict(each) or None for each in metadatas]
        with _refusals():
            self._bare(collection).upsert(
                ids=list(ids), embeddings=list(vectors), metadatas=rows, documents=list(documents)
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
        return Collection(client=self._client._server, model=description, embedding_function=None)


@contextmanager
def _refusals() -> Iterator[None]:
    """Raise Refused, also for what chromadb itself refuses before Chroma does."""
    from chromadb.errors import ChromaError

    try:
        yield
    except ChromaError as error:
        raise Refused(str(error), type(error).__name__, error.code()) from error
    except ValueError as error:
        raise Refused(str(error), INVALID, 400) from error


def _found(said: Any) -> DescribedCollection:
    model = said.get_model()
    return DescribedCollection(said.id, said.name, said.metadata, model.dimension, model.configuration_json)


def _with_function(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with its function as chromadb takes it; without one that is none of Chroma's."""
    wanted = dict(configuration)
    function = wanted.pop("embedding_function", None) or {}
    return wanted | ({"embedding_function": _described(**function)} if "name" in function else {})


def _described(name: str, config: dict[str, Any], **_: Any) -> Any:
    """Describe an embedding function as Chroma stores it, without building it: building may load a model.

    Chroma keeps the class of the function that was last created under a name, and builds that class again
    from the stored options. The inherited ``build_from_config`` builds the true function.
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
