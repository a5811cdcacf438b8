"""Live parts: what changed is sent, to a bounded number of listeners, and all streams end with the daemon."""

import json
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import anyio
import httpx
import pytest

from ingestor.page import opening as events
from tests.service.world import Daemon, served
from tests.waiting import LONG, wait


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    found = Daemon(tmp_path)
    yield found
    found.close()


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "EVERY", 0.1)
    monkeypatch.setattr(events, "QUIET", 0.2)


def parts(lines: Iterator[str]) -> dict[str, Any]:
    data = next(line for line in lines if line.startswith("data: "))
    return dict(json.loads(data.removeprefix("data: ")))


def test_only_what_changed_is_sent(daemon: Daemon) -> None:
    with served(daemon) as client, client.stream("GET", "/page/events") as stream:
        lines = stream.iter_lines()
        assert "live-sources" in parts(lines)
        with daemon.journal.transaction() as db:
            db.execute("INSERT INTO collections (name) VALUES ('fresh')")
        while "live-collections" not in (found := parts(lines)):
            pass
        assert "fresh" in found["live-collections"]


def test_listeners_are_bounded_and_end_with_the_daemon(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "MOST", 3)
    begun: list[int] = []
    ended: list[str] = []

    def listen(address: str) -> None:
        with httpx.stream("GET", f"{address}/page/events", timeout=60, trust_env=False) as stream:
            begun.append(stream.status_code)
            for _ in stream.iter_lines():
                pass
        ended.append(address)

    with served(daemon) as client:
        threads = [Thread(target=listen, args=(str(client.base_url),)) for _ in range(3)]
        for thread in threads:
            thread.start()
        wait(lambda: begun == [200] * 3)  # before anybody else asks, who would take a place
        assert _status(client) == 503
        assert client.get("/").status_code == 200
    for thread in threads:
        thread.join(LONG)
    assert len(ended) == 3


def _status(client: httpx.Client) -> int:
    with client.stream("GET", "/page/events") as stream:
        return stream.status_code


def test_place_becomes_free_when_a_listener_leaves(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MOST", 1)
    with served(daemon) as client:
        for _ in range(3):
            assert wait(lambda: _status(client) == 200)


def test_listeners_share_what_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "EVERY", 60.0)
    made: list[int] = []
    shared = events.Events(lambda: made.append(1) or {"part": str(len(made))})  # type: ignore[func-returns-value]

    async def several() -> list[Any]:
        return [await shared._parts() for _ in range(5)]

    assert anyio.run(several) == [{"part": "1"}] * 5
