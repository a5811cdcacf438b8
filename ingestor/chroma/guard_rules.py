"""Rules of the guard: who may make which request to Chroma, and how requests are rewritten. Pure.

Headers are rewritten from their parsed parts, and exactly one header tells where the body ends. Bodies with
filters are rewritten from their parsed values. So Chroma cannot understand a request differently from the
guard, which would allow request smuggling. See decisions 0033, 0062 and 0160.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum, auto
from typing import Any
from urllib.parse import quote

import orjson

from ingestor.http_server.access import HEAD_LIMIT, AccessRules, Header, Refusal, digest, has_token, values

BODY_LIMIT = 8 * 2**20  # bytes of a body that the guard reads
IDS = 20_000  # ids of a request; Chroma fails at 32,767
# Bounds of filters, well below those that stall or crash Chroma: 1.5.9 fails at 1,000 conditions and at
# 20,000 values, and crashes at 5,000 conditions (decision 0062).
CONDITIONS = 250  # comparisons in all filters of a request
VALUES = 5_000  # values in all lists of a request, as in `$in`
DEEPEST = 20  # levels of a filter, objects and lists alike

# Headers that concern one connection, or only the guard. Chroma itself needs no token.
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
# Error names for which chromadb's client shows the message; others it replaces by a text of its own.
_ERRORS = {
    401: "AuthorizationError", 403: "AuthError", 421: "AuthError", 503: "InternalError"
}  # fmt: skip


def find_excess(*filters: object) -> str | None:
    """Return in words which limit of size the filters of one request together exceed, or None."""
    conditions = values = 0
    level = [each for each in filters if each is not None]
    for _ in range(DEEPEST + 1):
        deeper = list[object]()
        for value in level:
            if isinstance(value, Mapping):
                deeper += value.values()
            elif isinstance(value, list):
                inner = [each for each in value if isinstance(each, Mapping | list)]
                deeper += inner
                values += len(value) - len(inner)
                conditions += not inner  # a list of values, as of `$in`, is one condition
            else:
                conditions += 1
        if conditions > CONDITIONS:
            return f"may have at most {CONDITIONS:,} conditions"
        if values > VALUES:
            return f"may have at most {VALUES:,} values in lists such as `$in`"
        level = deeper
    return f"may be nested at most {DEEPEST} levels deep" if level else None


class NotForwarded(Exception):
    """Error: a request must not be forwarded to Chroma. ``refusal``: the answer to its client."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


