"""The guard on Chroma's port: it judges every request's head, and passes the rest on as it comes.

Each connection of a client has one connection to Chroma, made for its first request that may pass. Heads are
parsed by llhttp (``httptools``) and written anew by ``guard_rules``; bodies are passed on piece by piece, and
a side that does not read stops the other one. Answers are passed on as they are, and parsed for their ends.
Many idle connections cost nobody else anything: beyond a limit the one that was silent longest is closed.
"""

import asyncio
import resource
import socket
from collections.abc import Callable
from contextlib import suppress

import httptools

from ingestor.chroma.guard_rules import HEAD_LIMIT, TOO_LARGE, Header, Refusal, Rules, framing, head

_CONNECTIONS = 2_000  # at the same time
_FILES_OF_CHROMA = 512  # descriptors that are never used for connections
_BUFFERED = 524_288  # bytes for one side that does not read, beyond which the other side waits
_FAREWELL = 5.0  # seconds for a refused client to read why


class Guard:
    """What its connections share."""

    def __init__(self, rules: Rules, port: int, gone: Callable[[], None], limit: int) -> None:
        """``port``: Chroma's own, on 127.0.0.1. ``gone`` is called when Chroma takes no more connections."""
        self.rules, self.port, self.gone, self._limit = rules, port, gone, limit
        self._connections: dict[Client, None] = {}  # the one that was silent longest is the first

    def heard(self, client: "Client") -> None:
        if self._connections.pop(client, self) is None:
            self._connections[client] = None

    def begun(self, client: "Client") -> None:
        if len(self._connections) >= self._limit:
            idle = (each for each in self._connections if not each.pending)
            self._end(next(idle, next(iter(self._connections))))
        self._connections[client] = None

    def ended(self, client: "Client") -> None:
        self._connections.pop(client, None)

    def _end(self, client: "Client") -> None:
        self.ended(client)
        client.abort()


