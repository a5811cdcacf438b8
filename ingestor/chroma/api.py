"""Chroma's REST API v2 by httpx, as Chroma 1.5.9 describes it at /openapi.json.

``chromadb`` has a client, too, but importing it takes most of a second. ``tests/chroma/test_index.py`` runs
the same laws through this and through Chroma within the process (``embedded.py``).
"""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote
from uuid import UUID

import orjson

from ingestor.core.errors import ceiling, retry_after
from ingestor.model import Metadata, RecordId

if TYPE_CHECKING:
    import httpx

    from ingestor.model import Vector

T = TypeVar("T")

INVALID = "InvalidArgumentError"  # Chroma's name of the error for a request that it does not understand
NOT_FOUND = "NotFoundError"
THROTTLED = (429, 503)
BROKEN = 3  # more attempts when nobody answers, or the connection breaks: people wait for the reason

_CONNECT_TIMEOUT = 5.0  # seconds; a server on this machine that is alive accepts at once
_CEILING = 32.0  # seconds; a quarter of it is the longest wait, unless the server asks for more
_KEPT = 64  # connections
_THIS_MACHINE = ("127.0.0.1", "localhost", "::1")


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
class DescribedCollection:
    """A collection as Chroma describes it."""

    id: UUID
    name: str
    metadata: dict[str, Any] | None
    dimension: int | None
    configuration_json: dict[str, Any] | None


class RestApi:
    """A database of a server, over a pool of connections. Any thread may call; the first call connects.

    ``collection``: the UUID. Rows of ``get`` and ``query`` are columns by name, as Chroma answers. Calls
    raise Refused, NoConnection and NoAnswer.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        token: str | None = None,
        ssl: bool = False,
        timeout: float = 60.0,
        headers: Mapping[str, str] | None = None,
        tenant: str = "default_tenant",
        database: str = "default_database",
        patience: float = 0.0,
    ) -> None:
        """Prepare a pool of connections to a server, without connecting.

        ``timeout``: seconds for each step of a request. ``patience``: see ``send_patiently``. The token is
        sent as a bearer token and as X-Chroma-Token: the server's guard decides which header is read.
        Addresses of this machine bypass the proxies named in the environment.
        """
        import httpx  # here, since it takes longer than many commands run

        of_token = {"Authorization": f"Bearer {token}", "X-Chroma-Token": token} if token else {}
        ours = {
            "Accept-Encoding": "identity", "Content-Type": "application/json", "User-Agent": "ingestor"
        }  # fmt: skip
        self._base = f"http{'s' if ssl else ''}://{f'[{host}]' if ':' in host else host}:{port}"
        self._http = httpx.Client(
            timeout=httpx.Timeout(timeout, connect=min(timeout, _CONNECT_TIMEOUT), pool=None),
            headers={**ours, **of_token, **(headers or {})},
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=_KEPT),
            verify=ssl,  # without TLS, the machine's certificates are not read
            trust_env=host not in _THIS_MACHINE,
        )
        self._patience = patience
        place = f"/tenants/{quote(tenant, safe='')}/databases/{quote(database, safe='')}"
        self._collections = f"/api/v2{place}/collections"

    def close(self) -> None:
        self._http.close()

    def is_alive(self) -> bool:
        """Whether it answers a heartbeat with success."""
        try:
            return self._answer("GET", "/api/v2/heartbeat", None).status_code == 200
        except (NoAnswer, NoConnection):
            return False

    def hangs(self) -> bool:
        """Whether a heartbeat gets no answer in time; False if nobody listens."""
        import httpx

        try:
            self._http.get(f"{self._base}/api/v2/heartbeat")
        except httpx.TimeoutException:
            return True
        except httpx.RequestError:
            return False
        return False

    def most_records(self) -> int:
        """The most records that a request may write."""
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
        """Create a collection.

        ``configuration``: Chroma's JSON, in which the embedding function is described, not built.
        """
        wanted = {"name": name, "metadata": metadata, "configuration": configuration}
        return _found(self._asked("POST", "", wanted))

    def reconfigure(self, collection: UUID, configuration: Mapping[str, Any]) -> None:
        """Replace settings, in the form of Chroma's JSON; records stay as they are."""
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
        packed = [
            b64encode(vector.astype("<f4").tobytes()).decode() for vector in vectors
        ]  # short, and exact
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
            answer = self._answer(method, path, content)
            if answer.status_code >= 400:
                raise _refusal(answer)
            return orjson.loads(answer.content)

        return send_patiently(ask, self._patience) if self._patience else ask()

    def _answer(self, method: str, path: str, content: bytes | None) -> httpx.Response:
        import httpx

        try:
            return self._http.request(method, f"{self._base}{path}", content=content)
        except httpx.TimeoutException as error:
            if isinstance(error, httpx.ConnectTimeout):
                raise NoConnection(f"at {self._base}: {error}") from error
            raise NoAnswer from error
        except httpx.RequestError as error:
            raise NoConnection(f"at {self._base}: {error}") from error


def send_patiently(ask: Callable[[], T], seconds: float, sleep: Callable[[float], None] = time.sleep) -> T:
    """Return what ``ask`` returns; retry it with waits of at most ``seconds`` in all. It must be idempotent.

    Raises what the last attempt raised. Waits grow. They are not drawn by chance, since one thread writes.
    """
    left = seconds
    for attempt in count(1):
        try:
            return ask()
        except Refused as error:
            least = error.wait or 0.0
            if error.status not in THROTTLED or (wait := max(least, ceiling(attempt, _CEILING) / 4)) > left:
                raise
        except NoConnection:
            if attempt > BROKEN or (wait := ceiling(attempt, _CEILING) / 4) > left:
                raise
        left -= wait
        sleep(wait)
    raise AssertionError


def _refusal(answer: httpx.Response) -> Refused:
    """Chroma says {"error": name, "message": text}; what stands before it may say anything."""
    status, wait = answer.status_code, retry_after(answer.headers.get("retry-after"), time.time())
    try:
        said = orjson.loads(answer.content)
        return Refused(said["message"], said["error"], status, wait)
    except (ValueError, TypeError, KeyError):
        text = answer.content.decode(errors="replace")
        return Refused(f"{text} (HTTP {status} of {answer.url})", "", status, wait)


def _found(said: dict[str, Any]) -> DescribedCollection:
    return DescribedCollection(
        UUID(said["id"]),
        said["name"],
        said.get("metadata"),
        said.get("dimension"),
        said.get("configuration_json"),
    )
