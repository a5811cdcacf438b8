"""The loop around the engine, changed configs, and freed memory."""

import gc
import gzip
import platform
import signal
import sqlite3
import time
import weakref
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ingestor.app import daemon, wiring
from ingestor.app.daemon import SETTLE, Loop, Reloader, Signals, return_freed_memory
from ingestor.app.wiring import open_state
from ingestor.config.file import load
from ingestor.core.decisions import NEVER
from ingestor.core.entries import EditionName
from ingestor.engine.embedding import Counts
from ingestor.model import CollectionName
from ingestor.rechunk.policy import EditionSetup
from ingestor.state.editions import Editions
from ingestor.state.reports import count_records_of
from ingestor.state.run_status import Live
from tests.version_table import VersionTable
from tests.waiting import wait


@dataclass
class Engine:
    checks: int = 0

    def check_editions(self) -> None:
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
    collections: Any = field(
        default_factory=lambda: SimpleNamespace(connection=SimpleNamespace(restarts=0, tick=lambda: None))
    )

    def __post_init__(self) -> None:
        self.parts = SimpleNamespace(
            config=SimpleNamespace(name=self.config, rechunk=None, state=Path("state"))
        )
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
    loop = Loop(running, Signals())  # type: ignore[arg-type]
    loop.shown = Live(at=time.time() + 1000)
    return loop


def test_collections_after_restart_of_chroma_are_examined() -> None:
    running = Running("old")
    loop = looped(running)
    for restarts, checks in ((0, 0), (1, 1), (1, 1), (3, 2)):
        running.collections.connection.restarts = restarts
        assert loop._step()
        assert running.engine.checks == checks


