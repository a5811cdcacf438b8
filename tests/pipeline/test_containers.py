"""What is in archives and mails is listed, found again, and never lost to a broken archive."""

import bz2
import gzip
import lzma

import pytest

from ingestor.ports import BadDocument, PartialScan, Transient
from tests.pipeline.packed import Journal, World, mailed, tarred, zipped


def test_members_are_documents_with_a_place() -> None:
    world = World()
    world.put("docs/a.zip", zipped({"docs/b.md": "# B", "c.txt": "C", "d/": ""}))
    journal = Journal(world)
    assert journal.list_again()[0] == {"docs/a.zip", "docs/a.zip/!/docs/b.md", "docs/a.zip/!/c.txt"}
    item = journal.items["docs/a.zip/!/docs/b.md"]
    assert (item.uri, item.size) == ("/root/docs/a.zip!/docs/b.md", 3)
    blob = journal.containers.fetch(item)
    assert (blob.data, blob.name) == (b"# B", "b.md")
    assert journal.read("docs/a.zip") == b""  # the archive itself is an empty document


def test_unchanged_archive_is_not_opened_again() -> None:
    world = World()
    world.put("a.zip", zipped({"b.md": "B"}))
    journal = Journal(world)
    journal.list_again()
    journal.restart()
    assert journal.list_again() == (set(), set())
    assert world.fetched == []
    assert journal.read("a.zip/!/b.md") == b"B"


def test_changed_archive_makes_only_changed_members_due() -> None:
    world = World()
    world.put("a.zip", zipped({"same.md": "S", "edited.md": "E", "deleted.md": "D", "old.md": "R"}))
    journal = Journal(world)
    journal.list_again()
    world.put("a.zip", zipped({"same.md": "S", "edited.md": "F", "new.md": "R"}))
    changed, vanished = journal.list_again()
    assert changed == {"a.zip", "a.zip/!/edited.md", "a.zip/!/new.md"}
    assert vanished == {"a.zip/!/deleted.md", "a.zip/!/old.md"}
    assert journal.read("a.zip/!/edited.md") == b"F"


def test_member_with_another_time_has_another_version() -> None:
    world = World()
    world.put("a.zip", zipped({"b.md": "B"}))
    journal = Journal(world)
    journal.list_again()
    world.put("a.zip", zipped({"b.md": "B"}, (2025, 1, 1, 0, 0, 0)))
    assert journal.list_again()[0] == {"a.zip", "a.zip/!/b.md"}


@pytest.mark.parametrize("dirty", ["a.zip", "a.zip/!/b.md", ""])
def test_hints_lead_to_the_whole_archive(dirty: str) -> None:
    world = World()
    world.put("a.zip", zipped({"b.md": "B", "c.md": "C"}))
    world.put("other.md", b"O")
    journal = Journal(world)
    journal.list_again()
    world.put("a.zip", zipped({"c.md": "D"}))
    assert journal.list_again(dirty) == ({"a.zip", "a.zip/!/c.md"}, {"a.zip/!/b.md"})
    del world.files["a.zip"]
    assert journal.list_again(dirty) == (set(), {"a.zip", "a.zip/!/c.md"})


def test_folder_named_like_the_container_mark_is_a_folder() -> None:
    world = World()
    world.put("x/!/b.md", b"B")
    world.put("x/!/a.zip", zipped({"!/c.md": "C"}))
    journal = Journal(world)
    assert journal.list_again()[0] == {"x/!/b.md", "x/!/a.zip", "x/!/a.zip/!/!_/c.md"}
    assert journal.read("x/!/b.md") == b"B"
    assert journal.read("x/!/a.zip/!/!_/c.md") == b"C"
    world.put("x/!/b.md", b"D")
    assert journal.list_again("x/!/b.md")[0] == {"x/!/b.md"}


def test_folder_in_place_of_an_archive_of_its_name_is_read_as_a_folder() -> None:
    world = World()
    world.put("a.zip", zipped({"b.md": "packed"}))
    journal = Journal(world)
    journal.list_again()
    del world.files["a.zip"]
    world.put("a.zip/!/b.md", b"plain")
    assert journal.list_again("a.zip") == ({"a.zip/!/b.md"}, {"a.zip"})
    assert journal.read("a.zip/!/b.md") == b"plain"
    del world.files["a.zip/!/b.md"]
    world.put("a.zip", zipped({"b.md": "packed again"}))
    journal.list_again("a.zip")
    assert journal.read("a.zip/!/b.md") == b"packed again"


