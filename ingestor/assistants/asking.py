"""How the tools of assistants reach the addresses of the service port."""

from collections.abc import Awaitable, Callable
from typing import Any

import httpx
from starlette.types import ASGIApp

Ask = Callable[[str, str, object], Awaitable[tuple[int, Any]]]
"""Method, path and body to status and parsed body. It may raise DaemonAway."""


class DaemonAway(Exception):
    """No daemon answers; the message says what to do."""


def inside(app: ASGIApp) -> Ask:
    """Asks an application in this process that answers in JSON."""
    transport = httpx.ASGITransport(app)

    async def ask(method: str, path: str, body: object = None) -> tuple[int, Any]:
        async with httpx.AsyncClient(
            transport=transport, base_url="http://localhost", trust_env=False
        ) as client:
            said = await client.request(method, path, json=body)
            return said.status_code, said.json()

    return ask
