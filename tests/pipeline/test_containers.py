"""Members of archives and mails are listed, found again, never lost to a broken archive, and read once."""

import bz2
import gzip
import lzma
from dataclasses import dataclass, field

import pytest

from ingestor.model import Item
from ingestor.pipeline import containers as module
from ingestor.ports import BadDocument, PartialScan, Stale, Transient
from tests.pipeline.packed import Journal, World, journal_of, listed, mailed, tarred, zipped


def test_members_are_documents_with_a_place() -> None:
    journal = journal_of({"docs/a.zip": {"docs/b.md": "# B", "c.txt": "C", "d/": ""}})
    assert journal.list_again()[0] == {"docs/a.zip", "docs/a.zip/!/docs/b.md", "docs/a.zip/!/c.txt"}
    item = journal.items["docs/a.zip/!/docs/b.md"]
    assert (item.uri, item.size) == ("/root/docs/a.zip!/docs/b.md", 3)
    blob = journal.containers.fetch(item)
    assert (blob.data, blob.name) == (b"# B", "b.md")
    assert journal.read("docs/a.zip") == b""  # the archive itself is an empty document


def test_unchanged_archive_is_not_opened_again() -> None:
    journal = listed({"a.zip": {"b.md": "B"}})
    journal.restart()
    assert journal.list_again() == (set(), set())
    assert journal.world.fetched == []
    assert journal.read("a.zip/!/b.md") == b"B"


def test_changed_archive_makes_only_changed_members_due() -> None:
    journal = listed({"a.zip": {"same.md": "S", "edited.md": "E", "deleted.md": "D", "old.md": "R"}})
    journal.put("a.zip", {"same.md": "S", "edited.md": "F", "new.md": "R"})
    changed, vanished = journal.list_again()
    assert changed == {"a.zip", "a.zip/!/edited.md", "a.zip/!/new.md"}
    assert vanished == {"a.zip/!/deleted.md", "a.zip/!/old.md"}
    assert journal.read("a.zip/!/edited.md") == b"F"


def test_member_with_another_time_has_another_version() -> None:
    journal = listed({"a.zip": {"b.md": "B"}})
    journal.put("a.zip", zipped({"b.md": "B"}, (2025, 1, 1, 0, 0, 0)))
    assert journal.list_again()[0] == {"a.zip", "a.zip/!/b.md"}


@pytest.mark.parametrize("dirty", ["a.zip", "a.zip/!/b.md", ""])
def test_hints_lead_to_the_whole_archive(dirty: str) -> None:
    journal = listed({"a.zip": {"b.md": "B", "c.md": "C"}, "other.md": b"O"})
    journal.put("a.zip", {"c.md": "D"})
    assert journal.list_again(dirty) == ({"a.zip", "a.zip/!/c.md"}, {"a.zip/!/b.md"})
    del journal.world.files["a.zip"]
    assert journal.list_again(dirty) == (set(), {"a.zip", "a.zip/!/c.md"})


def test_folder_named_like_the_container_mark_is_a_folder() -> None:
    journal = journal_of({"x/!/b.md": b"B", "x/!/a.zip": {"!/c.md": "C"}})
    assert journal.list_again()[0] == {"x/!/b.md", "x/!/a.zip", "x/!/a.zip/!/!_/c.md"}
    assert journal.read("x/!/b.md") == b"B"
    assert journal.read("x/!/a.zip/!/!_/c.md") == b"C"
    journal.put("x/!/b.md", b"D")
    assert journal.list_again("x/!/b.md")[0] == {"x/!/b.md"}


def test_folder_in_place_of_an_archive_of_its_name_is_read_as_a_folder() -> None:
    journal = listed({"a.zip": {"b.md": "packed"}})
    del journal.world.files["a.zip"]
    journal.put("a.zip/!/b.md", b"plain")
    assert journal.list_again("a.zip") == ({"a.zip/!/b.md"}, {"a.zip"})
    assert journal.read("a.zip/!/b.md") == b"plain"
    del journal.world.files["a.zip/!/b.md"]
    journal.put("a.zip", {"b.md": "packed again"})
    journal.list_again("a.zip")
    assert journal.read("a.zip/!/b.md") == b"packed again"


