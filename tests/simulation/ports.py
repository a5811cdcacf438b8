"""The ports of the simulated world: each one dies, fails or lies where chance says.

A ``Crash`` is no Exception, so nothing in the program can catch it; afterwards only what is durable is left:
the source, the journal's file and the index. Half of the errors are of kinds that ports name.
"""

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from itertools import count, filterfalse
from random import Random

import numpy as np

from ingestor.core.backend import Model
from ingestor.core.document_json import Parsed
from ingestor.core.document_state import NEXT, Event, State, state_of
from ingestor.core.entries import Feed
from ingestor.core.fingerprint import text_digest
from ingestor.engine.outcomes import Outcome
from ingestor.model import Blob, Chunk, Chunking, Document, Hit, Item, Record, SourceName, Sums, Vectors
from ingestor.parsers.text import PLUGIN as TEXT
from ingestor.ports import BadDocument, Embed, Index, PartialScan, Stale, Torn, Transient
from ingestor.state.journal import Journal
from ingestor.state.queries import reports
from ingestor.state.queries.last_listing import LastListing
from tests.memory_index import MemoryIndex
from tests.simulation.laws import ASKED, LISTED, READABLE, STATES, THERE, LawBroken, hold

UNREADABLE = "\x00\x01\x02"  # no parser takes it


class Crash(BaseException):
    """The process died here."""


@dataclass
class Chaos:
    """Decides at every point whether the process dies or an error strikes, and counts."""

    random: Random
    crash_rate: float = 0.0
    error_rate: float = 0.0
    crashes: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)

    def point(self, name: str) -> None:
        if self.random.random() < self.crash_rate:
            self.crashes[name] += 1
            raise Crash(name)

    def fault(self, name: str) -> None:
        """Half of the errors are of a kind that no port names."""
        if self.random.random() < self.error_rate:
            self.faults[name] += 1
            error = self.random.choice((Transient, RuntimeError))
            raise error(f"injected at {name}")

    def full(self) -> None:
        if self.random.random() < self.error_rate / 4:
            self.faults["full disk"] += 1
            raise sqlite3.OperationalError("database or disk is full")


# What each method of the journal does to a document, as core/document_state.py calls it.
EVENTS: dict[str, set[Event]] = {
    "observe": {"listed", "reverted", "vanished"},
    "relocate": {"vanished"},
    "want_recipe": {"recipe changed", "reverted"},
    "intend": {"intended", "adopted"},
    "settle": {"written", "refused", "skipped"},
    "remove": {"removed"},
    "fail": {"failed"},
    "retry": {"retried"},
    "doubt": {"doubted"},
}


def watched(name: str) -> Callable[..., object]:
    """The journal's method of that name, held to the table of states."""

    def method(self: "CrashingJournal", *args: object, **others: object) -> object:
        before = self.states()
        found = getattr(super(CrashingJournal, self), name)(*args, **others)
        after = self.states()
        arrows = {(s, t) for s, row in NEXT.items() for event, t in row.items() if event in EVENTS[name]}
        moves = {
            key: (before.get(key, "absent"), after.get(key, "absent")) for key in before.keys() | after.keys()
        }
        hold(
            STATES, [(name, key, *move) for key, move in moves.items() if len({*move}) > 1 > (move in arrows)]
        )
        return found

    return method