def answer(refusal: Refusal) -> bytes:
    """Return the response to a refused request as bytes. It closes the connection."""
    error = _ERRORS.get(refusal.status, "InvalidArgumentError")
    body = json.dumps({"error": error, "message": refusal.message}).encode()
    asked = 'WWW-Authenticate: Bearer realm="chroma"\r\n' if refusal.status == 401 else ""
    head = (
        f"HTTP/1.1 {refusal.status} {_REASONS[refusal.status]}\r\n{asked}Content-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


TOO_LARGE = Refusal(431, f"the head of a request may have at most {HEAD_LIMIT:,} bytes")
BODY_TOO_LARGE = Refusal(413, f"the body of such a request may have at most {BODY_LIMIT:,} bytes")
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
    """The right of a client. Each right includes the ones before it."""

    READ = auto()
    WRITE = auto()
    ALL = auto()  # right of the daemon, whose bodies are forwarded unread


class Treatment(Enum):
    """The way in which an allowed request is forwarded."""

    STREAM = auto()  # as it arrives
    CHECK_FILTERS = auto()  # after its body was read and checked
    FIND = auto()  # as a request for an existing collection: a reader's get_or_create must change nothing


@dataclass(frozen=True, slots=True)
class Access:
    """The rules of access to Chroma's port.

    ``names``: the names by which clients may address the server. ``tokens``: the right of each token, by the
    token's digest. ``anybody``: the right of clients without a token; None if they have none.
    """

    names: AccessRules
    tokens: Mapping[bytes, Right]
    anybody: Right | None

    def judge(
        self, method: bytes, target: bytes, headers: Sequence[Header], is_ours: Callable[[], bool]
    ) -> Treatment:
        """Return how to forward a request. Raises NotForwarded if it is refused.

        ``is_ours``: returns whether the request comes from the daemon's own user or root. It is called only
        if no token decides, since it reads all connections of the machine.
        """
        if refusal := self.names.judge(target, headers):
            raise NotForwarded(refusal)
        given = [right for known, right in self.tokens.items() if has_token(headers, known)]
        right = max(given, default=self.anybody)
        if right is None and len(self.tokens) > 1:  # besides the daemon's
            raise NotForwarded(_NO_TOKEN)
        if right is None and not is_ours():
            raise NotForwarded(_STRANGER)
        return _treat(right or Right.READ, method, target.partition(b"?")[0])


def access(names: AccessRules, secret: str, tokens: Iterable[tuple[str | None, str]]) -> Access:
    """Build the rules of access. They contain digests in place of the tokens.

    ``secret``: the daemon's own token, which has all rights. ``tokens``: pairs of a token and ``read`` or
    ``write``. None in place of a token stands for clients without one.
    """
    given = [(token, Right.WRITE if may == "write" else Right.READ) for token, may in tokens]
    known = {digest(token.encode()): right for token, right in given if token is not None}
    anybody = max((right for token, right in given if token is None), default=None)
    return Access(names, {**known, digest(secret.encode()): Right.ALL}, anybody)


def _treat(right: Right, method: bytes, path: bytes) -> Treatment:
    """Return how to forward a request of a client with this right. Raises NotForwarded if it is refused."""
    if right is Right.ALL or method in (b"GET", b"HEAD"):
        return Treatment.STREAM
    filtered = _FILTERED.fullmatch(path) if method == b"POST" else None
    if filtered and (right is Right.WRITE or filtered[1] != b"delete"):
        return Treatment.CHECK_FILTERS
    if right is Right.WRITE and not path.endswith(b"/search"):  # Chroma on one machine has no such request
        return Treatment.STREAM
    if method == b"POST" and _MADE.fullmatch(path):
        return Treatment.FIND
    raise NotForwarded(_READ_ONLY)


def check_filters(body: bytes) -> bytes:
    """Return a request's body written anew from its parsed values.

    Raises NotForwarded if the filters in it are too large or too deeply nested.
    """
    wanted = _parse(body)
    if excess := find_excess(wanted.get("where"), wanted.get("where_document")):
        raise NotForwarded(Refusal(422, f"the filters of a request {excess}"))
    ids = wanted.get("ids")
    if isinstance(ids, list) and len(ids) > IDS:
        raise NotForwarded(Refusal(422, f"a request may name at most {IDS:,} ids"))
    try:
        return orjson.dumps(wanted)
    except TypeError as error:
        raise NotForwarded(Refusal(400, "the body is nested too deeply")) from error


def find_instead(target: bytes, body: bytes) -> bytes:
    """Return the path by which Chroma finds a collection, in place of a request to get or create the
    collection.

    So a client that may only read finds an existing collection, but cannot create one. Any other request
    raises NotForwarded. ``target``: path and query of the request.
    """
    wanted = _parse(body)
    name = wanted.get("name")
    if wanted.get("get_or_create") is not True or not isinstance(name, str):
        raise NotForwarded(_READ_ONLY)
    return target.partition(b"?")[0] + b"/" + quote(name, safe="").encode()


def _parse(body: bytes) -> dict[str, Any]:
    try:
        wanted = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise NotForwarded(Refusal(400, f"the body is not JSON: {error}")) from error
    if not isinstance(wanted, dict):
        raise NotForwarded(Refusal(400, "the body must be a JSON object"))
    return wanted


def headers_to_forward(headers: Sequence[Header], length: int | None = None) -> list[Header]:
    """Return the headers to forward, with exactly one that tells where the body ends.

    ``length``: the size in bytes of a body that was written anew; None if the body is forwarded as it
    arrives.
    """
    passed = [(name, value) for name, value in headers if name not in _NOT_PASSED_ON]
    if length is not None:
        passed = [each for each in passed if each[0] != b"content-type"]
        return [*passed, (b"content-type", b"application/json"), (b"content-length", b"%d" % length)]
    if values(headers, b"transfer-encoding"):
        return [*passed, (b"transfer-encoding", b"chunked")]
    return [*passed, *((b"content-length", each) for each in values(headers, b"content-length")[:1])]
