"""The source, whose listings break off, miss a part, or look at another disk."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count, filterfalse

from ingestor.model import Blob, Item
from ingestor.ports import PartialScan, Stale, Transient
from tests.simulation.ports.chaos import Chaos

UNREADABLE = "\x00\x01\x02"  # no parser takes it
SMALL, MAX_LOSS = 2, 0.5  # see conftest.py: losses are asked about from two documents on


@dataclass
class Files:
    """The source: contents by key. Its scans can break off, miss a part, or look at another disk."""

    chaos: Chaos
    contents: dict[str, str] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    written: dict[int, str] = field(default_factory=dict)  # contents by version
    serial: Iterator[int] = field(default_factory=lambda: count(1))
    hidden: str | None = None  # a folder that can't be read just now
    locked: set[str] = field(default_factory=set)  # documents that can't be read just now
    disk: str = "own"  # or "empty", or "other": what is mounted where the documents are
    there_at_scan: set[str] = field(default_factory=set)
    wanted: defaultdict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    parser_broken: bool = False  # takes nothing any more, and calls it the document's fault
    ever_broken: bool = False
    withdrawn: int = 0  # documents, since the program was last in step
    accepted: bool = False  # a person said that they may go

    def write(self, key: str, text: str) -> None:
        self.contents[key] = text
        self.versions[key] = next(self.serial)
        self.written[self.versions[key]] = text

    def delete(self, key: str) -> None:
        self.contents.pop(key, None)
        self.versions.pop(key, None)

    def rename(self, old: str, new: str) -> None:
        text = self.contents[old]
        self.delete(old)
        self.write(new, text)

    def heal(self) -> None:
        self.hidden, self.disk, self.parser_broken = None, "own", False
        self.locked.clear()

    def readable(self, key: str) -> bool:
        return "\0" not in self.contents[key]

    def could_be_unreadable(self, version: str) -> bool:
        return self.ever_broken or "\0" in self.written[int(version)]

    def too_many_withdrawn(self, left: int) -> bool:
        known = left + self.withdrawn
        return not self.accepted and self.withdrawn >= SMALL and self.withdrawn > MAX_LOSS * known

    def identity(self) -> str:
        return self.disk

    def scan(self) -> Iterator[Item]:
        self.there_at_scan = set(self.contents)
        if self.disk == "other":
            yield from (Item(f"other/{n}", "1", f"/root/other/{n}", 1) for n in range(len(self.contents)))
        if self.disk != "own":
            return
        self.chaos.fault("scan")
        for number, key in enumerate(sorted(self.contents)):
            if number == 2:
                self.chaos.fault("within scan")
            if not (self.hidden and key.startswith(self.hidden)):
                yield self.item(key)
        if self.hidden:
            raise PartialScan("hidden", [self.hidden])

    def scan_under(self, under: str) -> Iterator[Item]:
        def below(key: str) -> bool:
            return f"{key}/".startswith(f"{under}/")

        self.there_at_scan = {*filter(below, self.contents), *filterfalse(below, self.there_at_scan)}
        if self.disk != "own":
            return
        self.chaos.fault("scan")
        hidden = f"{self.hidden}/" if self.hidden else None
        if hidden and f"{under}/".startswith(hidden):
            raise PartialScan("hidden", [under])
        yield from (self.item(key) for key in sorted(filter(below, self.contents)))

    def item(self, key: str) -> Item:
        return Item(key, str(self.versions[key]), f"/root/{key}", len(self.contents[key]))

    def fetch(self, item: Item) -> Blob:
        self.chaos.point("fetch")
        self.chaos.fault("fetch")
        if item.key in self.locked:
            raise Transient("permission denied")
        if item.key not in self.contents or self.item(item.key) != item:
            raise Stale("changed since it was listed")
        return Blob(self.contents[item.key].encode(), item.key)
