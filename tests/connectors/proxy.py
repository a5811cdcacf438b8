"""Stands before a server of any protocol over TCP, and does to its answers what networks do."""

import re
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.waiting import LONG

HOST = "127.0.0.1"
_REQUEST = re.compile(rb"(?:^|\r\n)([A-Z]+ [^\s]+) HTTP/1\.1\r\n")


class Proxy:
    """Faults hold from when they are set, for connections that stand as for new ones.

    ``answer``: what every request gets instead (nothing at all: the connection is closed). ``left``: bytes
    that each connection may still bring before it is reset. ``budget``: bytes until all connections are reset
    and none is taken any more, which sets ``spent``. ``silent``: nothing comes any more; ``mute``:
    nothing comes to HTTP requests for a path that ends so.
    """

    def __init__(self, port: int) -> None:
        self.target = port
        self.spent = threading.Event()
        self.heard = threading.Event()  # something that gets no answer
        self.requests: list[str] = []  # where they are HTTP's: method and path
        self._connections: list[tuple[socket.socket, socket.socket]] = []
        self._listening = socket.create_server((HOST, 0))
        self.port = int(self._listening.getsockname()[1])
        self.relent()

    def relent(self) -> None:
        self.answer: bytes | None = None
        self.left: int | None = None
        self.budget: int | None = None
        self.spent.clear()
        self.silent = False
        self.mute = ""
        self.drop()

    def refuse(self, answer: bytes = b"") -> None:
        self.drop()
        self.answer = answer

    def cut(self, after: int) -> None:
        self.drop()
        self.left = after

    def drop(self) -> None:
        """Every connection that stands."""
        for pair in self._connections:
            for end in pair:
                _reset(end)
        self._connections.clear()

    def serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._relay, args=(client,), daemon=True).start()

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.drop()

    def _relay(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection((HOST, self.target), timeout=LONG)
        except OSError:
            return _reset(client)
        server.settimeout(None)
        self._connections.append((client, server))
        threading.Thread(target=self._up, args=(client, server), daemon=True).start()
        return self._down(server, client, self.left)

    def _up(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while self.answer != b"" and (data := client.recv(65536)):
                asked = [found.decode() for found in _REQUEST.findall(data)]
                self.requests += asked
                if self.answer:
                    client.sendall(self.answer)
                    break
                if self.silent or (self.mute and any(one.endswith(self.mute) for one in asked)):
                    self.heard.set()
                else:
                    server.sendall(data)
        for end in (client, server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _down(self, server: socket.socket, client: socket.socket, left: int | None) -> None:
        with suppress(OSError):
            while data := server.recv(65536):
                if self.silent:
                    continue
                self._spend(len(data))
                if left is not None and len(data) >= left:
                    client.sendall(data[:left])
                    _reset(client)
                    break
                left = None if left is None else left - len(data)
                client.sendall(data)
        for end in (client, server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _spend(self, bytes_: int) -> None:
        if self.budget is not None:
            self.budget -= bytes_
            if self.budget <= 0:
                self.refuse()
                self.spent.set()


def _reset(end: socket.socket) -> None:
    with suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        end.shutdown(socket.SHUT_RDWR)  # it may be read from in another thread
    end.close()


def http(status: str, body: str = "", **fields: str) -> bytes:
    """An answer after which the connection is closed."""
    fields = {"Content-Length": str(len(body)), "Connection": "close", **fields}
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status}\r\n{head}\r\n{body}".encode()


@contextmanager
def before(port: int) -> Iterator[Proxy]:
    proxy = Proxy(port)
    thread = threading.Thread(target=proxy.serve, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.close()
        thread.join()
