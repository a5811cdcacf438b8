"""Bounds the bodies of requests, and answers errors: an ASGI application around another.

A request whose body comes too slowly is answered with 408. A client that is refused while it still sends its
body is read for a moment. Otherwise it would see a broken connection instead of the answer.
"""

import asyncio
import json
import logging
import math
from collections.abc import Mapping
from time import monotonic
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ingestor.core.events import event
from ingestor.http_server.limits import ServerLimits

_log = logging.getLogger(__name__)

_QUIET = 60.0  # seconds between two lines of the log about wrong tokens
_FRAMES = {b"content-length", b"transfer-encoding"}
_CLOSE = {"Connection": "close"}


class RequestRefused(Exception):
    """Error: a request is refused with this status. The message names the remedy."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.headers = status, dict(headers or {})

    def response(self) -> Response:
        return json_response(self.status, {"error": str(self)}, self.headers)


def json_response(status: int, body: object, headers: Mapping[str, str] | None = None) -> Response:
    """Build a response with ``body`` as one line of JSON."""
    return Response(json.dumps(body) + "\n", status, headers, media_type="application/json")


class WrongToken(RequestRefused):
    """A token came, and was wrong: logged, and answered late. ``answer``: in place of the refusal."""

    answer: Response | None = None

    def response(self) -> Response:
        return self.answer or super().response()


class Bounded:
    """``app``: it may raise RequestRefused, and ClientDisconnect."""

    def __init__(self, app: ASGIApp, limits: ServerLimits) -> None:
        self._app, self._limits = app, limits
        self._wrong = 0  # tokens
        self._logged = -math.inf  # monotonic seconds: when wrong tokens were

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
        """Raises RequestRefused."""
        if len(scope["headers"]) > self._limits.fields:
            raise RequestRefused(431, f"a request may have {self._limits.fields} headers")
        if {name for name, _ in scope["headers"]} >= _FRAMES:
            raise RequestRefused(400, "a request has Content-Length or Transfer-Encoding, not both", _CLOSE)
        connection = _connection(scope)
        if connection is not None and connection.is_spare and scope["path"] not in self._limits.always:
            raise RequestRefused(503, "too many connections: try again", {"Retry-After": "1", **_CLOSE})

    async def _punish(self, scope: Scope) -> None:
        """Log wrong tokens once a minute, and wait; meanwhile the connection may be closed."""
        self._wrong += 1
        if monotonic() - self._logged > _QUIET:
            self._logged = monotonic()
            port, client = scope["server"][1], (scope.get("client") or ["unknown"])[0]
            _log.warning(
                "port %s: %d wrong tokens, the last from %s; consider restricting access",
                port,
                self._wrong,
                client,
                extra=event("request_failed", client=str(client)),
            )
        if (connection := _connection(scope)) is not None:
            connection.is_punished = True
        await asyncio.sleep(self._limits.penalty)
        if connection is not None:
            connection.is_punished = False


def _connection(scope: Scope) -> Any:
    """The ``Connection`` of a request; None within this process."""
    return scope.get("state", {}).get("connection")


class _Request:
    """The body of one request as it comes, and the answer as it goes."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, limits: ServerLimits) -> None:
        self._receive, self._send, self._limits = receive, send, limits
        self._method, self._path = scope["method"], scope["path"]
        names = {name for name, _ in scope["headers"]}
        self._unread = bool(names & _FRAMES)
        self._asked: float | None = None  # monotonic seconds: when the body was first asked for
        self._received = 0
        self.answered = False

    async def receive(self) -> Message:
        """Raises RequestRefused when the body comes too slowly."""
        self._asked = monotonic() if self._asked is None else self._asked
        if not self._unread:
            return await self._receive()
        until = self._asked + self._limits.time_for(self._received)
        try:
            async with asyncio.timeout(until - monotonic()):
                message = await self._receive()
        except TimeoutError:
            raise RequestRefused(408, "the body of the request came too slowly", _CLOSE) from None
        self._received += len(message.get("body", b""))
        self._unread = message["type"] == "http.request" and message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
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
        await self._send({**message, "more_body": True})
        await self._drain()
        return await self._send({"type": "http.response.body"})

    async def _drain(self) -> None:
        """Read and drop the rest of the body, for a moment."""
        try:
            async with asyncio.timeout(self._limits.linger):
                while (await self._receive()).get("more_body", False):
                    pass
        except TimeoutError:
            return
