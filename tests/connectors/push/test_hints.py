"""What a watch says of changes, and of the address that it listens on."""

import socket
from contextlib import closing
from pathlib import Path

import pytest

from ingestor.connectors.push import connector as push_connector
from ingestor.connectors.push.store import PushStore, StoreChanges
from ingestor.model import Hint, SourceName
from tests.connectors.laws import listed
from tests.connectors.push.watching import Watch, connector, watched
from tests.e2e.project import free_port
from tests.waiting import wait


def test_look_again_is_passed_on(here: Watch) -> None:
    assert here.caller.look("source=wiki").status == 202
    assert here.caller.look("source=wiki&under=docs/%C3%A9/").status == 202
    wait(lambda: len(here.hints) == 2)
    assert here.hints == [Hint("", SourceName("wiki")), Hint("docs/é", SourceName("wiki"))]


def test_two_watches_share_one_server_and_both_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(push_connector, "PATIENCE", 0.0)
    one, other = (connector(tmp_path / "pushed", port=port) for port in [free_port()] * 2)
    first = Watch(one)
    wait(first.caller.is_answered)
    with watched(other) as second:
        first.caller.put("a", b"x")
        wait(lambda: Hint("a") in first.hints and Hint("a") in second.hints)
        first.end()
        wait(second.caller.is_answered)
        second.caller.put("b", b"x")
        wait(lambda: Hint("b") in second.hints)
    assert caplog.text == "", "none complains that the other has the port"


def test_forgotten_changes_hint_at_everything(tmp_path: Path) -> None:
    store = PushStore(tmp_path)
    with closing(StoreChanges(store)) as changes:
        assert changes.take() == [""]
        for asked, remembered in ((1500, [""]), (3, ["0", "1", "2"])):
            with store._transaction() as db:
                db.executemany("INSERT INTO changes (key) VALUES (?)", [(f"{n}",) for n in range(asked)])
                db.execute("DELETE FROM changes WHERE number <= (SELECT max(number) FROM changes) - 1000")
            assert changes.take() == remembered
            assert changes.take() == []


def test_many_changes_are_drawn_together(here: Watch) -> None:
    with PushStore(here.folder)._transaction() as db:
        db.executemany("INSERT INTO changes (key) VALUES (?)", [(f"a/{n}",) for n in range(99)])
    wait(lambda: here.hints == [Hint("a")])


def test_only_the_last_changes_are_remembered(tmp_path: Path) -> None:
    store = PushStore(tmp_path)
    with store._transaction() as db:
        db.executemany("INSERT INTO changes (key) VALUES (?)", [("x",)] * 1200)
    store.put("a", b"x", None, ())
    with store.open() as db:
        assert db.execute("SELECT count(*), max(number) FROM changes").fetchone() == (1000, 1201)


def test_store_that_was_replaced_is_looked_at_whole(tmp_path: Path) -> None:
    of = connector(tmp_path / "pushed")
    with watched(of) as watch:
        wait(watch.caller.is_answered)
        watch.caller.put("a", b"x")
        before = of.identity()
        (tmp_path / "pushed").rename(tmp_path / "aside")
        wait(lambda: Hint("") in watch.hints)
        watch.hints.clear()
        assert watch.caller.put("b", b"x").status == 201
        wait(lambda: Hint("b") in watch.hints)
    assert listed(of).keys() == {"b"}
    assert of.identity() != before, "so that what is missing counts as a loss"


def test_port_in_use_is_said_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(push_connector, "PATIENCE", 0.0)
    monkeypatch.setattr(push_connector, "RETRY", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        watch = Watch(connector(tmp_path / "pushed", port=port))
        try:
            wait(lambda: "is not open, will retry (Address already in use)" in caplog.text)
            taken.close()
            wait(watch.caller.is_answered)
        finally:
            watch.end()
    assert caplog.text.count("is not open") == 1


def test_endpoint_listens_on_the_configured_address(tmp_path: Path) -> None:
    with watched(connector(tmp_path / "pushed", host="::1")) as watch:

        def answered() -> bool:
            try:
                with socket.create_connection(("::1", watch.caller.port), timeout=60) as connection:
                    connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
                    return connection.recv(12) == b"HTTP/1.1 401"
            except ConnectionError:
                return False

        wait(answered, every=0.01)
        assert not watch.caller.is_answered()