class Client(asyncio.Protocol):
    """A connection of a client."""

    transport: asyncio.Transport

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._parser = httptools.HttpRequestParser(self)
        self._server: Server | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._pieces: list[bytes] = []  # to be sent to Chroma
        self._target, self._headers = b"", list[Header]()
        self._in_body = self._chunked = self._resumed = False
        self._unused = 0  # bytes received since a head was complete or a body grew
        self._refusal: Refusal | None = None
        self._heard_all = self._over = False
        self.pending = 0  # answers that Chroma owes
        self.ends_are_told = True  # by Chroma's answers, not only by the end of the connection

    # --- what asyncio tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.set_write_buffer_limits(_BUFFERED)
        self._guard.begun(self)

    def data_received(self, data: bytes) -> None:
        self._guard.heard(self)
        if self._refusal or self._over:
            return
        self._unused += len(data)
        self._feed(data)
        if self._unused > HEAD_LIMIT:
            self._fail(TOO_LARGE)
        self._send()

    def eof_received(self) -> bool:
        """A client that has said all may still wait for its answer."""
        self._heard_all = True
        return self.pending > 0 and not self._in_body

    def connection_lost(self, error: Exception | None) -> None:
        self._over = True
        self._guard.ended(self)
        if self._connecting:
            self._connecting.cancel()
        if self._server:
            self._server.transport.abort()

    def pause_writing(self) -> None:
        if self._server:
            self._server.transport.pause_reading()

    def resume_writing(self) -> None:
        if self._server:
            self._server.transport.resume_reading()

    # --- what the parser tells

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_body:  # there, they are trailers
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        if self._refusal or self._resumed:
            self._resumed = False
            return
        if refusal := self._judge():
            self._refuse(refusal)
        else:
            self._in_body, self._unused = True, 0

    def on_body(self, body: bytes) -> None:
        if not self._refusal:
            self._unused = 0
            self._pieces += (b"%x\r\n" % len(body), body, b"\r\n") if self._chunked else (body,)

    def on_message_complete(self) -> None:
        if not self._refusal and not self._parser.should_upgrade():
            self._complete()

    # --- what is done then

    def _judge(self) -> Refusal | None:
        """Pass the head on, or say why not."""
        parser, headers = self._parser, self._headers
        if sum(len(name) + len(value) for name, value in headers) + len(self._target) > HEAD_LIMIT:
            return TOO_LARGE
        method, version = parser.get_method(), parser.get_http_version()
        if version not in ("1.0", "1.1") or method == b"CONNECT":
            return Refusal(400, "only HTTP/1.0 and HTTP/1.1 are understood here")
        if refusal := self._guard.rules.judge(self._target, headers):
            return refusal
        self.ends_are_told &= method != b"HEAD"  # its answer has a length and no body
        keep_alive = parser.should_keep_alive() and version == "1.1" and self.ends_are_told
        body = framing(headers)
        self._chunked = body is not None and body[0] == b"transfer-encoding"
        written = head(method, self._target, version, headers, keep_alive)
        if written is None:
            return Refusal(400, "the head of the request is malformed")
        self._pieces.append(written)
        self.pending += 1
        return None

    def _complete(self) -> None:
        if self._chunked:
            self._pieces.append(b"0\r\n\r\n")
        self._in_body = self._chunked = False
        self._target, self._headers, self._unused = b"", [], 0

    def _feed(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._go_on(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            self._fail(Refusal(400, f"the request is not HTTP: {error}"))

    def _go_on(self, rest: bytes) -> None:
        """Nothing is upgraded here, but the parser ends there: another one reads the body, if any."""
        self._parser = httptools.HttpRequestParser(self)
        if self._refusal:
            return
        if body := framing(self._headers):
            self._resumed = True
            rest = b"POST / HTTP/1.1\r\n%b: %b\r\n\r\n%b" % (*body, rest)
        else:
            self._complete()
        if rest:
            self._feed(rest)

    def _send(self) -> None:
        if self._server:
            if self._pieces and not self._over:
                self._server.transport.write(b"".join(self._pieces))
                self._pieces.clear()
        elif self._pieces and not self._connecting:
            self.transport.pause_reading()
            self._connecting = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        try:
            _, self._server = await asyncio.get_running_loop().create_connection(
                lambda: Server(self, self._guard), "127.0.0.1", self._guard.port
            )
        except OSError as error:
            if isinstance(error, ConnectionRefusedError):
                self._guard.gone()
            self.pending = 0
            self._refuse(Refusal(503, f"Chroma takes no connection: {error.strerror}"))
        self.transport.resume_reading()
        self._send()

    def answered(self) -> None:
        """Chroma has given one answer whole."""
        self.pending -= 1
        if self.pending:
            return
        if self._refusal:
            self._refuse(self._refusal)
        elif self._heard_all:
            self.close()

    def _fail(self, refusal: Refusal) -> None:
        """Of a request whose head was passed on, Chroma will never see the end."""
        if self._in_body:
            self.abort()
        else:
            self._refuse(refusal)

    def _refuse(self, refusal: Refusal) -> None:
        """Once what Chroma still owes is given."""
        self._refusal = self._refusal or refusal
        if self.pending or self._over:
            return
        self._over = True
        self.transport.write(self._refusal.answer())
        if self._heard_all:
            self.transport.close()
        else:  # it may still be sending, and would not read on an aborted connection
            self.transport.write_eof()
            asyncio.get_running_loop().call_later(_FAREWELL, self.transport.abort)

    def close(self) -> None:
        """What is on its way to the client is still delivered."""
        if not self._over:
            self._over = True
            self.transport.close()

    def abort(self) -> None:
        self._over = True
        self.transport.abort()


class Server(asyncio.Protocol):
    """The connection to Chroma of one client."""

    transport: asyncio.Transport

    def __init__(self, client: Client, guard: Guard) -> None:
        self._client, self._guard = client, guard
        self._parser = httptools.HttpResponseParser(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.set_write_buffer_limits(_BUFFERED)

    def data_received(self, data: bytes) -> None:
        self._guard.heard(self._client)
        self._client.transport.write(data)
        if self._client.ends_are_told:
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserError:
                self._client.ends_are_told = False

    def on_message_complete(self) -> None:
        if self._parser.get_status_code() >= 200:
            self._client.answered()

    def connection_lost(self, error: Exception | None) -> None:
        self._client.close()

    def pause_writing(self) -> None:
        self._client.transport.pause_reading()

    def resume_writing(self) -> None:
        self._client.transport.resume_reading()


async def serve(
    rules: Rules, listener: socket.socket, port: int, listening: Callable[[Callable[[], object]], None]
) -> None:
    """Guard the listener until Chroma, on ``port`` of 127.0.0.1, takes no connection any more. Never returns.

    ``listening`` is called when connections are taken, with what stops that from any thread.
    """
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    guard = Guard(rules, port, over.set, _limit())
    server = await loop.create_server(lambda: Client(guard), sock=listener, backlog=1024)
    listening(lambda: loop.call_soon_threadsafe(over.set))
    await over.wait()
    server.close()
    await asyncio.Event().wait()  # what is under way goes on until the process ends


def _limit() -> int:
    """As many connections as there are descriptors for, each of two."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = 65_536 if most == resource.RLIM_INFINITY else min(most, 65_536)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, most))
    return max(16, min(_CONNECTIONS, (files - _FILES_OF_CHROMA) // 2))
