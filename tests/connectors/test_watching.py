import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from watchdog.events import DirMovedEvent, FileModifiedEvent, FileMovedEvent
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver

from connectors import _watching
from connectors._watching import Changes
from tests.connectors.folders import FolderWorld, run_python, runs
from tests.connectors.laws import Hints, watching


@pytest.fixture
def world(tmp_path: Path) -> FolderWorld:
    root = tmp_path / "root"
    root.mkdir()
    return FolderWorld(root, poll=60)


def storm(world: FolderWorld, files: int) -> list[str]:
    """Atomic saves, as fast as they go."""
    keys = [f"d{number % 7}/f{number}.md" for number in range(files)]
    for number in range(7):
        (world.root / f"d{number}").mkdir(exist_ok=True)
    for key in keys:
        world.put(f"{key}.tmp", b"new")
        world.move(f"{key}.tmp", key)
    return keys


# -- what changes is hinted at


@pytest.mark.parametrize(
    ("change", "keys"),
    [
        (lambda root: (root / "new/deep").mkdir(parents=True), ["new/deep"]),
        (lambda root: (root / "docs").rename(root / "texts"), ["docs/a.md", "texts/a.md"]),
        (lambda root: (root / "docs").rename(root.parent / "gone"), ["docs/a.md"]),
        (lambda root: (root.parent / "other").rename(root / "came"), ["came/x/b.md"]),
        (lambda root: (root / "docs/a.md").chmod(0o600), ["docs/a.md"]),
        (lambda root: (root / "docs").chmod(0o700), ["docs/a.md"]),
        (lambda root: os.utime(root / "docs/a.md"), ["docs/a.md"]),
        (lambda root: (root / "link").symlink_to("docs"), ["link/a.md"]),
        (lambda root: (root / "docs/.gitignore").write_text("*"), ["docs/a.md"]),
        (lambda root: (root / ".gitignore").write_text("*"), ["docs/a.md"]),
        (lambda root: (root / "caf\udce9.md").touch(), [r"caf\xE9.md"]),
    ],
)
def test_changes_are_hinted_at(world: FolderWorld, change: Callable[[Path], object], keys: list[str]) -> None:
    world.put("docs/a.md", b"x")
    world.put("../other/x/b.md", b"x")
    with watching(world.connector) as hints:
        change(world.root)
        hints.await_cover(*keys)


def test_what_is_created_within_a_new_folder_is_hinted_at_later_too(world: FolderWorld) -> None:
    with watching(world.connector) as hints:
        world.put("new/deep/a.md", b"x")
        hints.await_cover("new/deep/a.md")
        hints.forget()
        world.put("new/deep/a.md", b"again")
        hints.await_cover("new/deep/a.md")
        hints.forget()
        world.move("new", "old")
        hints.await_cover("new/deep/a.md", "old/deep/a.md")
        hints.forget()
        world.put("old/deep/a.md", b"again")
        hints.await_cover("old/deep/a.md")


def test_one_edit_is_one_narrow_hint_and_what_cant_matter_is_none(world: FolderWorld) -> None:
    for number in range(20):
        world.put(f"docs/{number}.md", b"x")
    with watching(world.connector) as hints:
        world.put(".git/index", b"x")
        world.put("docs/3.md.tmp", b"x")
        world.put("docs/.3.md.swp", b"x")
        list(world.connector.scan())
        world.put("docs/3.md", b"edited")
        hints.await_any()
        assert hints.unders() == ["docs/3.md"]


def test_a_storm_of_atomic_saves_is_covered(world: FolderWorld) -> None:
    with watching(world.connector) as hints:
        keys = storm(world, 5000)
        hints.await_cover(*keys)
        hints.forget()
        world.put("d3/f3.md", b"after the storm")
        hints.await_cover("d3/f3.md")


# -- when events can't be trusted


def _observers(monkeypatch: pytest.MonkeyPatch) -> list[BaseObserver]:
    """Those that watch everything, as they are made."""
    made: list[BaseObserver] = []
    make = Observer

    def making() -> BaseObserver:
        made.append(make())
        return made[-1]

    monkeypatch.setattr(_watching, "Observer", making)
    monkeypatch.setattr(_watching, "_watches_exhausted", lambda path: False)
    return made


