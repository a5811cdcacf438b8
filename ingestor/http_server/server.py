"""An HTTP server in a thread of its own: uvicorn with limits.

The thread and its event loop belong to the server; the rest of the program calls ``start`` and ``stop``.
"""

import asyncio
import socket
from threading import Thread

import uvicorn
from starlette.types import ASGIApp

from ingestor.http_server.bounded import Bounded
from ingestor.http_server.connection import build_connection_class
from ingestor.http_server.limits import ServerLimits

_BACKLOG = 64  # connections that the system holds for us


class Server:
    """Serves an application. Bound when made; raises OSError when the address cannot be used."""

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
        """Accept no more requests, and give those under way a few seconds."""
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
