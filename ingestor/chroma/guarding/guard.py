"""The guard on Chroma's port: it checks every request, and forwards what its sender may ask.

Each client connection has one connection to Chroma, opened for its first allowed request. Heads are parsed by
llhttp (``httptools``) and rewritten by ``guard_rules``. The daemon's bodies, and what a writer writes, are
forwarded in pieces, with backpressure in both directions. Others' bodies with filters are held until they are
whole, then checked and written anew. Responses are forwarded unchanged, and parsed to find their ends. Beyond
a limit of connections, or of bytes held, the connection that was idle longest is closed.
"""

import asyncio
import re
import resource
import socket
from collections.abc import Callable
from contextlib import suppress
from math import inf
from time import monotonic

import httptools

from ingestor.chroma.guarding.guard_rules import (
    BODY_LIMIT,
    BODY_TOO_LARGE,
    TOO_LARGE,
    Access,
    Treatment,
    answer,
    check_filters,
    find_instead,
    framing,
    head,
    is_announced,
)
from ingestor.http_server.access import HEAD_LIMIT, Header, Refusal, gives_token
from ingestor.http_server.peers import PeerUsers

_COLLECTION = re.compile(rb"(/api/v2/tenants/[^/?]+/databases/[^/?]+/collections/[0-9a-fA-F-]{36})(?![^/?])")
_PATIENCE = 600.0  # seconds for one collection; then requests are let through


class CollectionLoading:
    """Loads of collections, bound to the event loop that created this object.

    ``port``: port of Chroma on 127.0.0.1.
    """

    def __init__(self, port: int) -> None:
        self._port, self._turn = port, asyncio.Lock()
        self._loads: dict[bytes, asyncio.Task[None]] = {}

    def under_way(self, target: bytes) -> asyncio.Task[None] | None:
        """Return the load that a request must wait for, if any. The task never fails."""
        match = _COLLECTION.match(target)
        if match is None:
            return None
        path = match[1]
        if path not in self._loads:
            self._loads[path] = asyncio.get_running_loop().create_task(self._load(path))
        load = self._loads[path]
        return None if load.done() else load

    async def _load(self, path: bytes) -> None:
        async with self._turn:
            loaded = False
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(_PATIENCE):
                    loaded = await self._answers(path)
        if not loaded:  # it does not exist, or Chroma cannot load it: the next request tries again
            del self._loads[path]

    async def _answers(self, path: bytes) -> bool:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            writer.write(b"GET %b/count HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n" % path)
            return b" 200 " in (await reader.read()).partition(b"\r\n")[0]
        finally:
            writer.close()


_CONNECTIONS = 2_000  # at the same time
_FILES_OF_CHROMA = 512  # descriptors that are reserved for Chroma's files
_BUFFERED = 524_288  # bytes buffered for a side that does not read, before the other side is paused
_HELD = 64 * 2**20  # bytes of bodies that are not whole yet, of all connections
_FRAMING = (b"content-length", b"transfer-encoding")
_FAREWELL = 5.0  # seconds for a refused client to read the reason
_PENALTY = 1.0  # seconds before a wrong token is answered
_QUIET = 60.0  # seconds between two reports of wrong tokens
WrongTokens = Callable[[int, str], object]
"""Told how many wrong tokens there were so far, and the address of the last client."""


class Guard:
    """State that all connections share."""

    def __init__(
        self,
        access: Access,
        peers: PeerUsers,
        port: int,
        gone: Callable[[], None],
        limit: int,
        wrong: WrongTokens = lambda number, client: None,
    ) -> None:
        """Prepare the guard of a Chroma that listens on its own port.

        ``port``: port of Chroma on 127.0.0.1. ``gone``: called when Chroma accepts no connections.
        ``wrong``: called for wrong tokens, once a minute at most.
        """
        self.access, self.peers, self.port, self.gone, self._limit = access, peers, port, gone, limit
        self._report, self._wrong, self._reported = wrong, 0, -inf
        self.loading = CollectionLoading(port)
        self.held = 0  # bytes of all connections
        self._connections: dict[DownstreamConnection, None] = {}  # the one that was idle longest is the first

    def heard(self, client: "DownstreamConnection") -> None:
        if self._connections.pop(client, self) is None:
            self._connections[client] = None

    def begun(self, client: "DownstreamConnection") -> None:
        if len(self._connections) >= self._limit:
            idle = (each for each in self._connections if not each.pending)
            self._end(next(idle, next(iter(self._connections))))
        self._connections[client] = None

    def count_wrong_token(self, client: str) -> None:
        self._wrong += 1
        if monotonic() - self._reported > _QUIET:
            self._reported = monotonic()
            self._report(self._wrong, client)

    def ended(self, client: "DownstreamConnection") -> None:
        self._connections.pop(client, None)
        client.let_go()

    def make_room(self, client: "DownstreamConnection") -> None:
        """Close connections, the longest idle first, while all hold more bytes than there is room for."""
        while self.held > _HELD:
            other = next((each for each in self._connections if each.held and each is not client), client)
            self._end(other)

    def _end(self, client: "DownstreamConnection") -> None:
        self.ended(client)
        client.abort()


