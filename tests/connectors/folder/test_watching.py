import contextlib
import errno
import logging
import os
import random
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ingestor.connectors.folder import inotify
from ingestor.connectors.folder import watching as folder_watching
from ingestor.connectors.folder.inotify import Entered
from ingestor.connectors.folder.watchdog import Watchdog
from ingestor.connectors.folder.watching import ChangedKeys
from ingestor.model import Item
from ingestor.ports import Transient
from tests.connectors.folders import FolderWorld, run_python, runs, turmoil
from tests.connectors.laws import covers, listed, watching
from tests.waiting import wait


@pytest.fixture
def world(tmp_path: Path) -> FolderWorld:
    root = tmp_path / "root"
    root.mkdir()
    return FolderWorld(root, poll=60)


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


def test_file_in_a_new_or_moved_folder_is_hinted_at(world: FolderWorld) -> None:
    with watching(world.connector) as hints:
        for change, keys in (
            (lambda: world.put("new/deep/a.md", b"x"), ["new/deep/a.md"]),
            (lambda: world.put("new/deep/a.md", b"again"), ["new/deep/a.md"]),
            (lambda: world.move("new", "old"), ["new/deep/a.md", "old/deep/a.md"]),
            (lambda: world.put("old/deep/a.md", b"again"), ["old/deep/a.md"]),
        ):
            change()
            hints.await_cover(*keys)
            hints.forget()


def test_edit_gives_a_narrow_hint_and_an_excluded_file_none(world: FolderWorld) -> None:
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


def test_burst_of_atomic_saves_is_hinted(world: FolderWorld) -> None:
    keys = [f"d{number % 7}/f{number}.md" for number in range(folder_watching.MANY + 500)]
    with watching(world.connector) as hints:
        for key in keys:
            world.put(f"{key}.tmp", b"new")
            world.move(f"{key}.tmp", key)
        hints.await_cover(*keys)
        hints.forget()
        world.put("d3/f3.md", b"after the storm")
        hints.await_cover("d3/f3.md")


@pytest.mark.parametrize("steps", [300, pytest.param(30_000, marks=pytest.mark.slow)])
def test_hints_alone_lead_to_the_present_documents(world: FolderWorld, steps: int) -> None:
    """Files and directories are written, saved atomically, renamed, moved out and in and deleted at speed."""
    known: dict[str, Item] = {}
    stop = threading.Event()

    def follow() -> None:
        for hint in world.connector.watch(stop):
            for key in [key for key in known if covers(hint.under, key)]:
                del known[key]
            with contextlib.suppress(Transient):  # listed while it changed: another hint follows
                known.update((item.key, item) for item in world.connector.scan_under(hint.under))

    follower = threading.Thread(target=follow)
    follower.start()
    try:
        turmoil(world, random.Random(steps), steps)
        wait(lambda: known == listed(world.connector))
        assert len(known) > 10
    finally:
        stop.set()
        follower.join()


# -- when events can't be trusted


def test_watch_of_folder_that_vanishes_continues_without_a_line(
    world: FolderWorld, caplog: pytest.LogCaptureFixture
) -> None:
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
    assert not caplog.records, "the listing reports a missing folder"


def test_missing_or_replaced_folder_is_watched_again(tmp_path: Path) -> None:
    world = FolderWorld(tmp_path / "later", poll=60)
    with watching(world.connector) as hints:
        for data in (b"x", b"again"):
            world.put("a.md", data)
            hints.await_cover("a.md")
            hints.forget()
        world.root.rename(world.root.with_name("aside"))
        world.root.mkdir()
        hints.await_any()
        hints.forget()
        world.put("a.md", b"x")
        hints.await_cover("a.md")


@pytest.mark.parametrize("watch", ["poll", "auto"])
def test_polling_hints_at_the_whole_folder(
    world: FolderWorld, watch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_watching, "is_remote", lambda path: True)
    with watching(FolderWorld(world.root, poll=0.1, watch=watch).connector) as hints:
        for _ in range(2):
            hints.await_any()
            assert hints.unders() == [""]
            hints.forget()


def test_events_of_a_remote_file_system_are_trusted_if_configured(
    world: FolderWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_watching, "is_remote", lambda path: True)
    with watching(FolderWorld(world.root, poll=60, watch="events").connector) as hints:
        world.put("a.md", b"x")
        hints.await_any()
        assert hints.unders() == ["a.md"]


def test_watch_off_gives_no_hint(world: FolderWorld) -> None:
    before = set(threading.enumerate())
    with watching(FolderWorld(world.root, poll=0.05, watch="off").connector) as hints:
        world.put("a.md", b"x")
        time.sleep(0.3)
        assert hints.unders() == []
    with contextlib.closing(world.connector.watch(threading.Event())) as generator:  # type: ignore[type-var]
        next(generator)
        assert set(threading.enumerate()) == before, "it watches in the thread that asks"
    assert set(threading.enumerate()) == before


