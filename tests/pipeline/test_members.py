"""Which members a container has, and what they are called."""

import bz2
import gzip
import io
import lzma
import sys
import tarfile
import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.archives import unpack as unpacking
from ingestor.archives.members import FoundMember, Member, TooMuch
from ingestor.archives.unpack import Unpacked
from ingestor.archives.unpack import unpack as members_of
from ingestor.model import Blob
from ingestor.ports import BadDocument
from ingestor.sandbox.pool import Isolation
from ingestor.sandbox.process import Limits
from tests.pipeline.packed import encrypted, journal_of, listed, mailed, tarred, unpack, zipped

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


def test_every_kind_of_container_is_opened() -> None:
    for name, data in [
        ("a.zip", zipped({"x/b.md": "B"})), ("a.tar", tarred({"x/b.md": "B"})),
        ("a.TGZ", tarred({"x/b.md": "B"}, "w:gz")),
        ("a.tar.gz", gzip.compress(tarred({"x/b.md": "B"}), mtime=0)),
        ("a.tar.bz2", bz2.compress(tarred({"x/b.md": "B"}))),
        ("a.tar.xz", lzma.compress(tarred({"x/b.md": "B"}))),
        ("a.tar.zst", zstd.compress(tarred({"x/b.md": "B"}))), ("b.md.gz", gzip.compress(b"B", mtime=0)),
        ("b.md.bz2", bz2.compress(b"B")), ("b.md.xz", lzma.compress(b"B")), ("b.md.zst", zstd.compress(b"B")),
        ("a.eml", mailed({"b.md": "B"})),
    ]:  # fmt: skip
        journal = listed({name: data})
        (member,) = [key for key in journal.items if key != name]
        assert member.endswith("b.md")
        assert journal.read(member) == b"B"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (gzip.compress(b"words " * 100, mtime=0)[:-12], "the archive is damaged"),
        (zstd.compress(b"words " * 100)[:-5], "the archive is damaged .truncated"),
        (zstd.compress(b"words")[:-1] + b"\0\0\0" * 9, "the archive is damaged"),
        (zstd.compress(b"") * 1001, "more than 1,000 zstd frames"),
    ],
)
def test_unreadable_packed_file_is_refused(data: bytes, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "_FRAMES", 1000)
    with pytest.raises(BadDocument, match=reason):
        list(members_of(Blob(data, "a.gz"), archives=True))


def test_packed_single_file_has_the_limits_of_archives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "LARGEST", 1000)
    monkeypatch.setattr("ingestor.archives.members.LARGEST", 1000)
    (found,) = members_of(Blob(zstd.compress(b"x" * 1001), "a.txt.zst"), archives=True)
    assert isinstance(found, FoundMember)
    assert (found.data, found.member.problem) == (
        b"",
        "has 1,001 bytes, but a file in an archive may have at most 1,000; unpack it, or exclude it",
    )
    monkeypatch.setattr("ingestor.archives.members.MOST_BYTES", 10**6)
    for bomb in (zstd.compress(bytes(10**7)), gzip.compress(bytes(10**7)), zstd.compress(b"a" * 10**6) * 2):
        with pytest.raises(TooMuch, match="would unpack to"):
            list(members_of(Blob(bomb, "a.txt.zst"), archives=True))


def test_unreadable_member_names_the_reason() -> None:
    for data, reason in [
        (encrypted(zipped({"b.md": "B"})), "encrypted"),
        (zipped({"b.md": "word " * 99}).replace(b"\x00\x00b.md", b"\x00\x00b.md\xff\xff", 1), "damaged"),
        (zipped({"b.md": bytes(51_000_000)}), "a file in an archive may have at most 50,000,000"),
    ]:
        journal = journal_of({"a.zip": data})
        assert "a.zip/!/b.md" in journal.list_again()[0]
        with pytest.raises(BadDocument, match=reason):
            journal.read("a.zip/!/b.md")


