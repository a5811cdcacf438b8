"""One listing for several editions of a source, which may know different documents."""

from collections.abc import Iterable, Iterator
from typing import Any, cast

import pytest

from ingestor.core.decisions import Scope
from ingestor.core.entries import EditionName
from ingestor.core.listings import ListingChanges, Versions
from ingestor.model import INSIDE, Blob, Item, SourceName
from ingestor.pipeline import listing
from ingestor.pipeline.listing import KnownToAll, Source
from ingestor.ports import Transient
from tests.version_table import VersionTable

ZIP, MEMBER = "a.zip", f"a.zip{INSIDE}m.txt"
KNOWN = {"b.txt": "1", ZIP: "1 opened", MEMBER: "m1"}


class Archive:
    """A source of a file and an archive. ``readable``: whether the archive can be opened."""

    def __init__(self, *, readable: bool = True) -> None:
        self.readable = readable
        self.opened = 0

    def scan(self) -> Iterator[Item]:
        yield Item("b.txt", "1", "/b.txt", 1)
        yield Item(ZIP, "1", "/a.zip", 9)

    def fetch(self, item: Item) -> Blob:
        raise NotImplementedError

    def expand(self, items: Iterable[Item], known: Versions) -> Iterator[Item]:
        """As Containers.expand: what is known of an archive is believed unless it changed."""
        for item in items:
            if item.key != ZIP:
                yield item
                continue
            yield Item(ZIP, "1 opened", "/a.zip", 9)
            if known.of([ZIP]).get(ZIP) != "1 opened" and self.readable:
                self.opened += 1
                yield Item(MEMBER, "m1", "/a.zip!/m.txt", 5, 7.0)
            elif MEMBER in known.below(ZIP):
                yield Item(MEMBER, known.below(ZIP)[MEMBER], "/a.zip!/m.txt")

    def listed(self, *known: dict[str, str]) -> tuple[ListingChanges, ...]:
        source = Source(SourceName("s"), EditionName("docs"), self, cast(Any, None), expand=self.expand)
        return listing.take(source, Scope(), [VersionTable(one) for one in known]).changes


def test_archive_that_every_edition_knows_stays_closed() -> None:
    archive = Archive()
    assert [[*found.differences()] for found in archive.listed(KNOWN, KNOWN)] == [[], []]
    assert archive.opened == 0


def test_archive_that_a_new_edition_does_not_know_is_opened() -> None:
    """Its members have all that a source says of a document: what is merely known has no size."""
    live, new = (archive := Archive()).listed(KNOWN, {})
    assert ([*live.differences()], live.vanished, archive.opened) == ([], (), 1)
    assert [(item.key, item.size) for item in new.differences()] == [("b.txt", 1), (ZIP, 9), (MEMBER, 5)]


def test_members_of_an_unopened_archive_stay_only_in_editions_that_know_them() -> None:
    live, new = Archive(readable=False).listed(KNOWN, {})
    assert ([*live.differences()], live.vanished) == ([], ())
    assert [item.key for item in new.differences()] == ["b.txt", ZIP]


def test_container_known_in_two_versions_counts_as_new() -> None:
    known, older, nothing = map(VersionTable, (KNOWN, {**KNOWN, ZIP: "0 opened"}, {}))
    for together in (KnownToAll([known, older]), KnownToAll([older, known])):
        assert together.of([ZIP, MEMBER, "none"]) == {MEMBER: "m1"}
    assert KnownToAll([older, known, nothing]).of(["b.txt", MEMBER]) == {}
    assert KnownToAll([nothing, known, older]).below("") == KNOWN


class Mounted:
    """A folder at which another file system is mounted after the first look."""

    def __init__(self, *roots: str) -> None:
        self.roots = list(roots)

    def identity(self) -> str:
        return self.roots.pop(0)

    def scan(self) -> Iterator[Item]:
        yield Item(f"{self.roots[0]}.txt", "1", "/x.txt", 1)

    def fetch(self, item: Item) -> Blob:
        raise NotImplementedError


def test_root_replaced_during_the_listing_gives_no_listing() -> None:
    source = Source(SourceName("s"), EditionName("docs"), Mounted("own", "other"), cast(Any, None))
    with pytest.raises(Transient, match="another file system was mounted"):
        listing.take(source, Scope(), [VersionTable({"own.txt": "1"})])
    source = Source(SourceName("s"), EditionName("docs"), Mounted("own", "own"), cast(Any, None))
    assert listing.take(source, Scope(), [VersionTable({"own.txt": "1"})]).changes[0].vanished == ()


def test_hints_at_too_many_places_list_the_folders_above(monkeypatch: pytest.MonkeyPatch) -> None:
    class InParts(Archive):
        def scan_under(self, under: str) -> Iterator[Item]:
            raise NotImplementedError

    monkeypatch.setattr(listing, "_PARTS", 2)
    source = Source(SourceName("s"), EditionName("docs"), InParts(), cast(Any, None))
    assert listing.scope_of(source, ["a/1", "a/1/x", f"b{INSIDE}m"]) == Scope(("a/1", "b"))
    assert listing.scope_of(source, ["a/1", "a/2", "b/3"]) == Scope(("a", "b"))
    assert listing.scope_of(source, ["a/1", ""]).whole
