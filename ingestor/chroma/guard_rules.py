"""Rules of the guard: who may ask what of Chroma, and how heads and bodies are rewritten. Pure.

A head is rewritten from its parsed parts, with exactly one framing of its body. Bodies with filters are
rewritten from their parsed values. So Chroma cannot understand a request differently from the guard (request
smuggling). See decisions 0033, 0062 and 0160.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum, auto
from typing import Any
from urllib.parse import quote

import orjson

from ingestor.chroma.filters import find_excess
from ingestor.http_server.access import HEAD_LIMIT, AccessRules, Header, Refusal, digest, has_token, values

BODY_LIMIT = 8 * 2**20  # bytes of a body that the guard reads
IDS = 20_000  # ids of a request; Chroma fails at 32,767

# Headers of one connection, or for the guard alone. Chroma's own server needs no token.
_NOT_PASSED_ON = {
    *(b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"upgrade", b"http2-settings"),
    *(b"authorization", b"proxy-authorization", b"x-chroma-token"),
    *(b"content-length", b"transfer-encoding", b"expect"),
}
_COLLECTIONS = rb"/api/v2/tenants/[^/]+/databases/[^/]+/collections"
_FILTERED = re.compile(rb"%b/[^/]+/(get|query|delete)" % _COLLECTIONS)
_MADE = re.compile(_COLLECTIONS)
_REASONS = {
    400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 413: "Content Too Large",
    421: "Misdirected Request", 422: "Unprocessable Entity", 431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}  # fmt: skip
# Error names for which chromadb's client shows our message.
_ERRORS = {
    401: "AuthorizationError", 403: "AuthError", 421: "AuthError", 503: "InternalError"
}  # fmt: skip


def answer(refusal: Refusal) -> bytes:
    """Return the whole response; it closes the connection."""
    error = _ERRORS.get(refusal.status, "InvalidArgumentError")
    body = json.dumps({"error": error, "message": refusal.message}).encode()
    asked = 'WWW-Authenticate: Bearer realm="chroma"\r\n' if refusal.status == 401 else ""
    head = (
        f"HTTP/1.1 {refusal.status} {_REASONS[refusal.status]}\r\n{asked}Content-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


TOO_LARGE = Refusal(431, f"the head of a request may have {HEAD_LIMIT:,} bytes")
BODY_TOO_LARGE = Refusal(413, f"the body of such a request may have {BODY_LIMIT:,} bytes")
_NO_TOKEN = Refusal(
    401, "this Chroma server requires a token: send `Authorization: Bearer ...` or `X-Chroma-Token`"
)
_STRANGER = Refusal(
    401,
    "without a token, this Chroma server answers only programs of the user who runs ingestor, and of root, "
    "on the same machine: set `chroma: {token: ...}` in ingestor's config and send it, or open it to all "
    "readers with `chroma: {tokens: [{may: read}]}`",
)
_READ_ONLY = Refusal(
    403,
    "only ingestor changes this Chroma server, and others read it: to let a program write, give it a token "
    "of its own with `chroma: {tokens: [{token: ..., may: write}]}` in ingestor's config",
)


class Right(IntEnum):
    """Rights of a request; each right includes the ones before it."""

    READ = auto()
    WRITE = auto()
    ALL = auto()  # of the daemon: its bodies are forwarded unread


class Treatment(Enum):
    """The way in which a request is forwarded: as it comes, or once its body was read."""

    STREAM = auto()
    CHECK_FILTERS = auto()
    FIND = auto()  # a reader's get_or_create is answered with the collection, which stays as it is


@dataclass(frozen=True, slots=True)
class Access:
    """Rights at the port. ``names``: see AccessRules. ``tokens``: by digest. ``anybody``: without one."""

    names: AccessRules
    tokens: Mapping[bytes, Right]
    anybody: Right | None

    def judge(
        self, method: bytes, target: bytes, headers: Sequence[Header], is_ours: Callable[[], bool]
    ) -> Treatment | Refusal:
        """Decide how a request is forwarded. ``is_ours``: whether the daemon's own user or root sent it."""
        if refusal := self.names.judge(target, headers):
            return refusal
        given = [right for known, right in self.tokens.items() if has_token(headers, known)]
        right = max(given, default=self.anybody)
        if right is None and len(self.tokens) > 1:  # besides the daemon's
            return _NO_TOKEN
        if right is None and not is_ours():
            return _STRANGER
        return _treat(right or Right.READ, method, target.partition(b"?")[0])


