"""Nothing is lost, and nothing is mixed."""

import random
import socket
import threading
from contextlib import closing, suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from ingestor.connectors.push import connector as push_connector
from ingestor.connectors.push.store import PushStore, StoreChanges, _connect
from ingestor.model import Hint
from tests.connectors.laws import listed
from tests.connectors.pushing import Caller, Endpoints, Watch, answering, connector, watched
from tests.serving import free_port
from tests.small_disk import fill, small_disk
from tests.waiting import wait


def test_commit_waits_for_the_disk(tmp_path: Path) -> None:
    store = PushStore(tmp_path)
    store.put("a", b"x", None, ())
    with store.open() as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert db.execute("PRAGMA synchronous").fetchone() == (2,)
    assert _connect(store.path).isolation_level is None


def test_concurrent_writes_leave_one_whole(here: Watch) -> None:
    bodies = [bytes([n]) * 200_000 for n in range(24)]
    statuses: list[int] = []
    together(lambda body: statuses.append(here.caller.put("a", body).status), bodies)
    assert sorted(statuses) == [200] * 23 + [201]
    assert here.caller.get("a").body in bodies


def together(do: Any, values: list[Any]) -> None:
    threads = [threading.Thread(target=do, args=(value,)) for value in values]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_store_is_made_once_however_many_begin(tmp_path: Path) -> None:
    together(lambda n: PushStore(tmp_path / "pushed").put(f"{n}", b"x", None, ()), list(range(20)))
    assert len(list(PushStore(tmp_path / "pushed").list_documents())) == 20


def test_full_disk_refuses_and_keeps_documents(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 8) as disk, answering(disk / "pushed") as watch:
        caller = watch.caller
        kept = {f"{n}": bytes([n]) * 100_000 for n in range(5)}
        for key, data in kept.items():
            assert caller.put(key, data).status == 201
        ballast = fill(disk, leave=50_000)
        said = caller.put("0", b"y" * 2_000_000)
        assert said.status == 507
        assert "free some space" in said.error
        assert caller.put("new", b"y" * 2_000_000).status == 507
        assert {key: caller.get(key).body for key in listed(connector(disk / "pushed"))} == kept
        ballast.unlink()
        assert caller.put("0", b"y" * 200_000).status == 200


class Client:
    """Puts and deletes a few keys of its own, and remembers what it was told."""

    def __init__(self, caller: Caller, name: str, seed: int) -> None:
        self.caller, self.name, self.random = caller, name, random.Random(seed)
        self.known: dict[str, bytes | None] = {}
        self.asked: tuple[str, bytes | None] | None = None  # and not answered
        self.answered = 0

    def run(self) -> None:
        try:
            while True:
                self.act()
        except (OSError, HTTPException):
            pass  # it was killed

    def act(self) -> None:
        key = f"{self.name}/{self.random.randrange(4)}"
        size = self.random.choice([None, None, 9, 9, 5000, 10**5])
        data = None if size is None else self.random.randbytes(size)
        self.asked = key, data
        status = self.caller.delete(key).status if data is None else self.caller.put(key, data).status
        assert status in (200, 201, 204, 404)
        self.known[key], self.asked, self.answered = data, None, self.answered + 1

    def check(self, store: PushStore) -> None:
        asked = dict([self.asked] if self.asked else [])
        for key in self.known.keys() | asked.keys():
            found = store.get(key)
            assert (found and found[1]) in (self.known.get(key), asked.get(key, self.known.get(key))), key


def kills(folder: Path, times: int) -> tuple[int, int]:
    """Kill the endpoint again and again: how many requests were answered, and how many were under way."""
    store, chance = PushStore(folder), random.Random(times)
    clients: list[Client] = []
    for number in range(times):
        running = Endpoints()
        caller = running.open(folder, free_port())
        mine = [Client(caller, f"{number}-{n}", n) for n in range(4)]
        answers = chance.randrange(12, 60)

        def kill(running: Endpoints = running, mine: list[Client] = mine, answers: int = answers) -> None:
            wait(lambda: sum(client.answered for client in mine) >= answers, every=0.001)
            running.process.kill()

        together(lambda run: run(), [kill, *(client.run for client in mine)])
        running.kill()
        for client in mine:
            client.check(store)
        clients += mine
    with store.open() as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    under_way = sum(client.asked is not None for client in clients)
    return sum(client.answered for client in clients), under_way


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("times", [3, 200])
def test_store_killed_at_any_moment_keeps_acknowledged_documents(tmp_path: Path, times: int) -> None:
    answered, under_way = kills(tmp_path / "pushed", times)
    assert answered > 10 * times
    assert under_way > times


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


def test_many_changes_are_hinted_together_and_old_ones_dropped(here: Watch) -> None:
    store = PushStore(here.folder)
    with store._transaction() as db:
        db.executemany("INSERT INTO changes (key) VALUES (?)", [(f"a/{n}",) for n in range(99)])
    wait(lambda: here.hints == [Hint("a")])
    with store._transaction() as db:
        db.executemany("INSERT INTO changes (key) VALUES (?)", [("x",)] * 1101)
    store.put("a", b"x", None, ())
    with store.open() as db:
        assert db.execute("SELECT count(*), max(number) FROM changes").fetchone() == (1000, 1201)


def test_replaced_store_hints_at_everything(tmp_path: Path) -> None:
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


def test_port_in_use_is_reported_and_retried(
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
            with suppress(ConnectionError), socket.create_connection(("::1", watch.caller.port)) as ours:
                ours.sendall(b"GET / HTTP/1.0\r\n\r\n")
                return ours.recv(12) == b"HTTP/1.1 401"
            return False

        wait(answered, every=0.01)
        assert not watch.caller.is_answered()
