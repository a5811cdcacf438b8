"""A database of Chroma, over HTTP or within this process, and the meaning of Chroma's errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from json import JSONDecodeError
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any
from uuid import UUID

from ingestor.chroma.api import (
    INVALID,
    NOT_FOUND,
    DescribedCollection,
    NoAnswer,
    NoConnection,
    Refused,
    RestApi,
)
from ingestor.chroma.folder import REMEDY, claim, damaged, require_room
from ingestor.config.quotas import UNBOUNDED, Quotas
from ingestor.model import Metadata, RecordId
from ingestor.ports import Gone, Later, NeedsHuman, Torn, Transient

if TYPE_CHECKING:
    from ingestor.model import Vector

# Messages seen after files of an HNSW segment were cut, emptied, removed or half written on a full disk.
_TORN = (*("hnsw segment", "Error finding id", "Error getting embedding", "Nothing found on disk"),)

# Messages seen on a full disk; they stop when there is space.
_FULL = ("disk is full", "Failed to apply logs to the metadata segment", "Error purging logs")

# What Chroma 1.4 says to a list in metadata; 1.5.0 takes it.
_NO_LISTS = "untagged enum UpdateMetadataValue"


class Unreachable(Transient):
    """No server answers at the address, or the connection broke."""


class Unanswered(Transient):
    """Chroma did not answer a request in time. After a full disk this may last until a restart."""


class Full(Transient):
    """Chroma cannot write, mostly because its disk is full. Soon it answers no request until a restart."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a server that somebody else runs the collections are, and what it allows.

    ``patience``: seconds that a request waits in all while the server throttles or is away.
    """

    tenant: str = "default_tenant"
    database: str = "default_database"
    headers: Mapping[str, str] = field(default_factory=dict)
    quotas: Quotas = UNBOUNDED
    patience: float = 0.0


class Client:
    """An open connection.

    ``folder``: Chroma's data folder, if this process may read it. ``quotas``: of the server. ``foreign``:
    somebody else runs it, so it is asked how much it takes.
    """

    def __init__(
        self,
        api: RestApi | EmbeddedApi,
        close: Callable[[], None],
        folder: Path | None = None,
        quotas: Quotas = UNBOUNDED,
        *,
        foreign: bool = False,
    ) -> None:
        self.api, self.close, self._folder = api, close, folder
        self.quotas, self.foreign = quotas, foreign

    @cached_property
    def most_written(self) -> int | None:
        """The most records of a request that writes; None if it has no bound that matters."""
        with translated():
            known = [self.api.most_records()] if self.foreign else []
        quota = self.quotas.write_records
        return min([*known, quota] if quota else known, default=None)

    def is_alive(self) -> bool:
        """Whether it answers; Chroma in this process always does."""
        return not isinstance(self.api, RestApi) or self.api.is_alive()

    def require_room(self) -> None:
        """Raises Transient while the disk of the data is nearly full."""
        if self._folder is not None:
            require_room(self._folder)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def connect(
    host: str,
    port: int,
    *,
    token: str | None = None,
    ssl: bool = False,
    timeout: float = 60.0,
    folder: Path | None = None,
    place: Place | None = None,
) -> Client:
    """A client of a server, which need not be up yet: nothing is sent.

    ``timeout``: the seconds that Chroma may take to answer. ``folder``: see Client.
    ``place``: where in another's server the collections are.
    """
    there = place or Place()
    api = RestApi(
        host,
        port,
        token=token,
        ssl=ssl,
        timeout=timeout,
        headers=there.headers,
        tenant=there.tenant,
        database=there.database,
        patience=there.patience,
    )
    return Client(api, api.close, folder, there.quotas, foreign=place is not None)


def embedded(path: Path) -> Client:
    """Chroma in this process; nobody else may use ``path`` until the client is closed.

    It blocks every thread while it works. On a full disk (see require_room) it may never return, and a torn
    segment can crash it. A server is the better choice.

    Raises NeedsHuman if another process uses ``path``, Transient if Chroma cannot start, as on a full disk.
    """
    lock = claim(path)
    try:
        with translated():
            api = EmbeddedApi(path)
    except Transient as error:
        lock.release()
        raise Transient(f"Chroma can't be opened in {path}: {error}") from error
    except BaseException:
        lock.release()
        raise

    def close() -> None:
        if lock.held:
            api.close()
            lock.release()

    return Client(api, close, path)


@contextmanager
def translated() -> Iterator[None]:
    """Turn Chroma's errors into those of our ports; unknown ones pass unchanged."""
    try:
        yield
    except Exception as error:
        meaning = _meaning(error)
        if meaning is None:
            raise
        raise meaning from error


def _meaning(error: Exception) -> Exception | None:
    text = f"Chroma: {error}"
    if isinstance(error, NoAnswer):
        return Unanswered(
            "Chroma does not answer in time; if this repeats on an idle machine, its data is damaged: "
            "ingestor verify --repair --rebuild"
        )
    if isinstance(error, NoConnection):
        return Unreachable(f"Chroma can't be reached {error}")
    if (told := _meaning_of_text(text)) is not None:
        return told
    if isinstance(error, Refused):
        return Gone(text) if error.kind == NOT_FOUND else _meaning_of_status(error, text)
    if isinstance(error, JSONDecodeError):
        return NeedsHuman("the server at Chroma's address is not Chroma: check host, port and ssl")
    return None


def _meaning_of_text(text: str) -> Exception | None:
    if damaged(text):
        return NeedsHuman(f"{text}; {REMEDY}")
    if _NO_LISTS in text:
        return NeedsHuman("the Chroma server is older than 1.5 and takes no lists in metadata: upgrade it")
    if any(symptom in text for symptom in _FULL):
        return Full(
            f"{text}; if the disk of Chroma's data is full, free space; if it has room, the database is "
            "damaged: ingestor verify --repair --rebuild"
        )
    if any(symptom in text for symptom in _TORN):
        return Torn(text)
    return None


def _meaning_of_status(error: Refused, text: str) -> Exception | None:
    status = error.status
    if status in (401, 403):
        return NeedsHuman(f"{text}; Chroma refuses the request: check the token")
    if status == 500:  # no overload, but an error within Chroma
        return Transient(f"{text}; if this repeats, its data is damaged: ingestor verify --repair --rebuild")
    if status > 500 or status in (408, 429):
        return Transient(text) if error.wait is None else Later(text, error.wait)
    return None


class EmbeddedApi:
    """Chroma in this process, by chromadb's ``PersistentClient``, with the calls of ``api.RestApi``.

    Nobody else may use the folder until it is closed. All calls raise Refused. A ``Collection`` of chromadb
    that knows its configuration builds the embedding function at every write, which loads the model a second
    time. So each call makes one that knows only its UUID.

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
