"""What is in archives and mails is listed, found again, and never lost to a broken archive."""

import bz2
import gzip
import io
import lzma
import sys
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from email.message import EmailMessage

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.archives import unpack as unpacking
from ingestor.archives.members import Broken, Found, Member, TooMuch
from ingestor.archives.spool import Unpacked
from ingestor.archives.unpack import holds_members
from ingestor.archives.unpack import unpack as members_of
from ingestor.core.decisions import Scope
from ingestor.model import Blob, CollectionName, Item, SourceName
from ingestor.pipeline import listing
from ingestor.pipeline.containers import Containers, Unpack
from ingestor.pipeline.listing import Source
from ingestor.ports import BadDocument, PartialScan, Stale, Transient
from ingestor.sandbox.pool import Defect, Isolation
from ingestor.sandbox.process import Limits
from tests import seven_zips
from tests.hostile import SLOW_MAIL

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

TIME = (2024, 1, 2, 3, 4, 6)
Files = Mapping[str, bytes | str]


def zipped(files: Files, time: tuple[int, ...] = TIME) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, time), content, zipfile.ZIP_DEFLATED)  # type: ignore[arg-type]
    return buffer.getvalue()


def tarred(files: Files, mode: str = "w") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:  # type: ignore[call-overload]
        for name, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), 1_700_000_000
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def mailed(attached: Files) -> bytes:
    message = EmailMessage()
    message["Subject"] = "Hello"
    message.set_content("Body")
    for name, content in attached.items():
        data = content.encode() if isinstance(content, str) else content
        message.add_attachment(data, maintype="application", subtype="octet-stream", filename=name)
    return message.as_bytes()


def unpack(blob: Blob, archives: bool = True) -> Unpacked | None:
    """What a process of sandbox/pool.py finds, found in this one."""
    if not holds_members(blob):
        return None
    unpacked = Unpacked()
    for one in members_of(blob, archives):
        if isinstance(one, Broken):
            unpacked.drop(one.name, one.reason)
        else:
            unpacked.add([one.member], one.data)
    return unpacked


@dataclass
class World:
    """A source in memory. ``fetched`` notes what was read; ``trouble`` is what reading a key raises."""

    files: dict[str, bytes] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    fetched: list[str] = field(default_factory=list)
    trouble: dict[str, Exception] = field(default_factory=dict)
    partial: PartialScan | None = None

    def put(self, key: str, data: bytes) -> None:
        self.files[key] = data
        self.versions[key] = self.versions.get(key, 0) + 1

    def _item(self, key: str) -> Item:
        return Item(key, f"v{self.versions[key]}", f"/root/{key}", len(self.files[key]))

    def scan(self) -> Iterator[Item]:
        yield from map(self._item, sorted(self.files))
        if self.partial:
            raise self.partial

    def scan_under(self, under: str) -> Iterator[Item]:
        keys = (key for key in sorted(self.files) if key == under or key.startswith(f"{under}/"))
        return map(self._item, keys)

    def fetch(self, item: Item) -> Blob:
        if item.key in self.trouble:
            raise self.trouble[item.key]
        if item.key not in self.files or item != self._item(item.key):
            raise Stale(f"{item.uri} changed")
        self.fetched.append(item.key)
        return Blob(self.files[item.key], item.key.rpartition("/")[2])


