"""Bombs, wrecks, and containers that take too long: each costs itself alone."""

import bz2
import gzip
import tarfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from ingestor.archives.members import Member
from ingestor.archives.unpack import Unpacked
from ingestor.core.listings import VersionTable
from ingestor.model import Blob
from ingestor.pipeline.containers import Containers
from ingestor.ports import BadDocument, Stale, Transient
from ingestor.sandbox.pool import Defect, Isolation
from ingestor.sandbox.process import Limits
from tests.hostile import SLOW_MAIL
from tests.pipeline.packed import Journal, World, mailed, tarred, unpack, zipped


def test_nested_archives_are_opened_to_the_limit() -> None:
    data = zipped({"b.md": "B"})
    for _ in range(10):
        data = zipped({"n.zip": data})
    world = World()
    world.put("n.zip", data)
    journal = Journal(world)
    journal.list_again()
    assert max(key.count("/!/") for key in journal.items) == 3


@pytest.mark.parametrize(
    ("name", "make", "reason"),
    [
        ("a.zip", lambda: b"PK\x03\x04" + b"rubbish" * 10, "damaged"),
        ("a.tgz", lambda: gzip.compress(b"no tar at all" * 100, mtime=0), "damaged"),
        ("a.tgz", lambda: tarred({"b.md": "B" * 9999}, "w:gz")[:-40], "damaged"),
        ("a.tar", lambda: tarred({"b.md": "B" * 9999})[:5000], "damaged"),
        ("a.zip", lambda: zipped({f"{n}.md": "" for n in range(50_001)}), "more than 50,000 files"),
        ("a.zip", lambda: zipped({f"{n}.txt": bytes(20_000_000) for n in range(6)}), "too much"),
        (
            "a.tgz",
            lambda: gzip.compress(tarred({f"{n}.txt": bytes(10_000_000) for n in range(11)}), mtime=0),
            "too much",
        ),
        (
            "a.tar",
            lambda: tarfile.TarInfo("x").tobuf()[:156] + b"L" + tarfile.TarInfo("x").tobuf()[157:],
            "damaged",
        ),
    ],
    ids=range(8),
)
def test_bombs_and_damaged_archives_are_a_document_with_a_reason(
    name: str, make: Callable[[], bytes], reason: str
) -> None:
    world = World()
    world.put(name, make())
    journal = Journal(world)
    assert journal.list_again()[0] == {name}
    with pytest.raises(BadDocument, match=reason):
        journal.read(name)


def bomb(parts: int = 3) -> bytes:
    """Each part by itself is within all limits, and so is what they are packed in."""
    part = bz2.compress(tarred({"zeros.txt": bytes(400_000)}))
    return zipped({f"{n}.tar.bz2": part for n in range(parts)})


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingestor.archives.members._FREE", 10**6)


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("name", ["a.zip", "m.eml"])
def test_budget_is_shared_by_all_members_of_a_container(name: str) -> None:
    world = World()
    world.put(name, bomb() if name == "a.zip" else mailed({"a.zip": bomb()}))
    world.put("b.md", b"B")
    journal = Journal(world)
    assert journal.list_again()[0] == {name, "b.md"}
    for _ in range(2):
        with pytest.raises(BadDocument, match="too much for"):
            journal.read(name)
        journal.restart()


def test_members_of_nested_containers_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingestor.archives.members.MOST_MEMBERS", 100)
    inner = zipped({f"{n}.md": "" for n in range(60)})
    world = World()
    world.put("fine.zip", zipped({"a.zip": inner}))
    world.put("many.zip", zipped({"a.zip": inner, "b.zip": inner}))
    journal = Journal(world)
    assert len(journal.list_again()[0]) == 63
    assert journal.read("fine.zip") == b""
    with pytest.raises(BadDocument, match="more than 100 files"):
        journal.read("many.zip")


@pytest.mark.usefixtures("strict")
def test_container_grown_beyond_the_limits_keeps_its_members() -> None:
    world = World()
    world.put("m.eml", mailed({"b.md": "B"}))
    journal = Journal(world)
    journal.list_again()
    world.put("m.eml", mailed({"a.zip": bomb()}))
    assert journal.list_again() == ({"m.eml"}, set())
    assert journal.list_again() == (set(), set())
    with pytest.raises(Transient, match="would unpack to"):
        journal.read("m.eml/!/b.md")


@pytest.mark.slow
def test_container_over_its_time_fails_alone() -> None:
    world = World()
    world.put("a.eml", SLOW_MAIL)
    world.put("sound.eml", mailed({"c.md": "C"}))
    world.put("b.md", b"B")
    isolation = Isolation(Limits(seconds=2, processes=1))
    journal = Journal(world, unpack=isolation.unpack, clock=lambda: 0.0)
    assert journal.list_again()[0] == {"a.eml", "sound.eml", "sound.eml/!/c.md", "b.md"}
    assert journal.trouble is None
    assert journal.read("sound.eml/!/c.md") == b"C"
    with pytest.raises(BadDocument, match=r"took more than 1 s; raise parsing\.seconds"):
        journal.read("a.eml")
    isolation.close()


