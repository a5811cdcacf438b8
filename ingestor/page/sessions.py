"""Who may see the pages: browsers that signed in with the token, and whoever sends it with each request.

Sessions are kept in memory: they end with the daemon. Forms carry a token of their own, by which a form of
ours is told from one of another site. Used by the server's event loop alone.
"""

import hmac
from collections.abc import Sequence
from hashlib import sha256
from secrets import token_urlsafe
from time import monotonic

from starlette.requests import Request
from starlette.responses import Response

from ingestor.http_server.access import Header, digest, has_token

COOKIE = "ingestor_session"
LASTS = 12 * 3600.0  # seconds
MOST = 100  # sessions; beyond them the oldest ends


class Sessions:
    """``token``: what the config demands; None lets everybody in who reaches the port."""

    def __init__(self, token: str | None) -> None:
        self._token = None if token is None else digest(token.encode())
        self._key = token_urlsafe().encode()
        self._until: dict[bytes, float] = {}  # monotonic seconds, by the digest of the cookie's value

    @property
    def needed(self) -> bool:
        return self._token is not None

    def admits(self, request: Request) -> bool:
        """Whether the sender may see the pages."""
        headers: Sequence[Header] = request.scope["headers"]
        return self._token is None or self._has(request) or has_token(headers, self._token)

    def _has(self, request: Request) -> bool:
        until = self._until.get(digest(_value(request)))
        return until is not None and monotonic() < until

    def open(self, given: str, request: Request, response: Response) -> bool:
        """Begin a session if the token is right. Over TLS the cookie is for TLS alone."""
        if self._token is None or not hmac.compare_digest(digest(given.encode()), self._token):
            return False
        value = token_urlsafe()
        self._until[digest(value.encode())] = monotonic() + LASTS
        while len(self._until) > MOST:
            del self._until[next(iter(self._until))]
        secure = request.headers.get("origin", "").lower().startswith("https://")
        response.set_cookie(
            COOKIE, value, int(LASTS), path="/", httponly=True, samesite="strict", secure=secure
        )
        return True

    def end(self, request: Request, response: Response) -> None:
        self._until.pop(digest(_value(request)), None)
        response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")

    def form_token(self, request: Request) -> str:
        """What a form of this session must carry."""
        return hmac.new(self._key, _value(request), sha256).hexdigest()

    def accepts(self, request: Request, given: str) -> bool:
        """Whether a form came from a page of this session."""
        return hmac.compare_digest(self.form_token(request).encode(), given.encode())


def _value(request: Request) -> bytes:
    return request.cookies.get(COOKIE, "").encode()
