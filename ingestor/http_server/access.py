"""Access rules of our HTTP servers: Host, Origin and token of a request. Pure.

The guard on Chroma's port, the service port and the connector ``push`` use them. See decision 0033.
"""

import hashlib
import hmac
import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address

Header = tuple[bytes, bytes]  # the name in lower case, the value

HEAD_LIMIT = 65_536  # bytes of a request's line and headers
LEAST_TOKEN = 16  # characters of a token, on a port that other machines reach
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^:\[\]/@\s]+))(?::[0-9]*)?")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Reason why a request is refused, with its HTTP status."""

    status: int
    message: str


@dataclass(frozen=True, slots=True)
class AccessRules:
    """Rules by which the server at one port accepts or refuses requests."""

    names: frozenset[str]  # allowed host names, in lower case
    token: bytes | None = None  # SHA-256 of the token; None admits everybody
    server: str = "Chroma server"  # name of the server in messages
    key: str = "chroma"  # section of the config, for messages
    origins: frozenset[str] = frozenset()  # allowed besides those of the Host, such as a TLS proxy's

    def judge(self, target: bytes, headers: Sequence[Header], *, open_to_all: bool = False) -> Refusal | None:
        """Check a request by all rules. Return the refusal if a rule is broken, else None.

        ``target``: path in the request line. ``open_to_all``: whether requests to this path need no token.
        """
        if not target.startswith(b"/"):
            return Refusal(400, "the target of a request must be a path")
        hosts = values(headers, b"host")
        if len(hosts) != 1:
            return Refusal(400, "a request must have one Host header")
        host = hosts[0].decode("latin-1")
        if not self._is_ours(host):
            return Refusal(
                421,
                f"{host[:200]!r} is not a name of this {self.server}: add it to `{self.key}: "
                "{hosts: [...]}` in ingestor's config",
            )
        if not _is_same_site(headers, {f"http://{host}".lower(), *self.origins}):
            return Refusal(403, f"pages of other origins may not use this {self.server}")
        if self.token is not None and not open_to_all and not has_token(headers, self.token):
            return Refusal(
                401,
                f"this {self.server} requires a token: send `Authorization: Bearer ...` or `X-Chroma-Token`",
            )
        return None

    def _is_ours(self, host: str) -> bool:
        """Return whether the header Host, with value ``host``, names this server.

        IP addresses are always accepted: a browser sends one only for pages that come from that address.
        Unknown names are refused, because an attacker's name may resolve to this machine (DNS rebinding).
        """
        match = _HOST.fullmatch(host)
        if not match:
            return False
        name = (match[1] or match[2]).lower().removesuffix(".")
        return name in self.names or name == "localhost" or _is_address(name)


def rules(
    names: Iterable[str],
    token: str | None,
    server: str = "Chroma server",
    key: str = "chroma",
    origins: Iterable[str] = (),
) -> AccessRules:
    """Build the access rules of a port.

    ``names``: allowed host names besides localhost. ``token``: the required token; None requires no token.
    ``server``, ``key``: name of the server and its section of the config, for messages. ``origins``: web
    origins allowed besides the server's own.
    """
    ours = frozenset(name.lower().removesuffix(".") for name in names)
    return AccessRules(
        ours, None if token is None else digest(token.encode()), server, key, frozenset(origins)
    )


def has_token(headers: Sequence[Header], wanted: bytes) -> bool:
    """Return whether a request sends the right token. ``wanted``: SHA-256 of that token.

    Digests are compared in constant time, so that response times reveal nothing about the token.
    """
    given = values(headers, b"x-chroma-token")
    for value in values(headers, b"authorization"):
        scheme, _, rest = value.partition(b" ")
        if scheme.lower() == b"bearer":
            given.append(rest.strip())
    return any(hmac.compare_digest(digest(token), wanted) for token in given)


def is_loopback(host: str) -> bool:
    """Return whether a server that listens on ``host`` can be reached from this machine only."""
    try:
        return host.lower() == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def is_guessable(token: str, host: str) -> bool:
    """Return whether a token is too short to protect a server that other machines can reach."""
    return len(token) < LEAST_TOKEN and not is_loopback(host)


def gives_token(headers: Sequence[Header]) -> bool:
    """Return whether a request sends a token at all, right or wrong."""
    return any(name in (b"authorization", b"x-chroma-token") for name, _ in headers)


def digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


def values(headers: Sequence[Header], name: bytes) -> list[bytes]:
    """Return all values of the header ``name``, which must be given in lower case."""
    return [value for each, value in headers if each == name]


def _is_same_site(headers: Sequence[Header], ours: Container[str]) -> bool:
    """Return whether a request was sent by a page of this server, or by a program that is no browser.

    A browser names the page's origin in its headers. ``ours``: allowed origins, in lower case.
    """
    origins = values(headers, b"origin")
    sites = values(headers, b"sec-fetch-site")
    return all(origin.decode("latin-1").lower() in ours for origin in origins) and all(
        site in (b"same-origin", b"none") for site in sites
    )


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
