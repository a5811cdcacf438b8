"""Requests to servers that behave, and to others."""

import json
import socket
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from uuid import UUID

import pytest

from ingestor.chroma.client import Client, Unanswered, Unreachable
from ingestor.ports import Later
from tests.serving import HOST, answering, free_port
from tests.waiting import LONG

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n42"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n4\r\n1\r\n2\r\n0\r\n\r\n"
UNTIL_THE_END = b"HTTP/1.0 200 OK\r\n\r\n42"
BUSY = b"HTTP/1.1 429 Too Many\r\nRetry-After: 7\r\nContent-Length: 2\r\nConnection: close\r\n\r\n42"
PACKED = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n42"
DOCS = UUID(int=7)


class Scripted:
    """Each connection gives these answers, one a request, then ends. ``heard``: requests of each."""

    def __init__(self, connections: Sequence[Sequence[bytes]]) -> None:
        self.heard: list[list[bytes]] = []
        self.ended = [threading.Event() for _ in connections]
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
            self.ended[len(self.heard) - 1].set()

    def close(self) -> None:
        self._thread.join(LONG)
        self._listener.close()


def _request(connection: socket.socket) -> bytes:
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += connection.recv(1)
    lines = head.lower().split(b"\r\n")
    size = next((int(line[16:]) for line in lines if line.startswith(b"content-length: ")), 0)
    return head + connection.recv(size, socket.MSG_WAITALL) if size else head


@contextmanager
def asking(*connections: Sequence[bytes], timeout: float = 10.0) -> Iterator[tuple[Client, Scripted]]:
    server = Scripted(connections)
    api = Client(HOST, server.port, token="k", timeout=timeout)
    try:
        yield api, server
    finally:
        api.close()
        server.close()


@pytest.mark.parametrize("answer", [OK, CHUNKED, UNTIL_THE_END])
def test_answer_is_read_whole(answer: bytes) -> None:
    with asking([answer]) as (api, server):
        assert api.post(DOCS, "get", ids=["a"], include=[]) == 42
    head, _, body = server.heard[0][0].partition(b"\r\n\r\n")
    line, *headers = head.decode().lower().split("\r\n")
    place = f"default_tenant/databases/default_database/collections/{DOCS}/get"
    assert line == f"post /api/v2/tenants/{place} http/1.1"
    assert {f"host: {HOST}:{server.port}", "authorization: bearer k", "x-chroma-token: k"} <= {*headers}
    assert {"accept-encoding: identity", f"content-length: {len(body)}"} <= {*headers}
    assert json.loads(body)["ids"] == ["a"]


def test_connection_is_used_again_until_the_server_ends_it() -> None:
    with asking([OK, OK, OK], [OK, BUSY], [OK]) as (api, server):
        assert [api.count(DOCS) for _ in range(3)] == [42] * 3
        server.ended[0].wait(60)
        assert api.count(DOCS) == 42
        with pytest.raises(Later) as busy:
            api.count(DOCS)
        assert api.count(DOCS) == 42
    assert [len(each) for each in server.heard] == [3, 2, 1]
    assert busy.value.wait == 7


def test_many_threads_request_at_once() -> None:
    with answering(200, b"42") as (port, seen), ThreadPoolExecutor(4) as threads:
        api = Client(HOST, port)
        assert list(threads.map(lambda _: api.count(DOCS), range(40))) == [42] * 40
        api.close()
    assert len(seen) == 40


@pytest.mark.parametrize("answer", [OK[:10], OK[:-1], b"nonsense\r\n\r\n", CHUNKED[:-3], PACKED])
def test_broken_answer_is_a_broken_connection(answer: bytes) -> None:
    with asking([answer]) as (api, _), pytest.raises(Unreachable, match=rf"at http://{HOST}:\d+: "):
        api.count(DOCS)


def test_silent_server_raises_unanswered() -> None:
    with asking([b""], timeout=0.2) as (api, _), pytest.raises(Unanswered):
        api.count(DOCS)


def test_request_to_a_closed_port_raises() -> None:
    with closing(Client(HOST, free_port())) as api:
        assert not api.is_alive()
        with pytest.raises(Unreachable, match=r"refused$"):
            api.count(DOCS)


def test_request_to_a_server_of_ours_that_ended_names_the_remedy(tmp_path: Path) -> None:
    lost = pytest.raises(Unreachable, match="verify --repair --rebuild")
    with closing(Client(HOST, free_port(), folder=tmp_path)) as api, lost:
        api.count(DOCS)


def test_proxy_of_the_environment_is_not_used_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(200, b"42") as (port, _), answering(200, b"43") as (proxy, _):
        monkeypatch.setenv("HTTP_PROXY", f"http://{HOST}:{proxy}")
        monkeypatch.delenv("NO_PROXY", raising=False)
        with closing(Client(HOST, port)) as here, closing(Client("chroma.example", port)) as elsewhere:
            assert (here.count(DOCS), elsewhere.count(DOCS)) == (42, 43)
