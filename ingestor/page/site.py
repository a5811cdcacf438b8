"""Common parts of all pages: access, the frame, and pages for refusals.

A few worker threads make the pages; the server's event loop only waits.
"""

import hmac
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from secrets import token_urlsafe
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from ingestor.http_server.access import Header, digest, has_token, values
from ingestor.http_server.peers import PeerUsers
from ingestor.http_server.requests import RequestRefused, WrongToken, read_form
from ingestor.page.frame import HEADERS, render
from ingestor.service.port import Common
from ingestor.service.searching import Turns

_FORWARDED = ("forwarded", "x-forwarded-for", "via")  # headers of proxies, which speak for anybody
_CHALLENGE = {"WWW-Authenticate": 'Basic realm="ingestor", charset="UTF-8"'}


class Sessions:
    """``token``: what the config demands; None lets everybody in who reaches the port.

    ``peers``: the users of programs on this machine. Used by the server's event loop alone.
    """

    def __init__(self, token: str | None, peers: PeerUsers) -> None:
        self._token = None if token is None else digest(token.encode())
        self._peers = peers
        self.form_token = token_urlsafe()  # of this daemon; shown on its pages alone

    def admits(self, request: Request) -> bool:
        """Whether the sender may see the pages."""
        headers: Sequence[Header] = request.scope["headers"]
        return (
            self._token is None
            or has_token(headers, self._token)
            or any(hmac.compare_digest(digest(given), self._token) for given in _passwords(headers))
        )

    def obstacle(self, request: Request) -> str:
        """Return why the sender, whom ``admits`` lets in, may change nothing; "" for an owner."""
        if self._token is not None:
            return ""
        if self._peers.missing:
            return "buttons need `http.token` in the config: this system does not tell whose a connection is"
        peer, here = request.scope["client"], request.scope["server"]
        proxied = any(name in request.headers for name in _FORWARDED)
        if not proxied and peer and here and self._peers.is_ours(peer, here):
            return ""
        return "only the user who runs ingestor may change something; `http.token` lets others sign in"

    def refusal(self, request: Request) -> RequestRefused:
        """Ask for the password; a wrong one is punished."""
        tried = "authorization" in request.headers
        message = "sign in: any name, and the token of `http.token` as the password"
        return (WrongToken if tried else RequestRefused)(401, message, _CHALLENGE)

    def accepts(self, given: str) -> bool:
        """Whether a form came from a page of this daemon."""
        return hmac.compare_digest(self.form_token.encode(), given.encode())


def _passwords(headers: Sequence[Header]) -> list[bytes]:
    """Return the passwords of HTTP basic authentication (RFC 7617)."""
    found = []
    for value in values(headers, b"authorization"):
        scheme, _, rest = value.partition(b" ")
        if scheme.lower() == b"basic":
            try:
                found.append(b64decode(rest.strip(), validate=True).partition(b":")[2])
            except ValueError:
                continue
    return found


MOST_BYTES = 20_000  # of a form
MOST_TOLD = 100

Form = Mapping[str, str]
Values = Mapping[str, Any]
Show = Callable[[Request], Values]  # what a page shows


@dataclass(frozen=True, slots=True)
class FormResult:
    """Result of a form. ``address``: page to open next; ``told``: message that this page shows."""

    address: str
    told: str = ""


Deed = Callable[[Form], FormResult]


class Site:
    """Frame, access and worker threads of the pages. ``common``: resources of the service port.

    Any thread may use a site, but not ``sessions``.
    """

    def __init__(self, common: Common, sessions: Sessions) -> None:
        self.common, self.sessions = common, sessions
        self._told: dict[str, str] = {}  # what was done and not told yet, by a name in the address
        self._turns = Turns()  # of their own: a slow search must not delay the overview

    def page(self, path: str, template: str, show: Show) -> Route:
        """An address that shows a page; ``show`` runs in a worker thread."""

        async def answer(request: Request) -> Response:
            if not self.sessions.admits(request):
                return self.asks_in(request)
            try:
                values = await self._turns.run(partial(show, request))
            except RequestRefused as refused:
                return self.refusal(request, refused)
            return await self.shown(request, template, values)

        return Route(path, answer, methods=["GET"])

    def deed(self, path: str, do: Deed, *, changes: bool = True) -> Route:
        """An address that a form of ours is sent to; ``do`` runs in a worker thread.

        ``changes``: the deed is for owners alone.
        """

        async def answer(request: Request) -> Response:
            try:
                if not self.sessions.admits(request):
                    return self.asks_in(request)
                if changes and (obstacle := self.sessions.obstacle(request)):
                    raise RequestRefused(403, obstacle)
                form = await self.form(request)
                done = await self._turns.run(partial(do, form))
                return RedirectResponse(self._noted(done), 303, HEADERS)
            except RequestRefused as refused:
                return self.refusal(request, refused)

        return Route(path, answer, methods=["POST"])

    def _noted(self, done: FormResult) -> str:
        """The address of the page that tells what was done, once."""
        if not done.told:
            return done.address
        name = token_urlsafe(8)
        self._told[name] = done.told
        while len(self._told) > MOST_TOLD:
            del self._told[next(iter(self._told))]
        return f"{done.address}?done={name}"

    async def form(self, request: Request) -> Form:
        """The fields of a form. Raises RequestRefused unless it came from a page of this daemon."""
        form = await read_form(request, MOST_BYTES)
        if not self.sessions.accepts(form.get("form_token", "")):
            raise RequestRefused(
                403, "the form came from another daemon: reload the page and send the form again"
            )
        return form

    async def shown(self, request: Request, template: str, values: Values, status: int = 200) -> Response:
        made = partial(render, template, {**self.frame(request), **values})
        return Response(await self._turns.run(made), status, HEADERS, "text/html")

    def frame(self, request: Request) -> Values:
        """Return the values for the frame of a page."""
        admitted = self.sessions.admits(request)
        return {
            "path": request.url.path,
            "form_token": self.sessions.form_token if admitted else "",
            "obstacle": self.sessions.obstacle(request) if admitted else "",
            "done": self._told.pop(request.query_params.get("done", ""), ""),
        }

    def refusal(self, request: Request, refused: RequestRefused) -> Response:
        values = {**self.frame(request), "status": refused.status, "message": str(refused)}
        headers = {**HEADERS, **refused.headers}
        return Response(render("refusal.html", values), refused.status, headers, "text/html")

    def asks_in(self, request: Request) -> Response:
        """Ask for the password on a page. Raises WrongToken if one came."""
        refused = self.sessions.refusal(request)
        answer = self.refusal(request, refused)
        if isinstance(refused, WrongToken):
            refused.answer = answer
            raise refused
        return answer


def local(address: str) -> str:
    """The address if it is one of our pages, else the overview."""
    parts = urlsplit(address)
    ours = parts.path == "/" or parts.path.startswith("/page/")
    plain = address.isprintable() and "\\" not in address
    return address if ours and plain and not (parts.scheme or parts.netloc) else "/"
