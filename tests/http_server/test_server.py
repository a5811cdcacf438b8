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


PATHS = {"/large": _large, "/broken": _broken, "/slow": _slow, "/open": _health}
APP = Router([Route("/echo", _echo, methods=["POST"]), *(Route(path, do) for path, do in PATHS.items())])


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
    with serving(ServerLimits(penalty=0, linger=0.1), token="t0ken") as port:
        yield port


def opened(port: int, head: str, body: bytes = b"") -> socket.socket:
    """A connection on which this much of a request was sent."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=60)
    connection.sendall("\r\n".join([*head.splitlines(), "", ""]).encode() + body)
    return connection


def answer_to(port: int, request: str, body: bytes = b"") -> tuple[int, str]:
    """Status and body of the answer to a request whose head is given line by line."""
    with opened(port, f"{request}\nConnection: close", body) as connection:
        head, _, text = connection.makefile("rb").read().decode().partition("\r\n\r\n")
    assert "x-content-type-options: nosniff" in head.lower()
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
        *((f"POST /echo HTTP/1.1\n{OURS}\n{given}", 400, "HTTP") for given in (
            "Content-Length: 3\nContent-Length: 4", "Content-Length: -3", "Content-Length: ")),
        (f"POST /echo HTTP/1.1\n{OURS}\nContent-Length: 2\nTransfer-Encoding: chunked", 400, "not have both"),
        (f"GET /open HTTP/1.1\n{OURS}\n" + "X: y\n" * 120, 431, "at most 100 headers"),
        ("rubbish", 400, "HTTP"),
    ],
)  # fmt: skip
def test_request_by_a_stranger_is_refused(port: int, request_: str, status: int, says: str) -> None:
    got, text = answer_to(port, request_)
    assert (got, says in text) == (status, True), text


def test_bodies_other_than_json_objects_are_refused(port: int) -> None:
    bodies = {b'{"a": 1}': 200, **dict.fromkeys((b"[1]", b"{", b"\xff", b"[" * 900), 400)}
    bodies |= {b'{"a": "%s"}' % (b"x" * size): 413 for size in (2000, 5_000_000)}
    for body, status in bodies.items():
        got, text = answer_to(port, f"POST /echo HTTP/1.1\n{OURS}\nContent-Length: {len(body)}", body)
        assert (got, "error" in json.loads(text)) == (status, status != 200), body[:20]
    chunks = b"7d0\r\n" + b"x" * 2000 + b"\r\n0\r\n\r\n"
    assert answer_to(port, f"POST /echo HTTP/1.1\n{OURS}\nTransfer-Encoding: chunked", chunks)[0] == 413


def test_connection_serves_several_requests_in_any_pieces(port: int) -> None:
    with closing(HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.connect()
        first = connection.sock
        for _ in range(3):
            connection.request("POST", "/echo", b"{}", {"Authorization": "Bearer t0ken"})
            answer = connection.getresponse()
            assert (answer.status, answer.read()) == (200, b"{}\n")
        assert connection.sock is first
    request = f"POST /echo HTTP/1.1\n{OURS}\nContent-Length: 2\nConnection: close\n\n{{"
    with socket.create_connection(("127.0.0.1", port), timeout=60) as slow:
        for piece in request.replace("\n", "\r\n") + "}":
            slow.sendall(piece.encode())
        assert slow.makefile("rb").read().startswith(b"HTTP/1.1 200 ")


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
    limits = replace(LIMITS, penalty=3600, grace=0)
    echo = f"POST /echo HTTP/1.1\n{OURS}\nContent-Length: 2"
    with serving(limits, token="t0ken") as port, ExitStack() as open_:
        for _ in range(3 * LIMITS.connections):
            if kind == "nothing":
                open_.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
            else:
                connection = open_.enter_context(opened(port, head, body))
            if kind == "head":
                connection.sendall(b"X-Unfinished: a")
            # The server has read what came before.
            assert answer_to(port, f"GET /open HTTP/1.1\n{OURS}")[0] == 200
        # A request whose answer is still computed keeps its place; its client is awaited only after that.
        wait(lambda: answer_to(port, echo, b"{}")[0] == 200)
        for _ in range(5):
            assert answer_to(port, echo, b"{}")[0] == 200


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
    late = serving(replace(LIMITS, penalty=3600, grace=0), token="t0ken")
    with late as port, opened(port, f"{wrong}guess") as guess:
        wait(lambda: "refused 1 request with a wrong token" in caplog.text)
        assert answer_to(port, f"GET /open HTTP/1.1\n{OURS}")[0] == 200
        assert answer_to(port, "GET /open HTTP/1.1\nHost: 127.0.0.1")[0] == 401, "none at all is no guess"
        guess.settimeout(0.2)
        with pytest.raises(TimeoutError):
            guess.recv(1)
    caplog.clear()
    with serving(replace(LIMITS, penalty=0), token="t0ken") as port:
        assert [answer_to(port, f"{wrong}{number}")[0] for number in range(50)] == [401] * 50
    lines = [record.message for record in caplog.records if "wrong token" in record.message]
    assert (len(lines), "from 127.0.0.1" in lines[0], "guess" in caplog.text) == (1, True, False)


def test_no_answer_is_guessed_to_be_another_type(port: int) -> None:
    """Every answer has the header, which ``answer_to`` looks for."""
    for request in (f"GET /open HTTP/1.1\n{OURS}", "GET /open HTTP/1.1\nHost: 127.0.0.1", "rubbish"):
        answer_to(port, request)


def test_client_that_does_not_read_is_cut_off() -> None:
    limits = ServerLimits(prompt=0.3, slowest=10**8)
    server = Server(APP, "127.0.0.1", 0, limits)
    server.start()
    with opened(server.port, "GET /large HTTP/1.1\nHost: 127.0.0.1") as connection:
        state = server._server.server_state
        wait(lambda: state.connections)
        (ours,) = (each.transport.get_extra_info("socket") for each in state.connections)
        assert ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY), "answers are sent at once"
        wait(lambda: not state.connections)
        received = 0
        with suppress(ConnectionError):
            while piece := connection.recv(2**20):
                received += len(piece)
        assert received < 30_000_000
    server.stop()


def test_client_that_sends_slowly_or_stops_sending_is_cut_off() -> None:
    echo = "POST /echo HTTP/1.1\nHost: 127.0.0.1\nContent-Length: 9"
    with serving(ServerLimits(prompt=3600)) as port, opened(port, echo, b"{") as half:
        half.shutdown(socket.SHUT_WR)
        assert half.recv(1) == b"", "nothing more can come"
    with serving(ServerLimits(prompt=0.3, linger=0.1, head=1000)) as port, ExitStack() as stack:
        slow = stack.enter_context(opened(port, echo, b"{"))
        silent, long = (socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(2))
        long.sendall(b"GET /open HTTP/1.1\r\nX-A: " + b"a" * 1500)
        for connection, answer in ((slow, b"HTTP/1.1 408 "), (silent, b""), (long, b"HTTP/1.1 431 ")):
            assert stack.enter_context(connection).makefile("rb").read()[:13] == answer


def test_server_stops_in_time_while_clients_hang() -> None:
    with serving(ServerLimits(grace=0.2)) as port:
        hanging = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(3)]
        hanging[0].sendall(b"POST /echo HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n{")
    with pytest.raises(ConnectionRefusedError):
        wait(lambda: socket.create_connection(("127.0.0.1", port)).close())
    for connection in hanging:
        connection.close()
