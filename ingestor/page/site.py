"""Code that all pages share: templates, access, forms, and the pages that explain refusals.

Templates escape every value, and spell out control characters and marks of direction. Worker threads render
the pages, so that the server's event loop is not delayed.
"""

import hmac
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from hashlib import sha256
from importlib.resources import files
from secrets import token_urlsafe
from typing import Any
from urllib.parse import urlsplit

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from ingestor import __version__
from ingestor.http_server.access import Header, digest, has_token, values
from ingestor.http_server.peers import PeerUsers
from ingestor.http_server.requests import RequestRefused, WrongToken, read_form
from ingestor.page import figures
from ingestor.preview.view import show_controls
from ingestor.service.port import Common
from ingestor.service.searching import Turns
from ingestor.units import quantity, size_in_words

HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
        "img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "same-origin",  # with `no-referrer` browsers send forms without their origin
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
FILES = ("page/page.css", "page/page.js", "page/icon.svg", "chunk_list.css")


def render(name: str, values: Mapping[str, Any]) -> str:
    """Render a template with values. ``name``: file name of the template in ``templates/page``."""
    return _environment().get_template(name).render(values)


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("ingestor", "templates/page"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_spell_out,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,  # an upgrade must not mix its templates with the code that runs
    )
    made.filters |= {
        "span": figures.span, "size": size_in_words, "number": figures.number, "counted": quantity,
        "moment": figures.moment, "clock": figures.clock, "ago": figures.ago,
    }  # fmt: skip
    made.globals |= {"version": __version__}
    return made


