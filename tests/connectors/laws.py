"""What every connector must hold. A connector's own test subclasses ``ConnectorLaws`` and gives a ``world``.

    class TestFolder(ConnectorLaws):
        @pytest.fixture
        def world(self, tmp_path): return FolderWorld(tmp_path)

Laws about abilities that a connector does not have (Scoped, Watchable), or its world (Refusing, Busy,
Cutting, Counting), skip themselves.
"""

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol, runtime_checkable

import pytest

from ingestor.model import Blob, Hint, Item
from ingestor.ports import Connector, NeedsHuman, PartialScan, Scoped, Stale, Transient, Watchable
from tests.examples import every
from tests.waiting import LONG

PATIENCE = 120.0  # seconds until a hint must have come; far more than it takes


class World(Protocol):
    """A source that a test can change. ``connector`` is always the same one."""

    connector: Connector

    def put(self, key: str, data: bytes) -> None: ...

    def delete(self, key: str) -> None: ...

    def move(self, old: str, new: str) -> None: ...

    def fail(self) -> None:
        """From now on the source can't be reached."""


@runtime_checkable
class Refusing(Protocol):
    """A world with a login; ``secret`` is what no error may tell."""

    secret: str

    def deny(self) -> None:
        """From now on nobody is let in."""

    def relent(self) -> None:
        """All is well again."""


@runtime_checkable
class Busy(Protocol):
    def throttle(self) -> None:
        """From now on the source says that it has no time."""

    def relent(self) -> None: ...


@runtime_checkable
class Cutting(Protocol):
    def cut(self, after: int) -> None:
        """From now on connections break off after so many bytes."""

    def relent(self) -> None: ...


@runtime_checkable
class Counting(Protocol):
    def reads(self) -> int:
        """How often contents were taken from the source."""


SPECIAL_NAMES = (
    *("C# notes.md", "What is a fee?.md", "50% off.md", "a%20b.md", "a b.md", "a+b.md", "a%2Fb.md"),
    *("a;b=c&d.md", "Gebühr+Frist.md", "文書?.md", "{key}.md", "a@b:c.md", "~a.md", "a,b'c.md", "a!.md"),
    *("C# & 50%/a?b/c%20d/x#1.md", "C# & 50%/a b/y.md"),
    *("ünïcødé 文書.md", "% & ' \" $x.md", "back\\slash.md", "e\u0301.md"),
)


def listed(connector: Connector) -> dict[str, Item]:
    items = list(connector.scan())
    assert len({item.key for item in items}) == len(items), "a key is listed twice"
    return {item.key: item for item in items}


def broken_off(connector: Connector) -> tuple[dict[str, Item], PartialScan]:
    items: dict[str, Item] = {}
    try:
        for item in connector.scan():
            items[item.key] = item
    except PartialScan as error:
        return items, error
    raise AssertionError("it was read whole")


