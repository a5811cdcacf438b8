"""Which requests the guard lets through, and how it rewrites their heads. Pure.

A head is rewritten from its parsed parts, with exactly one framing of its body. So Chroma cannot understand a
request differently from the guard (request smuggling). See decision 0033.
"""

import hashlib
import hmac
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address

Header = tuple[bytes, bytes]  # the name in lower case, the value

HEAD_LIMIT = 65_536  # bytes of a request's line and headers

# Headers of one connection, or for the guard alone. Chroma's own server needs no token.
_NOT_PASSED_ON = {
    *(b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"upgrade", b"http2-settings"),
    *(b"authorization", b"proxy-authorization", b"x-chroma-token"),
    *(b"content-length", b"transfer-encoding"),
}
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^:\[\]/@\s]+))(?::[0-9]*)?")
_REASONS = {
    400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 421: "Misdirected Request",
    431: "Request Header Fields Too Large", 503: "Service Unavailable",
}  # fmt: skip
# Error names for which chromadb's client shows our message.
_ERRORS = {
    401: "AuthorizationError", 403: "AuthError", 421: "AuthError", 503: "InternalError"
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Refusal:
    """A response of the guard itself."""

    status: int
    message: str

    def answer(self) -> bytes:
        """The whole response; it closes the connection."""
        error = _ERRORS.get(self.status, "InvalidArgumentError")
        body = json.dumps({"error": error, "message": self.message}).encode()
        asked = 'WWW-Authenticate: Bearer realm="chroma"\r\n' if self.status == 401 else ""
        head = (
            f"HTTP/1.1 {self.status} {_REASONS[self.status]}\r\n{asked}Content-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        return head.encode() + body


TOO_LARGE = Refusal(431, f"the head of a request may have {HEAD_LIMIT:,} bytes")


@dataclass(frozen=True, slots=True)
class Rules:
    """``names``: allowed host names, in lower case. ``token``: its SHA-256, or None."""

    names: frozenset[str]
    token: bytes | None = None

    def judge(self, target: bytes, headers: Sequence[Header]) -> Refusal | None:
        """None if the request may pass."""
        if not target.startswith(b"/"):
            return Refusal(400, "the target of a request must be a path")
        hosts = _values(headers, b"host")
        if len(hosts) != 1:
            return Refusal(400, "a request must have one Host header")
        host = hosts[0].decode("latin-1")
        if not self._is_ours(host):
            return Refusal(
                421,
                f"this Chroma server has no name {host[:200]!r}: see `chroma: {{hosts: [...]}}` of ingestor",
            )
        if not _is_same_site(headers, host):
            return Refusal(403, "pages of other origins may not use this Chroma server")
        if self.token is not None and not _has_token(headers, self.token):
            return Refusal(
                401,
                "this Chroma server asks for a token: send `Authorization: Bearer ...` or `X-Chroma-Token`",
            )
        return None

    def _is_ours(self, host: str) -> bool:
        """Whether a Host is allowed. Addresses always are: a browser sends one only for pages of that
        server."""
        found = _HOST.fullmatch(host)
        if not found:
            return False
        name = (found[1] or found[2]).lower().removesuffix(".")
        return name in self.names or name == "localhost" or _is_address(name)


def rules(names: Iterable[str], token: str | None) -> Rules:
    """``names``: host names besides localhost. ``token``: None allows everybody."""
    ours = frozenset(name.lower().removesuffix(".") for name in names)
    return Rules(ours, None if token is None else _digest(token.encode()))


def framing(headers: Iterable[Header]) -> Header | None:
    """The one header that frames the body, if any."""
    return next((each for each in headers if each[0] in (b"content-length", b"transfer-encoding")), None)


def head(
    method: bytes, target: bytes, version: str, headers: Sequence[Header], keep_alive: bool
) -> bytes | None:
    """The head for Chroma. None if a part of it contains a line end, or a space in the target."""
    passed = [b"%b: %b" % each for each in headers if each[0] not in _NOT_PASSED_ON]
    if body := framing(headers):
        passed.append(b"%b: %b" % body)
    if not keep_alive:
        passed.append(b"connection: close")
    lines = [b"%b %b HTTP/%b" % (method, target, version.encode()), *passed]
    text = b"\r\n".join(lines)
    clean = text.count(b"\r") == text.count(b"\n") == len(passed) and lines[0].count(b" ") == 2
    return text + b"\r\n\r\n" if clean and b"\0" not in text else None


def _is_same_site(headers: Sequence[Header], host: str) -> bool:
    """Whether the request comes from a page of this server, or from no page."""
    origins = _values(headers, b"origin")
    sites = _values(headers, b"sec-fetch-site")
    return all(origin.decode("latin-1").lower() == f"http://{host}".lower() for origin in origins) and all(
        site in (b"same-origin", b"none") for site in sites
    )


def _has_token(headers: Sequence[Header], digest: bytes) -> bool:
    """Whether the request has the token; compared in constant time."""
    given = _values(headers, b"x-chroma-token")
    for value in _values(headers, b"authorization"):
        scheme, _, rest = value.partition(b" ")
        if scheme.lower() == b"bearer":
            given.append(rest.strip())
    return any(hmac.compare_digest(_digest(token), digest) for token in given)


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


def _values(headers: Sequence[Header], name: bytes) -> list[bytes]:
    return [value for each, value in headers if each == name]


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