def _spell_out(value: object) -> object:
    """Replace control characters in a value by visible names.

    Other types than text are returned unchanged.
    """
    return show_controls(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def static(name: str) -> tuple[bytes, str, str] | None:
    """Return a file that the pages load: its content, its media type and its entity tag; None if unknown."""
    path = next((one for one in FILES if one.rpartition("/")[2] == name), None)
    if path is None:
        return None
    content = files("ingestor").joinpath("templates", *path.split("/")).read_bytes()
    kind = _TYPES[name.rpartition(".")[2]]
    return content, f"{kind}; charset=utf-8", f'"{sha256(content).hexdigest()[:16]}"'


_FORWARDED = ("forwarded", "x-forwarded-for", "via")  # headers of proxies, which forward anybody's requests
_CHALLENGE = {"WWW-Authenticate": 'Basic realm="ingestor", charset="UTF-8"'}


class Sessions:
    """Decides who may see the pages, and who may use buttons that change something.

    ``token``: ``http.token`` of the config; None admits everybody. ``peers``: finds the user of a connection
    from this machine. Methods must be called in the server's event loop.
    """

    def __init__(self, token: str | None, peers: PeerUsers) -> None:
        self._token = None if token is None else digest(token.encode())
        self._peers = peers
        self.form_token = token_urlsafe()  # of this daemon; shown on its pages alone

    def admits(self, request: Request) -> bool:
        """Return whether the sender may see the pages."""
        headers: Sequence[Header] = request.scope["headers"]
        return (
            self._token is None
            or has_token(headers, self._token)
            or any(hmac.compare_digest(digest(given), self._token) for given in _passwords(headers))
        )

    def obstacle(self, request: Request) -> str:
        """Return why the sender of a request may not change anything by buttons; "" if the sender may."""
        if self._token is not None:
            return ""
        if self._peers.missing:
            return "buttons need `http.token` in the config: this system does not name a connection's user"
        peer, here = request.scope["client"], request.scope["server"]
        proxied = any(name in request.headers for name in _FORWARDED)
        if not proxied and peer and here and self._peers.is_ours(peer, here):
            return ""
        return "only the user who runs ingestor may use buttons; set `http.token` to let others sign in"

    def refusal(self, request: Request) -> RequestRefused:
        """Return the refusal that makes the browser ask for a password.

        If the request had a wrong password, the refusal is logged and delayed (see WrongToken).
        """
        tried = "authorization" in request.headers
        message = "sign in with any name, and with http.token of the config as the password"
        return (WrongToken if tried else RequestRefused)(401, message, _CHALLENGE)

    def is_our_form(self, given: str) -> bool:
        """Return whether a form was sent from a page of this daemon. ``given``: the form's secret field."""
        return hmac.compare_digest(self.form_token.encode(), given.encode())


def _passwords(headers: Sequence[Header]) -> list[bytes]:
    """Return the passwords that a request sends by HTTP basic authentication (RFC 7617)."""
    passwords = []
    for value in values(headers, b"authorization"):
        scheme, _, rest = value.partition(b" ")
        if scheme.lower() == b"basic":
            try:
                passwords.append(b64decode(rest.strip(), validate=True).partition(b":")[2])
            except ValueError:
                continue
    return passwords


MOST_BYTES = 20_000  # of a form
MOST_MESSAGES = 100
_OLD_FORM = "the form belongs to an earlier run of the daemon: reload the page and send the form again"

Form = Mapping[str, str]
Values = Mapping[str, Any]
Show = Callable[[Request], Values]  # returns the values of a page


Action = Callable[[Form], str]  # handles a form, and returns a message for the page that opens next
CHANGES = "/page/changes"  # the page that opens after a form that names none


class Site:
    """Builds the routes of pages and forms.

    Each route checks access, works in a worker thread, and puts the frame of all pages around its content.
    ``common``: resources of the service port. Any thread may use a site, but not its ``sessions``.
    """

    def __init__(self, common: Common, sessions: Sessions) -> None:
        self.common, self.sessions = common, sessions
        self._messages: dict[str, str] = {}  # results of forms, by a name in the address of the next page
        self._turns = Turns()  # apart from searches of programs, so that they do not delay the pages

    def page(self, path: str, template: str, show: Show) -> Route:
        """Build the route of a page.

        ``template``: file name of its template. ``show``: returns the values for the template; called in a
        worker thread.
        """

        async def answer(request: Request) -> Response:
            if not self.sessions.admits(request):
                return self.request_password(request)
            try:
                values = await self._turns.run(partial(show, request))
            except RequestRefused as refused:
                return self.refusal(request, refused)
            made = partial(render, template, {**self.frame(request), **values})
            return Response(await self._turns.run(made), 200, HEADERS, "text/html")

        return Route(path, answer, methods=["GET"])

    def action(self, path: str, do: Action, *, changes: bool = True) -> Route:
        """Build the route of a form. ``do``: handles the form; called in a worker thread.

        ``changes``: whether the form changes something. Then senders are refused who may only see the pages
        (see ``Sessions.obstacle``).
        """

        async def answer(request: Request) -> Response:
            try:
                if not self.sessions.admits(request):
                    return self.request_password(request)
                if changes and (obstacle := self.sessions.obstacle(request)):
                    raise RequestRefused(403, obstacle)
                form = await read_form(request, MOST_BYTES)
                if not self.sessions.is_our_form(form.get("form_token", "")):
                    raise RequestRefused(403, _OLD_FORM)
                message = await self._turns.run(partial(do, form))
                address = keep_local(form.get("back", CHANGES)).partition("?")[0]
                if message:
                    name = token_urlsafe(8)
                    self._messages[name] = message
                    while len(self._messages) > MOST_MESSAGES:
                        del self._messages[next(iter(self._messages))]
                    address += f"?done={name}"
                return RedirectResponse(address, 303, HEADERS)
            except RequestRefused as refused:
                return self.refusal(request, refused)

        return Route(path, answer, methods=["POST"])

    def frame(self, request: Request) -> Values:
        """Return the values for the frame that surrounds every page.

        These are the page's address, the secret field of forms, why buttons are disabled, and the result of
        the last form.
        """
        admitted = self.sessions.admits(request)
        return {
            "path": request.url.path,
            "form_token": self.sessions.form_token if admitted else "",
            "obstacle": self.sessions.obstacle(request) if admitted else "",
            "done": self._messages.pop(request.query_params.get("done", ""), ""),
        }

    def refusal(self, request: Request, refused: RequestRefused) -> Response:
        """Return a page that explains why a request was refused."""
        values = {**self.frame(request), "status": refused.status, "message": str(refused)}
        headers = {**HEADERS, **refused.headers}
        return Response(render("refusal.html", values), refused.status, headers, "text/html")

    def request_password(self, request: Request) -> Response:
        """Return the response that asks for the password.

        Raises WrongToken if the request had a wrong password.
        """
        refused = self.sessions.refusal(request)
        answer = self.refusal(request, refused)
        if isinstance(refused, WrongToken):
            refused.answer = answer
            raise refused
        return answer


def keep_local(address: str) -> str:
    """Return the address if it leads to one of our pages, else the address of the overview.

    Forms give the address to return to, and must not lead a browser to another site.
    """
    parts = urlsplit(address)
    ours = parts.path == "/" or parts.path.startswith("/page/")
    plain = address.isprintable() and "\\" not in address
    return address if ours and plain and not (parts.scheme or parts.netloc) else "/"
