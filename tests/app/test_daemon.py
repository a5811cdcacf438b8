"""The loop around the engine: what it does when Chroma was restarted and when a changed config fails."""

import sqlite3
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ingestor.app import daemon
from ingestor.app.daemon import Loop, Signals
from ingestor.core.decisions import NEVER
from ingestor.engine.embedding import Counts
from ingestor.state.run_status import Live


@dataclass
class Engine:
    checks: int = 0

    def check_collections(self) -> None:
        self.checks += 1

    def step(self, timeout: float) -> None: ...

    def wake_at(self, *, routine: bool = True) -> float:
        return NEVER


@dataclass
class Running:
    """A state whose configs are words. A config in ``broken`` has a plugin that fails."""

    config: Any
    broken: dict[str, Exception] = field(default_factory=dict)
    configured: list[str] = field(default_factory=list)
    engine: Engine = field(default_factory=Engine)
    collections: Any = field(default_factory=lambda: SimpleNamespace(connection=SimpleNamespace(restarts=0)))

    def __post_init__(self) -> None:
        self.parts = SimpleNamespace(config=SimpleNamespace(name=self.config, rechunk=None))
        self.ports = SimpleNamespace(clock=time.time, ticks=time.monotonic, sleep=lambda seconds: None)
        self.lexical = SimpleNamespace(due=lambda: True, work=lambda: None)
        self.swaps = SimpleNamespace(advance=lambda *args: False)
        self.engine.scanner = SimpleNamespace(has_listed=None)  # type: ignore[attr-defined]
        self.engine.flight = SimpleNamespace(editions=lambda: set())  # type: ignore[attr-defined]

    def with_config(self, config: Any) -> "Running":
        return Running(config.name, self.broken, self.configured, self.engine, self.collections)

    def configure(self, *, watch: bool) -> None:
        if self.config in self.broken:
            raise self.broken[self.config]
        self.configured.append(self.config)


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of configs that were noted as in force."""
    names: list[str] = []
    monkeypatch.setattr(daemon.run_status, "keep_config", lambda config, at: names.append(config.name))
    return names


def looped(running: Running) -> Loop:
    loop = Loop(running, Signals(), lambda live: None)  # type: ignore[arg-type]
    loop.shown = Live(at=time.time() + 1000)
    return loop


def test_collections_after_restart_of_chroma_are_examined() -> None:
    running = Running("old")
    loop = looped(running)
    for restarts, checks in ((0, 0), (1, 1), (1, 1), (3, 2)):
        running.collections.connection.restarts = restarts
        assert loop._step(watch=True)
        assert running.engine.checks == checks


@pytest.mark.parametrize("error", [RuntimeError("a defect in a plugin"), OSError("no such device")])
def test_config_with_failing_plugin_keeps_old_one_in_force(
    error: Exception, kept: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    running = Running("old", {"new": error})
    loop = looped(running)
    loop._change_config(SimpleNamespace(name="new"))  # type: ignore[arg-type]
    assert loop._step(watch=True)
    assert (running.configured, kept, loop.running.config) == (["old"], ["new", "old"], "old")
    assert "the previous config stays in force" in caplog.text
    assert loop.config_state.refused == str(error)
    loop._change_config(SimpleNamespace(name="newer"))  # type: ignore[arg-type]
    assert loop._step(watch=True)
    assert (running.configured, loop.running.config) == (["old", "newer"], "newer")


def test_config_on_full_disk_is_applied_later(kept: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    running = Running("old", {"new": sqlite3.OperationalError("database or disk is full")})
    running.parts.config.state = Path("state")
    loop = looped(running)
    monkeypatch.setattr(daemon, "TICK", 0.0)
    loop._change_config(SimpleNamespace(name="new", state=Path("state")))  # type: ignore[arg-type]
    loop.running.parts.config.state = Path("state")
    assert not loop._step(watch=True)
    assert "database or disk is full" in loop.shown.state_error, "a scrape tells it though the disk is full"
    running.broken.clear()
    assert loop._step(watch=True)
    assert running.configured == ["new"]


def test_first_rest_is_reported_after_last_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    running, seen = Running("only"), list[object]()
    running.engine.__dict__ |= {"is_resting": lambda: True, "flush": lambda: None}
    running.engine.__dict__["journal"] = SimpleNamespace(wait_until=lambda at: None)
    paused = [{"docs"}, {"docs"}]  # a removal failed: it waits, and nothing else is due
    running.engine.__dict__["health"] = SimpleNamespace(
        collections_paused=lambda: paused.pop() if paused else set()
    )
    running.collections.connection.tick = lambda: None
    running.embedding = SimpleNamespace(counts=Counts)  # type: ignore[attr-defined]
    loop = looped(running)
    monkeypatch.setattr(loop, "live", lambda: Live(waiting=0, tally={"added": 6}))
    monkeypatch.setattr(daemon.run_status, "write_live", lambda state, live: None)
    loop.watcher = lambda live: seen.append(live.tally)
    running.parts.config.state = None

    def settled(live: Live) -> None:
        seen.append("settled")
        loop.signals.stop = True

    loop.run(lambda: None, settled)
    assert not paused, "a collection that is paused is not in step"
    assert seen == [{"added": 6}, "settled"]
