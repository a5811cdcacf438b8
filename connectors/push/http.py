"""A small HTTP server for callers who hold a secret: one request a connection, everything bounded.

Rules of this file. It knows nothing of documents: a ``Request`` goes to ``answer``, which returns an
``Answer`` or raises ``Refused``. ``WORKERS`` requests are worked on, others wait. Until a connection has said
what it wants it takes up no worker, and again when all that is left is to hear it out: one thread looks after
all of those. With ``OPEN`` connections the oldest that said nothing yet makes room for the next; where there
is none, that one is told to come again. Each connection has a time until which it must be done; whoever is
slower is cut off. A body is read when it is asked for, and only if its length was said beforehand. Nothing of
a request is logged but its method and target.
"""

import json
import logging
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from io import BufferedReader
from math import inf
from selectors import EVENT_READ, DefaultSelector
from socketserver import ThreadingTCPServer
from typing import Any

from ingestor.connectors.push.heads import LARGEST, Head, Resumed

WORKERS = 8
OPEN = 128
PROMPT = 10.0  # seconds for a request without its body
SLOWEST = 20_000  # bytes a second of a body, either way
GRACE = 3.0  # seconds that requests have to end when the server does
_LINGER = 2.0  # seconds for a caller to read why its body was not read
_PIECE = 2**16
_BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
)
_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Answer:
    """``body``: bytes as they are, or what is shown as JSON; None is no body."""

    status: int
    body: bytes | Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


class Refused(Exception):
    """Answered with this status; the message says what to do."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.headers_too = status, headers or {}


class _Gone(Exception):
    """The caller closed the connection, or was cut off."""


class Request(BaseHTTPRequestHandler):
    """What ``answer`` is given: ``command``, ``path``, ``headers``, ``length`` and ``pieces``."""

    protocol_version = "HTTP/1.1"
    server: "Server"
    _read = False  # the whole body

    def setup(self) -> None:
        super().setup()
        self.rfile = BufferedReader(Resumed(self.server.head(self.connection), self.connection))

    @property
    def length(self) -> int:
        """Bytes of the body. Raises Refused when that was not said, or not clearly."""
        lengths = self.headers.get_all("Content-Length") or ["0"]
        if "Transfer-Encoding" in self.headers:
            raise Refused(411, "send the body with a Content-Length, not in chunks")
        if len(lengths) > 1 or not (lengths[0].isascii() and lengths[0].isdigit() and len(lengths[0]) < 19):
            raise Refused(400, "Content-Length must be one whole number")
        return int(lengths[0])

    def pieces(self, hurry: float = 1) -> Iterator[bytes]:
        """The body, once; it must come at least ``hurry`` times as fast as others."""
        unread = self.length
        self.server.allow(self.connection, unread / (SLOWEST * hurry))
        if self.headers.get("Expect", "").lower() == "100-continue":
            self.send_response_only(100)
            self.end_headers()
        while unread:
            piece = self.rfile.read(min(_PIECE, unread))
            if not piece:
                raise _Gone
            unread -= len(piece)
            yield piece
        self._read = True

    def serve(self) -> None:
        try:
            answer = self.server.answer(self)
        except Refused as error:
            answer = Answer(error.status, {"error": str(error)}, error.headers_too)
        except (_Gone, ConnectionError):
            self.close_connection = True
            return
        except Exception:  # noqa: BLE001 - the caller is to hear of it, too
            _log.exception("%s %r failed", self.command, self.path)
            answer = Answer(500, {"error": "a defect of this program; its log has more"})
        self._say(answer)

    do_GET = do_HEAD = do_PUT = do_POST = do_PATCH = do_DELETE = do_OPTIONS = serve  # noqa: N815

    def _say(self, answer: Answer) -> None:
        body = answer.body
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode() + b"\n"
        given = {"Connection": "close", **answer.headers}
        if body is not None:
            given = {"Content-Type": "application/json", "Content-Length": str(len(data)), **given}
        self.close_connection = True
        self.server.allow(self.connection, len(data) / SLOWEST)
        with suppress(ConnectionError):
            self.send_response(answer.status)
            for name, value in given.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(b"" if self.command == "HEAD" else data)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the base class can't read; a method that it does not know is but another wrong one."""
        self._say(Answer(405 if code == 501 else code, {"error": message or "this is no HTTP request"}))

    def handle_expect_100(self) -> bool:
        return True  # said when the body is wanted

    def finish(self) -> None:
        """Who is still sending would miss the answer if the connection were just closed."""
        super().finish()
        headers = getattr(self, "headers", None)
        sends = headers is None or "Content-Length" in headers or "Transfer-Encoding" in headers
        if sends and not self._read:
            self.server.linger(self.connection)

    def version_string(self) -> str:
        return "ingestor"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class calls it so)
        _log.debug("from %s: %r", self.client_address[0], format % args)