class Journal:
    """What a reconciler would know of the world's documents after each listing."""

    def __init__(
        self,
        world: World,
        archives: bool = True,
        unpack: Unpack = unpack,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.world, self.archives, self.unpack, self.clock = world, archives, unpack, clock
        self.items: dict[str, Item] = {}
        self.restart()

    def restart(self) -> None:
        self.containers = Containers(self.world.fetch, self.archives, self.unpack, self.clock)
        self.source = Source(
            SourceName("s"), CollectionName("c"), self.world, None, expand=self.containers.expand,  # type: ignore[arg-type]
        )  # fmt: skip

    def look(self, *dirty: str) -> tuple[set[str], set[str]]:
        """List (all, or what is dirty) and take it over: what changed, and what vanished."""
        self.world.fetched.clear()
        scope = listing.scope_of(self.source, dirty) if dirty else Scope()
        found = listing.take(self.source, scope, {key: item.version for key, item in self.items.items()})
        self.trouble = found.trouble
        self.items |= {item.key: item for item in found.changes.changed}
        for key in found.changes.vanished:
            del self.items[key]
        return {item.key for item in found.changes.changed}, set(found.changes.vanished)

    def read(self, key: str) -> bytes:
        return self.containers.fetch(self.items[key]).data


def test_members_are_documents_with_a_place() -> None:
    world = World()
    world.put("docs/a.zip", zipped({"docs/b.md": "# B", "c.txt": "C", "d/": ""}))
    journal = Journal(world)
    assert journal.look()[0] == {"docs/a.zip", "docs/a.zip/!/docs/b.md", "docs/a.zip/!/c.txt"}
    item = journal.items["docs/a.zip/!/docs/b.md"]
    assert (item.uri, item.size) == ("/root/docs/a.zip!/docs/b.md", 3)
    blob = journal.containers.fetch(item)
    assert (blob.data, blob.name) == (b"# B", "b.md")
    assert journal.read("docs/a.zip") == b""  # the archive itself is an empty document


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.zip", zipped({"x/b.md": "B"})),
        ("a.tar", tarred({"x/b.md": "B"})),
        ("a.TGZ", tarred({"x/b.md": "B"}, "w:gz")),
        ("a.tar.gz", gzip.compress(tarred({"x/b.md": "B"}), mtime=0)),
        ("a.tar.bz2", bz2.compress(tarred({"x/b.md": "B"}))),
        ("a.tar.xz", lzma.compress(tarred({"x/b.md": "B"}))),
        ("a.tar.zst", zstd.compress(tarred({"x/b.md": "B"}))),
        ("b.md.gz", gzip.compress(b"B", mtime=0)),
        ("b.md.bz2", bz2.compress(b"B")),
        ("b.md.xz", lzma.compress(b"B")),
        ("b.md.zst", zstd.compress(b"B")),
        ("a.eml", mailed({"b.md": "B"})),
    ],
)
def test_every_kind_of_container(name: str, data: bytes) -> None:
    world = World()
    world.put(name, data)
    journal = Journal(world)
    journal.look()
    (member,) = [key for key in journal.items if key != name]
    assert member.endswith("b.md")
    assert journal.read(member) == b"B"


@pytest.mark.parametrize(
    "method", [name for name in seven_zips.ARCHIVES if name not in ("encrypted", "ppmd")]
)
def test_every_method_of_7z(method: str) -> None:
    world = World()
    world.put("a.7z", seven_zips.ARCHIVES[method])
    journal = Journal(world)
    journal.look()
    assert journal.items.keys() == {"a.7z", "a.7z/!/docs/a.md", "a.7z/!/docs/sub/ü b.txt"}
    assert journal.read("a.7z/!/docs/a.md") == b"The first file of the archive.\n"
    assert journal.read("a.7z/!/docs/sub/ü b.txt").decode() == "Ein zweiter, über Häfen.\n"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (seven_zips.ARCHIVES["encrypted"], "the archive is encrypted; pack it again without a password"),
        (seven_zips.ARCHIVES["ppmd"], "the archive is packed in a way that is not read"),
        (seven_zips.ARCHIVES["lzma2"][:-20], "the archive is damaged .it is cut off"),
        (gzip.compress(b"words " * 100, mtime=0)[:-12], "the archive is damaged"),
        (zstd.compress(b"words " * 100)[:-5], "the archive is damaged .it is cut off"),
        (zstd.compress(b"words")[:-1] + b"\0\0\0" * 9, "the archive is damaged"),
    ],
)
def test_packed_files_that_can_not_be_read_say_why(data: bytes, reason: str) -> None:
    with pytest.raises(BadDocument, match=reason):
        list(members_of(Blob(data, "a.7z"), archives=True))