def test_containers_that_fail_slowly_do_not_hold_up_a_listing_for_long() -> None:
    now = [0.0]

    def slow(blob: Blob, archives: bool) -> Unpacked | None:
        if not blob.name.startswith("bad"):
            return unpack(blob, archives)
        now[0] += 6
        raise BadDocument("took too long")

    world = World()
    for number in range(4):
        world.put(f"bad{number}.zip", zipped({"b.md": "B"}))
    world.put("sound.zip", zipped({"b.md": "B"}))
    world.put("z.md", b"Z")
    journal = Journal(world, unpack=slow, clock=lambda: now[0])
    assert journal.list_again()[0] == {"bad0.zip", "z.md"}
    assert journal.trouble is not None
    assert "bad1.zip cannot be opened now (other containers took too long" in journal.trouble
    assert [journal.list_again()[0] for _ in range(3)] == [{"bad1.zip"}, {"bad2.zip"}, {"bad3.zip"}]
    assert journal.list_again() == ({"sound.zip", "sound.zip/!/b.md"}, set())
    assert journal.trouble is None


def test_container_that_always_changes_does_not_keep_others_closed() -> None:
    now = [0.0]

    def slow(blob: Blob, archives: bool) -> Unpacked | None:
        now[0] += 6
        return unpack(blob, archives)

    world = World()
    for number in range(2):
        world.put(f"sound{number}.zip", zipped({"b.md": "B"}))
    journal = Journal(world, unpack=slow, clock=lambda: now[0])
    found: set[str] = set()
    for number in range(3):
        world.put("a.zip", zipped({f"{number}.md": "A"}))
        found |= journal.list_again()[0]
    assert {"sound0.zip/!/b.md", "sound1.zip/!/b.md"} <= found


def test_defect_in_a_container_fails_that_container_only() -> None:
    def broken(blob: Blob, archives: bool) -> Unpacked | None:
        raise Defect("ValueError: a defect")

    world = World()
    world.put("a.zip", zipped({"b.md": "B"}))
    world.put("b.md", b"B")
    journal = Journal(world, unpack=broken)
    assert journal.list_again()[0] == {"b.md"}
    assert (
        journal.trouble
        == "a.zip cannot be opened now (ValueError: a defect): known members keep their records"
    )


@dataclass
class Failing:
    """Opens containers, but for those whose content ``errors`` names."""

    limits: str = "1"
    errors: dict[bytes, Exception] = field(default_factory=dict)

    def __call__(self, blob: Blob, archives: bool) -> Unpacked | None:
        if blob.data in self.errors:
            raise self.errors[blob.data]
        return unpack(blob, archives)


def test_container_whose_process_was_killed_once_is_opened_in_the_next_listing() -> None:
    world, opener = World(), Failing()
    world.put("a.zip", zipped({"b.md": "B"}))
    journal = Journal(world, unpack=opener)
    journal.list_again()
    world.put("a.zip", zipped({"b.md": "B", "c.md": "C"}))
    opener.errors = {world.files["a.zip"]: Defect("the parser was killed")}
    assert journal.list_again() == (set(), set())
    opener.errors.clear()
    assert journal.list_again() == ({"a.zip", "a.zip/!/c.md"}, set())
    assert journal.trouble is None


def test_refused_container_is_opened_under_other_limits_only() -> None:
    world, opener = World(), Failing()
    world.put("a.zip", zipped({"b.md": "B"}))
    opener.errors = {world.files["a.zip"]: BadDocument("took more than 1 s; raise parsing.seconds")}
    journal = Journal(world, unpack=opener)
    for _ in range(2):
        journal.list_again()
        with pytest.raises(BadDocument, match=r"raise parsing\.seconds"):
            journal.read("a.zip")
        journal.restart()
        assert journal.list_again() == (set(), set())
        assert world.fetched == []
    opener.errors.clear()
    opener.limits = "2"
    journal.restart()
    assert journal.list_again() == ({"a.zip", "a.zip/!/b.md"}, set())


@pytest.mark.parametrize(
    ("name", "data"), [("a.zip", zipped({"b.md": "B"})), ("a.eml", mailed({"b.md": "B"}))]
)
def test_refused_container_that_opens_later_is_listed_again(name: str, data: bytes) -> None:
    world, opener = World(), Failing()
    world.put(name, data)
    opener.errors = {data: BadDocument("damaged")}
    journal = Journal(world, unpack=opener)
    assert journal.list_again()[0] == {name}
    opener.errors.clear()
    journal.restart()
    journal.list_again()
    with pytest.raises(Stale, match="could not be opened when it was listed"):
        journal.read(name)
    assert len(journal.list_again(name)[0]) == 2
    journal.read(name)


def test_container_behind_defective_containers_is_opened_in_time() -> None:
    now = [0.0]

    def slow(blob: Blob, archives: bool) -> Unpacked | None:
        now[0] += 6
        if blob.name == "d.zip" and now[0] > 50:
            return unpack(blob, archives)
        raise Defect("ValueError: a defect")

    world = World()
    for name in "abcd":
        world.put(f"{name}.zip", zipped({"b.md": "B"}))
    journal = Journal(world, unpack=slow, clock=lambda: now[0])
    assert "d.zip" in set().union(*(journal.list_again()[0] for _ in range(12)))


def test_broken_containers_cost_no_more_than_sound_ones() -> None:
    """Each was sought among all that the outermost holds: with 10,000 this took many seconds."""
    unpacked = Unpacked()
    for number in range(20_000):
        unpacked.add([Member(f"{number}.zip", "v", 0), Member(f"{number}.zip/!/b", "v", 0)], b"")
        unpacked.drop(f"{number}.zip", "damaged")
    assert len(unpacked.broken) == len(unpacked.members) == 20_000
    known = {f"a.zip/!/{number}.zip/!/b": "v" for number in range(20_000)}
    world = World()
    world.put("a.zip", zipped({"b.md": "B"}))
    containers = Containers(world.fetch, True, lambda blob, archives: unpacked)
    begun = time.process_time()
    assert len(list(containers.expand(world.scan(), VersionTable(known)))) == 40_001
    assert time.process_time() - begun < 5
