"""Who may see the pages and press their buttons.

Browsers send the token as a password, and programs as a bearer token. Browsers keep a password for one
origin, port included; a cookie would go to every port of this machine. Without a token every user of the
machine may look, and the owner alone may change something (decision 0094). Forms carry a token of their own,
which tells a form of ours from one of another site.
"""

import hmac
from base64 import b64decode
from collections.abc import Sequence
from secrets import token_urlsafe

from starlette.requests import Request

from ingestor.http_server.access import Header, digest, has_token, values
from ingestor.http_server.bounded import RequestRefused, WrongToken
from ingestor.http_server.peers import PeerUsers

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