def test_names_are_harmless() -> None:
    for name, harmless in [
        ("../../etc/passwd", "etc/passwd"), ("/etc/passwd", "etc/passwd"), ("a\\..\\b.md", "a/b.md"),
        ("./a//b.md", "a/b.md"), ("..", "_"), ("a\nb\x7f.md", "a_b_.md"), ("!/!", "!_/!_"),
    ]:  # fmt: skip
        assert names_in(tarred({name: "x"})) == [harmless]


def names_in(tar: bytes) -> list[str]:
    opened = unpack(Blob(tar, "a.tar"))
    assert opened is not None
    return [*opened.members]


def test_members_with_similar_names_are_distinguished() -> None:
    names = names_in(tarred({"b.md": "1", "./b.md": "2", "/b.md": "3", "b~2.md": "4"}))
    assert names == ["b.md", "b~2.md", "b~3.md", "b~2~2.md"]


def test_hidden_members_and_non_files_are_omitted() -> None:
    buffer = io.BytesIO(tarred({".hidden": "x", "__MACOSX/a": "x", "d/.git/x": "x", "b.md": "B"}))
    with tarfile.open(fileobj=buffer, mode="a") as archive:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE):
            info = tarfile.TarInfo(f"odd{kind!r}")
            info.type, info.linkname = kind, "b.md"
            archive.addfile(info)
    assert names_in(buffer.getvalue()) == ["b.md"]


def test_file_that_only_looks_like_a_container_is_a_document() -> None:
    journal = journal_of({"a.zip": b"just words"})
    assert journal.list_again()[0] == {"a.zip"}
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
def test_zip_with_a_broken_byte_loses_no_other_member(data: st.DataObject) -> None:
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


def test_error_that_names_no_member_marks_none_as_broken() -> None:
    unpacked = Unpacked()
    unpacked.add([Member("a", "v", 0), Member("b", "v", 0)], b"")
    for name in ("a", "c", ""):
        with pytest.raises(BadDocument, match="is invalid"):
            unpacked.drop(name, "damaged")
    with pytest.raises(BadDocument, match="is invalid"):
        Unpacked().drop("a", "damaged")


def test_attachment_over_the_limit_does_not_hide_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingestor.archives.members.LARGEST", 1000)
    opened = unpack(Blob(mailed({"large.md": "L" * 1001, "b.md": "B"}), "m.eml"))
    assert opened is not None
    assert opened.read(opened.members["b.md"]) == b"B"
    with pytest.raises(BadDocument, match="a file in an archive may have at most 1,000"):
        opened.read(opened.members["large.md"])


@pytest.mark.parametrize(
    ("members", "content"),
    [
        ([Member("a", "v", 2)], b"a"), ([Member("a", "v", -1), Member("b", "v", 2)], b"a"),
        ([Member("../a", "v", 1)], b"a"), ([Member("/a", "v", 1)], b"a"),
        ([Member("a/!/../b", "v", 1)], b"a"), ([Member("a", "v", 1), Member("a", "v", 1)], b"ab"),
        ([Member("a", "v", 10**10, problem=None)], b""),
    ],
    ids=range(7),
)  # fmt: skip
def test_members_reported_by_a_process_are_checked(members: list[Member], content: bytes) -> None:
    with pytest.raises(BadDocument, match=r"list of members is invalid|names of files in the archive are"):
        Unpacked().add(members, content)


def test_process_finds_the_same_members_as_the_program() -> None:
    parts = {
        "m.eml": mailed({"in.zip": zipped({"b.md": "B", "c.md": "C" * 10**6})}),
        "bad.zip": zipped({})[:9] * 9,
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


def test_mailbox_of_a_single_long_line_is_read_in_linear_time() -> None:
    begun = time.process_time()
    assert list(
        members_of(Blob(b"From a@b Tue Jan  2 03:04:05 2024\n\nFrom " + b"00:00" * 400_000, "a.mbox"), False)
    )
    assert time.process_time() - begun < 5