@pytest.mark.parametrize("error", [RuntimeError("a defect in a plugin"), OSError("no such device")])
def test_config_with_failing_plugin_keeps_old_one_in_force(
    error: Exception, kept: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    running = Running("old", {"new": error})
    loop = looped(running)
    loop._change_config(SimpleNamespace(name="new"))  # type: ignore[arg-type]
    assert loop._step()
    assert (running.configured, kept, loop.running.config) == (["old"], [], "old")
    assert "the previous config stays in force" in caplog.text
    assert loop.config_state.refused == str(error)
    loop._change_config(SimpleNamespace(name="newer"))  # type: ignore[arg-type]
    assert loop._step()
    assert (running.configured, kept, loop.running.config) == (["old", "newer"], ["newer"], "newer")


def test_config_on_full_disk_is_applied_later(kept: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    running = Running("old", {"new": sqlite3.OperationalError("database or disk is full")})
    loop = looped(running)
    monkeypatch.setattr(daemon, "TICK", 0.0)
    loop._change_config(SimpleNamespace(name="new"))  # type: ignore[arg-type]
    assert not loop._step()
    assert "database or disk is full" in loop.shown.state_error, "a scrape tells it though the disk is full"
    running.broken.clear()
    assert loop._step()
    assert running.configured == ["new"]


def test_first_rest_is_reported_after_last_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    running, seen = Running("only"), list[object]()
    running.engine.__dict__ |= {"is_resting": lambda: True, "flush": lambda: None}
    running.engine.__dict__["journal"] = SimpleNamespace(wait_until=lambda at: None)
    paused = [True, True]  # a removal failed: it waits, and nothing else is due
    running.engine.__dict__["health"] = SimpleNamespace(is_retrying=lambda: bool(paused) and paused.pop())
    running.collections.connection.tick = lambda: None
    running.embedding = SimpleNamespace(counts=Counts)  # type: ignore[attr-defined]
    loop = looped(running)
    monkeypatch.setattr(loop, "live", lambda: Live(waiting=0, tally={"added": 6}))
    full = [OSError("no space left on device")]

    def write_live(state: Path, live: Live) -> None:
        if full:
            raise full.pop()

    monkeypatch.setattr(daemon.run_status, "write_live", write_live)
    loop.watcher = lambda progress: seen.append(progress.done)

    def settled() -> None:
        seen.append("settled")
        loop.signals.stop = True

    loop.run(lambda: None, settled)
    assert not (paused or full), "a collection that is paused is not in step; a full disk ends no daemon"
    assert seen == [6, "settled"]


def test_second_interruption_ends_running_work_unless_it_follows_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [10.0]
    monkeypatch.setattr(daemon, "monotonic", lambda: now[0])
    signals = Signals()
    with signals.handle():
        for _ in range(2):  # sent twice by mistake
            signal.raise_signal(signal.SIGINT)
        now[0] += 2 * daemon.IMPATIENCE
        signal.raise_signal(signal.SIGTERM)
        assert signals.stop
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_hang_up_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Signals().handle():
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
            assert signal.getsignal(signal.SIGTERM) != signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)


# --- When a changed config file is read ---
CONFIG = """
state: ./state
chroma: {path: ./chroma, embedded: true}
http: false
embedding: {kind: hashing, dimensions: 64}
chunking: {strategy: recursive, size: 200}
sources:
  - {name: docs, kind: folder, path: ./docs, collection: docs, watch: "off"}
"""
MORE = CONFIG + "  - {name: notes, kind: folder, path: ./notes, collection: notes}\n"


class ConfigFile:
    """A config file with its reloader, and the clock that this reads."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path, self.now = path, 100.0
        monkeypatch.setattr(daemon, "monotonic", lambda: self.now)
        path.write_text(CONFIG)
        self.begin()

    def begin(self, text: str = "") -> None:
        """Start as the daemon does; ``text``: what is saved while it starts."""
        self.signals: Any = SimpleNamespace(reload=False)
        self.reloader = Reloader(self.path, {}, self.signals)
        if text:
            self.path.write_text(text)

    def sources(self, *, after: float = 0.0) -> int | None:
        """Return how many sources the next config has, if there is one after so many seconds."""
        self.now += after
        config = self.reloader.next_config()
        return None if config is None else len(config.sources)

    def reload(self, text: str) -> int | None:
        self.path.write_text(text)
        self.signals.reload = True
        return self.sources()


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ConfigFile:
    return ConfigFile(tmp_path / "config.yaml", monkeypatch)


def test_config_saved_during_start_is_reloaded_once(file: ConfigFile) -> None:
    file.begin(MORE)
    assert (file.sources(), file.sources(after=SETTLE), file.sources()) == (None, 2, None)


def test_config_being_written_is_not_read(file: ConfigFile) -> None:
    file.path.write_text(MORE)
    file.begin()
    file.path.write_text(CONFIG)  # all but the last line: a valid config with a source less
    assert file.sources() is None
    file.path.unlink()
    assert file.sources(after=SETTLE / 2) is None
    file.path.write_text(MORE + "log: {level: debug}\n")
    assert file.sources(after=SETTLE / 2) is None
    assert file.sources(after=SETTLE) == 2


def test_reload_request_is_answered_at_once(file: ConfigFile) -> None:
    assert file.reload(MORE) == 2
    assert file.sources(after=SETTLE) is None


def test_config_link_with_new_target_is_reloaded(file: ConfigFile) -> None:
    """So are configs of Kubernetes replaced: a link to a folder of them is swapped."""
    folder = file.path.parent
    for name, text in (("one", CONFIG), ("two", MORE)):
        (folder / name).mkdir()
        (folder / name / "config.yaml").write_text(text)
    (folder / "data").symlink_to("one")
    file.path.unlink()
    file.path.symlink_to("data/config.yaml")
    file.begin()
    (folder / "fresh").symlink_to("two")
    (folder / "fresh").replace(folder / "data")
    assert (file.sources(), file.sources(after=SETTLE)) == (None, 2)


def test_key_read_at_start_only_is_named_in_log(file: ConfigFile, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "ingestor")
    assert file.reload(f"{MORE}log: {{level: debug}}\ncache: {{size: 1GB}}\n") == 2
    assert "config reloaded; restart to apply log and cache.size" in caplog.text


@pytest.mark.parametrize("line", ["workers: 3", "parsing: {seconds: 5}", "http: {port: 9}"])
def test_key_that_needs_restart_is_named_and_not_applied(
    file: ConfigFile, caplog: pytest.LogCaptureFixture, line: str
) -> None:
    key = line.partition(":")[0]
    assert file.reload(MORE.replace("http: false", line) if key == "http" else f"{MORE}{line}\n") is None
    assert f"config not reloaded, restart ingestor to apply the change of: {key}" in caplog.text


def test_refused_config_and_pending_restart_are_known_until_corrected(file: ConfigFile) -> None:
    for text, refused, pending in (
        (MORE + "workers: many\n", True, False),
        (MORE + "workers: 3\n", False, True),
        (MORE + "sources: 3\n", True, True),
        (MORE, False, False),
    ):
        file.reload(text)
        state = file.reloader.state
        assert (bool(state.refused), state.restart_pending) == (refused, pending), text


@pytest.mark.usefixtures("forked_chroma")
@pytest.mark.parametrize(
    ("edit", "same"), [(("size: 200", "size: 150"), True), (("path: ./docs", "path: ./other"), False)]
)
def test_place_of_source_outlives_other_changes_of_config(
    tmp_path: Path, edit: tuple[str, str], same: bool
) -> None:
    """Members of compressed files are read without a listing: a reload need not list a source."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "docs/notes.txt.gz").write_bytes(gzip.compress(b"a line of text"))
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG)
    with open_state(load(file, {}), serve=False) as running:
        running.configure(watch=False)
        [source] = running.engine.sources.values()
        items = list(source.expand(source.connector.scan(), VersionTable({})))
        [member] = [item for item in items if item.key.endswith("notes.txt")]
        file.write_text(CONFIG.replace(*edit))
        changed = running.with_config(load(file, {}))
        changed.configure(watch=False)
        [first, *_] = changed.engine.sources.values()
        assert (first.connector is source.connector) is same
        if same:
            assert first.tools.reader.fetch(member).data == b"a line of text"


