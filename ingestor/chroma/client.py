"""A client of Chroma's REST API v2 over httpx, and the meaning of the errors that Chroma returns.

Chroma 1.5.9 describes the API at /openapi.json. The package ``chromadb`` has a client, too, but importing it
takes most of a second.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import quote
from uuid import UUID

import orjson

from ingestor.chroma.folder import LEAST_ROOM, REMEDY, ROOM, is_damage, require_room
from ingestor.config.quotas import UNBOUNDED, Quotas
from ingestor.core.errors import longest_wait, shorten
from ingestor.ports import Gone, Later, NeedsHuman, Torn, Transient
from ingestor.units import retry_after

if TYPE_CHECKING:
    import httpx


T = TypeVar("T")
Verb = Literal["get", "query", "upsert", "update", "delete"]

INVALID = "InvalidArgumentError"  # Chroma's name of the error for a request that it does not understand
THROTTLED = (429, 503)
_NO_API = (404, 405)  # of a server that is not Chroma; Chroma's own errors have a kind
BROKEN = 3  # retries if no server answers or the connection breaks: a person waits for the reason

_CONNECT_TIMEOUT = 5.0  # seconds; a server on this machine that is alive accepts at once
_CEILING = 32.0  # seconds; a quarter of it is the longest wait, unless the server asks for more
_KEPT = 64  # idle connections that stay open
_LISTED = 100  # collections in an answer
_LONGEST_TEXT = 200  # characters of an answer in a message, if it is not Chroma's JSON
_THIS_MACHINE = ("127.0.0.1", "localhost", "::1")

# Messages after files of an HNSW segment were truncated, emptied, removed, or half written on a full disk.
_TORN = ("hnsw segment", "Error finding id", "Error getting embedding", "Nothing found on disk")

# Messages while the disk is full.
_FULL = ("disk is full", "Failed to apply logs to the metadata segment", "Error purging logs")

_DAMAGED = "its data is damaged: ingestor verify --repair --rebuild"
# Chroma's answer to a list in metadata before 1.5.0.
_NO_LISTS = "untagged enum UpdateMetadataValue"


class Refused(Exception):
    """Error: Chroma refused a request.

    ``kind``: Chroma's name of the error, or "". ``status``: the HTTP status. ``wait``: seconds after which
    the server allows a retry; None if unknown.
    """

    def __init__(self, message: str, kind: str, status: int, wait: float | None = None) -> None:
        super().__init__(message)
        self.kind, self.status, self.wait = kind, status, wait


class Unreachable(Transient):
    """Error: no server answers at the address, or the connection broke."""


class Unanswered(Transient):
    """Error: Chroma did not answer a request in time. If the disk was full, that lasts until a restart."""


class Full(Transient):
    """Error: Chroma cannot write, mostly because the disk is full. After that it soon needs a restart."""


@dataclass(frozen=True, slots=True)
class DescribedCollection:
    """The description that Chroma returns of a collection."""

    id: UUID
    name: str
    metadata: dict[str, Any] | None
    dimension: int | None
    configuration_json: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Place:
    """A tenant and a database on a server that somebody else runs, and the limits of this server.

    ``headers``: sent with each request. ``patience``: seconds for which a request is retried while the server
    throttles requests or cannot be reached.
    """

    tenant: str = "default_tenant"
    database: str = "default_database"
    headers: Mapping[str, str] = field(default_factory=dict)
    quotas: Quotas = UNBOUNDED
    patience: float = 0.0


class Client:
    """A database on a Chroma server, over a pool of connections. The first call connects; any thread may
    call.

    Methods take the UUID of a collection. They raise the errors of ``ports``, and Refused if Chroma refuses
    for any other reason.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        token: str | None = None,
        ssl: bool = False,
        timeout: float = 60.0,
        folder: Path | None = None,
        place: Place | None = None,
    ) -> None:
        """Prepare a pool of connections to a server, which need not run yet.

        ``timeout``: seconds for each step of a request. ``folder``: Chroma's data folder, if the server is
        ours. ``place``: None if the server is ours. The token is sent as a bearer token and as
        X-Chroma-Token, since servers differ in the header that they read. Requests to this machine bypass the
        proxies that the environment names.
        """
        import httpx  # here, since it takes longer than many commands run

        there = place or Place()
        self.quotas, self.foreign = there.quotas, place is not None
        self._folder, self._patience = folder, there.patience
        of_token = {"Authorization": f"Bearer {token}", "X-Chroma-Token": token} if token else {}
        ours = {
            "Accept-Encoding": "identity", "Content-Type": "application/json", "User-Agent": "ingestor"
        }  # fmt: skip
        self._timeout = timeout
        self._base = f"http{'s' if ssl else ''}://{f'[{host}]' if ':' in host else host}:{port}"
        self._http = httpx.Client(
            headers={**ours, **of_token, **there.headers},
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=_KEPT),
            verify=ssl,  # without TLS, the machine's certificates are not read
            trust_env=host not in _THIS_MACHINE,
        )
        tenant, database = quote(there.tenant, safe=""), quote(there.database, safe="")
        self._collections = f"/api/v2/tenants/{tenant}/databases/{database}/collections"

    def within(self, seconds: float) -> Client:
        """Return a client over the same connections. ``seconds``: for each step of a request."""
        client = copy(self)
        client._timeout = seconds
        return client

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def is_alive(self) -> bool:
        """Return whether the server answers a heartbeat in time and without an error."""
        try:
            return self._answer("GET", "/api/v2/heartbeat", None).status_code == 200
        except (Unanswered, Unreachable):
            return False

    def hangs(self) -> bool:
        """Return whether the server accepts connections, but does not answer a heartbeat in time."""
        try:
            self._answer("GET", "/api/v2/heartbeat", None)
        except (Unanswered, Unreachable) as error:
            return isinstance(error, Unanswered)
        return False

    def require_room(self, room: int = ROOM) -> None:
        """Raise Transient if the disk with Chroma's data folder has less than ``room`` bytes.

        Do nothing if the folder is unknown.
        """
        if self._folder is not None:
            require_room(self._folder, room)

    @cached_property
    def most_written(self) -> int | None:
        """Return how many records a request may write at most; None if there is no limit.

        A server of somebody else is asked for its limit, once.
        """
        asked = self._send("GET", "/api/v2/pre-flight-checks")["max_batch_size"] if self.foreign else None
        return min(filter(None, (asked, self.quotas.write_records)), default=None)

    def get_collection(self, name: str) -> DescribedCollection:
        """Return the description of the collection with this name. Raises Gone if there is none."""
        return _collection_of(self._ask("GET", f"/{quote(name, safe='')}"))

    def collections(self) -> Iterator[DescribedCollection]:
        """Yield the descriptions of all collections, whoever owns them. They are read in pages."""
        for page in count():
            listed = self._ask("GET", f"?limit={_LISTED}&offset={page * _LISTED}")
            yield from map(_collection_of, listed)
            if len(listed) < _LISTED:
                return

    def names(self) -> dict[str, str]:
        """Return the name of every collection by its UUID, whoever owns the collection."""
        return {str(collection.id): collection.name for collection in self.collections()}

    def create_collection(
        self,
        name: str,
        configuration: Mapping[str, Any] | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> DescribedCollection:
        """Create a collection. Raises Refused if the name is used already or not allowed.

        ``configuration``: settings in the form of Chroma's JSON. Chroma only stores the embedding function in
        them, for clients.
        """
        wanted = {"name": name, "metadata": metadata, "configuration": configuration}
        return _collection_of(self._ask("POST", "", wanted))

    def change_collection(self, collection: UUID, what: str, value: str | Mapping[str, Any]) -> None:
        """Replace the name, the metadata or the settings of a collection. Its records are not changed.

        ``what``: ``name``, ``metadata`` or ``configuration``. ``value``: the new value.
        """
        self.require_room(LEAST_ROOM)
        self._ask("PUT", f"/{collection}", {f"new_{what}": value})

    def delete_collection(self, name: str) -> None:
        """Delete the collection with this name, whoever owns it. Do nothing if it does not exist."""
        try:
            self._ask("DELETE", f"/{quote(name, safe='')}")
        except Gone:
            return

    def count(self, collection: UUID) -> int:
        return int(self._ask("GET", f"/{collection}/count"))

    def post(self, collection: UUID, verb: Verb, **body: Any) -> Any:
        """Send a request to read or write records of a collection. Return Chroma's answer.

        The answer is a dict of lists by column. ``verb``: the kind of request. ``body``: the fields of the
        request. Raises Transient if the disk has too little room for a write.
        """
        if verb in ("upsert", "update", "delete"):
            self.require_room(ROOM if verb == "upsert" else LEAST_ROOM)
        return self._ask("POST", f"/{collection}/{verb}", body)

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        return self._send(method, f"{self._collections}{path}", body)

    def _send(self, method: str, path: str, body: object = None) -> Any:
        content = None if body is None else orjson.dumps(body)

        def ask() -> bytes:
            answer = self._answer(method, path, content)
            if answer.status_code >= 400:
                raise _refusal(answer)
            return answer.content

        try:
            return orjson.loads(send_patiently(ask, self._patience))
        except Refused as error:
            if not error.kind and error.status in _NO_API:
                raise self._no_chroma() from error
            if (meaning := port_error(error)) is None:
                raise
            raise meaning from error
        except orjson.JSONDecodeError as error:
            raise self._no_chroma() from error

    def _no_chroma(self) -> NeedsHuman:
        return NeedsHuman(
            f"the server at {self._base} is not Chroma: check `chroma.host`, `port` and `ssl` in the config"
        )

    def _answer(self, method: str, path: str, content: bytes | None) -> httpx.Response:
        import httpx

        try:
            timeout = httpx.Timeout(self._timeout, connect=min(self._timeout, _CONNECT_TIMEOUT), pool=None)
            return self._http.request(method, f"{self._base}{path}", content=content, timeout=timeout)
        except httpx.RequestError as error:
            if isinstance(error, httpx.TimeoutException) and not isinstance(error, httpx.ConnectTimeout):
                raise Unanswered(
                    f"Chroma does not answer in time; if this repeats on an idle machine, {_DAMAGED}"
                ) from error
            remedy = f"; if this repeats, {_DAMAGED}" if self._folder else ""
            raise Unreachable(f"Chroma can't be reached at {self._base}: {error}{remedy}") from error


def send_patiently(ask: Callable[[], T], seconds: float, sleep: Callable[[float], None] = time.sleep) -> T:
    """Call ``ask`` and return its result. Retry while the server throttles requests or cannot be reached.

    The waits between retries grow, and are at most ``seconds`` together. They are not random, because only
    one thread writes. ``ask`` must be safe to repeat. Raises the error of the last attempt.
    """
    left = seconds
    for attempt in count(1):
        wait = longest_wait(attempt, _CEILING) / 4
        try:
            return ask()
        except Refused as error:
            wait = max(error.wait or 0.0, wait)
            if error.status not in THROTTLED or wait > left:
                raise
        except Unreachable:
            if attempt > BROKEN or wait > left:
                raise
        left -= wait
        sleep(wait)
    raise AssertionError


def _refusal(answer: httpx.Response) -> Refused:
    """Return the error that an HTTP response means.

    A proxy in front of Chroma may answer with text in place of JSON.
    """
    status, wait = answer.status_code, retry_after(answer.headers.get("retry-after"), time.time())
    try:
        refused = orjson.loads(answer.content)
        return Refused(refused["message"], refused["error"], status, wait)
    except (ValueError, TypeError, KeyError):
        text = shorten(" ".join(answer.content.decode(errors="replace").split()), _LONGEST_TEXT)
        return Refused(f"{text} (HTTP {status} from {answer.url})", "", status, wait)


def port_error(error: Refused) -> Exception | None:
    """Return the error of ``ports`` that a refusal means; None if it means none of them."""
    text, status = f"Chroma: {error}", error.status
    if is_damage(text):
        return NeedsHuman(f"{text}; {REMEDY}")
    if _NO_LISTS in text:
        return NeedsHuman(
            "the Chroma server is older than 1.5 and cannot store lists in metadata: upgrade Chroma"
        )
    if any(symptom in text for symptom in _FULL):
        return Full(
            f"{text}; if the disk of Chroma's data is full, free space; if it has room, the database is "
            "damaged: ingestor verify --repair --rebuild"
        )
    if any(symptom in text for symptom in _TORN):
        return Torn(text)
    if error.kind == "NotFoundError":
        return Gone(text)
    if status in (401, 403):
        return NeedsHuman(f"{text}; Chroma refuses the login: check `chroma.token`")
    if status == 500:  # an error within Chroma, while an overload has another status
        return Transient(f"{text}; if this repeats, {_DAMAGED}")
    if status > 500 or status in (408, 429):
        return Transient(text) if error.wait is None else Later(text, error.wait)
    return None


def _collection_of(answer: dict[str, Any]) -> DescribedCollection:
    return DescribedCollection(
        UUID(answer["id"]), answer["name"], *map(answer.get, ("metadata", "dimension", "configuration_json"))
    )
