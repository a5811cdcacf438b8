"""What every server of ours bounds and refuses. The push connector's tests have more, on the same stack."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router

from ingestor.http_server.access import rules
from ingestor.http_server.bodies import read_object
from ingestor.http_server.bounded import json_response
from ingestor.http_server.guarded import Guarded
from ingestor.http_server.limits import ServerLimits
from ingestor.http_server.server import Server
from tests.e2e.project import wait


async def _echo(request: Request) -> Response:
    return json_response(200, await read_object(request, 1000))


async def _large(request: Request) -> Response:
    return Response(bytes(30_000_000))


async def _broken(request: Request) -> Response:
    raise ZeroDivisionError


APP = Router([Route("/echo", _echo, methods=["POST"]), Route("/large", _large), Route("/broken", _broken)])


@contextmanager
def serving(limits: ServerLimits | None = None, token: str | None = None) -> Iterator[int]:
    guarded = Guarded(APP, rules(["search"], token, "service port", "http"), "/open".__eq__)
    server = Server(guarded, "127.0.0.1", 0, limits)
    server.start()
    try:
        yield server.port
    finally:
        server.stop()


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with serving(token="t0ken") as port:
        yield port


def told(port: int, request: str, body: bytes = b"") -> tuple[int, str]:
    """Status and body of the answer to a request whose head is given line by line."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        head = "\r\n".join([*request.splitlines(), "Connection: close", "", ""])
        connection.sendall(head.encode() + body)
        with connection.makefile("rb") as stream:
            head, _, text = stream.read().decode().partition("\r\n\r\n")
    return int(head.split()[1]), text


OURS = "Host: 127.0.0.1\nAuthorization: Bearer t0ken"


@pytest.mark.parametrize(
    ("request_", "status", "says"),
    [
        ("GET /broken HTTP/1.1\nHost: 127.0.0.1", 401, "asks for a token"),
        ("GET /broken HTTP/1.1\nHost: 127.0.0.1\nAuthorization: Bearer wrong", 401, "asks for a token"),
        (f"GET /broken HTTP/1.1\n{OURS}\nOrigin: http://evil.example", 403, "other origins"),
        (f"GET /broken HTTP/1.1\n{OURS}\nSec-Fetch-Site: cross-site", 403, "other origins"),
        ("GET /open HTTP/1.1\nHost: evil.example", 421, "`http: {hosts: [...]}`"),
        ("GET /open HTTP/1.1\nHost: search:1", 404, "Not Found"),
        ("GET /broken HTTP/1.1\nAuthorization: Bearer t0ken", 400, "HTTP"),
        (f"GET /broken HTTP/1.1\n{OURS}", 500, "its log has more"),
        (f"GET /open HTTP/1.1\n{OURS}\nContent-Length: 3\nContent-Length: 4", 400, "HTTP"),
        ("rubbish", 400, "HTTP"),
    ],
)
def test_who_is_refused(port: int, request_: str, status: int, says: str) -> None:
    got, text = told(port, request_)
    assert got == status
    assert says in text


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"a": 1}', 200),
        (b"[1]", 400),
        (b"{", 400),
        (b"\xff", 400),
        (b"[" * 900, 400),
        (b'{"a": "%s"}' % (b"x" * 2000), 413),
        (b'{"a": "%s"}' % (b"x" * 5_000_000), 413),
    ],
)
def test_bodies(port: int, body: bytes, status: int) -> None:
    got, text = told(port, f"POST /echo HTTP/1.1\n{OURS}\nContent-Length: {len(body)}", body)
    assert (got, "error" in json.loads(text)) == (status, status != 200)


def test_a_body_of_unknown_length_is_bounded_too(port: int) -> None:
    chunks = b"7d0\r\n" + b"x" * 2000 + b"\r\n0\r\n\r\n"
    assert told(port, f"POST /echo HTTP/1.1\n{OURS}\nTransfer-Encoding: chunked", chunks)[0] == 413


def test_a_connection_serves_several_requests(port: int) -> None:
    with closing(HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.connect()
        first = connection.sock
        for _ in range(3):
            connection.request("POST", "/echo", b"{}", {"Authorization": "Bearer t0ken"})
            answer = connection.getresponse()
            assert (answer.status, answer.read()) == (200, b"{}\n")
        assert connection.sock is first


def test_answers_are_sent_at_once() -> None:
    """Nagle's algorithm would hold back the second part of each for 40 ms."""
    server = Server(APP, "127.0.0.1", 0)
    server.start()
    try:
        with socket.create_connection(("127.0.0.1", server.port), timeout=60):
            wait(lambda: server._server.server_state.connections)
            (connection,) = server._server.server_state.connections
            ours = connection.transport.get_extra_info("socket")
            assert ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    finally:
        server.stop()


def test_a_client_that_does_not_read_is_cut_off() -> None:
    with serving(ServerLimits(prompt=0.3, slowest=10**8)) as port:
        connection = socket.create_connection(("127.0.0.1", port), timeout=60)
        connection.sendall(b"GET /large HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        time.sleep(2)  # it reads nothing meanwhile
        received = 0
        with suppress(ConnectionError):
            while piece := connection.recv(2**20):
                received += len(piece)
        connection.close()
        assert received < 30_000_000


def test_it_stops_in_time_though_clients_hang() -> None:
    with serving(ServerLimits(grace=1)) as port:
        hanging = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(3)]
        hanging[0].sendall(b"POST /echo HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n{")
        begun = time.monotonic()
    assert time.monotonic() - begun < 30
    with pytest.raises(ConnectionRefusedError):
        wait(lambda: socket.create_connection(("127.0.0.1", port)).close(), 1)
    for connection in hanging:
        connection.close()