def test_a_single_file_that_is_packed_has_its_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "LARGEST", 1000)
    monkeypatch.setattr("ingestor.archives.members.LARGEST", 1000)
    (found,) = members_of(Blob(zstd.compress(b"x" * 1001), "a.txt.zst"), archives=True)
    assert isinstance(found, Found)
    assert (found.data, found.member.problem) == (
        b"",
        "1,001 bytes; members of archives may have 1,000",
    )
    monkeypatch.setattr("ingestor.archives.members.MOST_BYTES", 10**6)
    for bomb in (zstd.compress(bytes(10**7)), gzip.compress(bytes(10**7)), zstd.compress(b"a" * 10**6) * 2):
        with pytest.raises(TooMuch, match="it would unpack to"):
            list(members_of(Blob(bomb, "a.txt.zst"), archives=True))


@given(st.sampled_from(sorted(seven_zips.ARCHIVES)), st.integers(0, 330), st.binary(min_size=1, max_size=4))
def test_a_damaged_7z_is_refused_or_read(method: str, at: int, damage: bytes) -> None:
    """Also where its header's checksum holds."""
    data = bytearray(seven_zips.ARCHIVES[method])
    data[at : at + len(damage)] = damage
    start = 32 + int.from_bytes(data[12:20], "little")
    size = int.from_bytes(data[20:28], "little")
    data[28:32] = zlib.crc32(data[start : start + size]).to_bytes(4, "little")
    with suppress(BadDocument):
        list(members_of(Blob(bytes(data), "a.7z"), archives=True))


def test_an_unchanged_archive_is_not_opened_again() -> None:
    world = World()
    world.put("a.zip", zipped({"b.md": "B"}))
    journal = Journal(world)
    journal.look()
    journal.restart()
    assert journal.look() == (set(), set())
    assert world.fetched == []
    assert journal.read("a.zip/!/b.md") == b"B"


def test_only_what_changed_in_an_archive_is_due() -> None:
    world = World()
    world.put("a.zip", zipped({"same.md": "S", "edited.md": "E", "deleted.md": "D", "old.md": "R"}))
    journal = Journal(world)
    journal.look()
    world.put("a.zip", zipped({"same.md": "S", "edited.md": "F", "new.md": "R"}))
    changed, vanished = journal.look()
    assert changed == {"a.zip", "a.zip/!/edited.md", "a.zip/!/new.md"}
    assert vanished == {"a.zip/!/deleted.md", "a.zip/!/old.md"}
    assert journal.read("a.zip/!/edited.md") == b"F"


def test_a_member_of_another_time_is_another_version() -> None:
    world = World()
    world.put("a.zip", zipped({"b.md": "B"}))
    journal = Journal(world)
    journal.look()
    world.put("a.zip", zipped({"b.md": "B"}, (2025, 1, 1, 0, 0, 0)))
    assert journal.look()[0] == {"a.zip", "a.zip/!/b.md"}


@pytest.mark.parametrize("dirty", ["a.zip", "a.zip/!/b.md", ""])
def test_hints_lead_to_the_whole_archive(dirty: str) -> None:
    world = World()
    world.put("a.zip", zipped({"b.md": "B", "c.md": "C"}))
    world.put("other.md", b"O")
    journal = Journal(world)
    journal.look()
    world.put("a.zip", zipped({"c.md": "D"}))
    assert journal.look(dirty) == ({"a.zip", "a.zip/!/c.md"}, {"a.zip/!/b.md"})
    del world.files["a.zip"]
    assert journal.look(dirty) == (set(), {"a.zip", "a.zip/!/c.md"})