class CrashingJournal(Journal):
    """Dies before or after a commit, and meets a full disk. Holds the laws about states, listings and
    withdrawals."""

    chaos: Chaos
    files: "Files"

    relocate, want_recipe, intend, remove = map(watched, ("relocate", "want_recipe", "intend", "remove"))
    fail, retry, doubt = map(watched, ("fail", "retry", "doubt"))
    _observe, _settle = map(watched, ("observe", "settle"))

    def states(self) -> dict[tuple[str, str], State]:
        """By edition and key, told by Python; the reports' SQL must tell the same."""
        columns = "wanted_version, wanted_recipe, done_version, done_recipe, attempts, parser, quarantined"
        found: dict[tuple[str, str], State] = {}
        for edition, key, by_sql, *row in self.select(
            f"SELECT collection, key, {reports.STATE}, {columns} FROM documents"
        ):
            state = state_of((row[0], row[1]), (row[2], row[3]), row[4], row[5], quarantined=bool(row[6]))
            hold(STATES, state != by_sql and (key, state, by_sql))
            found[edition, key] = state
        return found

    def observe(self, source, collection, changes, remove_at):  # type: ignore[no-untyped-def]
        hold(THERE, self.files.there_at_scan.intersection(changes.vanished))
        self._observe(source, collection, changes, remove_at)
        wanted = self.files.wanted[collection]
        wanted.update((item.key, item.version) for item in changes.changed)
        for key in changes.vanished:
            wanted.pop(key, None)

    def settle(self, receipts, wanted_recipes):  # type: ignore[no-untyped-def]
        refused = [receipt for receipt in receipts if receipt.failure is not None]
        hold(READABLE, [r.failure.reason for r in refused if not self.files.could_be_unreadable(r.version)])
        seen = set(self.select("SELECT name FROM collections WHERE role = 'live'"))  # what readers have
        entries = [entry for r in refused if (entry := self.entry(r.row)) is not None and entry.known]
        withdrawn = [entry for entry in entries if (entry.collection,) in seen]
        self._settle(receipts, wanted_recipes)
        self.files.withdrawn += len(withdrawn)
        # later removals make the share larger, and need nobody's consent
        if withdrawn and self.files.too_many_withdrawn(self.indexed()):
            raise LawBroken(ASKED, f"{self.files.withdrawn} were withdrawn")

    def indexed(self) -> int:
        """Documents that readers have."""
        query = """SELECT COUNT(*) FROM documents WHERE EXISTS (SELECT 1 FROM records WHERE document = id)
                   AND collection IN (SELECT name FROM collections WHERE role = 'live')"""
        return int(self.select(query)[0][0])

    def check_listed(self) -> None:
        existing = {str(name) for (name,) in self.select("SELECT name FROM collections")}
        for forgotten in self.files.wanted.keys() - existing:  # another edition may get its name
            del self.files.wanted[forgotten]
        for collection, wanted in self.files.wanted.items():
            known = LastListing(self, Feed(SourceName("files"), collection)).below("")
            hold(LISTED, known and (collection, wanted.items() ^ known.items()) if wanted != known else ())

    @contextmanager
    def transaction(self) -> Iterator[object]:
        with super().transaction() as db:
            yield db
            self.chaos.point("before commit")
            self.chaos.full()
        self.chaos.point("after commit")


@dataclass
class CrashingIndex:
    """Dies before, within and after a write, and at times raises although it wrote."""

    inner: MemoryIndex
    chaos: Chaos
    torn: bool = False

    def _apply(self, name: str, write: Callable[[list], None], batch: Sequence) -> None:
        if self.torn:
            raise Torn("injected")
        self.chaos.point(f"before {name}")
        self.chaos.fault(f"before {name}")
        half = len(batch) // 2
        write(list(batch[:half]))
        self.chaos.point(f"within {name}")
        self.chaos.fault(f"within {name}")
        write(list(batch[half:]))
        self.chaos.point(f"after {name}")
        self.chaos.fault(f"after {name}")

    def count(self) -> int:
        if self.torn:
            raise Torn("injected")
        self.chaos.fault("count")
        return self.inner.count()

    def upsert(self, records: Sequence[Record]) -> None:
        self._apply("upsert", self.inner.upsert, records)

    def patch(self, metadata: Sequence) -> None:
        self._apply("patch", self.inner.patch, metadata)

    def drop(self, ids: Sequence) -> None:
        self._apply("drop", self.inner.drop, ids)

    def read(self, ids: Sequence, *, vectors: bool = False) -> list[Record]:
        return self.inner.read(ids, vectors=vectors)

    def ids(self) -> Iterator[str]:
        return self.inner.ids()

    def query(self, vectors: Vectors, n: int, where: dict[str, object] | None = None) -> list[list[Hit]]:
        return self.inner.query(vectors, n, where)


@dataclass
class Shelves:
    """The backend: collections that outlive the process."""

    chaos: Chaos
    serial: Iterator[int] = field(default_factory=count)
    collections: dict[str, tuple[CrashingIndex, str]] = field(default_factory=dict)

    def open(self, name: str, model: Model) -> tuple[Index, str]:
        self.chaos.fault("open")
        if name not in self.collections:
            self.collections[name] = (CrashingIndex(MemoryIndex(), self.chaos), f"uuid-{next(self.serial)}")
        return self.collections[name]

    def delete(self, name: str) -> None:
        self.chaos.point("before delete")
        self.chaos.fault("delete")
        self.collections.pop(name, None)
        self.chaos.point("after delete")

    def look(self, name: str) -> None:
        if name in self.collections:
            self.collections[name][0].count()

    def trouble(self, name: str, error: Exception) -> None:
        pass

    def names(self) -> dict[str, str]:
        self.chaos.fault("names")
        return self._names()

    def _names(self) -> dict[str, str]:
        return {uuid: name for name, (_, uuid) in self.collections.items()}

    def rename(self, uuid: str, name: str) -> bool:
        self.chaos.point("before rename")
        self.chaos.fault("rename")
        if name in self.collections:
            return False
        self.collections[name] = self.collections.pop(self._names()[uuid])
        self.chaos.point("after rename")
        return True

    def evict(self, name: str) -> str:
        del self.collections[name]
        return "deleted"

    def uuid(self, name: str) -> str | None:
        return self.collections[name][1] if name in self.collections else None

    def records(self, name: str) -> list[Record]:
        if name not in self.collections:
            return []
        inner = self.collections[name][0].inner
        return inner.read(list(inner.ids()), vectors=True)


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


