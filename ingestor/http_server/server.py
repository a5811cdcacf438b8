"""HTTP server in a thread of its own: uvicorn with limits.

The thread and its event loop belong to the server. The rest of the program calls ``start`` and ``stop``.
``Connection`` limits what uvicorn does not: the time in which a client sends a head or reads a response.
Requests are parsed by h11, which refuses ambiguous heads (request smuggling).
"""

import asyncio
import json
import socket
from threading import Thread
from typing import Any, cast

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from ingestor.http_server.requests import Bounded, ServerLimits

_BACKLOG = 64  # connections that the system queues until they are accepted
_PHRASES = {
    400: "Bad Request", 431: "Request Header Fields Too Large", 503: "Service Unavailable"
}  # fmt: skip


class Connection(H11Protocol):
    """Connection of uvicorn, with limits that uvicorn lacks.

    If the server has too many connections, it closes the one that has waited longest for its client. The
    application finds the connection of a request in ``scope["state"]``.
    """

    limits: ServerLimits  # set by a subclass for each server, see ``build_connection_class``

    def __init__(self, *values: Any, **named: Any) -> None:
        super().__init__(*values, **named)
        self.app_state = {"connection": self}
        self.is_spare = False  # whether it is one beyond ``limits.connections``
        self.is_punished = False  # whether the refusal of a wrong token is being delayed
        self._moved = self.loop.time()  # when the client last sent or read something
        self._head = 0  # bytes of the head received so far
        self._timer: asyncio.TimerHandle | None = None  # for the head of a request
        self._unread: asyncio.TimerHandle | None = None  # for a client that does not read the answer

    # --- callbacks of asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast(asyncio.Transport, transport))
        others = len(self.connections) - 1
        if others >= self.limits.connections and not self._make_room():
            self.is_spare = True
            if others >= self.limits.connections + self.limits.spare:
                self._refuse(503, "too many connections: try again")
                return
        self._await_head()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._head += len(data)
        self._moved = self.loop.time()
        super().data_received(data)
        if not self._is_idle():
            self._cancel_timer()
        elif self._timer is None:
            self._await_head()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Keep the connection open until the response is sent, unless the request is incomplete.

        The client has stopped sending, but may still read.
        """
        return not self._is_idle() and self.conn.their_state is not h11.SEND_BODY

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        for timer in (self._timer, self._unread):
            if timer is not None:
                timer.cancel()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._expect_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._moved = self.loop.time()
        if self._unread is not None:
            self._unread.cancel()

    # --- callbacks of uvicorn

    def on_response_complete(self) -> None:
        self._head = 0
        self._moved = self.loop.time()
        if self.transport.get_write_buffer_size():
            self._expect_reading()
        super().on_response_complete()

    def send_400_response(self, message: str) -> None:
        """Refuse a request whose head (request line and headers) is too long, or cannot be parsed by h11."""
        if self._head > self.limits.head:
            self._refuse(431, f"the head of a request may have at most {self.limits.head:,} bytes")
        else:
            self._refuse(400, "malformed HTTP request")

    def shutdown(self) -> None:
        if self._is_idle():
            self.transport.close()
        else:
            self.cycle.keep_alive = False

    # --- limits

    def _is_idle(self) -> bool:
        """Return whether no request is in progress."""
        return self.cycle is None or self.cycle.response_complete

    def _awaits_client(self) -> bool:
        """Return whether the server waits for the client.

        The client must then send a request or the rest of one, or read the response.
        """
        sends = self.conn.their_state is h11.SEND_BODY
        ours = self.flow.read_paused or self.conn.they_are_waiting_for_100_continue
        unread = self.transport.get_write_buffer_size() > 0
        return self._is_idle() or (sends and not ours) or unread or self.is_punished

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _await_head(self) -> None:
        self._timer = self.loop.call_later(self.limits.prompt, self._close_late)

    def _close_late(self) -> None:
        self._timer = None
        if self._is_idle():
            self.transport.abort()

    def _expect_reading(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
        left = self.transport.get_write_buffer_size()
        self._unread = self.loop.call_later(self.limits.time_for(left), self._close_unread)

    def _close_unread(self) -> None:
        if self.transport.get_write_buffer_size():
            self.transport.abort()

    def _make_room(self) -> bool:
        """Close the connection that has waited longest for its client.

        Return whether there was such a connection.
        """
        waiting = [
            each
            for each in cast(set[Connection], self.connections)
            if each is not self and not each.transport.is_closing() and each._awaits_client()
        ]
        if waiting:
            min(waiting, key=lambda each: each._moved).transport.abort()
        return bool(waiting)

    def _refuse(self, status: int, message: str) -> None:
        """Send an error response without calling the application, and close the connection."""
        body = json.dumps({"error": message}).encode() + b"\n"
        again = "Retry-After: 1\r\n" if status == 503 else ""
        head = (
            f"HTTP/1.1 {status} {_PHRASES[status]}\r\n{again}Content-Type: application/json\r\n"
            f"X-Content-Type-Options: nosniff\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        if self.conn.our_state is h11.IDLE or self.conn.our_state is h11.SEND_RESPONSE:
            self.transport.write(head.encode() + body)
        self.transport.close()


def build_connection_class(limits: ServerLimits) -> type[Connection]:
    """Return the class for the connections of a server with these limits."""
    return type("BoundedConnection", (Connection,), {"limits": limits})


class Server:
    """HTTP server of one application, which runs in its own thread.

    The constructor binds the port, and raises OSError if that is impossible. ``port``: the bound port; if
    port 0 was requested, the port that the system chose.
    """

    def __init__(self, app: ASGIApp, host: str, port: int, limits: ServerLimits | None = None) -> None:
        limits = limits or ServerLimits()
        self._socket = _bind(host, port)
        self.port: int = self._socket.getsockname()[1]
        self._server = uvicorn.Server(
            uvicorn.Config(
                Bounded(app, limits),
                http=build_connection_class(limits),
                loop="asyncio",
                ws="none",
                lifespan="off",
                interface="asgi3",
                log_config=None,
                log_level="critical",
                access_log=False,
                proxy_headers=False,
                server_header=False,
                backlog=_BACKLOG,
                timeout_keep_alive=int(limits.keep_alive),
                timeout_graceful_shutdown=int(limits.grace),
                h11_max_incomplete_event_size=limits.head,
            )
        )
        self._patience = limits.grace + 2
        self._thread = Thread(target=self._serve, name=f"http {self.port}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop accepting requests, and wait a few seconds for requests in progress to end."""
        self._server.should_exit = True
        self._thread.join(self._patience)
        self._socket.close()

    def _serve(self) -> None:
        asyncio.run(self._server.serve([self._socket]))


def _bind(host: str, port: int) -> socket.socket:
    address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    protocol = socket.IPPROTO_TCP  # else asyncio leaves Nagle's algorithm on
    listener = socket.socket(address[0], socket.SOCK_STREAM, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address[4])
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener
