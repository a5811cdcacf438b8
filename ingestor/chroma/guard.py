"""The guard in front of Chroma: it checks every request, and forwards it if its sender may make it.

A coroutine serves each client connection, one request after the other. The library ``h11`` reads and writes
requests and responses. So Chroma gets only requests that were parsed, judged and written anew. Bodies of the
daemon, and bodies without filters, are forwarded piece by piece. Other bodies are buffered until they are
complete, then checked. If there are too many connections, or too many buffered bytes, the connection that was
idle longest is closed.
"""

import asyncio
import re
import resource
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import closing, suppress
from math import inf
from time import monotonic

import h11

from ingestor.chroma.guard_rules import (
    BODY_LIMIT,
    BODY_TOO_LARGE,
    TOO_LARGE,
    Access,
    NotForwarded,
    Treatment,
    answer,
    check_filters,
    find_instead,
    headers_to_forward,
)
from ingestor.http_server.access import HEAD_LIMIT, Header, Refusal, gives_token
from ingestor.http_server.peers import PeerUsers

_COLLECTION = re.compile(rb"(/api/v2/tenants/[^/?]+/databases/[^/?]+/collections/[0-9a-fA-F-]{36})(?![^/?])")
_PATIENCE = 600.0  # seconds to load one collection, after which requests are forwarded in any case


class CollectionLoading:
    """Makes requests wait until Chroma has loaded their collection. Collections are loaded one after the
    other.

    Chroma loads a collection with the first request for it. If the client of that request gives up, the work
    is lost, and several requests at once hinder each other (decision 0033). So the guard itself makes the
    first request. An object may be used only in the event loop that created it.
    """

    def __init__(self, port: int) -> None:
        self._port, self._turn = port, asyncio.Lock()
        self._loads: dict[bytes, asyncio.Task[None]] = {}  # by the path of the collection

    async def wait(self, target: bytes) -> None:
        """Wait until the collection of a request is loaded. Loading continues even if the client gives up.

        ``target``: path and query of the request.
        """
        if (match := _COLLECTION.match(target)) is None:
            return
        if (path := match[1]) not in self._loads:
            self._loads[path] = asyncio.get_running_loop().create_task(self._load(path))
        if not (load := self._loads[path]).done():
            await asyncio.wait([load])

    async def _load(self, path: bytes) -> None:
        async with self._turn:
            loaded = False
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(_PATIENCE):
                    reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
                    with closing(writer):  # counting the records makes Chroma load them
                        count = b"GET %b/count HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
                        writer.write(count % path)
                        loaded = b" 200 " in (await reader.read()).partition(b"\r\n")[0]
        if not loaded:  # there is no such collection, or Chroma cannot load it: the next request tries again
            del self._loads[path]


_CONNECTIONS = 2_000  # connections of clients at the same time
_FILES_OF_CHROMA = 512  # descriptors that are reserved for Chroma's files
_PIECE = 262_144  # bytes that are read at once, and that are buffered for a side that does not read
_HELD = 64 * 2**20  # bytes of incomplete bodies that are buffered for all connections
_FAREWELL = 5.0  # seconds for a refused client to read the reason
_PENALTY = 1.0  # seconds before a wrong token is answered
_QUIET = 60.0  # seconds between two reports of wrong tokens

# Called with the number of wrong tokens so far, and the address of the last client.
WrongTokens = Callable[[int, str], object]


