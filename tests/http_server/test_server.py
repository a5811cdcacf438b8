"""What every server of ours bounds and refuses. The push connector's tests have more, on the same stack."""

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from http.client import HTTPConnection

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router

from ingestor.http_server.access import rules
from ingestor.http_server.requests import Guarded, ServerLimits, json_response, read_object
from ingestor.http_server.server import Server
from tests.waiting import wait


async def _echo(request: Request) -> Response:
    return json_response(200, await read_object(request, 1000))


async def _large(request: Request) -> Response:
    return Response(bytes(30_000_000))


async def _broken(request: Request) -> Response:
    raise ZeroDivisionError


OURS = "Host: 127.0.0.1\nAuthorization: Bearer t0ken"
GATES: set[str] = set()  # requests to /slow that were not let go


async def _slow(request: Request) -> Response:
    name = str(request.query_params["name"])
    GATES.add(name)
    while name in GATES:
        await asyncio.sleep(0.01)
    return Response(b"")


async def _health(request: Request) -> Response:
    return json_response(200, {})


APP = Router(
    [
        Route("/echo", _echo, methods=["POST"]),
        Route("/large", _large),
        Route("/broken", _broken),
        Route("/slow", _slow),
        Route("/open", _health),
    ]
)


@contextmanager
def serving(limits: ServerLimits | None = None, token: str | None = None) -> Iterator[int]:
    guarded = Guarded(APP, rules(["search"], token, "service port", "http"), "/public".__eq__)
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