@pytest.mark.parametrize("victim", ["observer", "emitter", "reader"])
def test_it_recovers_when_a_thread_of_the_observer_dies(
    world: FolderWorld, victim: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = _observers(monkeypatch)
    monkeypatch.setattr(threading, "excepthook", lambda arguments: None)
    with watching(world.connector) as hints:
        [observer] = made
        [emitter] = observer.emitters

        def die(*arguments: object) -> None:
            raise RuntimeError("killed by the test")

        name, method = {
            "observer": (observer, "dispatch_events"),
            "emitter": (emitter, "queue_events"),
            "reader": (observer._inotify_fd, "handle_event"),  # type: ignore[attr-defined]
        }[victim]
        monkeypatch.setattr(name, method, die)
        world.put("lost.md", b"x")
        hints.await_cover("lost.md")
        hints.forget()
        world.put("seen.md", b"x")
        hints.await_cover("seen.md")
        assert len(made) == 2


def test_a_folder_that_vanishes_and_comes_back(world: FolderWorld, caplog: pytest.LogCaptureFixture) -> None:
    world.put("a.md", b"x")
    with watching(world.connector) as hints, caplog.at_level(logging.WARNING):
        world.root.rename(world.root.with_name("aside"))
        hints.await_cover("a.md")
        hints.forget()
        world.root.with_name("aside").rename(world.root)
        hints.await_cover("a.md")
        hints.forget()
        world.put("a.md", b"again")
        hints.await_cover("a.md")
    assert [record.getMessage() for record in caplog.records] == [
        f"no file events for {world.root} (No such file or directory): looking again every 60 s"
    ]


def test_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    world = FolderWorld(tmp_path / "later", poll=60)
    with watching(world.connector) as hints:
        world.put("a.md", b"x")
        hints.await_cover("a.md")
        hints.forget()
        world.put("a.md", b"again")
        hints.await_cover("a.md")


def test_a_folder_that_is_replaced(world: FolderWorld) -> None:
    with watching(world.connector) as hints:
        world.root.rename(world.root.with_name("aside"))
        world.root.mkdir()
        hints.await_any()
        hints.forget()
        world.put("a.md", b"x")
        hints.await_cover("a.md")


@pytest.mark.parametrize("options", [{"watch": "poll"}, {"watch": "auto"}])
def test_polling(world: FolderWorld, options: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_watching, "is_remote", lambda path: True)
    polling = FolderWorld(world.root, poll=0.3, **options)
    with watching(polling.connector) as hints:
        for _ in range(2):
            hints.await_any()
            assert hints.unders() == [""]
            hints.forget()


def test_events_are_trusted_on_a_remote_file_system_if_told_to(
    world: FolderWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_watching, "is_remote", lambda path: True)
    with watching(FolderWorld(world.root, poll=60, watch="events").connector) as hints:
        world.put("a.md", b"x")
        hints.await_any()
        assert hints.unders() == ["a.md"]


def test_switched_off(world: FolderWorld) -> None:
    with watching(FolderWorld(world.root, poll=0.1, watch="off").connector) as hints:
        world.put("a.md", b"x")
        time.sleep(0.5)
        assert hints.unders() == []


_FEW_WATCHES = """
import sys
from pathlib import Path
from tests.connectors.folders import FolderWorld
from tests.connectors.laws import watching
Path("/proc/sys/user/max_inotify_watches").write_text("5")
world = FolderWorld(Path(sys.argv[1]), poll=0.2)
with watching(world.connector) as hints:
    for number in range(14, 20):
        world.put(f"d{number}/a.md", b"edited")
        hints.await_cover(f"d{number}/a.md")
        hints.forget()
    Path("/proc/sys/user/max_inotify_watches").write_text("5000")
    hints.await_any()
print("all seen")
"""


def test_more_directories_than_the_kernel_grants_watches(world: FolderWorld) -> None:
    if not runs("unshare", "-Ur"):
        pytest.skip("may not limit watches here")
    for number in range(20):
        world.put(f"d{number}/a.md", b"x")
    assert run_python(_FEW_WATCHES, str(world.root), wrapper=("unshare", "-Ur")) == "all seen\n"


def test_it_ends_at_once_when_closed_or_told_to_stop(world: FolderWorld) -> None:
    before = set(threading.enumerate())
    generator = world.connector.watch(threading.Event())
    with contextlib.closing(generator):  # type: ignore[type-var]
        next(generator)
        assert set(threading.enumerate()) > before
    assert set(threading.enumerate()) == before
    hints = Hints(world.connector)
    hints.await_any()
    hints.close()
    assert set(threading.enumerate()) == before


# -- collecting, without a file system


def _plain(path: str, is_directory: bool) -> str | None:
    return None if path.endswith(".tmp") else path


def test_changes_wait_until_they_settle_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    changes = Changes("/r", _plain, settle=2.0)
    assert changes.take() == set()
    changes.on_any_event(FileModifiedEvent("/r/a"))
    now += 1.9
    assert changes.take() == set()
    changes.on_any_event(FileModifiedEvent("/r/b"))
    now += 1.9
    assert changes.take() == set()
    now += 0.1
    assert changes.take() == {"a", "b"}
    assert changes.take() == set()
    start = now
    while not (taken := changes.take()):
        changes.on_any_event(FileModifiedEvent("/r/busy"))
        now += 1.0
    assert taken == {"busy"}
    assert now - start == _watching.LONGEST


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([FileMovedEvent("/r/a.tmp", "/r/a")], {"a"}),
        ([FileMovedEvent("/r/a", "/r/b")], {"a", "b"}),
        ([DirMovedEvent("/r/d", "/r/e"), FileMovedEvent("/r/d/x", "/r/e/x")], {"d", "e"}),
        ([FileModifiedEvent("/r/a.tmp")], set()),
        (
            [FileModifiedEvent(f"/r/{n}") for n in range(_watching.MANY)],
            {str(n) for n in range(_watching.MANY)},
        ),
        ([FileModifiedEvent(f"/r/{n}") for n in range(_watching.MANY + 1)], {""}),
    ],
)
def test_what_is_collected(events: list[FileModifiedEvent], expected: set[str]) -> None:
    changes = Changes("/r", _plain, settle=0.0)
    for event in events:
        changes.on_any_event(event)
    assert changes.take() == expected