class DownstreamConnection(asyncio.Protocol):
    """A client connection."""

    transport: asyncio.Transport

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._parser = httptools.HttpRequestParser(self)
        self._server: UpstreamConnection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._loading = set[asyncio.Task[None]]()  # of collections that requests in _pieces are for
        self._pieces: list[bytes] = []  # to be sent to Chroma
        self._target, self._headers = b"", list[Header]()
        self._in_body = self._chunked = self._resumed = self._keeps_alive = False
        self._treatment = Treatment.STREAM
        self.held = bytearray()  # of a body that is read before it is forwarded
        self._ours: bool | None = None  # whether the daemon's own user or root opened this connection
        self._unused = 0  # bytes received since the last complete head or body piece
        self._refusal: Refusal | None = None
        self._heard_all = self._over = self._punished = False
        self.pending = 0  # responses that Chroma owes
        self.states_lengths = True  # responses state their length; else they end with the connection

    # --- callbacks of asyncio

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
        """A client that closed its sending side may still wait for its response."""
        self._heard_all = True
        return (self.pending > 0 and not self._in_body) or self._punished

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

    # --- callbacks of the parser

    def on_url(self, url: bytes) -> None:
        if not self._in_body:  # there, it belongs to a head of our own, see _go_on
            self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_body:  # there, they are trailers
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        if self._refusal or self._resumed:
            self._resumed = False
            return
        if refusal := self._judge():
            if refusal.status == 401 and gives_token(self._headers):
                self._punish(refusal)
            else:
                self._refuse(refusal)
        else:
            self._in_body, self._unused = True, 0

    def on_body(self, body: bytes) -> None:
        if self._refusal:
            return
        self._unused = 0
        if self._treatment is not Treatment.STREAM:
            self.held += body
            self._guard.held += len(body)
            self._guard.make_room(self)
            if len(self.held) > BODY_LIMIT:
                self._fail(BODY_TOO_LARGE)
        else:
            self._pieces += (b"%x\r\n" % len(body), body, b"\r\n") if self._chunked else (body,)

    def on_message_complete(self) -> None:
        if not self._refusal and not self._parser.should_upgrade():
            self._complete()

    # --- actions

    def _judge(self) -> Refusal | None:
        """Forward the head, or wait for the body, or refuse the request."""
        parser, headers = self._parser, self._headers
        if sum(len(name) + len(value) for name, value in headers) + len(self._target) > HEAD_LIMIT:
            return TOO_LARGE
        method, version = parser.get_method(), parser.get_http_version()
        self._keeps_alive = parser.should_keep_alive()
        if version not in ("1.0", "1.1") or method == b"CONNECT":
            return Refusal(400, "only HTTP/1.0 and HTTP/1.1 are understood here")
        treatment = self._guard.access.judge(method, self._target, headers, self._is_ours)
        if isinstance(treatment, Refusal):
            return treatment
        self.states_lengths &= method != b"HEAD"  # its response has a length and no body
        body, self._treatment = framing(headers), treatment
        if treatment is Treatment.STREAM:
            self._chunked = body is not None and body[0] == b"transfer-encoding"
            return self._forward(method, self._target, headers)
        if body is not None and is_announced(headers) and not self.pending:
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return None

    def _is_ours(self) -> bool:
        if self._ours is None:
            peer, here = (self.transport.get_extra_info(name) for name in ("peername", "sockname"))
            self._ours = self._guard.peers.is_ours(peer[:2], here[:2])
        return self._ours

    def _forward(self, method: bytes, target: bytes, headers: list[Header]) -> Refusal | None:
        version = self._parser.get_http_version()
        keep_alive = self._keeps_alive and version == "1.1" and self.states_lengths
        written = head(method, target, version, headers, keep_alive)
        if written is None:
            return Refusal(400, "the head of the request is malformed")
        self._pieces.append(written)
        self.pending += 1
        if load := self._guard.loading.under_way(target):
            self._loading.add(load)
        return None

    def _forward_held(self) -> Refusal | None:
        """Forward a request whose body was held, as it was understood."""
        unframed = [each for each in self._headers if each[0] not in (*_FRAMING, b"expect", b"content-type")]
        if self._treatment is Treatment.FIND:
            path = find_instead(self._target, bytes(self.held))
            return path if isinstance(path, Refusal) else self._forward(b"GET", path, unframed)
        body = check_filters(bytes(self.held))
        if isinstance(body, Refusal):
            return body
        framed = (b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))
        refusal = self._forward(b"POST", self._target, [*unframed, *framed])
        self._pieces += () if refusal else (body,)
        return refusal

    def _complete(self) -> None:
        if self._treatment is not Treatment.STREAM and (refusal := self._forward_held()):
            self._in_body = False
            self._refuse(refusal)
        if self._chunked:
            self._pieces.append(b"0\r\n\r\n")
        self._in_body = self._chunked = False
        self._treatment = Treatment.STREAM
        self.let_go()
        self._target, self._headers, self._unused = b"", [], 0

    def _feed(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._go_on(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            self._fail(Refusal(400, f"the request is not HTTP: {error}"))

    def _go_on(self, rest: bytes) -> None:
        """Continue after an upgrade header, at which the parser stops: a new parser reads the body."""
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
        if self._over or not self._pieces or self._connecting:
            return
        if self._server and not self._loading:
            self._server.transport.write(b"".join(self._pieces))
            self._pieces.clear()
        else:
            self.transport.pause_reading()
            self._connecting = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        """Connect to Chroma, once the collections that are asked for are loaded."""
        if self._loading:
            await asyncio.wait(self._loading)
            self._loading.clear()
        try:
            if self._server is None:
                _, self._server = await asyncio.get_running_loop().create_connection(
                    lambda: UpstreamConnection(self, self._guard), "127.0.0.1", self._guard.port
                )
        except OSError as error:
            if isinstance(error, ConnectionRefusedError):
                self._guard.gone()
            self.pending = 0
            self._refuse(Refusal(503, f"Chroma takes no connection: {error.strerror}"))
        self._connecting = None
        self.transport.resume_reading()
        self._send()

    def answered(self) -> None:
        """Chroma has sent one complete response."""
        self.pending -= 1
        if self.pending:
            return
        if self._refusal:
            self._refuse(self._refusal)
        elif self._heard_all:
            self.close()

    def let_go(self) -> None:
        """Drop what is held of a body."""
        self._guard.held -= len(self.held)
        self.held.clear()

    def _fail(self, refusal: Refusal) -> None:
        """End a request whose head was forwarded already: Chroma never gets the rest."""
        if self._in_body and self._treatment is Treatment.STREAM:
            self.abort()
        else:
            self.let_go()
            self._refuse(refusal)

    def _punish(self, refusal: Refusal) -> None:
        """Report a wrong token, and refuse it late: tokens are not to be guessed fast."""
        self._refusal, self._punished = refusal, True
        self._guard.count_wrong_token(self.transport.get_extra_info("peername")[0])
        asyncio.get_running_loop().call_later(_PENALTY, self._forgive)

    def _forgive(self) -> None:
        self._punished = False
        if self._refusal:
            self._refuse(self._refusal)

    def _refuse(self, refusal: Refusal) -> None:
        """Send a refusal after the responses that Chroma still owes."""
        self._refusal = self._refusal or refusal
        if self.pending or self._over or self._punished:
            return
        self._over = True
        self.transport.write(answer(self._refusal))
        if self._heard_all:
            self.transport.close()
        else:  # it may still be sending, and would not read after an abort
            self.transport.write_eof()
            asyncio.get_running_loop().call_later(_FAREWELL, self.transport.abort)

    def close(self) -> None:
        """Close; buffered responses are still delivered."""
        if not self._over:
            self._over = True
            self.transport.close()

    def abort(self) -> None:
        self._over = True
        self.transport.abort()


class UpstreamConnection(asyncio.Protocol):
    """The connection to Chroma for one client."""

    transport: asyncio.Transport

    def __init__(self, client: DownstreamConnection, guard: Guard) -> None:
        self._client, self._guard = client, guard
        self._parser = httptools.HttpResponseParser(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.set_write_buffer_limits(_BUFFERED)

    def data_received(self, data: bytes) -> None:
        self._guard.heard(self._client)
        self._client.transport.write(data)
        if self._client.states_lengths:
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserError:
                self._client.states_lengths = False

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
    access: Access,
    peers: PeerUsers,
    listener: socket.socket,
    port: int,
    listening: Callable[[Callable[[], object]], None],
    wrong: WrongTokens,
) -> None:
    """Guard the listener until Chroma, on ``port`` of 127.0.0.1, accepts no connections. Never returns.

    ``listening``: called when the guard accepts connections, with a function that stops it from any thread.
    ``wrong``: see Guard.
    """
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    guard = Guard(access, peers, port, over.set, _limit(), wrong)
    server = await loop.create_server(lambda: DownstreamConnection(guard), sock=listener, backlog=1024)
    listening(lambda: loop.call_soon_threadsafe(over.set))
    await over.wait()
    server.close()
    await asyncio.Event().wait()  # running requests continue until the process ends


def _limit() -> int:
    """The number of connections for which there are descriptors; each takes two."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = 65_536 if most == resource.RLIM_INFINITY else min(most, 65_536)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, most))
    return max(16, min(_CONNECTIONS, (files - _FILES_OF_CHROMA) // 2))
