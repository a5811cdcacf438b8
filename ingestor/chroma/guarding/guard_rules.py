"""Which requests the guard lets through, and how it rewrites their heads. Pure.

A head is rewritten from its parsed parts, with exactly one framing of its body. So Chroma cannot understand a
request differently from the guard (request smuggling). See decision 0033.
"""

import json
from collections.abc import Iterable, Sequence

from ingestor.http_server.access import HEAD_LIMIT, Header, Refusal

# Headers of one connection, or for the guard alone. Chroma's own server needs no token.
_NOT_PASSED_ON = {
    *(b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"upgrade", b"http2-settings"),
    *(b"authorization", b"proxy-authorization", b"x-chroma-token"),
    *(b"content-length", b"transfer-encoding"),
}
_REASONS = {
    400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 421: "Misdirected Request",
    431: "Request Header Fields Too Large", 503: "Service Unavailable",
}  # fmt: skip
# Error names for which chromadb's client shows our message.
_ERRORS = {
    401: "AuthorizationError", 403: "AuthError", 421: "AuthError", 503: "InternalError"
}  # fmt: skip


def answer(refusal: Refusal) -> bytes:
    """The whole response; it closes the connection."""
    error = _ERRORS.get(refusal.status, "InvalidArgumentError")
    body = json.dumps({"error": error, "message": refusal.message}).encode()
    asked = 'WWW-Authenticate: Bearer realm="chroma"\r\n' if refusal.status == 401 else ""
    head = (
        f"HTTP/1.1 {refusal.status} {_REASONS[refusal.status]}\r\n{asked}Content-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


TOO_LARGE = Refusal(431, f"the head of a request may have {HEAD_LIMIT:,} bytes")


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