def test_a_folder_called_like_the_mark_is_a_folder() -> None:
    world = World()
    world.put("x/!/b.md", b"B")
    world.put("x/!/a.zip", zipped({"!/c.md": "C"}))
    journal = Journal(world)
    assert journal.look()[0] == {"x/!/b.md", "x/!/a.zip", "x/!/a.zip/!/!_/c.md"}
    assert journal.read("x/!/b.md") == b"B"
    assert journal.read("x/!/a.zip/!/!_/c.md") == b"C"
    world.put("x/!/b.md", b"D")
    assert journal.look("x/!/b.md")[0] == {"x/!/b.md"}


def test_a_broken_archive_keeps_its_members_and_says_why() -> None:
    world = World()
    sound = zipped({"b.md": "B", "inner.zip": zipped({"c.md": "C"})})
    world.put("a.zip", sound)
    journal = Journal(world)
    journal.look()
    world.put("a.zip", sound[: len(sound) // 2])
    assert journal.look() == ({"a.zip"}, set())
    assert journal.look() == (set(), set())
    with pytest.raises(BadDocument, match="damaged"):
        journal.read("a.zip")
    for key in ("a.zip/!/b.md", "a.zip/!/inner.zip/!/c.md"):
        with pytest.raises(Transient, match="its records stay"):
            journal.read(key)
    world.put("a.zip", zipped({"b.md": "B"}))
    changed, vanished = journal.look()
    assert (changed, vanished) == ({"a.zip"}, {"a.zip/!/inner.zip", "a.zip/!/inner.zip/!/c.md"})


def test_an_archive_that_can_not_be_read_just_now_is_unknown() -> None:
    world = World()
    world.put("a.zip", zipped({"b.md": "B"}))
    world.put("b.md", b"B")
    journal = Journal(world)
    journal.look()
    world.put("a.zip", zipped({"c.md": "C"}))
    world.put("b.md", b"C")
    world.trouble["a.zip"] = Transient("written to only just now")
    world.partial = PartialScan("could not look at x", ["x"])
    assert journal.look() == ({"b.md"}, set())
    assert journal.trouble is not None
    assert "could not look at x; a.zip can't be opened now (written to only just now)" in journal.trouble
    world.trouble.clear()
    assert journal.look() == ({"a.zip", "a.zip/!/c.md"}, {"a.zip/!/b.md"})


def test_containers_in_containers() -> None:
    world = World()
    mail = mailed({"inner.zip": zipped({"b.md": "B"})})
    world.put("a.tar", tarred({"m.eml": mail, "x.md": "X"}))
    journal = Journal(world)
    deep = "a.tar/!/m.eml/!/inner.zip/!/b.md"
    assert deep in journal.look()[0]
    assert journal.read(deep) == b"B"
    assert journal.read("a.tar/!/m.eml") == mail
    journal.restart()
    assert journal.look() == (set(), set())
    world.put("a.tar", tarred({"m.eml": mail, "x.md": "Y"}))
    assert journal.look() == ({"a.tar", "a.tar/!/x.md"}, set())
    assert journal.read(deep) == b"B"


def test_nesting_ends() -> None:
    data = zipped({"b.md": "B"})
    for _ in range(10):
        data = zipped({"n.zip": data})
    world = World()
    world.put("n.zip", data)
    journal = Journal(world)
    journal.look()
    assert max(key.count("/!/") for key in journal.items) == 3


def test_archives_are_opened_only_where_that_is_wished() -> None:
    world = World()
    world.put("a.zip", zipped({"b.md": "B"}))
    world.put("m.eml", mailed({"c.md": "C"}))
    journal = Journal(world, archives=False)
    assert journal.look()[0] == {"a.zip", "m.eml", "m.eml/!/c.md"}
    assert journal.read("a.zip") == world.files["a.zip"]
    journal.archives = True
    journal.restart()
    assert journal.look() == ({"a.zip", "a.zip/!/b.md"}, set())
    journal.archives = False
    journal.restart()
    assert journal.look() == ({"a.zip"}, {"a.zip/!/b.md"})


def test_a_mailbox_is_its_messages() -> None:
    def message(number: int, text: str) -> bytes:
        head = (
            f"From ada@example.org Tue Jan  2 03:04:05 2024\nMessage-ID: <{number}@x>\nSubject: {number}\n\n"
        )
        return f"{head}{text}\n\n".encode()

    world = World()
    world.put("in.mbox", message(1, "one\n>From here") + message(2, "two") + message(3, "three"))
    journal = Journal(world, archives=False)
    assert journal.look()[0] == {"in.mbox", *(f"in.mbox/!/{n}@x.eml" for n in (1, 2, 3))}
    assert journal.read("in.mbox/!/1@x.eml").endswith(b"one\nFrom here\n")
    world.put("in.mbox", message(1, "one\n>From here") + message(3, "three") + message(4, "four"))
    assert journal.look() == ({"in.mbox", "in.mbox/!/4@x.eml"}, {"in.mbox/!/2@x.eml"})


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a.zip", b"PK\x03\x04" + b"rubbish" * 10, "damaged"),
        ("a.tgz", gzip.compress(b"no tar at all" * 100, mtime=0), "damaged"),
        ("a.tgz", tarred({"b.md": "B" * 9999}, "w:gz")[:-40], "damaged"),
        ("a.tar", tarred({"b.md": "B" * 9999})[:5000], "damaged"),
        ("a.zip", zipped({f"{n}.md": "" for n in range(50_001)}), "more than 50,000 files"),
        ("a.zip", zipped({f"{n}.txt": bytes(20_000_000) for n in range(6)}), "too much"),
        (
            "a.tgz",
            gzip.compress(tarred({f"{n}.txt": bytes(10_000_000) for n in range(11)}), mtime=0),
            "too much",
        ),
        ("a.tar", tarfile.TarInfo("x").tobuf()[:156] + b"L" + tarfile.TarInfo("x").tobuf()[157:], "damaged"),
    ],
    ids=range(8),
)
def test_bombs_and_wrecks_are_one_document_with_a_reason(name: str, data: bytes, reason: str) -> None:
    world = World()
    world.put(name, data)
    journal = Journal(world)
    assert journal.look()[0] == {name}
    with pytest.raises(BadDocument, match=reason):
        journal.read(name)