class Guard:
    """The guard of a Chroma server, with the state that all its client connections share."""

    def __init__(
        self,
        access: Access,
        peers: PeerUsers,
        port: int,
        gone: Callable[[], None],
        limit: int,
        wrong: WrongTokens = lambda number, client: None,
    ) -> None:
        """Prepare the guard, without starting it. ``port``: Chroma's port on 127.0.0.1.

        ``gone``: called when Chroma no longer accepts connections. ``limit``: how many clients may be
        connected at the same time. ``wrong``: called with the number of wrong tokens and the last client, at
        most once a minute.
        """
        self.access, self.peers, self.port, self.gone, self._limit = access, peers, port, gone, limit
        self._report, self._wrong, self._reported = wrong, 0, -inf
        self.loading = CollectionLoading(port)
        self._connections: dict[ClientConnection, None] = {}  # ordered by their last activity

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client until it closes the connection, or until there are too many connections."""
        if len(self._connections) >= self._limit:
            idle = (each for each in self._connections if not each.busy)
            self._end(next(idle, next(iter(self._connections))))
        client = ClientConnection(self, reader, writer)
        self._connections[client] = None
        try:
            await client.serve()
        finally:
            self._connections.pop(client, None)

    def note_activity(self, client: "ClientConnection") -> None:
        """Note that a client was active.

        If too many bytes are buffered, close the connections that are idle longest.
        """
        if client in self._connections:
            self._connections[client] = self._connections.pop(client)
        while client.held and sum(len(each.held) for each in self._connections) > _HELD:
            self._end(next((each for each in self._connections if each.held and each is not client), client))

    def count_wrong_token(self, client: str) -> None:
        """Count a wrong token, and report the number of wrong tokens at most once a minute.

        ``client``: address of the client.
        """
        self._wrong += 1
        if monotonic() - self._reported > _QUIET:
            self._reported = monotonic()
            self._report(self._wrong, client)

    def _end(self, client: "ClientConnection") -> None:
        self._connections.pop(client, None)
        client.held.clear()
        client.abort()


class Peer:
    """An HTTP connection to a client or to Chroma. ``http``: the state of the protocol."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, role: type[h11.CLIENT | h11.SERVER]
    ) -> None:
        self._reader, self._writer = reader, writer
        self.http = h11.Connection(role, max_incomplete_event_size=HEAD_LIMIT)
        writer.transport.set_write_buffer_limits(_PIECE)

    async def next(self) -> object:
        """Return the next event that h11 parses from the received bytes. Raises h11.RemoteProtocolError."""
        while (event := self.http.next_event()) is h11.NEED_DATA:
            self.http.receive_data(await self._reader.read(_PIECE))
        return event

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body of the present message in pieces, as it arrives."""
        while isinstance(event := await self.next(), h11.Data):
            yield bytes(event.data)

    async def send(self, head: h11.Event, body: AsyncIterator[bytes]) -> None:
        """Send a message. ``head``: its first line and headers.

        The head is written together with the first piece of the body, which saves a system call.
        """
        written = self.http.send(head) or b""
        async for piece in body:
            self._writer.write(written + (self.http.send(h11.Data(data=piece)) or b""))
            await self._writer.drain()
            written = b""
        self._writer.write(written + (self.http.send(h11.EndOfMessage()) or b""))
        await self._writer.drain()

    def is_reusable(self) -> bool:
        """Return whether another request may follow on this connection.

        If so, prepare the protocol for it.
        """
        ended = self.http.our_state is self.http.their_state is h11.DONE
        if ended:
            self.http.start_next_cycle()
        return ended

    def has_ended(self) -> bool:
        return self._reader.at_eof()

    def abort(self) -> None:
        self._writer.transport.abort()


class ClientConnection(Peer):
    """The connection of a client.

    ``busy``: whether a request is being served. ``held``: bytes of an incomplete body.
    """

    def __init__(self, guard: Guard, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__(reader, writer, h11.SERVER)
        self._guard, self.busy, self.held = guard, False, bytearray()
        self._chroma: Peer | None = None  # opened for the first request that may pass

    async def serve(self) -> None:
        """Serve one request after the other.

        The connection ends after a refused request, and after an error of the client or of Chroma.
        """
        try:
            while isinstance(request := await self.next(), h11.Request):
                self.busy = True
                self._guard.note_activity(self)
                await self._exchange(request)
                self.busy = False
                if not self.is_reusable():
                    break
        except NotForwarded as error:
            await self._refuse(error.refusal)
        except h11.ProtocolError as error:
            too_large = error.error_status_hint == TOO_LARGE.status
            await self._refuse(TOO_LARGE if too_large else Refusal(400, f"the request is not HTTP: {error}"))
        except OSError:
            self.abort()
        finally:
            if self._chroma:
                self._chroma.abort()
            self.held.clear()
            self._writer.close()

    async def _exchange(self, request: h11.Request) -> None:
        """Judge a request and forward it to Chroma, then forward the response. Raises NotForwarded."""
        headers, target, method = list(request.headers), request.target, request.method
        treatment = await self._judge(request, headers)
        if self.http.they_are_waiting_for_100_continue:
            self._writer.write(self.http.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
        body = None
        if treatment is Treatment.FIND:
            method, target, body = b"GET", find_instead(target, await self._whole_body()), b""
        elif treatment is Treatment.CHECK_FILTERS:
            body = check_filters(await self._whole_body())
        await self._guard.loading.wait(target)
        chroma = await self._connect()
        passed = headers_to_forward(headers, None if body is None else len(body))
        asked = h11.Request(method=method, target=target, headers=passed)
        await chroma.send(asked, self.pieces() if body is None else _once(body))
        await self._answer(chroma)

    async def _judge(self, request: h11.Request, headers: list[Header]) -> Treatment:
        """Return how to forward a request. Raises NotForwarded if it is refused."""
        if sum(len(name) + len(value) for name, value in headers) + len(request.target) > HEAD_LIMIT:
            raise NotForwarded(TOO_LARGE)
        if request.http_version not in (b"1.0", b"1.1") or request.method == b"CONNECT":
            raise NotForwarded(Refusal(400, "this server understands only HTTP/1.0 and HTTP/1.1"))
        try:
            return self._guard.access.judge(request.method, request.target, headers, self._is_ours)
        except NotForwarded as error:
            if error.refusal.status == 401 and gives_token(headers):  # answered late: guessing takes long
                self._guard.count_wrong_token(self._writer.get_extra_info("peername")[0])
                await asyncio.sleep(_PENALTY)
            raise

    def _is_ours(self) -> bool:
        """Return whether the connection was opened by this process's own user or by root."""
        peer, here = (self._writer.get_extra_info(name) for name in ("peername", "sockname"))
        return self._guard.peers.is_ours(peer[:2], here[:2])

    async def _whole_body(self) -> bytes:
        """Return the body of the request once it is complete. Raises NotForwarded if it is too large."""
        async for piece in self.pieces():
            self.held += piece
            self._guard.note_activity(self)
            if len(self.held) > BODY_LIMIT:
                raise NotForwarded(BODY_TOO_LARGE)
        body = bytes(self.held)
        self.held.clear()
        return body

    async def _connect(self) -> Peer:
        """Return a connection to Chroma. The last one is used again if possible.

        Raises NotForwarded if Chroma accepts no connections.
        """
        if self._chroma is not None:
            if self._chroma.is_reusable() and not self._chroma.has_ended():
                return self._chroma
            self._chroma.abort()
        try:
            opened = await asyncio.open_connection("127.0.0.1", self._guard.port, limit=_PIECE)
        except OSError as error:
            if isinstance(error, ConnectionRefusedError):
                self._guard.gone()
            raise NotForwarded(Refusal(503, f"Chroma accepts no connection: {error.strerror}")) from error
        self._chroma = Peer(*opened, h11.CLIENT)
        return self._chroma

    async def _answer(self, chroma: Peer) -> None:
        """Forward Chroma's response to the client. Raises ConnectionError if the response is incomplete."""
        try:
            while isinstance(event := await chroma.next(), h11.InformationalResponse):
                pass
            if not isinstance(event, h11.Response):
                raise ConnectionError("Chroma closed the connection before its response")
            headers = headers_to_forward(event.headers)
            head = h11.Response(status_code=event.status_code, headers=headers, reason=event.reason)
            await self.send(head, chroma.pieces())
        except h11.RemoteProtocolError as error:
            raise ConnectionError("Chroma closed the connection in the middle of its response") from error

    async def _refuse(self, refusal: Refusal) -> None:
        """Send the refusal of a request, unless a response was already begun, and close the connection."""
        if self.http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            with suppress(OSError, TimeoutError):
                self._writer.write(answer(refusal))
                self._writer.write_eof()
                # A client that still sends would lose the answer if the connection were closed at once.
                async with asyncio.timeout(_FAREWELL):
                    while await self._reader.read(_PIECE):
                        pass
        self.abort()


async def _once(piece: bytes) -> AsyncIterator[bytes]:
    yield piece


async def serve(
    access: Access,
    peers: PeerUsers,
    listener: socket.socket,
    port: int,
    listening: Callable[[Callable[[], object]], None],
    wrong: WrongTokens,
) -> None:
    """Guard a listening socket until Chroma, at ``port`` of 127.0.0.1, accepts no connections. Never return.

    ``listening``: called when the guard accepts connections. Its argument is a function by which any thread
    may stop the guard. ``wrong``: see Guard.
    """
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    guard = Guard(access, peers, port, over.set, _limit(), wrong)
    server = await asyncio.start_server(guard.serve, sock=listener, backlog=1024, limit=_PIECE)
    listening(lambda: loop.call_soon_threadsafe(over.set))
    await over.wait()
    server.close()
    await asyncio.Event().wait()  # running requests continue until Chroma ends the process


def _limit() -> int:
    """Raise this process's limit of open descriptors. Return how many client connections it allows.

    Each client connection needs two descriptors: its own, and one for its connection to Chroma.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = 65_536 if most == resource.RLIM_INFINITY else min(most, 65_536)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, most))
    return max(16, min(_CONNECTIONS, (files - _FILES_OF_CHROMA) // 2))
