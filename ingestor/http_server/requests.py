"""Requests to our servers: limits, reading of bodies, access checks, and refusals.

``Bounded`` and ``Guarded`` are ASGI applications that wrap another application. A request whose body arrives
too slowly is answered with 408. When a request is refused, its body is still read for a moment. Otherwise the
client would see a broken connection instead of the refusal.
"""

import asyncio
import json
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from time import monotonic
from typing import Any
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ingestor.core.events import event
from ingestor.http_server.access import HEAD_LIMIT, AccessRules, Header, gives_token, values
from ingestor.units import quantity

_log = logging.getLogger(__name__)

_QUIET = 60.0  # seconds between two lines of the log about wrong tokens
_FRAMES = {b"content-length", b"transfer-encoding"}
_CLOSE = {"Connection": "close"}


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Limits of a server and of its requests. Times are seconds."""

    connections: int = 128  # open connections; beyond, the one that waited longest for its client is closed
    spare: int = 16  # further connections, for the paths in ``always`` alone
    always: frozenset[str] = frozenset()  # paths that are answered on spare connections, too
    head: int = HEAD_LIMIT  # bytes of a request's line and headers
    fields: int = 100  # headers of a request
    prompt: float = 10.0  # for the head of a request, and for the first bytes of its body
    slowest: float = 20_000  # bytes a second of a body, in either direction
    linger: float = 2.0  # for a client that still sends to read why it was refused
    keep_alive: float = 5.0  # for the next request on a connection
    penalty: float = 1.0  # before a wrong token is answered
    grace: float = 3.0  # for requests under way when the server stops

    def time_for(self, size: float) -> float:
        """Return the number of seconds in which a body of ``size`` bytes must arrive."""
        return self.prompt + size / self.slowest


class RequestRefused(Exception):
    """Error: a request is refused with an HTTP status. The message names the remedy."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.headers = status, dict(headers or {})

    def response(self) -> Response:
        return json_response(self.status, {"error": str(self)}, self.headers)


def json_response(status: int, body: object, headers: Mapping[str, str] | None = None) -> Response:
    """Build a response with ``body`` as one line of JSON."""
    return Response(json.dumps(body) + "\n", status, headers, media_type="application/json")


class WrongToken(RequestRefused):
    """Error: a request has a wrong token. Such refusals are logged, and delayed to slow down guessing.

    ``answer``: response to send instead of the error in JSON.
    """

    answer: Response | None = None

    def response(self) -> Response:
        return self.answer or super().response()


class RequestProblem(RequestRefused):
    """Error: a request is refused, with a response in the form of problem details (RFC 9457).

    ``where``: key of the body, or part of the address, that the sender must change. The response repeats
    ``detail`` as ``error``, because all other refusals have that key.
    """

    where: str | None = None

    @classmethod
    def at(cls, where: str | None, status: int, message: str) -> "RequestProblem":
        problem = cls(status, message, {"Retry-After": "1"} if status in (429, 503) else {})
        problem.where = where
        return problem

    @classmethod
    def of(cls, refused: RequestRefused) -> "RequestProblem":
        """Convert a refusal to one whose response has the form of problem details."""
        return refused if isinstance(refused, cls) else cls(refused.status, str(refused), refused.headers)

    def response(self) -> Response:
        body = {"title": HTTPStatus(self.status).phrase, "status": self.status, "detail": str(self)}
        where = {} if self.where is None else {"where": self.where}
        answer = json_response(self.status, {**body, **where, "error": str(self)}, self.headers)
        answer.headers["Content-Type"] = "application/problem+json"
        return answer


async def read_body(request: Request, most: int) -> bytes:
    """Return the body of a request. Raises RequestRefused if the body has more than ``most`` bytes."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > most:
            raise RequestRefused(413, f"the body of a request may have at most {most:,} bytes")
    return bytes(body)


async def read_form(request: Request, most: int) -> dict[str, str]:
    """Return the fields of a submitted HTML form. If a name is repeated, its last value counts.

    ``most``: largest allowed size of the body, in bytes. Raises RequestRefused.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise RequestRefused(415, "the body must be a form (application/x-www-form-urlencoded)")
    body = await read_body(request, most)
    try:
        return dict(parse_qsl(body.decode("utf-8"), keep_blank_values=True, max_num_fields=100))
    except ValueError:
        raise RequestRefused(400, "the body must be a form of at most 100 fields, in UTF-8") from None


async def read_object(request: Request, most: int) -> dict[str, Any]:
    """Parse the body of a request as a JSON object, and return the object.

    ``most``: largest allowed size of the body, in bytes. Raises RequestRefused.
    """
    body = await read_body(request, most)
    try:
        value = json.loads(body)
        if b"\\u" in body:
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise RequestRefused(
            400, "the body has a lone surrogate such as \\ud800: send valid Unicode"
        ) from None
    except (ValueError, RecursionError):
        raise RequestRefused(400, "the body must be JSON") from None
    if not isinstance(value, dict):
        raise RequestRefused(400, "the body must be a JSON object")
    return value