def access(names: AccessRules, secret: str, tokens: Iterable[tuple[str | None, str]]) -> Access:
    """Build the rules of access, with tokens kept as digests.

    ``secret``: the daemon's own, with all rights. ``tokens``: each with read or write; None is anybody.
    """
    given = [(token, Right.WRITE if may == "write" else Right.READ) for token, may in tokens]
    known = {digest(token.encode()): right for token, right in given if token is not None}
    anybody = max((right for token, right in given if token is None), default=None)
    return Access(names, {**known, digest(secret.encode()): Right.ALL}, anybody)


def _treat(right: Right, method: bytes, path: bytes) -> Treatment | Refusal:
    if right is Right.ALL or method in (b"GET", b"HEAD"):
        return Treatment.STREAM
    filtered = _FILTERED.fullmatch(path) if method == b"POST" else None
    if filtered and (right is Right.WRITE or filtered[1] != b"delete"):
        return Treatment.CHECK_FILTERS
    if right is Right.WRITE and not path.endswith(b"/search"):  # which Chroma alone on a machine has not
        return Treatment.STREAM
    return Treatment.FIND if method == b"POST" and _MADE.fullmatch(path) else _READ_ONLY


def check_filters(body: bytes) -> bytes | Refusal:
    """Return the body for Chroma, written from what was parsed, or why Chroma could not bear its filters."""
    wanted = _parse(body)
    if isinstance(wanted, Refusal):
        return wanted
    if excess := find_excess(wanted.get("where"), wanted.get("where_document")):
        return Refusal(422, f"the filters of a request {excess}")
    ids = wanted.get("ids")
    if isinstance(ids, list) and len(ids) > IDS:
        return Refusal(422, f"a request may name at most {IDS:,} ids")
    try:
        return orjson.dumps(wanted)
    except TypeError:
        return Refusal(400, "the body is nested too deeply")


def find_instead(target: bytes, body: bytes) -> bytes | Refusal:
    """Return the path of the collection that a get_or_create names; refuse to create any other."""
    wanted = _parse(body)
    if isinstance(wanted, Refusal):
        return wanted
    name = wanted.get("name")
    if wanted.get("get_or_create") is not True or not isinstance(name, str):
        return _READ_ONLY
    return target.partition(b"?")[0] + b"/" + quote(name, safe="").encode()


def _parse(body: bytes) -> dict[str, Any] | Refusal:
    try:
        wanted = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        return Refusal(400, f"the body is not JSON: {error}")
    return wanted if isinstance(wanted, dict) else Refusal(400, "the body must be a JSON object")


def headers_to_forward(headers: Sequence[Header], length: int | None = None) -> list[Header]:
    """Return the headers to forward, with a single one that frames the body, if there is one.

    ``length``: of a body of JSON that was written anew; None: the body keeps its framing.
    """
    passed = [(name, value) for name, value in headers if name not in _NOT_PASSED_ON]
    if length is not None:
        passed = [each for each in passed if each[0] != b"content-type"]
        return [*passed, (b"content-type", b"application/json"), (b"content-length", b"%d" % length)]
    if values(headers, b"transfer-encoding"):
        return [*passed, (b"transfer-encoding", b"chunked")]
    return [*passed, *((b"content-length", each) for each in values(headers, b"content-length")[:1])]
