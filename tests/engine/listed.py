"""A source of folders that is listed, over a real journal."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from ingestor.core.entries import EditionName, Entry, Feed
from ingestor.engine.flight import Flight, InFlight
from ingestor.engine.scanner import Scanner
from ingestor.engine.workers import Outcome
from ingestor.model import Blob, DocumentId, Hint, Item, SourceName
from ingestor.pipeline.listing import Source
from ingestor.ports import Transient
from ingestor.state.journal import Journal
from ingestor.state.sources import LastListing, SourceRows
from tests.simulation.ports.workers import Inline


class Tree:
    """A source of folders: keys that can go, on a file system that can be another one."""

    def __init__(self, *keys: str) -> None:
        self.keys, self.root, self.listings, self.fails = set(keys), "disk", 0, False

    def scan(self) -> Iterator[Item]:
        return self.scan_under("")

    def scan_under(self, under: str) -> Iterator[Item]:
        self.listings += 1
        if self.fails:
            raise Transient("no answer")
        return (Item(key, "1", f"/{key}") for key in sorted(self.keys) if not under or key.startswith(under))

    def fetch(self, item: Item) -> Blob:
        raise NotImplementedError

    def identity(self) -> str:
        return self.root

    def lose(self, under: str) -> None:
        self.keys = {key for key in self.keys if not key.startswith(under)}


TREE = Feed(SourceName("tree"), EditionName("docs"))


def scanner_of(journal: Journal, pool: Inline, clock: Callable[[], float] = lambda: 1e9) -> Scanner:
    """Return a scanner that reports complete listings to nobody."""
    return Scanner(journal, cast(Any, pool), clock, lambda: 0.5, lambda collection: None)


@dataclass
class Listed:
    """Source after its first complete listing.

    ``list_again`` lists the keys that hints name, and all keys when a complete listing is due.
    """

    journal: Journal
    tree: Tree

    def __post_init__(self) -> None:
        self.now = 1e9
        self.rows = SourceRows(self.journal)
        self.restart()

    def restart(self, max_loss: float = 0.5) -> None:
        self.pool = Inline()
        self.scanner = scanner_of(self.journal, self.pool, lambda: self.now)
        self.scanner.configure([Source(*TREE, self.tree, cast(Any, None), max_loss=max_loss)], watch=False)
        self.list_again()

    def list_again(self, *hints: str, after: float = 0.0) -> str | None:
        """Why the source is held afterwards, or None."""
        self.now += after
        for under in hints:
            self.scanner.take_hint(TREE.source, Outcome(TREE.source, Hint(under)))
        self.scanner.start()
        while outcome := self.pool.next(0):
            self.scanner.take_listing(cast(Any, outcome.tag), outcome)
            self.scanner.start()
        return self.rows.of(TREE[0]).held

    def versions(self, feed: Feed) -> Mapping[str, str]:
        return LastListing(self.journal, feed).below("")

    def left(self) -> int:
        return len(self.versions(TREE))


def begun(rows: Iterable[int]) -> list[InFlight]:
    """Return documents that wait for a worker."""
    flight, found = Flight(), list[InFlight]()
    for row in rows:
        entry = Entry(
            row, DocumentId(f"{row}"), SourceName("s"), EditionName("docs"), f"{row}", None,
            None, None, None, None, None, 0,
        )  # fmt: skip
        found.append(InFlight(entry))
        flight.begin(found[-1])
    return found