class Bounded:
    """ASGI application that applies ``limits`` to the requests for another application, ``app``.

    Errors of ``app`` become responses.
    """

    def __init__(self, app: ASGIApp, limits: ServerLimits) -> None:
        self._app, self._limits = app, limits
        self._wrong = 0  # number of wrong tokens
        self._logged = -math.inf  # monotonic seconds: when wrong tokens were logged last

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = _Request(scope, receive, send, self._limits)
        try:
            self._require_bounds(scope)
            await self._app(scope, request.receive, request.send)
        except RequestRefused as refused:
            if isinstance(refused, WrongToken):
                await self._punish(scope)
            if not request.answered:
                await refused.response()(scope, request.receive, request.send)
        except ClientDisconnect:
            return
        except Exception:
            _log.exception(
                "request %s %r failed",
                scope["method"],
                scope["path"],
                extra=event("request_failed", path=scope["path"]),
            )
            if request.answered:
                raise
            error = RequestRefused(500, "internal error; see ingestor's log")
            await error.response()(scope, request.receive, request.send)

    def _require_bounds(self, scope: Scope) -> None:
        """Raise RequestRefused if a request has too many headers, or declares its length in two ways.

        Also refuse the request if the server has too many connections.
        """
        if len(scope["headers"]) > self._limits.fields:
            raise RequestRefused(431, f"a request may have at most {self._limits.fields} headers")
        if {name for name, _ in scope["headers"]} >= _FRAMES:
            raise RequestRefused(
                400, "a request must not have both Content-Length and Transfer-Encoding", _CLOSE
            )
        connection = _connection(scope)
        if connection is not None and connection.is_spare and scope["path"] not in self._limits.always:
            raise RequestRefused(503, "too many connections: try again", {"Retry-After": "1", **_CLOSE})

    async def _punish(self, scope: Scope) -> None:
        """Delay the refusal of a wrong token, and log wrong tokens at most once a minute.

        If the server reaches its limit of connections during the delay, it may close this connection.
        """
        self._wrong += 1
        if monotonic() - self._logged > _QUIET:
            self._logged = monotonic()
            port, client = scope["server"][1], (scope.get("client") or ["unknown"])[0]
            _log.warning(
                "port %s refused %s with a wrong token, the last from %s; restrict access to it",
                port,
                quantity(self._wrong, "request"),
                client,
                extra=event("request_failed", client=str(client)),
            )
        if (connection := _connection(scope)) is not None:
            connection.is_punished = True
        await asyncio.sleep(self._limits.penalty)
        if connection is not None:
            connection.is_punished = False


def _connection(scope: Scope) -> Any:
    """Return the ``Connection`` of a request; None if the request comes from this process, as in tests."""
    return scope.get("state", {}).get("connection")


class _Request:
    """A request in progress: reads its body with a time limit, and sends its response."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, limits: ServerLimits) -> None:
        self._receive, self._send, self._limits = receive, send, limits
        self._method, self._path = scope["method"], scope["path"]
        names = {name for name, _ in scope["headers"]}
        self._unread = bool(names & _FRAMES)
        self._asked: float | None = None  # monotonic seconds: when the body was first asked for
        self._received = 0
        self.answered = False

    async def receive(self) -> Message:
        """Return the next message of the body. Raises RequestRefused if the body comes too slowly."""
        self._asked = monotonic() if self._asked is None else self._asked
        if not self._unread:
            return await self._receive()
        until = self._asked + self._limits.time_for(self._received)
        try:
            async with asyncio.timeout(until - monotonic()):
                message = await self._receive()
        except TimeoutError:
            raise RequestRefused(
                408, "the body of the request arrived too slowly: try again", _CLOSE
            ) from None
        self._received += len(message.get("body", b""))
        self._unread = message["type"] == "http.request" and message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        """Send a part of the response.

        Before the last part, read the rest of an unread body for a moment, so that the client sees the
        response.
        """
        if message["type"] == "http.response.start":
            self.answered = True
            _log.debug(
                "request %s %s: %d",
                self._method,
                self._path,
                message["status"],
                extra=event("request", path=self._path),
            )
            more = [(b"x-content-type-options", b"nosniff"), *([(b"connection", b"close")] * self._unread)]
            set_now = {name for name, _ in more}
            kept = [each for each in message.get("headers", []) if each[0] not in set_now]
            message = {**message, "headers": [*kept, *more]}
        last = message["type"] == "http.response.body" and not message.get("more_body", False)
        if not (last and self._unread):
            return await self._send(message)
        # Closing a connection with unread bytes resets it, before the client has read the response.
        await self._send({**message, "more_body": True})
        await self._drain()
        return await self._send({"type": "http.response.body"})

    async def _drain(self) -> None:
        """Read and discard the rest of the body, for at most ``linger`` seconds."""
        try:
            async with asyncio.timeout(self._limits.linger):
                while (await self._receive()).get("more_body", False):
                    pass
        except TimeoutError:
            return


class Guarded:
    """ASGI application that passes requests on to ``app`` if the access rules allow them.

    ``open_to_all``: returns whether requests to a path need no token.
    """

    def __init__(self, app: ASGIApp, rules: AccessRules, open_to_all: Callable[[str], bool]) -> None:
        self._app, self._rules, self._open_to_all = app, rules, open_to_all

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on to the application. Raises RequestRefused if an access rule is broken."""
        free = self._open_to_all(scope["path"])
        headers = _without_site(scope["headers"]) if free and _is_visit(scope) else scope["headers"]
        refusal = self._rules.judge(scope["raw_path"], headers, open_to_all=free)
        if refusal is not None:
            challenge = {"WWW-Authenticate": "Bearer"} if refusal.status == 401 else {}
            raised = WrongToken if refusal.status == 401 and gives_token(headers) else RequestRefused
            raise raised(refusal.status, refusal.message, challenge)
        await self._app(scope, receive, send)


def _is_visit(scope: Scope) -> bool:
    """Return whether a browser requests a page to display, as after a click on a link.

    Such a request is allowed from pages of other sites, because they cannot read the response.
    """
    headers = scope["headers"]
    modes, targets = values(headers, b"sec-fetch-mode"), values(headers, b"sec-fetch-dest")
    return scope["method"] == "GET" and modes == [b"navigate"] and targets == [b"document"]


def _without_site(headers: Sequence[Header]) -> list[Header]:
    return [(name, value) for name, value in headers if name != b"sec-fetch-site"]
