"""Chroma's REST API v2, without ``chromadb``: importing that takes most of a second.

Paths and bodies are those of Chroma 1.5.9 (its server answers /openapi.json). ``tests/chroma/test_index.py``
runs the same laws through this and through chromadb in the same process.
"""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from uuid import UUID

import orjson

from ingestor.chroma.api.patience import patiently
from ingestor.chroma.api.values import ChromaAnswer, DescribedCollection, Refused, Send
from ingestor.core.backoff import retry_after
from ingestor.model import Metadata, RecordId

if TYPE_CHECKING:
    from ingestor.model import Vector


class Rest:
    """``patience``: see patience.py."""

    def __init__(self, send: Send, tenant: str, database: str, patience: float = 0.0) -> None:
        self._send, self._patience = send, patience
        place = f"/tenants/{quote(tenant, safe='')}/databases/{quote(database, safe='')}"
        self._collections = f"/api/v2{place}/collections"

    def most_records(self) -> int:
        return int(self._sent("GET", "/api/v2/pre-flight-checks")["max_batch_size"])

    def get_collection(self, name: str) -> DescribedCollection:
        return _found(self._asked("GET", f"/{quote(name, safe='')}"))

    def list_collections(self, limit: int, offset: int) -> list[DescribedCollection]:
        return [_found(each) for each in self._asked("GET", f"?limit={limit}&offset={offset}")]

    def create_collection(
        self,
        name: str,
        configuration: Mapping[str, Any] | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> DescribedCollection:
        wanted = {"name": name, "metadata": metadata, "configuration": configuration}
        return _found(self._asked("POST", "", wanted))

    def reconfigure(self, collection: UUID, configuration: Mapping[str, Any]) -> None:
        self._asked("PUT", f"/{collection}", {"new_configuration": configuration})

    def replace_metadata(self, collection: UUID, metadata: Mapping[str, Any]) -> None:
        self._asked("PUT", f"/{collection}", {"new_metadata": metadata})

    def rename_collection(self, collection: UUID, name: str) -> None:
        self._asked("PUT", f"/{collection}", {"new_name": name})

    def delete_collection(self, name: str) -> None:
        self._asked("DELETE", f"/{quote(name, safe='')}")

    def count(self, collection: UUID) -> int:
        return int(self._asked("GET", f"/{collection}/count"))

    def get(
        self,
        collection: UUID,
        *,
        include: Sequence[str],
        ids: Sequence[RecordId] | None = None,
        where: Mapping[str, object] | None = None,
        limit: int | None = None,
        offset: int | None = None,
    ) -> Any:
        wanted = {"ids": ids, "where": where, "limit": limit, "offset": offset, "include": include}
        return self._asked("POST", f"/{collection}/get", wanted)

    def query(
        self,
        collection: UUID,
        *,
        vectors: Sequence[Vector | list[float]],
        n: int,
        where: Mapping[str, object] | None,
        include: Sequence[str],
    ) -> Any:
        lists = [vector if isinstance(vector, list) else vector.tolist() for vector in vectors]
        wanted = {"query_embeddings": lists, "n_results": n, "where": where, "include": include}
        return self._asked("POST", f"/{collection}/query", wanted)

    def upsert(
        self,
        collection: UUID,
        *,
        ids: Sequence[RecordId],
        vectors: Sequence[Vector],
        metadatas: Sequence[Metadata],
        documents: Sequence[str],
    ) -> None:
        packed = [_packed(vector) for vector in vectors]
        rows = {"ids": ids, "embeddings": packed, "metadatas": metadatas, "documents": documents}
        self._asked("POST", f"/{collection}/upsert", rows)

    def update(self, collection: UUID, *, ids: Sequence[RecordId], metadatas: Sequence[Metadata]) -> None:
        self._asked("POST", f"/{collection}/update", {"ids": ids, "metadatas": metadatas})

    def delete(self, collection: UUID, *, ids: Sequence[RecordId]) -> None:
        self._asked("POST", f"/{collection}/delete", {"ids": ids})

    def _asked(self, method: str, path: str, body: object = None) -> Any:
        return self._sent(method, f"{self._collections}{path}", body)

    def _sent(self, method: str, path: str, body: object = None) -> Any:
        content = None if body is None else orjson.dumps(body)

        def ask() -> Any:
            answer = self._send(method, path, content)
            if answer.status >= 400:
                raise _refusal(answer)
            return orjson.loads(answer.content)

        return patiently(ask, self._patience) if self._patience else ask()


def _packed(vector: Vector) -> str:
    """Little-endian float32 in base64: shorter than a list of numbers, and exact."""
    import numpy as np

    return b64encode(np.asarray(vector, "<f4").tobytes()).decode()


def _refusal(answer: ChromaAnswer) -> Refused:
    """Chroma says {"error": name, "message": text}; what stands before it may say anything."""
    wait = retry_after(answer.headers.get("retry-after"), time.time())
    try:
        said = orjson.loads(answer.content)
        return Refused(said["message"], said["error"], answer.status, wait)
    except (ValueError, TypeError, KeyError):
        text = answer.content.decode(errors="replace")
        return Refused(f"{text} (HTTP {answer.status} of {answer.address})", "", answer.status, wait)


def _found(said: dict[str, Any]) -> DescribedCollection:
    return DescribedCollection(
        UUID(said["id"]),
        said["name"],
        said.get("metadata"),
        said.get("dimension"),
        said.get("configuration_json"),
    )
