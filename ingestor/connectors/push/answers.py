"""ASGI application of the push connector: the requests of callers, and the answers.

    PUT, GET, DELETE /documents/KEY     GET /documents     POST /look?source=NAME&under=KEY

An unauthorised request gets the same answer whether it is valid or not. A document is durable before it is
acknowledged.
"""

import hmac
import json
import logging
import re
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote_to_bytes

import anyio
from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ingestor.connectors.push.store import Metadata, PushStore, StoredDocument, StoreFull
from ingestor.http_server.access import digest, gives_token, has_token
from ingestor.http_server.requests import RequestRefused, WrongToken, json_response
from ingestor.model import Hint, SourceName
from ingestor.ports import NeedsHuman, Transient

WORKERS = 8  # requests that use the store or hold a body at the same time
LONGEST_KEY = 2000  # characters
_LARGEST_EVENT = 32 * 2**20  # bytes; GitHub sends at most 25 MB
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_STATUS = {"created": 201, "changed": 200, "unchanged": 204}
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PushApp:
    """ASGI application of the push endpoint.

    ``token``: a request with the token may do everything. ``secret``: key with which webhooks are signed;
    these may only request a listing. ``sources``: returns the names of the sources that can be listed.
    ``requested_hints``: hints that callers requested, and that ``watch`` has not yielded yet.
    """

    store: PushStore
    token: str
    secret: str | None
    max_size: int  # bytes
    sources: Callable[[], Collection[str]]
    requested_hints: deque[Hint] = field(default_factory=deque)
    workers: anyio.Semaphore = field(default_factory=lambda: anyio.Semaphore(WORKERS))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request. Raises RequestRefused."""
        response = await self._answer(Request(scope, receive))
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        path = request.scope["raw_path"].decode("latin-1")
        opened = has_token(request.scope["headers"], digest(self.token.encode()))
        if not (opened or (path == "/look" and await self._is_signed(request))):
            tried = gives_token(request.scope["headers"]) or "X-Hub-Signature-256" in request.headers
            refused = WrongToken if tried else RequestRefused
            raise refused(401, "the token is missing or wrong", {"WWW-Authenticate": "Bearer"})
        try:
            return await self._route(request, path)
        except StoreFull as error:
            raise RequestRefused(507, str(error)) from error
        except (NeedsHuman, Transient) as error:
            _log.warning("push request %s %r failed: %s", request.method, path, error)
            raise RequestRefused(503, str(error), {"Retry-After": "10"}) from error

    async def _is_signed(self, request: Request) -> bool:
        """Return whether a webhook has the right signature, as GitHub computes it.

        The signature is a digest of the body, keyed with the secret.
        """
        received = request.headers.get("X-Hub-Signature-256")
        if self.secret is None or received is None or _length(request) > _LARGEST_EVENT:
            return False
        signature = hmac.new(self.secret.encode(), digestmod="sha256")
        async for piece in request.stream():
            signature.update(piece)
        expected = f"sha256={signature.hexdigest()}"
        return hmac.compare_digest(received.encode("latin-1"), expected.encode())  # header fields are Latin-1

    async def _route(self, request: Request, path: str) -> Response:
        if path.startswith("/documents/"):
            if request.url.query:
                raise RequestRefused(400, "write a question mark in the key as %3F")
            return await self._document(request, _key(path.removeprefix("/documents/")))
        if path == "/documents":
            _check_method(request, "GET")
            kept = await run_sync(lambda: list(map(_describe, self.store.list_documents())))
            return json_response(200, {"documents": kept})
        if path == "/look":
            return self._hint(request)
        raise RequestRefused(404, "unknown address: use /documents, /documents/KEY or /look")

    async def _document(self, request: Request, key: str) -> Response:
        match _check_method(request, "PUT", "GET", "DELETE"):
            case "PUT":
                return await self._put(request, key)
            case "GET":
                async with self.workers:
                    return await run_sync(self._get, key)
            case _:
                async with self.workers:
                    return await run_sync(self._delete, key)

    async def _put(self, request: Request, key: str) -> Response:
        if not {"content-length", "transfer-encoding"} & set(request.headers.keys()):
            raise RequestRefused(411, "send the document as the request's body, with a Content-Length")
        length = _length(request)
        if length > self.max_size:
            raise RequestRefused(
                413, f"the document has {length:,} bytes, more than max_size ({self.max_size:,})"
            )
        metadata = _metadata(request.headers.get("Metadata"))
        kind = " ".join(request.headers.get("Content-Type", "").split()) or None
        async with self.workers:
            data = await request.body()
            version, outcome = await run_sync(self.store.put, key, data, kind, metadata)
        _log.debug("pushed document %s was %s", key, outcome)
        body = None if outcome == "unchanged" else {"key": key, "version": version}
        return json_response(_STATUS[outcome], body) if body else Response(status_code=204)

    def _get(self, key: str) -> Response:
        document = self.store.get(key)
        if document is None:
            raise RequestRefused(404, f"there is no document {key!r}")
        kept, data = document
        about = {"ETag": f'"{kept.version}"', "Metadata": json.dumps(dict(kept.metadata))}
        about["Content-Type"] = kept.content_type or "application/octet-stream"
        return Response(data, 200, about)

    def _delete(self, key: str) -> Response:
        if not self.store.delete(key):
            raise RequestRefused(404, f"there is no document {key!r}")
        return Response(status_code=204)

    def _hint(self, request: Request) -> Response:
        _check_method(request, "POST")
        parameters = parse_qs(request.url.query)
        source, under = (parameters.pop(name, [""])[-1] for name in ("source", "under"))
        under = under.strip("/")
        if parameters or not source:
            raise RequestRefused(400, "name a source: use /look?source=NAME or /look?source=NAME&under=KEY")
        if source not in (known := self.sources()):
            raise RequestRefused(404, f"there is no source {source!r}; sources: {', '.join(sorted(known))}")
        if _CONTROL.search(under) or (under and {"", ".", ".."} & set(under.split("/"))):
            raise RequestRefused(
                400, "`under` must be a key of that source, or the first part of keys up to a /"
            )
        part = f" of {under!r}" if under else ""
        _log.info("source %r: a caller requested a scan%s", source, part)
        self.requested_hints.append(Hint(under, SourceName(source)))
        return json_response(202, {"source": source, "under": under})


def _length(request: Request) -> int:
    """Return the length of the body that the header Content-Length declares, in bytes.

    Raises RequestRefused.
    """
    if "Transfer-Encoding" in request.headers:
        raise RequestRefused(411, "send the body with a Content-Length, not in chunks")
    length = request.headers.get("Content-Length", "0")
    if not (length.isascii() and length.isdigit() and len(length) < 19):
        raise RequestRefused(400, "Content-Length must be one whole number")
    return int(length)


def _check_method(request: Request, *methods: str) -> str:
    if request.method not in methods:
        allowed = ", ".join(methods)
        message = f"only {allowed} is allowed here, not {request.method[:20]}"
        raise RequestRefused(405, message, {"Allow": allowed})
    return request.method


def _key(path: str) -> str:
    try:
        key = unquote_to_bytes(path.encode("latin-1")).decode()
    except UnicodeDecodeError:
        raise RequestRefused(400, "the key must be UTF-8, percent-encoded") from None
    if not key or len(key) > LONGEST_KEY or _CONTROL.search(key):
        raise RequestRefused(
            400, f"the key must have 1 to {LONGEST_KEY} characters, none of them a control character"
        )
    return key


def _metadata(field: str | None) -> Metadata:
    """Parse the request header ``Metadata``, a JSON object. Without the header there is no metadata.

    Raises RequestRefused.
    """
    try:
        values = json.loads((field or "{}").encode("latin-1"), parse_constant=_no_number)
        json.dumps(values, ensure_ascii=False, allow_nan=False).encode()  # lone surrogates are no text
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict) or not all(map(_is_scalar, values.values())):
        raise RequestRefused(400, "the header Metadata must be a JSON object of texts, numbers and booleans")
    return tuple(values.items())


def _is_scalar(value: object) -> bool:
    """Return whether Chroma can store the value: text, a boolean, or a number of at most 64 bits."""
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    return isinstance(value, str | float)


def _no_number(name: str) -> float:
    raise ValueError(name)


def _describe(kept: StoredDocument) -> dict[str, Any]:
    return {
        "key": kept.key,
        "version": kept.version,
        "size": kept.size,
        "modified": kept.modified,
        "metadata": dict(kept.metadata),
    }
