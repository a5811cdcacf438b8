"""When a changed config file is read, and when not yet."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from ingestor.app.daemon import SETTLE, Reloader, stamp
from ingestor.config.file import load

CONFIG = """
state: ./state
embedding: {kind: hashing, dimensions: 64}
sources:
  - {name: docs, kind: folder, path: ./docs, collection: docs}
"""
MORE = CONFIG + "  - {name: notes, kind: folder, path: ./notes, collection: notes}\n"


@dataclass
class Asked:
    reload: bool = False


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr("ingestor.app.daemon.monotonic", lambda: now[0])
    return now


def sources(reloader: Reloader) -> int | None:
    config = reloader.next_config()
    return None if config is None else len(config.sources)


def reloader_of(path: Path, asked: Asked) -> Reloader:
    path.write_text(CONFIG)
    return Reloader(path, {}, asked, load(path, {}), stamp(path))


def test_config_saved_during_start_is_reloaded(tmp_path: Path, time: list[float]) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG)
    seen, config = stamp(path), load(path, {})
    path.write_text(MORE)
    reloader = Reloader(path, {}, Asked(), config, seen)
    assert sources(reloader) is None
    time[0] += SETTLE
    assert sources(reloader) == 2
    assert sources(reloader) is None, "once"


def test_config_being_written_is_not_read(tmp_path: Path, time: list[float]) -> None:
    path, asked = tmp_path / "config.yaml", Asked()
    path.write_text(MORE)
    reloader = Reloader(path, {}, asked, load(path, {}), stamp(path))
    path.write_text(CONFIG)  # all but the last line: a valid config with a source less
    assert sources(reloader) is None
    time[0] += SETTLE / 2
    path.unlink()
    assert sources(reloader) is None
    time[0] += SETTLE / 2
    path.write_text(MORE + "chunking: {strategy: recursive}\n")
    assert sources(reloader) is None
    time[0] += SETTLE
    assert sources(reloader) == 2


def test_reload_request_is_answered_at_once(tmp_path: Path, time: list[float]) -> None:
    path, asked = tmp_path / "config.yaml", Asked()
    reloader = reloader_of(path, asked)
    path.write_text(MORE)
    asked.reload = True
    assert sources(reloader) == 2
    time[0] += SETTLE
    assert sources(reloader) is None


def test_config_link_with_new_target_is_reloaded(tmp_path: Path, time: list[float]) -> None:
    """So are configs of Kubernetes replaced: a link to a folder of them is swapped."""
    for name, text in (("one", CONFIG), ("two", MORE)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yaml").write_text(text)
    (tmp_path / "data").symlink_to("one")
    path = tmp_path / "config.yaml"
    path.symlink_to("data/config.yaml")
    reloader = Reloader(path, {}, Asked(), load(path, {}), stamp(path))
    (tmp_path / "fresh").symlink_to("two")
    (tmp_path / "fresh").replace(tmp_path / "data")
    assert sources(reloader) is None
    time[0] += SETTLE
    assert sources(reloader) == 2


def test_key_read_at_start_only_is_named_in_log(
    tmp_path: Path, time: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    path, asked = tmp_path / "config.yaml", Asked()
    reloader = reloader_of(path, asked)
    caplog.set_level("INFO", "ingestor")
    path.write_text(f"{MORE}log: {{level: debug}}\ncache: {{size: 1GB}}\n")
    asked.reload = True
    assert sources(reloader) is not None
    assert "config reloaded; restart to apply log and cache.size" in caplog.text


@pytest.mark.parametrize("line", ["workers: 3", "parsing: {seconds: 5}", "http: false"])
def test_key_that_needs_restart_is_named_and_not_applied(
    tmp_path: Path, time: list[float], caplog: pytest.LogCaptureFixture, line: str
) -> None:
    path, asked = tmp_path / "config.yaml", Asked()
    reloader = reloader_of(path, asked)
    path.write_text(f"{MORE}{line}\n")
    asked.reload = True
    assert sources(reloader) is None
    key = line.partition(":")[0]
    assert f"config not reloaded, restart ingestor to apply the change of: {key}" in caplog.text


def test_refused_config_and_pending_restart_are_known_until_corrected(
    tmp_path: Path, time: list[float]
) -> None:
    path, asked = tmp_path / "config.yaml", Asked()
    reloader = reloader_of(path, asked)
    for text, refused, pending in (
        (MORE + "workers: many\n", True, False),
        (MORE + "workers: 3\n", False, True),
        (MORE + "sources: 3\n", True, True),
        (MORE, False, False),
    ):
        path.write_text(text)
        asked.reload = True
        sources(reloader)
        assert (bool(reloader.state.refused), reloader.state.restart_pending) == (refused, pending), text
