"""POST requests that end: after a limit of seconds in all, and with an answer of limited size.

httpx limits the time between two bytes, so a server that sends one every second is never late. Here each read
waits until the deadline of its request instead. Answers are asked for uncompressed, and others are refused: a
megabyte that is sent may be a thousand once it is unpacked.
"""

import time
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx

_CONNECT = 10.0  # seconds
_until: ContextVar[float] = ContextVar("_until")  # monotonic seconds; each thread has its own


class UnusableAnswer(Exception):
    """An answer that is not read to the end: too long, or compressed."""


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    reason: str
    headers: Mapping[str, str]  # whatever their case
    content: bytes


def client(base_url: str, headers: Mapping[str, str], seconds: float, connections: int) -> "httpx.Client":
    """Create a client. ``seconds``: limit of a request with its answer.

    ``connections``: number of connections; further requests wait for a free one.
    """
    import httpx

    return httpx.Client(
        base_url=base_url,
        headers={"Accept-Encoding": "identity", **headers},
        timeout=httpx.Timeout(seconds, connect=_CONNECT, pool=None),
        limits=httpx.Limits(max_connections=connections),
    )


def post(client: "httpx.Client", path: str, body: Mapping[str, Any], most: int) -> Reply:
    """Send a JSON body and read an answer of at most ``most`` bytes.

    Raises UnusableAnswer, httpx.TimeoutException or another httpx.TransportError.
    """
    seconds = client.timeout.read
    assert seconds is not None
    with client.stream("POST", path, json=body, extensions={"trace": partial(_trace, seconds)}) as response:
        encoding = response.headers.get("content-encoding", "identity")
        if encoding.lower() not in ("", "identity"):
            raise UnusableAnswer(f"answered with Content-Encoding {encoding[:40]}, which was not requested")
        return Reply(response.status_code, response.reason_phrase, response.headers, _read(response, most))


def _read(response: "httpx.Response", most: int) -> bytes:
    content = bytearray()
    for part in response.iter_raw():
        content += part
        if len(content) > most:
            raise UnusableAnswer(f"sent more than {most:,} bytes")
    return bytes(content)


def _trace(seconds: float, event: str, about: Mapping[str, Any]) -> None:
    """Called by httpcore at each step: the time begins to run with a connection, not while one is awaited."""
    if event.endswith(("connect_tcp.complete", "start_tls.complete")):
        stream = about["return_value"]
        stream.read = partial(_read_in_time, stream.read)
    if event.endswith("send_request_headers.started"):
        _until.set(time.monotonic() + seconds)


def _read_in_time(read: Any, size: int, timeout: float | None = None) -> bytes:
    import httpcore

    left = _until.get(float("inf")) - time.monotonic()
    if left <= 0:
        raise httpcore.ReadTimeout
    content: bytes = read(size, left if timeout is None else min(timeout, left))
    return content
