"""Few connections serve many threads, and are closed when nobody needs them."""

import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from ingestor.connectors.imap import session as sessions
from ingestor.model import Item
from ingestor.ports import NeedsHuman, Transient
from tests.connectors.imap_script import SCRIPT, Scripted, scripted
from tests.connectors.laws import listed
from tests.waiting import LONG

MAIL = b"x: y\r\n\r\nz"
KEY = "INBOX/17/7.eml"


def test_few_connections_serve_many_threads() -> None:
    item = Item(KEY, "17/7", "imap://x", 9)
    with scripted() as server:
        connector = server.connector()
        ready = threading.Barrier(12)

        def fetch(_: int) -> bytes:
            ready.wait(LONG)
            return connector.fetch(item).data

        with ThreadPoolExecutor(12) as pool:
            assert list(pool.map(fetch, range(12))) == [MAIL] * 12
        assert 1 <= server.most <= 4
        assert server.heard.count("AUTHENTICATE PLAIN") == server.most


def test_connection_that_nobody_needs_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "IDLE", 0.05)
    with scripted() as server:
        connector = server.connector()
        listed(connector)
        _await_end(server)
        assert server.heard[-1] == "LOGOUT"
        assert listed(connector).keys() == {"INBOX/17/4.eml", KEY}, "it connects again"
        _await_end(server)


def _await_end(server: Scripted) -> None:
    with server.changed:
        assert server.changed.wait_for(lambda: server.open == 0, LONG)


def test_server_that_left_meanwhile_is_called_again() -> None:
    item = Item(KEY, "17/7", "imap://x", 9)
    with scripted() as server:
        connector = server.connector()
        with connector._sessions.one(), connector._sessions.one():
            pass
        for connection in server.connections:
            connection.shutdown(socket.SHUT_RDWR)
        assert connector.fetch(item).data == MAIL
        assert server.heard.count("AUTHENTICATE PLAIN") == 3


@pytest.mark.parametrize(
    ("answers", "kind"),
    [
        ({"": b"* BYE busy\r\n"}, Transient),
        ({"AUTHENTICATE": b"TAG NO [AUTHENTICATIONFAILED] no\r\n"}, NeedsHuman),
    ],
)
def test_server_that_lets_nobody_in_is_not_asked_for_every_message(
    answers: dict[str, bytes], kind: type[Exception]
) -> None:
    item = Item(KEY, "17/7", "imap://x", 9)
    with scripted(answers) as server:
        connector = server.connector()
        for _ in range(50):
            with pytest.raises(kind):
                connector.fetch(item)
        assert len(server.connections) == 1
        with pytest.raises(kind):
            listed(connector)
        assert len(server.connections) == 2, "a listing tries again"
        server.script = SCRIPT
        assert listed(connector).keys() == {"INBOX/17/4.eml", KEY}
        assert connector.fetch(item).data == MAIL
