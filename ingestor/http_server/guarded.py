"""Asks who sends a request before the application sees it: an ASGI application around another."""

from collections.abc import Callable

from starlette.types import ASGIApp, Receive, Scope, Send

from ingestor.http_server.access import Rules
from ingestor.http_server.bounded import Refused


class Guarded:
    """``open_to_all``: whether a path needs no token."""

    def __init__(self, app: ASGIApp, rules: Rules, open_to_all: Callable[[str], bool]) -> None:
        self._app, self._rules, self._open_to_all = app, rules, open_to_all

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises Refused."""
        free = self._open_to_all(scope["path"])
        refusal = self._rules.judge(scope["raw_path"], scope["headers"], open_to_all=free)
        if refusal is not None:
            challenge = {"WWW-Authenticate": "Bearer"} if refusal.status == 401 else {}
            raise Refused(refusal.status, refusal.message, challenge)
        await self._app(scope, receive, send)
