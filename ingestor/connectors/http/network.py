"""Connections to allowed addresses only (decision 0013).

A host name is resolved here, and all its addresses are checked. The connection goes to one of these
addresses, so a second lookup cannot give another address. All connections are opened here. Reads and writes
end at the request's deadline, even if a server sends a byte at a time. A name lookup cannot be cancelled: it
runs in a thread that is abandoned at the deadline.
"""

import socket
import ssl
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread

import httpcore

from ingestor.connectors.http.address import Allowed, may_connect


class AddressRefused(Exception):
    """Error: an address is not allowed, so no request is sent. The message gives the reason."""


def resolve(host: str, port: int) -> list[str]:
    """Return all addresses of a host name, found by the system's resolver. Raises OSError."""
    return list(
        dict.fromkeys(str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    )


@dataclass(frozen=True, slots=True)
class Outside:
    """Clock, name resolver and TLS settings of a client, which tests replace.

    ``ssl_context``: None for the settings of the system.
    """

    resolve: Callable[[str, int], list[str]] = resolve
    sleep: Callable[[float], object] = time.sleep
    now: Callable[[], float] = time.time
    ssl_context: ssl.SSLContext | None = None


class AllowedBackend(httpcore.NetworkBackend):
    """Opens connections to allowed addresses only, until the deadline that ``begin`` sets."""

    def __init__(self, allowed: Allowed, outside: Outside) -> None:
        self._allowed, self._outside = allowed, outside
        self._system = httpcore.SyncBackend()
        self._deadline = 0.0

    def begin(self, seconds: float) -> None:
        """Set the deadline of the next request."""
        self._deadline = time.monotonic() + seconds

    def seconds_left(self, timeout: float | None) -> float:
        """Return the seconds until the deadline, but at most ``timeout``.

        Raises httpcore.ReadTimeout if the deadline has passed.
        """
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise httpcore.ReadTimeout("the request took too long")
        return left if timeout is None else min(timeout, left)

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        failure: Exception = httpcore.ConnectError(f"the host name {host} has no address")
        for address in self._resolve(host, port):
            try:
                stream = self._system.connect_tcp(
                    address, port, self.seconds_left(timeout), local_address, socket_options
                )
                return _Timed(stream, self)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure

    def _resolve(self, host: str, port: int) -> list[str]:
        """Return all addresses of a host name. Raises AddressRefused if one of them is not allowed."""
        addresses = _in_time(lambda: self._outside.resolve(host, port), self.seconds_left(None), host)
        for address in addresses:
            if not may_connect(host, address, self._allowed):
                shown = "" if address == host else f" (it resolves to {address})"
                raise AddressRefused(
                    f"{host}{shown} is not a public address: to allow it, add it to `allow_private`"
                )
        return addresses


def _in_time(resolve: Callable[[], list[str]], seconds: float, host: str) -> list[str]:
    """Call ``resolve`` in a thread, and return its result or raise its error.

    Raises httpcore.ConnectTimeout if the result takes more than ``seconds``.
    """
    results: SimpleQueue[list[str] | Exception] = SimpleQueue()

    def run() -> None:
        try:
            results.put(resolve())
        except Exception as error:  # noqa: BLE001 - the waiting caller raises it
            results.put(error)

    Thread(target=run, name=f"resolve {host}", daemon=True).start()
    try:
        result = results.get(timeout=seconds)
    except Empty:
        raise httpcore.ConnectTimeout(f"resolving {host} took too long") from None
    if isinstance(result, Exception):
        raise result
    return result


class _Timed(httpcore.NetworkStream):
    """A connection whose reads and writes fail at the deadline of the request."""

    def __init__(self, stream: httpcore.NetworkStream, clock: AllowedBackend) -> None:
        self._stream, self._clock = stream, clock

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._clock.seconds_left(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._clock.seconds_left(timeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        return _Timed(
            self._stream.start_tls(ssl_context, server_hostname, self._clock.seconds_left(timeout)),
            self._clock,
        )

    def get_extra_info(self, info: str) -> object:
        return self._stream.get_extra_info(info)
