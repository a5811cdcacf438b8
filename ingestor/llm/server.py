"""Sends requests to a server of models with OpenAI's API, and classifies the outcomes.

Every request has a limit of seconds, and of bytes for its answer. The library httpx limits only the time
between two bytes, so a server that sends a byte every second would never be late. Here each read ends at the
deadline of its request. Only uncompressed answers are accepted, because a megabyte may unpack to a gigabyte.

The key is sent as a header and appears nowhere else. If a server quotes the key, it is removed from the text.
"""

import json
import re
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import finalize

from ingestor.core.errors import longest_wait
from ingestor.llm.options import ModelServer
from ingestor.ports import NeedsHuman
from ingestor.units import retry_after

if TYPE_CHECKING:
    import httpx

_CONNECT = 10.0  # seconds
_until: ContextVar[float] = ContextVar("_until")  # monotonic seconds; each thread has its own


class UnusableAnswer(Exception):
    """Error: an answer is too long, or compressed, and was therefore not read to its end."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP response."""

    status: int
    reason: str
    headers: Mapping[str, str]  # names in any case
    content: bytes


def open_bounded_client(
    base_url: str, headers: Mapping[str, str], seconds: float, connections: int
) -> "httpx.Client":
    """Return a client to pass to ``post_bounded``. ``seconds``: time limit of a request with its answer.

    ``connections``: number of connections; further requests wait for a free one.
    """
    import httpx

    return httpx.Client(
        base_url=base_url,
        headers={"Accept-Encoding": "identity", **headers},
        timeout=httpx.Timeout(seconds, connect=_CONNECT, pool=None),
        limits=httpx.Limits(max_connections=connections),
    )


def post_bounded(client: "httpx.Client", path: str, body: Mapping[str, Any], most: int) -> Reply:
    """Send a JSON body, and return the answer, which may have at most ``most`` bytes.

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
    """Start the deadline when a connection is free, and make every read end at the deadline.

    The library httpcore calls this function at each step of a request. ``seconds``: time limit of the
    request.
    """
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


T = TypeVar("T")

LONGEST_WAIT = 30.0  # seconds; after a longer wait the engine retries, and does other work meanwhile
_SHOWN = 10_000  # bytes of an error that is no JSON
_MOST_TOKENS = 10**9  # of an answer, as the server counts
_AGAIN = frozenset({408, 409, 425, 429})  # besides 5xx: the same request may succeed later
_TOO_LONG = re.compile(
    r"too (large|long)|exceeds?\b.*\b(context|length|tokens)|maximum context", re.IGNORECASE
)
_UNPAID = "insufficient_quota"  # code of a 429 that waiting does not end
TOO_LONG = "context_length"  # in the code of a refusal: the text is longer than the model reads
_ADVICE = {401: "; check `api_key`", 403: "; check `api_key`", 404: "; check `base_url`, and model {!r}"}


class TryAgain(Exception):
    """Error: the request failed, but a retry may succeed. ``after``: seconds that the server asks to wait."""

    def __init__(self, reason: str, after: float | None = None) -> None:
        super().__init__(reason)
        self.after = after


class RequestNotTaken(Exception):
    """Error: the server refuses the request. ``code``: the reason in the server's machine-readable codes."""

    def __init__(self, status: int, reason: str, code: str, model: str) -> None:
        advice = _ADVICE.get(status, "").format(model)
        super().__init__(f"refused the request ({status}): {reason}{advice}")
        self.status, self.reason, self.code = status, reason, code


class ModelRequests:
    """Sends requests to one server. Threads may share an object.

    ``called``: name of the server in messages, such as "the embedding server".
    """

    def __init__(self, server: ModelServer, called: str, model: str) -> None:
        self._server, self._called, self._model = server, called, model

    def post(self, path: str, body: Mapping[str, Any], most: int) -> bytes:
        """Send a JSON body, and return the answer, which may have at most ``most`` bytes.

        Raises TryAgain, RequestNotTaken, or NeedsHuman if the key cannot be sent in a header.
        """
        import httpx

        try:
            reply = post_bounded(self._client, path, body, most)
        except httpx.TimeoutException:
            raise TryAgain(f"did not answer within {self._server.timeout:g} s") from None
        except httpx.TransportError as error:
            raise TryAgain(f"can't be reached: {self.quote(str(error))}") from None
        except UnusableAnswer as error:
            raise TryAgain(self.quote(str(error))) from None
        return reply.content if reply.status == httpx.codes.OK else self._raise_refusal(reply)

    def _raise_refusal(self, reply: Reply) -> bytes:
        explanation, code = _reason(reply)
        reason = self.quote(explanation)
        if reply.status >= 500 and _TOO_LONG.search(reason):  # as llama.cpp reports too long a text
            code += f" {TOO_LONG}"
        elif (reply.status in _AGAIN or reply.status >= 500) and _UNPAID not in code:
            after = retry_after(reply.headers.get("retry-after"), time.time())
            raise TryAgain(f"answered {reply.status}: {reason}", after)
        raise RequestNotTaken(reply.status, reason, code, self._model)

    @cached_property
    def _client(self) -> "httpx.Client":
        if not (self._key.isascii() and self._key.isprintable()):
            raise NeedsHuman(self.describe("can't be called: api_key must be one line of ASCII"))
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        server = self._server
        client = open_bounded_client(server.base_url, headers, server.timeout, server.concurrency)
        finalize(self, client.close)
        return client

    @property
    def _key(self) -> str:
        key = self._server.api_key
        return key.get_secret_value() if key else ""

    def describe(self, what: object) -> str:
        """Return a sentence that begins with the server's name and address. ``what``: its predicate."""
        return f"{self._called} at {self._server.base_url} {what}"

    def quote(self, text: str) -> str:
        """Return a text of the server on one line, shortened, and without the key."""
        line = " ".join((text.replace(self._key, "***") if self._key else text).split())
        return line if len(line) <= 300 else f"{line[:299]}…"


def patiently(ask: Callable[[], T], retries: int, wait: Callable[[float], None]) -> T:
    """Return the result of ``ask``, which is called again after TryAgain, at most ``retries`` times.

    ``wait``: function that waits for some seconds. Raises the last TryAgain, or the first one whose wait
    would exceed ``LONGEST_WAIT``.
    """
    for attempt in count(1):
        try:
            return ask()
        except TryAgain as busy:
            seconds = longest_wait(attempt) if busy.after is None else busy.after
            if attempt > retries or seconds > LONGEST_WAIT:
                raise
        wait(seconds)
    raise AssertionError


def token_count(value: object) -> int:
    """Return a number of tokens that a server reports. Raises ValueError, TypeError or OverflowError."""
    number = int(value)  # type: ignore[call-overload]
    if not 0 <= number <= _MOST_TOKENS:
        raise ValueError
    return int(number)


def _reason(reply: Reply) -> tuple[str, str]:
    """Return the explanation and the codes in an error response; "" for missing codes."""
    try:
        body = json.loads(reply.content)
        error = body.get("error") or body.get("detail") or body.get("message")
    except (ValueError, AttributeError, RecursionError):
        error = reply.content[:_SHOWN].decode("utf-8", "replace")
    if isinstance(error, dict):
        code = f"{_word(error.get('code'))} {_word(error.get('type'))}"
        return _word(error.get("message")) or reply.reason, code
    return _word(error) or reply.reason, ""


def _word(value: object) -> str:
    """Return a text or a whole number as text; "" for any other value."""
    return str(value) if isinstance(value, str | int) else ""
