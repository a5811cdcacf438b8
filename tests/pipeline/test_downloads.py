"""A listing reads no mail without attachments, and no mail is read twice."""

from dataclasses import dataclass, field

import pytest

from ingestor.model import Blob, Item
from ingestor.pipeline import containers as downloads_module
from ingestor.pipeline.containers import Containers, Downloads
from ingestor.ports import Stale
from tests.pipeline.packed import Journal, World, mailed, unpack

PLAIN = b"Subject: x\r\n\r\nWords.\r\n"


@dataclass
class StructuredWorld(World):
    """``simple``: keys of items in which nothing is said to be."""

    simple: set[str] = field(default_factory=set)

    def is_simple(self, item: Item) -> bool:
        return item.key in self.simple


class MailJournal(Journal):
    def restart(self) -> None:
        super().restart()
        assert isinstance(self.world, StructuredWorld)
        self.containers = Containers(
            self.world.fetch, True, unpack, is_simple=self.world.is_simple, downloads=Downloads()
        )
        self.source = type(self.source)(
            self.source.name, self.source.collection, self.world, self.source.tools,
            expand=self.containers.expand,
        )  # fmt: skip


def test_mail_without_attachments_is_downloaded_once_for_its_preparation() -> None:
    world = StructuredWorld(simple={"a.eml"})
    world.put("a.eml", PLAIN)
    journal = MailJournal(world)
    assert journal.list_again() == ({"a.eml"}, set())
    assert world.fetched == []
    assert journal.read("a.eml") == PLAIN
    assert world.fetched == ["a.eml"]
    assert journal.list_again() == (set(), set())
    journal.restart()
    assert journal.list_again() == (set(), set())
    assert world.fetched == []


def test_versions_of_unopened_mails_equal_those_of_opened_mails() -> None:
    world = StructuredWorld()
    world.put("a.eml", PLAIN)
    journal = MailJournal(world)
    journal.list_again()
    world.simple.add("a.eml")
    journal.restart()
    assert journal.list_again() == (set(), set())


def test_mails_with_attachments_are_read_once_for_listing_and_preparing() -> None:
    world = StructuredWorld()
    names = [f"{number}.eml" for number in range(9)]
    for name in names:
        world.put(name, mailed({"a.md": f"A of {name}", "b.md": "B"}))
    journal = MailJournal(world)
    journal.list_again()
    for name in names:
        assert b"Body" in journal.read(name)
        assert journal.read(f"{name}/!/a.md") == f"A of {name}".encode()
        assert journal.read(f"{name}/!/b.md") == b"B"
    assert world.fetched == names


def test_attachments_denied_by_the_source_are_listed_again() -> None:
    world = StructuredWorld(simple={"a.eml"})
    world.put("a.eml", mailed({"b.md": "B"}))
    journal = MailJournal(world)
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


@pytest.mark.parametrize(("most", "most_bytes"), [(2, 10**6), (10**6, 10)])
def test_oldest_downloads_are_forgotten(most: int, most_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads_module, "_MOST", most)
    monkeypatch.setattr(downloads_module, "_MOST_BYTES", most_bytes)
    downloads = Downloads()
    items = [Item(f"{number}", "v", "") for number in range(5)]
    blobs = [Blob(b"12345", "n", "message/rfc822")] * 5
    for item, blob in zip(items, blobs, strict=True):
        downloads.keep(item, blob)
    assert [downloads.find(item) for item in items] == [None, None, None, *blobs[3:]]
    assert downloads.find(Item("4", "another", "")) is None


def test_downloads_on_a_full_disk_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(downloads_module, "TemporaryFile", full)
    downloads = Downloads()
    downloads.keep(Item("a", "v", ""), Blob(b"x", "a"))
    assert downloads.find(Item("a", "v", "")) is None
