"""What both ways to Chroma have in common: the calls, the collection, the error. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

from ingestor.model import Metadata, RecordId

if TYPE_CHECKING:
    from ingestor.model import Vector

INVALID = "InvalidArgumentError"  # Chroma's name of the error for a request that it does not understand
NOT_FOUND = "NotFoundError"


@dataclass(frozen=True, slots=True)
class DescribedCollection:
    """A collection as Chroma describes it."""

    id: UUID
    name: str
    metadata: dict[str, Any] | None
    dimension: int | None
    configuration_json: dict[str, Any] | None


class Refused(Exception):
    """Chroma answered with an error. ``kind``: Chroma's name of it, or "". ``status``: of HTTP.

    ``wait``: seconds after which the server wants to be asked again, if it says so.
    """

    def __init__(self, message: str, kind: str, status: int, wait: float | None = None) -> None:
        super().__init__(message)
        self.kind, self.status, self.wait = kind, status, wait


class NoConnection(Exception):
    """No server takes a connection, or it broke; the message says where."""


class NoAnswer(Exception):
    """The server did not answer in time."""


@dataclass(frozen=True, slots=True)
class ChromaAnswer:
    """To a request, read whole. ``headers``: by their names in lower case."""

    status: int
    content: bytes
    headers: Mapping[str, str]
    address: str


Send = Callable[[str, str, bytes | None], ChromaAnswer]
"""A method, a path and a body to an answer. It raises NoConnection and NoAnswer."""


class Api(Protocol):
    """The calls of Chroma's API that we need. All raise ``Refused``; those over HTTP what ``Send`` raises.

    ``collection``: the UUID. Rows of ``get`` and ``query`` are columns by name, as Chroma answers.
    """

    def most_records(self) -> int:
        """The most records that a request may write."""
        ...

    def get_collection(self, name: str) -> DescribedCollection: ...
    def list_collections(self, limit: int, offset: int) -> Sequence[DescribedCollection]: ...
    def create_collection(
        self,
        name: str,
        configuration: Mapping[str, Any] | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> DescribedCollection:
        """``configuration``: in the form of Chroma's JSON; its embedding function is described, not built."""
        ...

    def reconfigure(self, collection: UUID, configuration: Mapping[str, Any]) -> None:
        """Replace settings of a collection, in the form of Chroma's JSON; its records stay as they are."""
        ...

    def replace_metadata(self, collection: UUID, metadata: Mapping[str, Any]) -> None:
        """Replace the metadata of a collection."""
        ...

    def rename_collection(self, collection: UUID, name: str) -> None: ...
    def delete_collection(self, name: str) -> None: ...
    def count(self, collection: UUID) -> int: ...
    def get(
        self,
        collection: UUID,
        *,
        include: Sequence[str],
        ids: Sequence[RecordId] | None = None,
        where: Mapping[str, object] | None = None,
        limit: int | None = None,
        offset: int | None = None,
    ) -> Any: ...
    def query(
        self,
        collection: UUID,
        *,
        vectors: Sequence[Vector | list[float]],
        n: int,
        where: Mapping[str, object] | None,
        include: Sequence[str],
    ) -> Any: ...
    def upsert(
        self,
        collection: UUID,
        *,
        ids: Sequence[RecordId],
        vectors: Sequence[Vector],
        metadatas: Sequence[Metadata],
        documents: Sequence[str],
    ) -> None: ...
    def update(self, collection: UUID, *, ids: Sequence[RecordId], metadatas: Sequence[Metadata]) -> None: ...
    def delete(self, collection: UUID, *, ids: Sequence[RecordId]) -> None: ...