def encrypted(data: bytes) -> bytes:
    """With the flags of encryption set, in both headers of every member."""
    marked = bytearray(data)
    for magic, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = marked.find(magic)
        while at >= 0:
            marked[at + flags] |= 1
            at = marked.find(magic, at + 1)
    return bytes(marked)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (encrypted(zipped({"b.md": "B"})), "encrypted"),
        (zipped({"b.md": "word " * 99}).replace(b"\x00\x00b.md", b"\x00\x00b.md\xff\xff", 1), "damaged"),
        (zipped({"b.md": bytes(51_000_000)}), "members of archives may have 50,000,000"),
    ],
    ids=range(3),
)
def test_a_member_that_can_not_be_read_says_why(data: bytes, reason: str) -> None:
    world = World()
    world.put("a.zip", data)
    journal = Journal(world)
    assert "a.zip/!/b.md" in journal.look()[0]
    with pytest.raises(BadDocument, match=reason):
        journal.read("a.zip/!/b.md")


@pytest.mark.parametrize(
    ("name", "harmless"),
    [
        ("../../etc/passwd", "etc/passwd"),
        ("/etc/passwd", "etc/passwd"),
        ("a\\..\\b.md", "a/b.md"),
        ("./a//b.md", "a/b.md"),
        ("..", "_"),
        ("a\nb\x7f.md", "a_b_.md"),
        ("!/!", "!_/!_"),
    ],
)
def test_names_are_harmless(name: str, harmless: str) -> None:
    opened = unpack(Blob(tarred({name: "x"}), "a.tar"))
    assert opened is not None
    assert list(opened.members) == [harmless]


