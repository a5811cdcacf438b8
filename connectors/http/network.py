"""Connections to addresses that were judged first, and to no others (decision 0013).

A name is resolved here, every address it has is judged, and the connection goes to one of those very
addresses: what the name resolves to a moment later is of no interest. As connections are opened here and
nowhere else, there is no way around it. Reads and writes end at the request's deadline, however slowly a
server drips; so does looking for a name, which the system can only do in its own time: in a thread that is
left behind.
"""

import socket
import ssl
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread

import httpcore

from ingestor.connectors.http.address import Allowed, may_ask


class Refused(Exception):
    """We won't ask there; the message says why."""


def resolve(host: str, port: int) -> list[str]:
    """All addresses of a name, as the system finds them. Raises OSError."""
    return list(
        dict.fromkeys(str(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    )


@dataclass(frozen=True, slots=True)
class Outside:
    """What a client needs of the world. ``ssl_context``: None is that of the system."""

    resolve: Callable[[str, int], list[str]] = resolve
    sleep: Callable[[float], object] = time.sleep
    now: Callable[[], float] = time.time
    ssl_context: ssl.SSLContext | None = None


class Judging(httpcore.NetworkBackend):
    """Opens connections to addresses that were judged. ``begin`` sets the deadline for what follows."""

    def __init__(self, allowed: Allowed, outside: Outside) -> None:
        self._allowed, self._outside = allowed, outside
        self._system = httpcore.SyncBackend()
        self._deadline = 0.0

    def begin(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds

    def left(self, timeout: float | None) -> float:
        """Seconds. Raises httpcore.ReadTimeout at the deadline."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise httpcore.ReadTimeout("it takes too long")
        return left if timeout is None else min(timeout, left)

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        failure: Exception = httpcore.ConnectError(f"{host} has no address")
        for address in self._judged(host, port):
            try:
                stream = self._system.connect_tcp(
                    address, port, self.left(timeout), local_address, socket_options
                )
                return _Timed(stream, self)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure

    def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: object = None
    ) -> httpcore.NetworkStream:
        raise Refused(f"{path} is no website")

    def _judged(self, host: str, port: int) -> list[str]:
        """All addresses of the name, if all may be asked: a name with one that may not is a trick."""
        addresses = _in_time(lambda: self._outside.resolve(host, port), self.left(None), host)
        for address in addresses:
            if not may_ask(host, address, self._allowed):
                shown = "" if address == host else f" (it resolves to {address})"
                raise Refused(
                    f"{host}{shown} is not a public address: if it is meant, name it in `allow_private`"
                )
        return addresses


def _in_time(look: Callable[[], list[str]], seconds: float, host: str) -> list[str]:
    """What ``look`` gives, or raises. Raises httpcore.ConnectTimeout after ``seconds``."""
    found: SimpleQueue[list[str] | Exception] = SimpleQueue()

    def run() -> None:
        try:
            found.put(look())
        except Exception as error:  # noqa: BLE001 - the waiting caller raises it
            found.put(error)

    Thread(target=run, name=f"resolve {host}", daemon=True).start()
    try:
        result = found.get(timeout=seconds)
    except Empty:
        raise httpcore.ConnectTimeout(f"no name server says in time where {host} is") from None
    if isinstance(result, Exception):
        raise result
    return result


class _Timed(httpcore.NetworkStream):
    """A connection whose reads and writes end at the deadline."""

    def __init__(self, stream: httpcore.NetworkStream, clock: Judging) -> None:
        self._stream, self._clock = stream, clock

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._clock.left(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._clock.left(timeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        return _Timed(
            self._stream.start_tls(ssl_context, server_hostname, self._clock.left(timeout)), self._clock
        )

    def get_extra_info(self, info: str) -> object:
        return self._stream.get_extra_info(info)