_FEW_WATCHES = """
import sys
from pathlib import Path
from ingestor.connectors.folder import watching as _watching
from tests.connectors.folders import FolderWorld
from tests.connectors.laws import watching
_watching.TICK = _watching.RESTART = 0.02
Path("/proc/sys/user/max_inotify_watches").write_text("5")
world = FolderWorld(Path(sys.argv[1]), poll=0.1)
with watching(world.connector) as hints:
    for number in range(17, 20):
        world.put(f"d{number}/a.md", b"edited")
        hints.await_cover(f"d{number}/a.md")
        hints.forget()
    Path("/proc/sys/user/max_inotify_watches").write_text("5000")
    hints.await_any()
print("all seen")
"""


@pytest.mark.slow  # test_watch_that_a_limit_refused_is_retried_soon is quicker
def test_too_few_kernel_watches_fall_back_to_polling(world: FolderWorld) -> None:
    if not runs("unshare", "-Ur"):
        pytest.skip("may not limit watches here")
    for number in range(20):
        world.put(f"d{number}/a.md", b"x")
    assert run_python(_FEW_WATCHES, str(world.root), wrapper=("unshare", "-Ur")) == "all seen\n"


def test_watch_ends_during_a_walk_through_a_large_folder(
    world: FolderWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop, entered = threading.Event(), []
    walk = world.connector._enter
    for number in range(50):
        (world.root / f"d{number}").mkdir()

    def enter(path: str, each: Entered) -> None:
        def each_until(below: str, descriptor: int) -> None:
            entered.append(below)
            if len(entered) == 10:
                stop.set()
            each(below, descriptor)

        walk(path, each_until)

    monkeypatch.setattr(world.connector, "_enter", enter)
    assert list(world.connector.watch(stop)) == []
    assert len(entered) == 10


# -- collecting, without a file system


def test_changes_wait_until_they_settle_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    changes, nothing = ChangedKeys(settle=2.0), set[str]()
    assert changes.take() == nothing
    for key, later, taken in (("a", 1.9, nothing), ("b", 1.9, nothing), (None, 0.1, {"a", "b"})):
        if key:
            changes.add(key)
        now += later
        assert changes.take() == taken
    assert changes.take() == nothing
    start = now
    while not (taken := changes.take()):
        changes.add("busy")
        now += 1.0
    assert (taken, now - start) == ({"busy"}, folder_watching.LONGEST)


_MANY = [str(number) for number in range(folder_watching.MANY)]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (["a", "b", "a"], {"a", "b"}),
        (["d", "d/x", "e/y"], {"d", "e/y"}),
        (["a", "", "b"], {"a", ""}),
        (_MANY, set(_MANY)),
        ([*_MANY, "one more"], {""}),
        ([*_MANY, "one more", "a"], {""}),
    ],
)
def test_changed_keys_are_merged(keys: list[str], expected: set[str]) -> None:
    changes = ChangedKeys(settle=0.0)
    for key in keys:
        changes.add(key)
    assert changes.take() == expected


# -- limits that all programs of the user share


def test_watch_that_a_limit_refused_is_retried_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Beside the watches of the old config the limit of instances is reached for a moment."""
    (tmp_path / "root").mkdir()
    world = FolderWorld(tmp_path / "root", poll=3600)
    opened, refused = folder_watching._source, iter([errno.EMFILE, errno.ENOSPC])

    def limited(*values: Any) -> Any:
        if (number := next(refused, None)) is not None:
            raise inotify._error(number)
        return opened(*values)

    monkeypatch.setattr(folder_watching, "_source", limited)
    monkeypatch.setattr(folder_watching, "SOONEST", 0.01)
    caplog.set_level("INFO")
    with watching(world.connector) as hints:
        world.put("a.md", b"x")
        hints.await_cover("a.md")
    assert "fs.inotify.max_user_instances (" in caplog.text
    assert "which all programs of this user share: raise it with sysctl" in caplog.text
    assert "for changes again" in caplog.text


def test_watchdog_reports_changes_and_ends_its_threads(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    before = set(threading.enumerate())
    with closing(Watchdog(str(tmp_path))) as watchdog:
        for change, path in (
            (lambda: (tmp_path / "sub/a.md").write_text("x"), "sub/a.md"),
            (lambda: (tmp_path / "sub/a.md").rename(tmp_path / "b.md"), "b.md"),
            (lambda: (tmp_path / "b.md").unlink(), "b.md"),
        ):
            change()
            wait(lambda path=path: path in {changed for changed, _ in watchdog.read()})
    with pytest.raises(OSError):
        Watchdog(str(tmp_path / "missing"))
    assert set(threading.enumerate()) == before


@pytest.mark.parametrize(("victim", "method"), [("observer", "dispatch_events"), ("emitter", "queue_events")])
def test_watching_restarts_when_a_thread_of_the_observer_dies(
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