def test_names_are_told_apart() -> None:
    opened = unpack(Blob(tarred({"b.md": "1", "./b.md": "2", "/b.md": "3", "b~2.md": "4"}), "a.tar"))
    assert opened is not None
    assert list(opened.members) == ["b.md", "b~2.md", "b~3.md", "b~2~2.md"]


def test_what_is_hidden_or_no_file_is_left_out() -> None:
    buffer = io.BytesIO(tarred({".hidden": "x", "__MACOSX/a": "x", "d/.git/x": "x", "b.md": "B"}))
    with tarfile.open(fileobj=buffer, mode="a") as archive:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE):
            info = tarfile.TarInfo(f"odd{kind!r}")
            info.type, info.linkname = kind, "b.md"
            archive.addfile(info)
    opened = unpack(Blob(buffer.getvalue(), "a.tar"))
    assert opened is not None
    assert list(opened.members) == ["b.md"]


def test_what_only_looks_like_a_container_is_a_document() -> None:
    world = World()
    world.put("a.zip", b"just words")
    journal = Journal(world)
    assert journal.look()[0] == {"a.zip"}
    assert journal.read("a.zip") == b"just words"


@given(
    st.binary(max_size=300),
    st.sampled_from([b"", b"PK\x03\x04", b"PK\x05\x06", b"\x1f\x8b", b"BZh91AY&SY", b"\xfd7zXZ\0"]),
)
def test_any_bytes_are_a_document_or_have_a_reason(data: bytes, magic: bytes) -> None:
    for name in ("a.zip", "a.tar.gz", "a.eml", "a.mbox"):
        with suppress(BadDocument):
            unpack(Blob(magic + data, name))


@given(st.data())
def test_a_zip_with_a_broken_byte_loses_no_other_member(data: st.DataObject) -> None:
    sound = zipped({f"{n}.md": f"text {n} " * 5 for n in range(3)})
    at = data.draw(st.integers(0, len(sound) - 1))
    broken = sound[:at] + bytes([sound[at] ^ data.draw(st.integers(1, 255))]) + sound[at + 1 :]
    try:
        opened = unpack(Blob(broken, "a.zip"))
    except BadDocument:
        return
    if opened is not None:
        for member in opened.members.values():
            if member.problem is None:
                opened.read(member)


def bomb(parts: int = 3) -> bytes:
    """Each part by itself is within all limits, and so is what they are packed in."""
    part = bz2.compress(tarred({"zeros.txt": bytes(400_000)}))
    return zipped({f"{n}.tar.bz2": part for n in range(parts)})


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingestor.archives.members._FREE", 10**6)


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("name", ["a.zip", "m.eml"])
def test_one_budget_holds_for_all_that_is_packed_in_a_container(name: str) -> None:
    world = World()
    world.put(name, bomb() if name == "a.zip" else mailed({"a.zip": bomb()}))
    world.put("b.md", b"B")
    journal = Journal(world)
    assert journal.look()[0] == {name, "b.md"}
    for _ in range(2):
        with pytest.raises(BadDocument, match="which is too much"):
            journal.read(name)
        journal.restart()


def test_the_members_of_a_whole_tree_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingestor.archives.members.MOST_MEMBERS", 100)
    inner = zipped({f"{n}.md": "" for n in range(60)})
    world = World()
    world.put("fine.zip", zipped({"a.zip": inner}))
    world.put("many.zip", zipped({"a.zip": inner, "b.zip": inner}))
    journal = Journal(world)
    assert len(journal.look()[0]) == 63
    assert journal.read("fine.zip") == b""
    with pytest.raises(BadDocument, match="more than 100 files"):
        journal.read("many.zip")


