"""Reading requests to Chroma over HTTP without ``chromadb``, whose import takes most of a second.

``Answers`` has the reading methods of chromadb's ``ServerAPI``, under their own names. Other calls go to the
whole API, which is created at the first of them. Paths and bodies are those of Chroma's API v2,
as chromadb 1.5.9 sends them; ``tests/indexes`` runs the same laws through both.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from uuid import UUID

import orjson

if TYPE_CHECKING:
    import httpx

_DATABASE = "/api/v2/tenants/default_tenant/databases/default_database/collections"


@dataclass(frozen=True, slots=True)
class Found:
    """A collection as Chroma describes it."""

    id: UUID
    name: str
    metadata: dict[str, Any] | None
    dimension: int | None
    configuration_json: dict[str, Any] | None


class Answers:
    """``base``: scheme, host and port. ``whole`` makes chromadb's ServerAPI; errors are chromadb's."""

    def __init__(self, session: "httpx.Client", base: str, whole: Callable[[], Any]) -> None:
        self._session, self._base, self._make = session, base, whole

    def __getattr__(self, name: str) -> Any:
        return getattr(self._whole, name)

    def get_collection(self, name: str) -> Found:
        return _found(self._asked("GET", f"/{quote(name, safe='')}"))

    def list_collections(self, limit: int, offset: int) -> list[Found]:
        return [_found(each) for each in self._asked("GET", f"?limit={limit}&offset={offset}")]

    def _count(self, collection_id: UUID) -> int:
        return int(self._asked("GET", f"/{collection_id}/count"))

    def _get(
        self,
        collection_id: UUID,
        include: Sequence[str],
        ids: Sequence[str] | None = None,
        where: dict[str, object] | None = None,
        limit: int | None = None,
        offset: int | None = None,
    ) -> Any:
        wanted = {"ids": ids, "where": where, "limit": limit, "offset": offset, "include": include}
        return self._asked("POST", f"/{collection_id}/get", wanted)

    def _query(
        self,
        collection_id: UUID,
        query_embeddings: Sequence[Any],
        n_results: int,
        where: dict[str, object] | None,
        include: Sequence[str],
    ) -> Any:
        vectors = [vector.tolist() for vector in query_embeddings]
        wanted = {"query_embeddings": vectors, "n_results": n_results, "where": where, "include": include}
        return self._asked("POST", f"/{collection_id}/query", wanted)

    @cached_property
    def _whole(self) -> Any:
        return self._make()

    def _asked(self, method: str, path: str, body: object = None) -> Any:
        content = None if body is None else orjson.dumps(body)
        answer = self._session.request(method, f"{self._base}{_DATABASE}{path}", content=content)
        if answer.is_error:
            from chromadb.api.base_http_client import BaseHTTPClient

            BaseHTTPClient._raise_chroma_error(answer)
        return orjson.loads(answer.content)


def _found(said: dict[str, Any]) -> Found:
    return Found(
        UUID(said["id"]),
        said["name"],
        said.get("metadata"),
        said.get("dimension"),
        said.get("configuration_json"),
    )
