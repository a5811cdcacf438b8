"""Who is slow, says nothing or has no right is in nobody's way."""

from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from ingestor.connectors.push import connector as push_connector
from ingestor.connectors.push.answers import WORKERS
from ingestor.http_server.requests import ServerLimits
from tests.connectors.push.watching import OURS, Watch, answer, connector, raw, watched
from tests.waiting import wait


def test_slow_are_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push_connector, "LIMITS", ServerLimits(prompt=0.5, slowest=100))
    with watched(connector(tmp_path / "pushed")) as watch:
        wait(watch.caller.is_answered, every=0.01)
        slow = [raw(watch.caller.port) for _ in range(2 * WORKERS)]
        for connection in slow[:-1]:
            connection.sendall(b"PUT /documents/a HTTP/1.1\r\n")
        head = f"PUT /documents/a HTTP/1.1\r\n{OURS}\r\nContent-Length: 99\r\n\r\n"
        slow[-1].sendall(f"{head}only".encode())
        assert watch.caller.put("b", b"x").status == 201, "it is its turn once they are gone"
        assert [answer(connection) for connection in slow[:-1]] == [("", "")] * (len(slow) - 1)
        assert answer(slow[-1])[0].startswith("HTTP/1.1 408 "), "its head was there: it is told why"
        assert watch.caller.get("a").status == 404


def test_silent_client_blocks_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push_connector, "LIMITS", ServerLimits(prompt=1000))  # nobody is cut off meanwhile
    with watched(connector(tmp_path / "pushed")) as watch, ExitStack() as opened:
        wait(watch.caller.is_answered, every=0.01)
        idle = [opened.enter_context(raw(watch.caller.port)) for _ in range(2 * ServerLimits().connections)]
        for connection in idle[: ServerLimits().connections]:
            with suppress(OSError):  # the oldest made room
                connection.sendall(b"PUT /documents/a HTTP/1.1\r\nX-Long: ")
        assert watch.caller.put("b", b"x").status == 201
        assert answer(idle[0]) == ("", "")


def test_silent_client_without_token_blocks_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        push_connector, "LIMITS", ServerLimits(linger=1000)
    )  # a caller is heard out for as long
    with watched(connector(tmp_path / "pushed")) as watch, ExitStack() as opened:
        wait(watch.caller.is_answered, every=0.01)
        strangers = [opened.enter_context(raw(watch.caller.port)) for _ in range(4 * WORKERS)]
        for connection in strangers:
            connection.sendall(b"PUT /documents/a HTTP/1.1\r\nHost: here\r\nContent-Length: 99\r\n\r\n")
        assert watch.caller.put("b", b"x").status == 201
        assert all(connection.recv(100).startswith(b"HTTP/1.1 401") for connection in strangers)


def test_head_without_end_is_refused(here: Watch) -> None:
    connection = raw(here.caller.port)
    with suppress(OSError):
        connection.sendall(b"GET /documents HTTP/1.1\r\n" + b"X-A: " + b"a" * 2**18)
    with suppress(ConnectionError):
        assert answer(connection)[0].startswith("HTTP/1.1 431")
    assert here.caller.put("b", b"x").status == 201


def test_head_that_comes_in_small_pieces(here: Watch) -> None:
    connection = raw(here.caller.port)
    for piece in f"PUT /documents/s HTTP/1.1\r\n{OURS}\r\nContent-Length: 4\r\n\r\nw":
        connection.sendall(piece.encode())
    connection.sendall(b"hol")
    assert answer(connection)[0].startswith("HTTP/1.1 201")
    assert here.caller.get("s").body == b"whol"