SMALL, MAX_LOSS = 2, 0.5  # see conftest.py: losses are asked about from two documents on


@dataclass
class Parsing:
    """The parser for text, which fails at times."""

    files: Files
    chaos: Chaos

    def parse(self, blob: Blob) -> Document:
        self.chaos.fault("parse")
        if self.files.parser_broken:
            raise BadDocument("the parser takes nothing any more")
        document: Document = TEXT.build(TEXT.options()).parse(blob)
        return document


class Remembered(dict[str, tuple[str, Parsed]]):
    """A reading.Memory that outlives the process, and forgets."""

    def __init__(self, chaos: Chaos) -> None:
        super().__init__()
        self.chaos = chaos

    def find(self, source: str, key: str, stamp: str) -> Parsed | None:
        if self.chaos.random.random() < 0.2:
            self.pop(key, None)
        kept, parsed = self.get(key, ("", None))
        return parsed if kept == stamp else None

    def keep(self, source: str, key: str, stamp: str, parsed: Parsed) -> None:
        self.chaos.point("keep")
        self[key] = stamp, parsed


class Lines:
    """One chunk a line; the smallest chunker there is."""

    def __init__(self, per_chunk: int = 1) -> None:
        self.per_chunk = per_chunk

    def chunk(self, document: Document, embed: Embed, others: Sums | None) -> Chunking:
        spans = line_spans(document.text, self.per_chunk)
        return Chunking(tuple(Chunk(start, end, document.text[start:end]) for start, end in spans))


class Fickle(Lines):
    """Its cuts depend on the mean line length of the whole collection: one chunk a line, or two."""

    statistic = "mean line length"

    def value(self, total: Sums) -> int:
        return int(total[1] // max(1, total[0]))

    def chunk(self, document: Document, embed: Embed, others: Sums | None) -> Chunking:
        lines = [line for line in document.text.split("\n") if line]
        sums = np.array([len(lines), sum(map(len, lines))], np.int64)
        pivot = 3 + len(lines) % 5  # documents differ in where they change
        small = self.value(sums if others is None else sums + others) < pivot
        spans = line_spans(document.text, 1 if small else 2)
        chunks = tuple(Chunk(start, end, document.text[start:end]) for start, end in spans)
        return Chunking(chunks, None, sums, (0, pivot - 1) if small else (pivot, 10**9))


def line_spans(text: str, per_chunk: int) -> list[tuple[int, int]]:
    spans, start = [], 0
    for line in text.split("\n"):
        if line:
            spans.append((start, start + len(line)))
        start += len(line) + 1
    groups = [spans[i : i + per_chunk] for i in range(0, len(spans), per_chunk)]
    return [(group[0][0], group[-1][1]) for group in groups]


@cache
def vector(text: str, recipe: str) -> np.ndarray:
    seed = int(text_digest(recipe + text)[:8], 16)
    found = np.random.default_rng(seed).standard_normal(4).astype(np.float32)
    found /= np.linalg.norm(found)
    found.flags.writeable = False
    return found


class Inline:
    """A pool without threads: work is done when it is handed in."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []

    def submit(self, tag: object, work: Callable[[], object], *, scan: bool = False) -> None:
        try:
            self.outcomes.append(Outcome(tag, work()))
        except Exception as error:  # noqa: BLE001 - as the real pool does
            self.outcomes.append(Outcome(tag, error=error))

    def idle(self) -> Collection[object]:
        return ()

    def listen(self, tag: object, hints: object) -> Callable[[], None]:
        return lambda: None

    def next(self, timeout: float) -> Outcome | None:
        return self.outcomes.pop(0) if self.outcomes else None