@pytest.mark.usefixtures("strict")
def test_a_container_that_became_too_much_keeps_what_it_had() -> None:
    world = World()
    world.put("m.eml", mailed({"b.md": "B"}))
    journal = Journal(world)
    journal.look()
    world.put("m.eml", mailed({"a.zip": bomb()}))
    assert journal.look() == ({"m.eml"}, set())
    assert journal.look() == (set(), set())
    with pytest.raises(Transient, match="it would unpack to"):
        journal.read("m.eml/!/b.md")


def test_a_container_that_takes_too_long_costs_itself_alone() -> None:
    world = World()
    world.put("a.eml", SLOW_MAIL)
    world.put("sound.eml", mailed({"c.md": "C"}))
    world.put("b.md", b"B")
    isolation = Isolation(Limits(seconds=2, processes=1))
    journal = Journal(world, unpack=isolation.unpack, clock=lambda: 0.0)
    assert journal.look()[0] == {"a.eml", "sound.eml", "sound.eml/!/c.md", "b.md"}
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
    assert journal.look()[0] == {"bad0.zip", "z.md"}
    assert journal.trouble is not None
    assert "bad1.zip can't be opened now (others took too long to open" in journal.trouble
    assert [journal.look()[0] for _ in range(3)] == [{"bad1.zip"}, {"bad2.zip"}, {"bad3.zip"}]
    assert journal.look() == ({"sound.zip", "sound.zip/!/b.md"}, set())
    assert journal.trouble is None


def test_a_container_that_changes_all_the_time_does_not_keep_others_closed() -> None:
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
        found |= journal.look()[0]
    assert {"sound0.zip/!/b.md", "sound1.zip/!/b.md"} <= found


def test_a_defect_in_reading_a_container_is_its_own() -> None:
    def broken(blob: Blob, archives: bool) -> Unpacked | None:
        raise Defect("ValueError: a defect")

    world = World()
    world.put("a.zip", zipped({"b.md": "B"}))
    world.put("b.md", b"B")
    journal = Journal(world, unpack=broken)
    assert journal.look()[0] == {"b.md"}
    assert journal.trouble == "a.zip can't be opened now (ValueError: a defect): its known members stay"


@dataclass
class Failing:
    """Opens containers, but for those whose content ``errors`` names."""

    limits: str = "1"
    errors: dict[bytes, Exception] = field(default_factory=dict)

    def __call__(self, blob: Blob, archives: bool) -> Unpacked | None:
        if blob.data in self.errors:
            raise self.errors[blob.data]
        return unpack(blob, archives)


def test_a_container_whose_process_was_killed_once_is_opened_in_the_next_listing() -> None:
    world, opener = World(), Failing()
    world.put("a.zip", zipped({"b.md": "B"}))
    journal = Journal(world, unpack=opener)
    journal.look()
    world.put("a.zip", zipped({"b.md": "B", "c.md": "C"}))
    opener.errors = {world.files["a.zip"]: Defect("the parser was killed")}
    assert journal.look() == (set(), set())
    opener.errors.clear()
    assert journal.look() == ({"a.zip", "a.zip/!/c.md"}, set())
    assert journal.trouble is None


def test_a_refused_container_is_opened_under_other_limits_only() -> None:
    world, opener = World(), Failing()
    world.put("a.zip", zipped({"b.md": "B"}))
    opener.errors = {world.files["a.zip"]: BadDocument("took more than 1 s; raise parsing.seconds")}
    journal = Journal(world, unpack=opener)
    for _ in range(2):
        journal.look()
        with pytest.raises(BadDocument, match=r"raise parsing\.seconds"):
            journal.read("a.zip")
        journal.restart()
        assert journal.look() == (set(), set())
        assert world.fetched == []
    opener.errors.clear()
    opener.limits = "2"
    journal.restart()
    assert journal.look() == ({"a.zip", "a.zip/!/b.md"}, set())