@pytest.mark.usefixtures("forked_chroma")
def test_outdated_edition_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "docs").mkdir()
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG)
    setup = EditionSetup(CollectionName("docs"), EditionName("docs"), None)
    with open_state(load(file, {}), serve=False) as running:
        for _ in range(2):
            running._sources(setup, None)
    assert caplog.text.count("collection docs: the program or its model changed") == 1


@pytest.mark.usefixtures("forked_chroma")
def test_replaced_embedder_leaves_memory(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/a.md").write_text("# A\n\nSome words.\n")
    file = tmp_path / "config.yaml"
    file.write_text(f"{CONFIG}\nrechunk: {{grace: 0s}}\n")

    def work(running: wiring.Running) -> bool:
        running.engine.step(0.01)
        settings, engine = running.parts.config.rechunk, running.engine
        if running.swaps.advance(settings, engine.scanner.has_listed, engine.flight.editions()):
            running.configure(watch=False)
        return [each.name for each in Editions(running.journal).all()] == ["docs--2"]

    with open_state(load(file, {}), serve=False) as running:
        running.configure(watch=False)
        replaced = weakref.ref(running.parts.embedder)
        wait(lambda: work(running) or count_records_of(running.journal, EditionName("docs")))
        file.write_text(file.read_text().replace("dimensions: 64", "dimensions: 96"))
        running = running.with_config(load(file, {}))
        running.configure(watch=False)
        # the thread of the old model ends a moment after the switch
        wait(lambda: work(running) and gc.collect() >= 0 and replaced() is None)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has malloc_trim")
def test_freed_memory_behind_used_memory_is_returned_to_system() -> None:
    blocks = [bytes(4000) for _ in range(20_000)]
    last = blocks[-1]  # the C library gives back by itself what lies behind the last block in use
    del blocks
    kept = resident()
    return_freed_memory()
    assert resident() < kept - 40 * 2**20
    assert not any(last)


def resident() -> int:
    """Bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096
