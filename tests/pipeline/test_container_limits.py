"""Bombs, wrecks, and containers that take too long: each costs itself alone."""

import bz2
import gzip
import tarfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import pytest

from ingestor.archives.members import Member
from ingestor.archives.unpack import Unpacked
from ingestor.model import Blob
from ingestor.pipeline.containers import Containers
from ingestor.ports import BadDocument, Stale, Transient
from ingestor.sandbox.pool import Defect, Isolation
from ingestor.sandbox.process import Limits
from tests.hostile import SLOW_MAIL
from tests.pipeline.packed import Journal, journal_of, listed, mailed, tarred, unpack, zipped
from tests.version_table import VersionTable

HEADER = tarfile.TarInfo("x").tobuf()


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingestor.archives.members._FREE", 10**6)
    monkeypatch.setattr("ingestor.archives.members.MOST_MEMBERS", 1000)


def test_nested_archives_are_opened_to_the_limit() -> None:
    data = zipped({"b.md": "B"})
    for _ in range(10):
        data = zipped({"n.zip": data})
    journal = listed({"n.zip": data})
    assert max(key.count("/!/") for key in journal.items) == 3


@pytest.mark.parametrize(
    ("name", "make", "reason"),
    [
        ("a.zip", lambda: b"PK\x03\x04" + b"rubbish" * 10, "damaged"),
        ("a.tgz", lambda: gzip.compress(b"no tar at all" * 100, mtime=0), "damaged"),
        ("a.tgz", lambda: tarred({"b.md": "B" * 9999}, "w:gz")[:-40], "damaged"),
        ("a.tar", lambda: tarred({"b.md": "B" * 9999})[:5000], "damaged"),
        ("a.zip", lambda: zipped({f"{n}.md": "" for n in range(1001)}), "more than 1,000 files"),
        ("a.zip", lambda: zipped({f"{n}.txt": bytes(200_000) for n in range(6)}), "too much"),
        ("a.tgz", lambda: tarred({f"{n}.txt": bytes(100_000) for n in range(11)}, "w:gz"), "too much"),
        ("a.tar", lambda: HEADER[:156] + b"L" + HEADER[157:], "damaged"),
    ],
    ids=range(8),
)
@pytest.mark.usefixtures("strict")
def test_bomb_or_damaged_archive_is_refused_as_a_document(
    name: str, make: Callable[[], bytes], reason: str
) -> None:
    journal = journal_of({name: make()})
    assert journal.list_again()[0] == {name}
    with pytest.raises(BadDocument, match=reason):
        journal.read(name)


def bomb(parts: int = 3) -> bytes:
    """Each part by itself is within all limits, and so is what they are packed in."""
    part = bz2.compress(tarred({"zeros.txt": bytes(400_000)}))
    return zipped({f"{n}.tar.bz2": part for n in range(parts)})


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("name", ["a.zip", "m.eml"])
def test_budget_is_shared_by_all_members_of_a_container(name: str) -> None:
    journal = journal_of({name: bomb() if name == "a.zip" else mailed({"a.zip": bomb()}), "b.md": b"B"})
    assert journal.list_again()[0] == {name, "b.md"}
    for _ in range(2):
        with pytest.raises(BadDocument, match="too much for"):
            journal.read(name)
        journal.restart()


def test_members_of_nested_containers_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingestor.archives.members.MOST_MEMBERS", 100)
    inner = zipped({f"{n}.md": "" for n in range(60)})
    journal = journal_of({"fine.zip": {"a.zip": inner}, "many.zip": {"a.zip": inner, "b.zip": inner}})
    assert len(journal.list_again()[0]) == 63
    assert journal.read("fine.zip") == b""
    with pytest.raises(BadDocument, match="more than 100 files"):
        journal.read("many.zip")


@pytest.mark.usefixtures("strict")
def test_container_grown_beyond_the_limits_keeps_its_members() -> None:
    journal = listed({"m.eml": {"b.md": "B"}})
    journal.put("m.eml", mailed({"a.zip": bomb()}))
    assert journal.list_again() == ({"m.eml"}, set())
    assert journal.list_again() == (set(), set())
    with pytest.raises(Transient, match="would unpack to"):
        journal.read("m.eml/!/b.md")


@pytest.mark.slow
def test_container_over_its_time_fails_alone() -> None:
    isolation = Isolation(Limits(seconds=2, processes=1))
    files = {"a.eml": SLOW_MAIL, "sound.eml": {"c.md": "C"}, "b.md": b"B"}
    journal = journal_of(files, unpack=isolation.unpack, clock=lambda: 0.0)
    assert journal.list_again()[0] == {"a.eml", "sound.eml", "sound.eml/!/c.md", "b.md"}
    assert journal.trouble is None
    assert journal.read("sound.eml/!/c.md") == b"C"
    with pytest.raises(BadDocument, match=r"took more than 1 s; raise parsing\.seconds"):
        journal.read("a.eml")
    isolation.close()