@pytest.mark.parametrize(
    ("name", "data"), [("a.zip", zipped({"b.md": "B"})), ("a.eml", mailed({"b.md": "B"}))]
)
def test_a_refused_container_that_opens_when_it_is_read_is_listed_again(name: str, data: bytes) -> None:
    world, opener = World(), Failing()
    world.put(name, data)
    opener.errors = {data: BadDocument("damaged")}
    journal = Journal(world, unpack=opener)
    assert journal.look()[0] == {name}
    opener.errors.clear()
    journal.restart()
    journal.look()
    with pytest.raises(Stale, match="could not be opened when it was listed"):
        journal.read(name)
    assert len(journal.look(name)[0]) == 2
    journal.read(name)


def test_no_container_waits_for_ever_behind_those_with_a_defect() -> None:
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
    assert "d.zip" in set().union(*(journal.look()[0] for _ in range(12)))


def test_many_broken_containers_in_one_cost_no_more_than_so_many_sound_ones() -> None:
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
    assert len(list(containers.expand(world.scan(), known))) == 40_001
    assert time.process_time() - begun < 5


def test_what_names_no_member_is_not_believed_to_be_broken() -> None:
    unpacked = Unpacked()
    unpacked.add([Member("a", "v", 0), Member("b", "v", 0)], b"")
    for name in ("a", "c", ""):
        with pytest.raises(BadDocument, match="makes no sense"):
            unpacked.drop(name, "damaged")
    with pytest.raises(BadDocument, match="makes no sense"):
        Unpacked().drop("a", "damaged")


def test_an_attachment_that_is_too_large_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingestor.archives.members.LARGEST", 1000)
    opened = unpack(Blob(mailed({"large.md": "L" * 1001, "b.md": "B"}), "m.eml"))
    assert opened is not None
    assert opened.read(opened.members["b.md"]) == b"B"
    with pytest.raises(BadDocument, match="members of archives may have 1,000"):
        opened.read(opened.members["large.md"])


@pytest.mark.parametrize(
    ("members", "content"),
    [
        ([Member("a", "v", 2)], b"a"),
        ([Member("a", "v", -1), Member("b", "v", 2)], b"a"),
        ([Member("../a", "v", 1)], b"a"),
        ([Member("/a", "v", 1)], b"a"),
        ([Member("a/!/../b", "v", 1)], b"a"),
        ([Member("a", "v", 1), Member("a", "v", 1)], b"ab"),
        ([Member("a", "v", 10**10, problem=None)], b""),
    ],
    ids=range(7),
)
def test_what_a_process_says_of_members_is_not_believed(members: list[Member], content: bytes) -> None:
    with pytest.raises(BadDocument, match=r"makes? no sense"):
        Unpacked().add(members, content)


def test_a_process_finds_what_is_found_here() -> None:
    parts = {
        "m.eml": mailed({"in.zip": zipped({"b.md": "B", "c.md": "C" * 10**6})}),
        "bad.zip": zipped({})[:9] * 9,
        "in.7z": seven_zips.ARCHIVES["lzma2"],
        "in.md.zst": zstd.compress(b"D"),
    }
    blob = Blob(tarred({**parts, **{f"{n}.md": str(n) for n in range(2500)}}), "a.tar")
    isolation = Isolation(Limits(processes=1))
    found, same = isolation.unpack(blob, True), unpack(blob)
    assert found is not None and same is not None
    assert found.members == same.members
    assert {name: found.read(found.members[name]) for name in found.members} == {
        name: same.read(same.members[name]) for name in same.members
    }
    assert found.broken == same.broken
    isolation.close()


def test_a_mailbox_of_one_endless_line_is_read_in_linear_time() -> None:
    begun = time.process_time()
    assert list(
        members_of(Blob(b"From a@b Tue Jan  2 03:04:05 2024\n\nFrom " + b"00:00" * 400_000, "a.mbox"), False)
    )
    assert time.process_time() - begun < 5
