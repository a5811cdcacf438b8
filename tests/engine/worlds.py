"""Arrangements of the engine's tests: entries and documents at work, worlds of files, and a listed source."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest

from ingestor.core.entries import EditionName, Entry, Feed
from ingestor.engine.flight import Flight, InFlight
from ingestor.engine.scanner import Scanner
from ingestor.engine.workers import Outcome
from ingestor.model import Blob, DocumentId, Hint, Item, SourceName
from ingestor.pipeline.listing import Source
from ingestor.ports import Stop, Transient
from ingestor.state.journal import Journal
from ingestor.state.sources import LastListing, SourceRows
from tests.simulation.checks.at_rest import check
from tests.simulation.ports.workers import Inline
from tests.simulation.world import World
from tests.state.journals import of_collection

DOCS = EditionName("docs")


def entry_of(row: int, key: str = "", **changes: Any) -> Entry:
    """Return the journal's row of a new document."""
    key = key or f"{row}"
    nothing = (None, None, None, None, None, None, 0)
    return replace(Entry(row, DocumentId(key), SourceName("s"), DOCS, key, *nothing), **changes)


def begun(rows: Iterable[int]) -> list[InFlight]:
    """Return documents that wait for a worker."""
    flight, found = Flight(), list[InFlight]()
    for row in rows:
        found.append(InFlight(entry_of(row)))
        flight.begin(found[-1])
    return found


def lines(caplog: pytest.LogCaptureFixture, name: str) -> list[tuple[str, str]]:
    """Return level and words of the log's lines of an event."""
    records = [record for record in caplog.records if record.__dict__.get("event") == name]
    return [(record.levelname, record.getMessage()) for record in records]


def world_of(folder: Path, files: Mapping[str, str], **settings: Any) -> World:
    """Return a world with these files, which are not indexed yet."""
    folder.mkdir(exist_ok=True)
    world = World(folder, seed=1, **settings)
    for key, text in files.items():
        world.files.write(key, text)
    return world


def settled_world(folder: Path, files: Mapping[str, str], **settings: Any) -> World:
    world = world_of(folder, files, **settings)
    world.settle()
    return world


def end(world: World) -> None:
    """Let the program come to rest, check the laws of a world at rest, and end."""
    world.settle()
    check(world)
    world.end()


def run(world: World, steps: int, seconds: float = 1.0) -> None:
    """List the files, and let the program take some steps."""
    world.engine.scanner.request_listing()
    for _ in range(steps):
        world.now += seconds
        world.engine_step()


def withhold(
    world: World,
    is_withheld: Callable[[str], bool],
    keep: Callable[[Any, Callable[[], object]], object] = lambda tag, work: None,
) -> None:
    """Hand the work on documents with such keys to ``keep``, and no worker."""
    submit = world.engine.pool.submit

    def submitted(tag: Any, work: Callable[[], object], *, scan: bool = False, lane: Any = None) -> None:
        if scan or not is_withheld(tag.entry.key):
            submit(tag, work, scan=scan)
        else:
            keep(tag, work)

    world.engine.pool.submit = submitted  # type: ignore[method-assign]


def with_records(world: World) -> list[str]:
    """Return the keys of documents that have records."""
    [feed] = world.engine.sources
    return [entry.key for entry in of_collection(world.journal, feed.edition) if entry.records]


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

    def watch(self, stop: Stop) -> Iterator[Hint]:
        raise NotImplementedError

    def twin(self) -> "Tree":
        """Return another connector to the same keys."""
        twin = Tree()
        twin.__dict__ = self.__dict__
        return twin

    def lose(self, *under: str) -> None:
        self.keys = {key for key in self.keys if not key.startswith(under)}


class NotingPool(Inline):
    """A pool that counts how many watches were ended."""

    ended = 0

    def listen(self, tag: object, hints: object) -> Callable[[], None]:
        def end() -> None:
            self.ended += 1

        return end


TREE = Feed(SourceName("tree"), DOCS)


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
        self.pool = NotingPool()
        self.scanner = scanner_of(self.journal, self.pool, lambda: self.now)
        self.configure(self.source(max_loss=max_loss))
        self.list_again()

    def source(self, **settings: Any) -> Source:
        return replace(Source(*TREE, self.tree, cast(Any, None)), **settings)

    def configure(self, *sources: Source, watch: bool = False) -> None:
        self.scanner.configure(sources, watch=watch)

    def list_again(self, *hints: str, after: float = 0.0) -> str | None:
        """Return why the source is held afterwards, or None."""
        self.now += after
        self.begin(*hints)
        while outcome := self.pool.next(0):
            self.scanner.take_listing(cast(Any, outcome.tag), outcome)
            self.scanner.start()
        return self.rows.of(TREE[0]).held

    def begin(self, *hints: str) -> None:
        for under in hints:
            self.scanner.take_hint(TREE.source, Outcome(TREE.source, Hint(under)))
        self.scanner.start()

    def accept(self) -> str | None:
        """Accept the loss, and return why the source is held afterwards, or None."""
        assert self.rows.accept(TREE.source)
        return self.list_again()

    def versions(self, feed: Feed) -> Mapping[str, str]:
        return LastListing(self.journal, feed).below("")

    def left(self) -> int:
        return len(self.versions(TREE))