def test_broken_archive_keeps_its_members_and_reports_the_reason() -> None:
    world = World()
    sound = zipped({"b.md": "B", "inner.zip": zipped({"c.md": "C"})})
    world.put("a.zip", sound)
    journal = Journal(world)
    journal.list_again()
    world.put("a.zip", sound[: len(sound) // 2])
    assert journal.list_again() == ({"a.zip"}, set())
    assert journal.list_again() == (set(), set())
    with pytest.raises(BadDocument, match="damaged"):
        journal.read("a.zip")
    for key in ("a.zip/!/b.md", "a.zip/!/inner.zip/!/c.md"):
        with pytest.raises(Transient, match="its records stay"):
            journal.read(key)
    world.put("a.zip", zipped({"b.md": "B"}))
    changed, vanished = journal.list_again()
    assert (changed, vanished) == ({"a.zip"}, {"a.zip/!/inner.zip", "a.zip/!/inner.zip/!/c.md"})


def test_archive_unreadable_for_now_is_unknown() -> None:
    world = World()
    world.put("a.zip", zipped({"b.md": "B"}))
    world.put("b.md", b"B")
    journal = Journal(world)
    journal.list_again()
    world.put("a.zip", zipped({"c.md": "C"}))
    world.put("b.md", b"C")
    world.trouble["a.zip"] = Transient("written to only just now")
    world.partial = PartialScan("could not look at x", ["x"])
    assert journal.list_again() == ({"b.md"}, set())
    assert journal.trouble is not None
    assert "could not look at x; a.zip cannot be opened now (written to only just now)" in journal.trouble
    world.trouble.clear()
    assert journal.list_again() == ({"a.zip", "a.zip/!/c.md"}, {"a.zip/!/b.md"})


def test_containers_in_containers_are_opened() -> None:
    world = World()
    mail = mailed({"inner.zip": zipped({"b.md": "B"})})
    world.put("a.tar", tarred({"m.eml": mail, "x.md": "X"}))
    journal = Journal(world)
    deep = "a.tar/!/m.eml/!/inner.zip/!/b.md"
    assert deep in journal.list_again()[0]
    assert journal.read(deep) == b"B"
    assert journal.read("a.tar/!/m.eml") == mail
    journal.restart()
    assert journal.list_again() == (set(), set())
    world.put("a.tar", tarred({"m.eml": mail, "x.md": "Y"}))
    assert journal.list_again() == ({"a.tar", "a.tar/!/x.md"}, set())
    assert journal.read(deep) == b"B"


def test_archives_are_opened_only_if_configured() -> None:
    world = World()
    world.put("a.zip", zipped({"b.md": "B"}))
    world.put("m.eml", mailed({"c.md": "C"}))
    journal = Journal(world, archives=False)
    assert journal.list_again()[0] == {"a.zip", "m.eml", "m.eml/!/c.md"}
    assert journal.read("a.zip") == world.files["a.zip"]
    journal.archives = True
    journal.restart()
    assert journal.list_again() == ({"a.zip", "a.zip/!/b.md"}, set())
    journal.archives = False
    journal.restart()
    assert journal.list_again() == ({"a.zip"}, {"a.zip/!/b.md"})


def test_single_compressed_file_is_read_without_the_archives_option() -> None:
    world = World()
    packed = {
        "notes.txt.gz": gzip.compress(b"one"),
        "notes.txt.bz2": bz2.compress(b"two"),
        "notes.txt.xz": lzma.compress(b"three"),
    }
    for name, data in packed.items():
        world.put(name, data)
    world.put("all.tar.gz", gzip.compress(tarred({"x.md": "X"})))
    journal = Journal(world, archives=False)
    assert journal.list_again()[0] == {"all.tar.gz", *packed, *(f"{name}/!/notes.txt" for name in packed)}
    assert [journal.read(f"{name}/!/notes.txt") for name in packed] == [b"one", b"two", b"three"]


def test_mailbox_lists_its_messages() -> None:
    def message(number: int, text: str) -> bytes:
        head = (
            f"From ada@example.org Tue Jan  2 03:04:05 2024\nMessage-ID: <{number}@x>\nSubject: {number}\n\n"
        )
        return f"{head}{text}\n\n".encode()

    world = World()
    world.put("in.mbox", message(1, "one\n>From here") + message(2, "two") + message(3, "three"))
    journal = Journal(world, archives=False)
    assert journal.list_again()[0] == {"in.mbox", *(f"in.mbox/!/{n}@x.eml" for n in (1, 2, 3))}
    assert journal.read("in.mbox/!/1@x.eml").endswith(b"one\nFrom here\n")
    world.put("in.mbox", message(1, "one\n>From here") + message(3, "three") + message(4, "four"))
    assert journal.list_again() == ({"in.mbox", "in.mbox/!/4@x.eml"}, {"in.mbox/!/2@x.eml"})