def test_broken_archive_keeps_its_members_and_reports_the_reason() -> None:
    sound = zipped({"b.md": "B", "inner.zip": zipped({"c.md": "C"})})
    journal = listed({"a.zip": sound})
    journal.put("a.zip", sound[: len(sound) // 2])
    assert journal.list_again() == ({"a.zip"}, set())
    assert journal.list_again() == (set(), set())
    with pytest.raises(BadDocument, match="damaged"):
        journal.read("a.zip")
    for key in ("a.zip/!/b.md", "a.zip/!/inner.zip/!/c.md"):
        with pytest.raises(Transient, match="its records stay"):
            journal.read(key)
    journal.put("a.zip", {"b.md": "B"})
    changed, vanished = journal.list_again()
    assert (changed, vanished) == ({"a.zip"}, {"a.zip/!/inner.zip", "a.zip/!/inner.zip/!/c.md"})


def test_archive_unreadable_for_now_is_unknown() -> None:
    journal = listed({"a.zip": {"b.md": "B"}, "b.md": b"B"})
    journal.put("a.zip", {"c.md": "C"})
    journal.put("b.md", b"C")
    journal.world.trouble["a.zip"] = Transient("written to only just now")
    journal.world.partial = PartialScan("could not look at x", ["x"])
    assert journal.list_again() == ({"b.md"}, set())
    assert journal.trouble is not None
    assert "could not look at x; a.zip cannot be opened now (written to only just now)" in journal.trouble
    journal.world.trouble.clear()
    assert journal.list_again() == ({"a.zip", "a.zip/!/c.md"}, {"a.zip/!/b.md"})


def test_containers_in_containers_are_opened() -> None:
    mail = mailed({"inner.zip": zipped({"b.md": "B"})})
    journal = journal_of({"a.tar": {"m.eml": mail, "x.md": "X"}})
    deep = "a.tar/!/m.eml/!/inner.zip/!/b.md"
    assert deep in journal.list_again()[0]
    assert journal.read(deep) == b"B"
    assert journal.read("a.tar/!/m.eml") == mail
    journal.restart()
    assert journal.list_again() == (set(), set())
    journal.put("a.tar", {"m.eml": mail, "x.md": "Y"})
    assert journal.list_again() == ({"a.tar", "a.tar/!/x.md"}, set())
    assert journal.read(deep) == b"B"


def test_archives_are_opened_only_if_configured() -> None:
    journal = journal_of({"a.zip": {"b.md": "B"}, "m.eml": {"c.md": "C"}}, archives=False)
    assert journal.list_again()[0] == {"a.zip", "m.eml", "m.eml/!/c.md"}
    assert journal.read("a.zip") == journal.world.files["a.zip"]
    journal.archives = True
    journal.restart()
    assert journal.list_again() == ({"a.zip", "a.zip/!/b.md"}, set())
    journal.archives = False
    journal.restart()
    assert journal.list_again() == ({"a.zip"}, {"a.zip/!/b.md"})


def test_single_compressed_file_is_read_without_the_archives_option() -> None:
    kinds = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}
    packed = {f"notes.txt.{end}": compress(end.encode()) for end, compress in kinds.items()}
    journal = journal_of({**packed, "all.tar.gz": tarred({"x.md": "X"}, "w:gz")}, archives=False)
    assert journal.list_again()[0] == {"all.tar.gz", *packed, *(f"{name}/!/notes.txt" for name in packed)}
    assert [journal.read(f"{name}/!/notes.txt").decode() for name in packed] == [*kinds]


def test_mailbox_lists_its_messages() -> None:
    def message(number: int, text: str) -> bytes:
        head = f"From ada@example.org Tue Jan  2 03:04:05 2024\nMessage-ID: <{number}@x>\nSubject: {number}"
        return f"{head}\n\n{text}\n\n".encode()

    patch = "From 0f3b Mon Sep 17 00:00:00 2001\nFrom: Ada\nSubject: [PATCH]"  # not escaped, as times below
    letters = message(1, "one\n>From here") + message(2, "two\n\nFrom 9:00 to 17:00\n" + patch)
    letters += message(3, "three")
    journal = journal_of({"in.mbox": letters}, archives=False)
    assert journal.list_again()[0] == {"in.mbox", *(f"in.mbox/!/{n}@x.eml" for n in (1, 2, 3))}
    assert journal.read("in.mbox/!/1@x.eml").endswith(b"one\nFrom here\n")
    journal.put("in.mbox", message(1, "one\n>From here") + message(3, "three") + message(4, "four"))
    assert journal.list_again() == ({"in.mbox", "in.mbox/!/4@x.eml"}, {"in.mbox/!/2@x.eml"})


PLAIN = b"Subject: x\r\n\r\nWords.\r\n"


@dataclass
class StructuredWorld(World):
    """``simple``: keys of items in which nothing is said to be."""

    near = False
    simple: set[str] = field(default_factory=set)

    def is_simple(self, item: Item) -> bool:
        return item.key in self.simple


def test_mail_without_attachments_is_downloaded_once_for_its_preparation() -> None:
    world = StructuredWorld(simple={"a.eml"})
    world.put("a.eml", PLAIN)
    journal = Journal(world)
    assert journal.list_again() == ({"a.eml"}, set())
    assert world.fetched == []
    assert journal.read("a.eml") == PLAIN
    assert world.fetched == ["a.eml"]
    assert journal.list_again() == (set(), set())
    journal.restart()
    assert journal.list_again() == (set(), set())
    assert world.fetched == []
    world.simple.clear()
    journal.restart()
    assert journal.list_again() == (set(), set()), "an opened mail has the version of an unopened one"


def test_mails_with_attachments_are_read_once_for_listing_and_preparing() -> None:
    world = StructuredWorld()
    names = [f"{number}.eml" for number in range(9)]
    for name in names:
        world.put(name, mailed({"a.md": f"A of {name}", "b.md": "B"}))
    journal = Journal(world)
    journal.list_again()
    for name in names:
        assert b"Body" in journal.read(name)
        assert journal.read(f"{name}/!/a.md") == f"A of {name}".encode()
        assert journal.read(f"{name}/!/b.md") == b"B"
    assert world.fetched == names


def test_attachments_denied_by_the_source_are_listed_again() -> None:
    world = StructuredWorld(simple={"a.eml"})
    world.put("a.eml", mailed({"b.md": "B"}))
    journal = Journal(world)
    assert journal.list_again() == ({"a.eml"}, set())
    with pytest.raises(Stale, match="has attachments"):
        journal.read("a.eml")
    assert journal.list_again() == ({"a.eml/!/b.md"}, set())
    assert (journal.read("a.eml/!/b.md"), b"Body" in journal.read("a.eml")) == (b"B", True)
    assert journal.list_again() == (set(), set())
    assert world.fetched == []

    journal.restart()
    assert journal.list_again() == (set(), set())
    with pytest.raises(Stale):
        journal.read("a.eml")
    assert journal.list_again() == (set(), set())
    assert b"Body" in journal.read("a.eml")


@pytest.mark.parametrize("kept", [1, 2])
def test_oldest_mails_are_downloaded_again(kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last one is kept whatever its size."""
    monkeypatch.setattr(module, "_MAIL_BYTES", 10 if kept == 1 else 2 * len(PLAIN))
    world = StructuredWorld()
    names = [f"{number}.eml" for number in range(4)]
    for name in names:
        world.put(name, PLAIN)
    journal = Journal(world)
    journal.list_again()
    for name in reversed(names):
        assert journal.read(name) == PLAIN
    assert world.fetched == [*names, *reversed(names[:-kept])]