def fetched(connector: Connector, item: Item) -> Blob:
    """The blob, however often it takes: a connector may wait until a file has come to rest."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return connector.fetch(item)
        except Stale:
            raise
        except Transient:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _is_as_listed(connector: Connector, item: Item, data: bytes) -> bool:
    try:
        return fetched(connector, item).data == data
    except Stale:
        return True


def covers(under: str, key: str) -> bool:
    return under == "" or key == under or key.startswith(f"{under}/")


class Hints:
    """The hints of a connector's watch, gathered by a thread while the test changes things."""

    def __init__(self, connector: Watchable) -> None:
        self.stop = threading.Event()
        self._arrived = threading.Condition()
        self._hints: list[Hint] = []
        self._thread = threading.Thread(target=self._gather, args=(connector,))
        self._thread.start()

    def _gather(self, connector: Watchable) -> None:
        for hint in connector.watch(self.stop):
            with self._arrived:
                self._hints.append(hint)
                self._arrived.notify_all()

    def forget(self) -> None:
        with self._arrived:
            self._hints.clear()

    def await_any(self) -> None:
        with self._arrived:
            assert self._arrived.wait_for(lambda: bool(self._hints), PATIENCE), "no hint came"

    def await_cover(self, *keys: str) -> None:
        """Each of the keys lies under some hint since ``forget``."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: not self.missing(*keys), PATIENCE), (
                f"no hint covers {self.missing(*keys)[:5]}; there were {self._hints[:5]}"
            )

    def missing(self, *keys: str) -> list[str]:
        unders = {hint.under for hint in self._hints}
        return [key for key in keys if not any(covers(under, key) for under in unders)]

    def unders(self) -> list[str]:
        with self._arrived:
            return [hint.under for hint in self._hints]

    def close(self) -> None:
        self.stop.set()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "watch does not end when told to stop"


@contextmanager
def _interrupted(world: Any, fail: Callable[[], None]) -> Iterator[None]:
    """Read the source before it fails, while it does, and when it relents."""
    world.put("a.md", b"one")
    item = listed(world.connector)["a.md"]
    fail()
    yield
    _fetch_or_fail(world, item, b"one")
    world.relent()
    assert fetched(world.connector, listed(world.connector)["a.md"]).data == b"one"


@contextmanager
def watching(connector: Connector) -> Iterator[Hints]:
    """Armed, with the first hint taken away."""
    assert isinstance(connector, Watchable)
    before = set(threading.enumerate())
    hints = Hints(connector)
    try:
        hints.await_any()
        hints.forget()
        yield hints
    finally:
        hints.close()
    for thread in set(threading.enumerate()) - before:  # timers and workers end by themselves
        thread.join(LONG)
        assert not thread.is_alive(), f"watch left {thread} behind"


def _later() -> None:
    """A clock tick of any file system that tests run on."""
    time.sleep(0.02)


class ConnectorLaws:
    def test_empty_source_lists_nothing(self, world: World) -> None:
        assert listed(world.connector) == {}

    def test_each_item_is_listed_once_with_what_is_known_of_it(self, world: World) -> None:
        contents = {"a.md": b"one", "sub/b.md": b"two!", "sub/deep/c.md": b""}
        for key, data in contents.items():
            world.put(key, data)
        items = listed(world.connector)
        assert items.keys() == contents.keys()
        for key, item in items.items():
            assert item.version and item.uri
            assert item.size in (None, len(contents[key]))

    def test_unchanged_item_keeps_its_version(self, world: World) -> None:
        world.put("a.md", b"one")
        first = listed(world.connector)
        fetched(world.connector, first["a.md"])
        assert listed(world.connector) == first

    def test_edit_gives_another_version_and_only_there(self, world: World) -> None:
        world.put("a.md", b"one")
        world.put("b.md", b"one")
        before = listed(world.connector)
        for data in (b"two", b"longer than before", b""):
            _later()
            world.put("a.md", data)
            after = listed(world.connector)
            assert after["a.md"].version != before["a.md"].version, data
            assert after["b.md"] == before["b.md"]
            before = after
        world.delete("a.md")
        assert listed(world.connector).keys() == {"b.md"}

    def test_moved_item_is_listed_at_its_new_place(self, world: World) -> None:
        world.put("a.md", b"one")
        world.move("a.md", "sub/b.md")
        items = listed(world.connector)
        assert items.keys() == {"sub/b.md"}
        assert fetched(world.connector, items["sub/b.md"]).data == b"one"

    def test_fetch_gives_the_bytes_and_the_name(self, world: World) -> None:
        data = bytes(range(256)) * 5000
        world.put("sub/a.bin.md", data)
        blob = fetched(world.connector, listed(world.connector)["sub/a.bin.md"])
        assert (blob.data, blob.name) == (data, "a.bin.md")

    def test_item_changed_since_its_listing_is_fetched_as_listed_or_not_at_all(self, world: World) -> None:
        world.put("a.md", b"one")
        item = listed(world.connector)["a.md"]
        _later()
        world.put("a.md", b"two")
        assert _is_as_listed(world.connector, item, b"one")
        item = listed(world.connector)["a.md"]
        assert fetched(world.connector, item).data == b"two"
        world.delete("a.md")
        assert _is_as_listed(world.connector, item, b"two")

    def test_special_names_keep_their_own_contents(self, world: World) -> None:
        """Names that mean something else in addresses, patterns, formats and encodings."""
        names = set(SPECIAL_NAMES).difference(getattr(world, "unservable", ()))
        for name in names:
            world.put(name, name.encode())
        items = listed(world.connector)
        assert len(items) == len(names)
        assert all(key.encode("utf-8") for key in items)
        contents = sorted(fetched(world.connector, item).data.decode() for item in items.values())
        assert contents == sorted(names)
        assert listed(world.connector) == items

    def test_source_that_cannot_be_reached_raises(self, world: World) -> None:
        world.put("a.md", b"one")
        world.fail()
        with pytest.raises((Transient, NeedsHuman)):
            list(world.connector.scan())

    def test_refused_login_needs_a_person(self, world: World) -> None:
        if not isinstance(world, Refusing):
            pytest.skip("has no login")
        with _interrupted(world, world.deny), pytest.raises(NeedsHuman) as held:
            list(world.connector.scan())
        assert world.secret not in _describe(held.value)

    def test_source_without_time_is_retried_later(self, world: World) -> None:
        if not isinstance(world, Busy):
            pytest.skip("is never busy")
        with _interrupted(world, world.throttle), pytest.raises(Transient) as caught:
            list(world.connector.scan())
        assert not isinstance(caught.value, PartialScan)

    def test_truncated_content_is_never_taken_for_complete(self, world: World) -> None:
        if not isinstance(world, Cutting):
            pytest.skip("comes whole")
        contents = {f"{number}/{number}.md": random.Random(number).randbytes(30_000) for number in range(10)}
        for key, data in contents.items():
            world.put(key, data)
        failures = 0
        for after in (100, 1000, 5000, 20_000):
            world.cut(after)
            try:
                assert listed(world.connector).keys() == contents.keys(), f"after {after} bytes"
            except (Transient, NeedsHuman):
                failures += 1
            world.relent()
        assert failures, "no listing was cut"
        items = listed(world.connector)
        world.cut(20_000)
        for key, data in contents.items():
            _fetch_or_fail(world, items[key], data)
        world.relent()
        found = {key: fetched(world.connector, item).data for key, item in listed(world.connector).items()}
        assert found == contents

    def test_unchanged_item_is_not_read_again(self, world: World) -> None:
        if not isinstance(world, Counting):
            pytest.skip("does not count")
        for key in ("a.md", "sub/b.md"):
            world.put(key, key.encode())
        before = world.reads()
        for item in listed(world.connector).values():
            fetched(world.connector, item)
        after = world.reads()
        assert after > before, "nothing is counted"
        listed(world.connector)
        assert world.reads() == after

    @pytest.mark.parametrize("seed", every(3, range(3)))
    def test_listing_after_any_history_equals_the_folder(self, world: World, seed: int) -> None:
        expected = _random_history(world, random.Random(seed))
        items = listed(world.connector)
        assert items.keys() == expected.keys()
        assert {key: fetched(world.connector, item).data for key, item in items.items()} == expected

    def test_part_is_listed_as_in_the_whole(self, world: World) -> None:
        if not isinstance(world.connector, Scoped):
            pytest.skip("not Scoped")
        for key in ("sub/a.md", "sub/deep/b.md", "subway/c.md", "d.md"):
            world.put(key, key.encode())
        whole = listed(world.connector)
        for under in ("", "sub", "sub/deep", "sub/a.md", "su", "d.md", "gone", "d.md/x", "sub/gone/x"):
            part = {item.key: item for item in world.connector.scan_under(under)}
            assert part == {key: item for key, item in whole.items() if covers(under, key)}, under

    def test_part_of_a_source_that_cannot_be_reached_raises(self, world: World) -> None:
        if not isinstance(world.connector, Scoped):
            pytest.skip("not Scoped")
        world.put("sub/a.md", b"one")
        world.fail()
        with pytest.raises((Transient, NeedsHuman)):
            list(world.connector.scan_under("sub"))

    def test_every_change_is_hinted_at(self, world: World) -> None:
        if not isinstance(world.connector, Watchable):
            pytest.skip("not Watchable")
        world.put("sub/b.md", b"one")
        changes: list[tuple[Callable[[], object], tuple[str, ...]]] = [
            (lambda: world.put("new.md", b"new"), ("new.md",)),
            (lambda: world.put("sub/b.md", b"edited"), ("sub/b.md",)),
            (lambda: world.move("sub/b.md", "other/c.md"), ("sub/b.md", "other/c.md")),
            (lambda: world.delete("other/c.md"), ("other/c.md",)),
        ]
        with watching(world.connector) as hints:
            for change, keys in changes:
                change()
                hints.await_cover(*keys)
                hints.forget()

    def test_watch_of_an_unreachable_source_continues_until_stopped(self, world: World) -> None:
        if not isinstance(world.connector, Watchable):
            pytest.skip("not Watchable")
        world.fail()
        with watching(world.connector):
            pass


def _fetch_or_fail(world: World, item: Item, data: bytes) -> None:
    """The bytes as they are, or an error that names what to wait for; what was fetched before may be kept."""
    with suppress(Transient, NeedsHuman):
        assert world.connector.fetch(item).data == data


def _describe(error: BaseException | None) -> str:
    """All that a log would have of it."""
    return "" if error is None else f"{error!r} {error} {_describe(error.__cause__)}"


def _random_history(world: World, chance: random.Random) -> dict[str, bytes]:
    there: dict[str, bytes] = {}
    keys = [f"{folder}{name}.md" for folder in ("", "x/", "x/y/", "z/") for name in "abc"]
    for step in range(40):
        key = chance.choice(keys)
        if key not in there or chance.random() < 0.4:
            there[key] = f"step {step}".encode()
            world.put(key, there[key])
        elif chance.random() < 0.5:
            world.delete(key)
            del there[key]
        elif (other := chance.choice(keys)) not in there:
            world.move(key, other)
            there[other] = there.pop(key)
    return there