class Slow:
    """Opens a container in six seconds of a clock, but for those that it refuses."""

    def __init__(self, refuses: Callable[[Blob], Exception | None]) -> None:
        self.refuses, self.now = refuses, 0.0

    def __call__(self, blob: Blob, archives: bool) -> Unpacked | None:
        self.now += 6
        if error := self.refuses(blob):
            raise error
        return unpack(blob, archives)

    def journal_of(self, names: Iterable[str]) -> Journal:
        files = {name: {"b.md": "B"} for name in names}
        return journal_of(files, unpack=self, clock=lambda: self.now)


def test_containers_that_fail_slowly_do_not_hold_up_a_listing_for_long() -> None:
    slow = Slow(lambda blob: BadDocument("took too long") if blob.name.startswith("bad") else None)
    journal = slow.journal_of([*(f"bad{number}.zip" for number in range(4)), "sound.zip"])
    journal.put("z.md", b"Z")
    assert journal.list_again()[0] == {"bad0.zip", "z.md"}
    assert journal.trouble is not None
    assert "bad1.zip cannot be opened now (other containers took too long" in journal.trouble
    assert [journal.list_again()[0] for _ in range(3)] == [{"bad1.zip"}, {"bad2.zip"}, {"bad3.zip"}]
    assert journal.list_again() == ({"sound.zip", "sound.zip/!/b.md"}, set())
    assert journal.trouble is None


def test_container_that_always_changes_does_not_keep_others_closed() -> None:
    journal = Slow(lambda blob: None).journal_of(["sound0.zip", "sound1.zip"])
    found: set[str] = set()
    for number in range(3):
        journal.put("a.zip", {f"{number}.md": "A"})
        found |= journal.list_again()[0]
    assert {"sound0.zip/!/b.md", "sound1.zip/!/b.md"} <= found


def test_container_behind_defective_containers_is_opened_in_time() -> None:
    slow = Slow(
        lambda blob: None if blob.name == "d.zip" and slow.now > 50 else Defect("ValueError: a defect")
    )
    journal = slow.journal_of(f"{name}.zip" for name in "abcd")
    assert "d.zip" in set().union(*(journal.list_again()[0] for _ in range(12)))


def test_defect_in_a_container_fails_that_container_only() -> None:
    def broken(blob: Blob, archives: bool) -> Unpacked | None:
        raise Defect("ValueError: a defect")

    journal = journal_of({"a.zip": {"b.md": "B"}, "b.md": b"B"}, unpack=broken)
    assert journal.list_again()[0] == {"b.md"}
    reason = "a.zip cannot be opened now (ValueError: a defect): known members keep their records"
    assert journal.trouble == reason


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
    opener = Failing()
    journal = listed({"a.zip": {"b.md": "B"}}, unpack=opener)
    journal.put("a.zip", {"b.md": "B", "c.md": "C"})
    opener.errors = {journal.world.files["a.zip"]: Defect("the parser was killed")}
    assert journal.list_again() == (set(), set())
    opener.errors.clear()
    assert journal.list_again() == ({"a.zip", "a.zip/!/c.md"}, set())
    assert journal.trouble is None


def test_refused_container_is_opened_under_other_limits_only() -> None:
    opener = Failing()
    journal = journal_of({"a.zip": {"b.md": "B"}}, unpack=opener)
    opener.errors = {journal.world.files["a.zip"]: BadDocument("took more than 1 s; raise parsing.seconds")}
    for _ in range(2):
        journal.list_again()
        with pytest.raises(BadDocument, match=r"raise parsing\.seconds"):
            journal.read("a.zip")
        journal.restart()
        assert journal.list_again() == (set(), set())
        assert journal.world.fetched == []
    opener.errors.clear()
    opener.limits = "2"
    journal.restart()
    assert journal.list_again() == ({"a.zip", "a.zip/!/b.md"}, set())


@pytest.mark.parametrize("name", ["a.zip", "a.eml"])
def test_refused_container_that_opens_later_is_listed_again(name: str) -> None:
    opener = Failing()
    journal = journal_of({name: {"b.md": "B"}}, unpack=opener)
    opener.errors = {journal.world.files[name]: BadDocument("damaged")}
    assert journal.list_again()[0] == {name}
    opener.errors.clear()
    journal.restart()
    journal.list_again()
    with pytest.raises(Stale, match="could not be opened when it was listed"):
        journal.read(name)
    assert len(journal.list_again(name)[0]) == 2
    journal.read(name)


def test_broken_containers_cost_no_more_than_sound_ones() -> None:
    """Each was sought among all that the outermost holds: with 10,000 this took many seconds."""
    unpacked = Unpacked()
    for number in range(10_000):
        unpacked.add([Member(f"{number}.zip", "v", 0), Member(f"{number}.zip/!/b", "v", 0)], b"")
        unpacked.drop(f"{number}.zip", "damaged")
    assert len(unpacked.broken) == len(unpacked.members) == 10_000
    known = {f"a.zip/!/{number}.zip/!/b": "v" for number in range(10_000)}
    world = journal_of({"a.zip": {"b.md": "B"}}).world
    containers = Containers(world, True, lambda blob, archives: unpacked)
    begun = time.process_time()
    assert len(list(containers.expand(world.scan(), VersionTable(known)))) == 20_001
    assert time.process_time() - begun < 5