def answer_to(port: int, request: str, body: bytes = b"") -> tuple[int, str]:
    """Status and body of the answer to a request whose head is given line by line."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        head = "\r\n".join([*request.splitlines(), "Connection: close", "", ""])
        connection.sendall(head.encode() + body)
        with connection.makefile("rb") as stream:
            head, _, text = stream.read().decode().partition("\r\n\r\n")
    return int(head.split()[1]), text


@pytest.mark.parametrize(
    ("request_", "status", "says"),
    [
        ("GET /broken HTTP/1.1\nHost: 127.0.0.1", 401, "requires a token"),
        ("GET /broken HTTP/1.1\nHost: 127.0.0.1\nAuthorization: Bearer wrong", 401, "requires a token"),
        (f"GET /broken HTTP/1.1\n{OURS}\nOrigin: http://evil.example", 403, "other origins"),
        (f"GET /broken HTTP/1.1\n{OURS}\nSec-Fetch-Site: cross-site", 403, "other origins"),
        ("GET /public HTTP/1.1\nHost: evil.example", 421, "`http: {hosts: [...]}`"),
        ("GET /public HTTP/1.1\nHost: search:1", 404, "Not Found"),
        ("GET /broken HTTP/1.1\nAuthorization: Bearer t0ken", 400, "HTTP"),
        (f"GET /broken HTTP/1.1\n{OURS}", 500, "see ingestor's log"),
        (f"GET /open HTTP/1.1\n{OURS}\nContent-Length: 3\nContent-Length: 4", 400, "HTTP"),
        (
            f"POST /echo HTTP/1.1\n{OURS}\nContent-Length: 2\nTransfer-Encoding: chunked",
            400,
            "must not have both",
        ),
        ("rubbish", 400, "HTTP"),
    ],
)
def test_request_by_a_stranger_is_refused(port: int, request_: str, status: int, says: str) -> None:
    got, text = answer_to(port, request_)
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
def test_bodies_other_than_json_objects_are_refused(port: int, body: bytes, status: int) -> None:
    got, text = answer_to(port, f"POST /echo HTTP/1.1\n{OURS}\nContent-Length: {len(body)}", body)
    assert (got, "error" in json.loads(text)) == (status, status != 200)


def test_body_of_unknown_length_is_bounded(port: int) -> None:
    chunks = b"7d0\r\n" + b"x" * 2000 + b"\r\n0\r\n\r\n"
    assert answer_to(port, f"POST /echo HTTP/1.1\n{OURS}\nTransfer-Encoding: chunked", chunks)[0] == 413


def test_connection_serves_several_requests(port: int) -> None:
    with closing(HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.connect()
        first = connection.sock
        for _ in range(3):
            connection.request("POST", "/echo", b"{}", {"Authorization": "Bearer t0ken"})
            answer = connection.getresponse()
            assert (answer.status, answer.read()) == (200, b"{}\n")
        assert connection.sock is first


@contextmanager
def listening(limits: ServerLimits | None = None) -> Iterator[Server]:
    server = Server(APP, "127.0.0.1", 0, limits)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def test_answers_are_sent_at_once() -> None:
    """Nagle's algorithm would hold back the second part of each for 40 ms."""
    with (
        listening() as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=60),
    ):
        wait(lambda: server._server.server_state.connections)
        (connection,) = server._server.server_state.connections
        ours = connection.transport.get_extra_info("socket")
        assert ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def opened(port: int, head: str, body: bytes = b"") -> socket.socket:
    """A connection on which this much of a request was sent."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=60)
    connection.sendall("\r\n".join([*head.splitlines(), "", ""]).encode() + body)
    return connection


LIMITS = ServerLimits(connections=8, spare=2, always=frozenset({"/open"}), prompt=3600, linger=3600)
UNFINISHED = {
    "body": (f"POST /echo HTTP/1.1\n{OURS}\nContent-Length: 9", b"{"),
    "asked for": (f"POST /echo HTTP/1.1\n{OURS}\nContent-Length: 9\nExpect: 100-continue", b""),
    "chunk": (f"POST /echo HTTP/1.1\n{OURS}\nTransfer-Encoding: chunked", b"5\r\n{"),
    "refused": ("POST /echo HTTP/1.1\nHost: 127.0.0.1\nContent-Length: 9", b"{"),
    "wrong token": ("GET /open HTTP/1.1\nHost: 127.0.0.1\nAuthorization: Bearer guess", b""),
    "too large": (f"POST /echo HTTP/1.1\n{OURS}\nContent-Length: 99999", b"x" * 2000),
    "unread": (f"GET /large HTTP/1.1\n{OURS}", b""),
    "head": (f"GET /open HTTP/1.1\n{OURS}\nX-More: a", b""),
    "nothing": ("", b""),
}


@pytest.mark.parametrize("kind", UNFINISHED)
def test_clients_that_are_awaited_make_room_for_others(kind: str) -> None:
    head, body = UNFINISHED[kind]
    with serving(replace(LIMITS, penalty=3600), token="t0ken") as port, ExitStack() as open_:
        for _ in range(5 * LIMITS.connections):
            connection = open_.enter_context(
                opened(port, head, body)
                if kind != "nothing"
                else closing(socket.create_connection(("127.0.0.1", port), timeout=60))
            )
            if kind == "head":
                connection.sendall(b"X-Unfinished: a")
        # A request whose answer is still computed keeps its place; its client is awaited only after that.
        wait(lambda: answer_to(port, f"POST /echo HTTP/1.1\n{OURS}\nContent-Length: 2", b"{}")[0] == 200)
        for _ in range(20):
            assert answer_to(port, f"POST /echo HTTP/1.1\n{OURS}\nContent-Length: 2", b"{}")[0] == 200
            assert answer_to(port, f"GET /open HTTP/1.1\n{OURS}")[0] == 200


def test_health_is_answered_while_every_place_works() -> None:
    with serving(LIMITS, token="t0ken") as port, ExitStack() as busy:
        names = [f"busy {number}" for number in range(LIMITS.connections)]
        for name in names:
            busy.enter_context(opened(port, f"GET /slow?name={name.replace(' ', '+')} HTTP/1.1\n{OURS}"))
        wait(lambda: set(names) <= GATES)
        status, text = answer_to(port, f"POST /echo HTTP/1.1\n{OURS}\nContent-Length: 2", b"{}")
        assert (status, "try again" in text) == (503, True)
        assert answer_to(port, f"GET /open HTTP/1.1\n{OURS}")[0] == 200
        GATES.clear()
        wait(lambda: answer_to(port, f"POST /echo HTTP/1.1\n{OURS}\nContent-Length: 2", b"{}")[0] == 200)


def test_wrong_tokens_are_answered_late_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    wrong = "GET /open HTTP/1.1\nHost: 127.0.0.1\nAuthorization: Bearer "
    late = serving(replace(LIMITS, penalty=3600), token="t0ken")
    with late as port, closing(opened(port, f"{wrong}guess")) as guess:
        wait(lambda: "refused 1 requests with a wrong token" in caplog.text)
        assert answer_to(port, f"GET /open HTTP/1.1\n{OURS}")[0] == 200
        assert answer_to(port, "GET /open HTTP/1.1\nHost: 127.0.0.1")[0] == 401, "none at all is no guess"
        guess.settimeout(0.2)
        with pytest.raises(TimeoutError):
            guess.recv(1)
    caplog.clear()
    with serving(replace(LIMITS, penalty=0), token="t0ken") as port:
        assert [answer_to(port, f"{wrong}{number}")[0] for number in range(50)] == [401] * 50
    lines = [record.message for record in caplog.records if "wrong token" in record.message]
    assert len(lines) == 1
    assert "from 127.0.0.1" in lines[0]
    assert "guess" not in caplog.text


def test_no_answer_is_guessed_to_be_another_type() -> None:
    with serving(token="t0ken") as port:
        for request in (f"GET /open HTTP/1.1\n{OURS}", "GET /open HTTP/1.1\nHost: 127.0.0.1", "rubbish"):
            with closing(opened(port, f"{request}\nConnection: close")) as connection:
                head = connection.makefile("rb").read().partition(b"\r\n\r\n")[0].lower()
            assert b"x-content-type-options: nosniff" in head, request


def test_client_that_does_not_read_is_cut_off() -> None:
    with (
        listening(ServerLimits(prompt=0.3, slowest=10**8)) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection,
    ):
        connection.sendall(b"GET /large HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        wait(lambda: server._server.server_state.connections)
        wait(lambda: not server._server.server_state.connections)
        received = 0
        with suppress(ConnectionError):
            while piece := connection.recv(2**20):
                received += len(piece)
        assert received < 30_000_000


def test_server_stops_in_time_while_clients_hang() -> None:
    with serving(ServerLimits(grace=1)) as port:
        hanging = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(3)]
        hanging[0].sendall(b"POST /echo HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n{")
    with pytest.raises(ConnectionRefusedError):
        wait(lambda: socket.create_connection(("127.0.0.1", port)).close())
    for connection in hanging:
        connection.close()
