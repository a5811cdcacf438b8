"""Serves ``POST /mcp`` at the service port: the tools for assistants, over MCP's streamable HTTP.

Requests are independent of each other: there are no sessions and no open streams. ``mcp`` is an optional
package, which the first request imports.
"""

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import httpx
from anyio.to_thread import run_sync
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ingestor.http_server.requests import RequestProblem, read_body
from ingestor.service.client import Ask

MISSING = "tools for assistants need the extra `mcp`: pip install 'chroma-ingestor[mcp]'"
MOST_BYTES = 200_000  # of a request


def is_installed() -> bool:
    return find_spec("mcp") is not None


def routes(app: ASGIApp) -> list[BaseRoute]:
    """Return the route of ``/mcp``. ``app``: the application to which the tools send their requests."""
    return [Route("/mcp", _Endpoint(app), methods=["POST"])]


class _Endpoint:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._server: Any = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request of an assistant. Raises RequestRefused."""
        if not is_installed():
            raise RequestProblem.at(None, 501, MISSING)
        body = await read_body(Request(scope, receive), MOST_BYTES)
        served = await run_sync(self._build)
        async with served.router.lifespan_context(served):
            await served(dict(scope), _again(body, receive), send)

    def _build(self) -> Starlette:
        from ingestor.service.assistant_tools import over_http, server

        self._server = self._server or server(inside(self._app))
        return over_http(self._server, MOST_BYTES)


def _again(body: bytes, receive: Receive) -> Receive:
    """Return a ``receive`` function that first delivers the body once more, which was already read."""
    messages: Iterator[Message] = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive_again() -> Message:
        return next(messages, None) or await receive()

    return receive_again


def inside(app: ASGIApp) -> Ask:
    """Return a function that sends requests to an application of this process, instead of over the network.

    The application must answer in JSON.
    """
    transport = httpx.ASGITransport(app)

    async def ask(method: str, path: str, body: object = None) -> tuple[int, Any]:
        async with httpx.AsyncClient(
            transport=transport, base_url="http://localhost", trust_env=False
        ) as client:
            response = await client.request(method, path, json=body)
            return response.status_code, response.json()

    return ask
