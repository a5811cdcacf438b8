"""ASGI application around another: checks the sender of a request before the application sees it."""

from collections.abc import Callable, Sequence

from starlette.types import ASGIApp, Receive, Scope, Send

from ingestor.http_server.access import AccessRules, Header, gives_token, values
from ingestor.http_server.bounded import RequestRefused, WrongToken


class Guarded:
    """``open_to_all``: whether a path needs no token."""

    def __init__(self, app: ASGIApp, rules: AccessRules, open_to_all: Callable[[str], bool]) -> None:
        self._app, self._rules, self._open_to_all = app, rules, open_to_all

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises RequestRefused."""
        free = self._open_to_all(scope["path"])
        headers = _without_site(scope["headers"]) if free and _is_visit(scope) else scope["headers"]
        refusal = self._rules.judge(scope["raw_path"], headers, open_to_all=free)
        if refusal is not None:
            challenge = {"WWW-Authenticate": "Bearer"} if refusal.status == 401 else {}
            raised = WrongToken if refusal.status == 401 and gives_token(headers) else RequestRefused
            raise raised(refusal.status, refusal.message, challenge)
        await self._app(scope, receive, send)


def _is_visit(scope: Scope) -> bool:
    """Whether somebody followed a link: it may stand on a page of another site, which sees no answer."""
    headers = scope["headers"]
    modes, places = values(headers, b"sec-fetch-mode"), values(headers, b"sec-fetch-dest")
    return scope["method"] == "GET" and modes == [b"navigate"] and places == [b"document"]


def _without_site(headers: Sequence[Header]) -> list[Header]:
    return [(name, value) for name, value in headers if name != b"sec-fetch-site"]
