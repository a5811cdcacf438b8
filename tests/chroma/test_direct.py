"""Requests by sockets, to servers that behave and to others."""

import socket
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import pytest

from ingestor.chroma.api.direct import DirectRequests
from ingestor.chroma.api.values import NoAnswer, NoConnection
from tests.serving import HOST, answering, free_port

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nh\r\n1\r\ni\r\n0\r\n\r\n"
UNTIL_THE_END = b"HTTP/1.0 200 OK\r\n\r\nhi"
BUSY = b"HTTP/1.1 429 Too Many\r\nRetry-After: 7\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi"


class Scripted:
    """Each connection gives these answers, one a request, then ends. ``heard``: requests of each."""

    def __init__(self, connections: Sequence[Sequence[bytes]]) -> None:
        self.heard: list[list[bytes]] = []
        self._listener = socket.create_server((HOST, 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, args=(connections,))
        self._thread.start()

    def _serve(self, connections: Sequence[Sequence[bytes]]) -> None:
        for answers in connections:
            connection, _ = self._listener.accept()
            self.heard.append([])
            with connection, suppress(ConnectionError):  # a client that has heard enough
                for answer in answers:
                    self.heard[-1].append(_request(connection))
                    for byte in range(len(answer)):
                        connection.sendall(answer[byte : byte + 1])
                if answers and answers[-1] == b"":
                    connection.recv(1)  # until the client gives up

    def close(self) -> None:
        self._thread.join(10)
        self._listener.close()


def _request(connection: socket.socket) -> bytes:
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += connection.recv(1)
    size = next((int(line[16:]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length: ")), 0)
    return head + connection.recv(size, socket.MSG_WAITALL) if size else head


@contextmanager
def asking(*connections: Sequence[bytes], timeout: float = 10.0) -> Iterator[tuple[DirectRequests, Scripted]]:
    server = Scripted(connections)
    requests = DirectRequests(HOST, server.port, {"X-Key": "k"}, timeout, timeout)
    try:
        yield requests, server
    finally:
        requests.close()
        server.close()


@pytest.mark.parametrize("answer", [OK, CHUNKED, UNTIL_THE_END])
def test_an_answer_is_read_whole(answer: bytes) -> None:
    with asking([answer]) as (requests, server):
        said = requests.send("POST", "/a?b=c", b"{}")
    assert (said.status, said.content, said.address) == (200, b"hi", f"http://{HOST}:{server.port}/a?b=c")
    host = f"{HOST}:{server.port}".encode()
    head = b"POST /a?b=c HTTP/1.1\r\nHost: " + host + b"\r\nX-Key: k\r\nContent-Length: 2\r\n\r\n"
    assert server.heard == [[head + b"{}"]]


def test_a_connection_is_used_again_until_the_server_ends_it() -> None:
    with asking([OK, OK, OK], [OK, BUSY], [OK]) as (requests, server):
        said = [requests.send("GET", "/", None) for _ in range(3)]
        server_ended = requests._idle[0]
        server_ended.settimeout(10)
        assert server_ended.recv(1, socket.MSG_PEEK) == b""
        said += [requests.send("GET", "/", None) for _ in range(3)]
    assert [len(each) for each in server.heard] == [3, 2, 1]
    assert [each.status for each in said] == [200, 200, 200, 200, 429, 200]
    assert said[4].headers["retry-after"] == "7"


def test_many_threads_ask_at_once() -> None:
    with answering(200, b"hi") as (port, seen), ThreadPoolExecutor(8) as threads:
        requests = DirectRequests(HOST, port, {}, 10, 10)
        said = list(threads.map(lambda n: requests.send("GET", f"/{n}", None), range(100)))
        requests.close()
    assert [each.address.rpartition("/")[2] for each in said] == [str(n) for n in range(100)]
    assert {(each.status, each.content) for each in said} == {(200, b"hi")}
    assert len(seen) == 100


@pytest.mark.parametrize("answer", [OK[:10], OK[:-1], b"nonsense\r\n\r\n", CHUNKED[:-3]])
def test_a_broken_answer_is_a_broken_connection(answer: bytes) -> None:
    with asking([answer]) as (requests, server):
        with pytest.raises(NoConnection, match=f"at http://{HOST}:{server.port}: "):
            requests.send("GET", "/", None)
        assert requests._idle == []


def test_a_server_that_is_silent() -> None:
    with asking([b""], timeout=0.2) as (requests, _), pytest.raises(NoAnswer):
        requests.send("GET", "/", None)


def test_nobody_listens() -> None:
    requests = DirectRequests(HOST, free_port(), {}, 5, 5)
    with pytest.raises(NoConnection, match="refused"):
        requests.send("GET", "/", None)


def test_nothing_stays_open_after_the_end() -> None:
    with asking([OK]) as (requests, _):
        requests.close()
        assert requests.send("GET", "/", None).content == b"hi"
        assert requests._idle == []
