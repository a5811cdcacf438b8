"""The source, whose listings break off, miss a part, or look at another disk."""

import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from tempfile import TemporaryFile

from ingestor.connectors.folder.connector import Growing
from ingestor.model import Blob, Item
from ingestor.ports import NeedsHuman, PartialScan, Stale, Transient
from tests.simulation.ports.chaos import Chaos

UNREADABLE = "\x00\x01\x02"  # no parser takes it
UNWRITABLE = "more than Chroma takes"  # no index takes it
ELSEWHERE = 0  # the version of documents on another disk, which are read from none
SMALL, MAX_LOSS = 2, 0.5  # see conftest.py: losses are asked about from two documents on


def spoiled(text: str) -> bool:
    """Whether no run of the program can index it."""
    return "\0" in text or UNWRITABLE in text


def below(key: str, under: str) -> bool:
    return under == "" or f"{key}/".startswith(f"{under}/")


class Log:
    """A document that only grows, in a real file, so that the folder connector's rule says what is read."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._rule = Growing(clock)

    def read(self, item: Item, listed: str, now: str) -> Blob:
        """Return its lines as they were listed. Raises Stale if the rule says that it is read later."""
        with TemporaryFile() as file:
            os.write(file.fileno(), now.encode())
            status = os.fstat(file.fileno())
            before = Item(item.key, f"{status.st_dev:x}.{status.st_ino:x}.before", item.uri, len(listed))
            lines = self._rule.lines(file.fileno(), before)
        if lines is None:
            raise Stale("it grew since it was listed")
        return Blob(lines, item.key)


@dataclass
class Files:
    """The source: contents by key. Its scans can break off, miss a part, or look at another disk."""

    chaos: Chaos
    root: str = "/root"
    contents: dict[str, str] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    written: dict[int, str] = field(default_factory=lambda: {ELSEWHERE: "x"})  # contents by version
    serial: Iterator[int] = field(default_factory=lambda: count(1))
    hidden: str | None = None  # a folder that can't be read just now
    locked: set[str] = field(default_factory=set)  # documents that can't be read just now
    revoked: bool = False  # it wants other credentials
    disk: str = "own"  # or "empty", or "other": what is mounted where the documents are
    since: dict[str, int] = field(default_factory=dict)  # by key: the ``moment`` from which on it is there
    moment: int = 0  # grows with everything that people do
    listed_at: int = 0  # moment at which the last of the listings began that were taken over
    touched: Callable[[str], None] = lambda key: None  # a watcher that misses nothing
    wanted: defaultdict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    parser_broken: bool = False  # takes nothing any more, and calls it the document's fault
    ever_broken: bool = False
    stirred: set[str] = field(default_factory=set)  # keys whose content changed since all was at rest
    restless: set[str] = field(default_factory=set)  # documents that grow while they are read
    logs: dict[str, Log] = field(default_factory=dict)  # documents that grow by a line when they are read
    withdrawn: set[int] = field(default_factory=set)  # rows, since the program was last in step
    had: set[int] = field(default_factory=set)  # rows that readers had at one of these losses
    before: set[int] = field(default_factory=set)  # rows that readers had when the first was decided
    accepted: bool = False  # a person said that they may go
    most: int = 0  # documents listed at once since the source was last at rest
    may_lose: bool = False  # a person agreed that many vanished

    def write(self, key: str, text: str) -> None:
        self.touched(key)
        self.moment += 1
        self.since.setdefault(key, self.moment)
        if self.contents.get(key) != text:
            self.stirred.add(key)
        self.contents[key] = text
        self.versions[key] = next(self.serial)
        self.written[self.versions[key]] = text

    def delete(self, key: str) -> None:
        self.touched(key)
        self.stirred.add(key)
        self.contents.pop(key, None)
        self.versions.pop(key, None)
        self.since.pop(key, None)

    def rename(self, old: str, new: str) -> None:
        text = self.contents[old]
        self.delete(old)
        self.write(new, text)

    def see(self, *, hidden: str | None, disk: str) -> None:
        """What can be seen from now on."""
        self.touched("")
        self.stirred |= self.contents.keys()
        self.hidden, self.disk = hidden, disk

    def heal(self) -> None:
        self.see(hidden=None, disk="own")
        self.parser_broken = self.revoked = False
        self.locked.clear()

    def there_all_the_time(self, key: str) -> bool:
        """Whether it was there when the last listing began that was taken over, and ever since."""
        return key in self.since and self.since[key] <= self.listed_at

    def readable(self, key: str) -> bool:
        return not spoiled(self.contents[key])

    def could_be_unreadable(self, version: str) -> bool:
        return self.ever_broken or spoiled(self.written[int(version)])

    def too_many_withdrawn(self, left: set[int]) -> bool:
        """``left``: rows of documents that readers have. One that came back and goes again is one loss.

        One that was removed after the first loss makes the others no larger.
        """
        lost = len(self.withdrawn)
        self.had |= self.before | left | self.withdrawn
        return not self.accepted and lost >= SMALL and lost > MAX_LOSS * len(self.had)

    def identity(self) -> str:
        disk = self.disk
        self.chaos.pause("identity")
        return disk

    def scan(self) -> Iterator[Item]:
        return self.scan_under("")

    def scan_under(self, under: str) -> Iterator[Item]:
        """Complete, or it raises; whatever people do meanwhile."""
        disk = self.disk
        self._require_credentials()
        if disk == "own":
            self.chaos.fault("scan")
            yield from self._walk(under)
        elif disk == "other" and not under:
            yield from (
                Item(f"other/{n}", str(ELSEWHERE), f"{self.root}/other/{n}", 1)
                for n in range(len(self.contents))
            )
        if self.disk != disk:
            raise Transient("another disk was mounted while it was listed")

    def _walk(self, under: str) -> Iterator[Item]:
        """Whoever is there all the time is met; of those who come, go or move meanwhile, some are."""
        unseen = self._unseen(under)
        for number, key in enumerate(self._met(under)):
            if number == 2:
                self.chaos.fault("within scan")
            if self.hidden and below(key, self.hidden):
                unseen.add(self.hidden)
            else:
                yield self.item(key)
        if unseen := unseen | self._unseen(under):
            raise PartialScan("hidden", sorted(unseen))

    def _met(self, under: str) -> Iterator[str]:
        last = ""
        while True:
            self.chaos.pause("scan")
            later = [key for key in self.contents if key > last and below(key, under)]
            if not later:
                return
            last = min(later)
            yield last

    def _unseen(self, under: str) -> set[str]:
        """What a listing does not reach: a folder that it holds, or itself within that folder."""
        if not self.hidden:
            return set()
        return {top for top, other in ((self.hidden, under), (under, self.hidden)) if below(top, other)}

    def _require_credentials(self) -> None:
        if self.revoked:
            raise NeedsHuman(f"{self.root} wants other credentials")

    def item(self, key: str) -> Item:
        return Item(key, str(self.versions[key]), f"{self.root}/{key}", len(self.contents[key]))

    def fetch(self, item: Item) -> Blob:
        self.chaos.point("fetch")
        self.chaos.fault("fetch")
        self._require_credentials()
        if item.key in (self.restless | self.logs.keys()) & self.contents.keys():
            self.write(item.key, f"{self.contents[item.key]}\nlast")
        if item.key in self.locked:
            raise Transient("permission denied")
        if item.key in self.logs and item.key in self.contents:
            return self.logs[item.key].read(item, self.written[int(item.version)], self.contents[item.key])
        if item.key not in self.contents or self.item(item.key) != item:
            raise Stale("changed since it was listed")
        return Blob(self.contents[item.key].encode(), item.key)