class Server(ThreadingTCPServer):
    """Listens when made. One thread calls ``turn`` again and again, then ``server_close`` and ``finish``."""

    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, host: str, port: int, answer: Callable[[Request], Answer]) -> None:
        """Raises OSError when that address can't be listened on."""
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        self.address_family = found[0]
        self.answer = answer
        self._until: dict[socket.socket, float] = {}  # when each open connection is cut off
        self._waiting: dict[socket.socket, Head | None] = {}  # none of a worker's; None: being heard out
        self._heads: dict[socket.socket, bytes] = {}  # of requests that are worked on
        self._lingering: set[socket.socket] = set()
        self._back: deque[socket.socket] = deque()  # from workers, to be heard out
        self._selector = DefaultSelector()
        self._workers = ThreadPoolExecutor(WORKERS, thread_name_prefix="push")
        super().__init__((host, port), Request)
        self._selector.register(self.socket, EVENT_READ)
        self.timeout = 0

    def turn(self, seconds: float) -> None:
        """Take up what comes within that time, and cut off clients that are too slow."""
        while self._back:
            self._await(self._back.popleft(), None)
        for key, _ in self._selector.select(seconds):
            if key.fileobj is self.socket:
                self.handle_request()
            elif key.fileobj in self._waiting:
                self._hear(key.fileobj)
        now = time.monotonic()
        self._cut([connection for connection, until in list(self._until.items()) if until < now])

    def server_close(self) -> None:
        with suppress(KeyError):  # it could not be listened on
            self._selector.unregister(self.socket)
        super().server_close()

    def finish(self) -> None:
        """After ``server_close``: nobody is let in any more, and who is in has a few seconds."""
        self._cut([connection for connection, head in self._waiting.items() if head and not head.data])
        until = time.monotonic() + GRACE
        while self._until and time.monotonic() < until:
            self.turn(0.02)
        self._cut(list(self._until))
        self._workers.shutdown()
        self._selector.close()

    def head(self, connection: socket.socket) -> bytes:
        """What it has said so far, once."""
        return self._heads.pop(connection, b"")

    def allow(self, connection: socket.socket, seconds: float) -> None:
        self._until[connection] = time.monotonic() + PROMPT + seconds

    def linger(self, connection: socket.socket) -> None:
        """Hear it out, for a moment, once its request is done with."""
        with suppress(OSError):
            connection.shutdown(socket.SHUT_WR)
            self._lingering.add(connection)

    def process_request(self, request: Any, client_address: Any) -> None:
        if len(self._until) >= OPEN and not self._made_room():
            with suppress(OSError):
                request.send(_BUSY)
            self.shutdown_request(request)
            return
        self.allow(request, 0)
        self._await(request, Head(client_address))

    def finish_request(self, request: Any, client_address: Any) -> None:
        self.allow(request, 0)
        super().finish_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        if request in self._lingering:
            self._lingering.discard(request)
            self._until[request] = time.monotonic() + _LINGER
            self._back.append(request)
            return
        self._until.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        broken_off = isinstance(sys.exception(), OSError)
        _log.log(logging.DEBUG if broken_off else logging.ERROR, "from %s", client_address[0], exc_info=True)

    def _await(self, connection: socket.socket, head: Head | None) -> None:
        connection.setblocking(False)
        self._waiting[connection] = head
        self._selector.register(connection, EVENT_READ)

    def _made_room(self) -> bool:
        silent = next((connection for connection, head in self._waiting.items() if head), None)
        if silent is not None:
            self._drop(silent)
        return silent is not None

    def _hear(self, connection: Any) -> None:
        head = self._waiting[connection]
        try:
            data = connection.recv(_PIECE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._drop(connection)
        elif head and head.completed(data):
            self._begin(connection, head)
        elif head and len(head.data) > LARGEST:
            with suppress(OSError):
                connection.send(_TOO_LARGE)
            self._drop(connection)

    def _begin(self, connection: socket.socket, head: Head) -> None:
        self._selector.unregister(connection)
        del self._waiting[connection]
        connection.setblocking(True)
        self._until[connection] = inf
        self._heads[connection] = bytes(head.data)
        self._workers.submit(self.process_request_thread, connection, head.address)

    def _drop(self, connection: socket.socket) -> None:
        self._selector.unregister(connection)
        del self._waiting[connection]
        self.shutdown_request(connection)

    def _cut(self, connections: list[socket.socket]) -> None:
        for connection in connections:
            if connection in self._waiting:
                self._drop(connection)
                continue
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
