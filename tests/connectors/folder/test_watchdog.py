"""The watcher of other systems than Linux, as far as Linux can tell."""

import threading
from contextlib import closing
from pathlib import Path

import pytest

from ingestor.connectors.folder import watching as folder_watching
from ingestor.connectors.folder.watchdog import Watchdog
from tests.connectors.folders import FolderWorld
from tests.connectors.laws import watching
from tests.waiting import wait


def await_change(watchdog: Watchdog, path: str) -> None:
    wait(lambda: path in {changed for changed, _ in watchdog.read()})


def test_changes_are_told(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    before = set(threading.enumerate())
    with closing(Watchdog(str(tmp_path))) as watchdog:
        (tmp_path / "sub/a.md").write_text("x")
        await_change(watchdog, "sub/a.md")
        (tmp_path / "sub/a.md").rename(tmp_path / "b.md")
        await_change(watchdog, "b.md")
        (tmp_path / "b.md").unlink()
        await_change(watchdog, "b.md")
    assert set(threading.enumerate()) == before


def test_missing_folder_is_an_error(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    with pytest.raises(OSError):
        Watchdog(str(tmp_path / "missing"))
    assert set(threading.enumerate()) == before


@pytest.mark.parametrize(("victim", "method"), [("observer", "dispatch_events"), ("emitter", "queue_events")])
def test_watching_starts_anew_when_a_thread_of_the_observer_dies(
    tmp_path: Path, victim: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Watchdog] = []

    def make(folder: folder_watching.WatchedFolder, stop: threading.Event) -> Watchdog:
        made.append(Watchdog(folder.path))
        return made[-1]

    def die(*arguments: object) -> None:
        raise RuntimeError("killed by the test")

    monkeypatch.setattr(folder_watching, "_source", make)
    monkeypatch.setattr(threading, "excepthook", lambda arguments: None)
    world = FolderWorld(tmp_path)
    with watching(world.connector) as hints:
        observer = made[0]._observer
        [emitter] = observer.emitters
        monkeypatch.setattr(observer if victim == "observer" else emitter, method, die)
        world.put("lost.md", b"x")
        hints.await_cover("lost.md")
        hints.forget()
        world.put("seen.md", b"x")
        hints.await_cover("seen.md")
    assert len(made) == 2
