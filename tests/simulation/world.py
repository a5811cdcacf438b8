"""A small world to crash in: a source, a clock, an index and a program that dies wherever chance says.

Everything between the ports is the real program: journal on disk, engine, writer, prepare, parsers. A
``Crash`` is no Exception, so nothing in the program can catch it; afterwards only what is durable is
left: the source, the journal's file and the index.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random

import numpy as np

from ingestor.choices import Choices
from ingestor.config import Rechunk
from ingestor.editions import Editions
from ingestor.engine import Engine
from ingestor.fingerprint import text_digest
from ingestor.indexes.memory import MemoryIndex
from ingestor.journal import Journal
from ingestor.listing import Source
from ingestor.model import Blob, Chunk, Chunking, Document, Fingerprint, Hit, Item, Record, Sums, Vectors
from ingestor.parsers.text import PLUGIN as TEXT
from ingestor.ports import Embed, Index, PartialScan, Stale, Torn, Transient
from ingestor.prepare import Tools
from ingestor.reading import Parsed, Reader
from ingestor.reports import Reports
from ingestor.shelf import Model, Shelf
from ingestor.transitions import Transitions
from ingestor.work import Outcome

EMBEDDERS = ("embedder", "other")
GRACE = 200.0  # seconds
NAMED_BY_HISTORY = {"document_id", "doc_id", "ref_doc_id", "relationships"}


class Crash(BaseException):
    """The process died here."""


@dataclass
class Chaos:
    """Decides at every point whether the process dies, and counts."""

    random: Random
    crash_rate: float = 0.0
    error_rate: float = 0.0
    crashes: Counter[str] = field(default_factory=Counter)

    def point(self, name: str) -> None:
        if self.random.random() < self.crash_rate:
            self.crashes[name] += 1
            raise Crash(name)

    def fault(self, name: str) -> None:
        if self.random.random() < self.error_rate:
            raise Transient(f"injected at {name}")


class CrashingJournal(Journal):
    """Dies before or after a commit. Holds law 4: nothing that is there counts as vanished."""

    chaos: Chaos
    files: "Files"

    def observe(self, source, collection, changes, remove_at):  # type: ignore[no-untyped-def]
        lost = self.files.there_at_scan.intersection(changes.vanished)
        assert not lost, f"still there, but taken for vanished: {lost}"
        super().observe(source, collection, changes, remove_at)

    @contextmanager
    def transaction(self) -> Iterator[object]:
        with super().transaction() as db:
            yield db
            self.chaos.point("before commit")
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
        write(list(batch[half:]))
        self.chaos.point(f"after {name}")
        self.chaos.fault(f"after {name}")

    def count(self) -> int:
        if self.torn:
            raise Torn("injected")
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
        if name not in self.collections:
            self.collections[name] = (CrashingIndex(MemoryIndex(), self.chaos), f"uuid-{next(self.serial)}")
        return self.collections[name]

    def delete(self, name: str) -> None:
        self.chaos.point("before delete")
        self.collections.pop(name, None)
        self.chaos.point("after delete")

    def look(self, name: str) -> None:
        if name in self.collections:
            self.collections[name][0].count()

    def trouble(self, name: str, error: Exception) -> None:
        pass

    def names(self) -> dict[str, str]:
        return {uuid: name for name, (_, uuid) in self.collections.items()}

    def rename(self, uuid: str, name: str) -> bool:
        self.chaos.point("before rename")
        if name in self.collections:
            return False
        self.collections[name] = self.collections.pop(self.names()[uuid])
        self.chaos.point("after rename")
        return True

    def oust(self, name: str) -> str:
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
    """The source: contents by key. Its scans can break off, or not see a part."""

    chaos: Chaos
    contents: dict[str, str] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    serial: Iterator[int] = field(default_factory=lambda: count(1))
    hidden: str | None = None  # a folder that can't be read just now
    there_at_scan: set[str] = field(default_factory=set)

    def write(self, key: str, text: str) -> None:
        self.contents[key] = text
        self.versions[key] = next(self.serial)

    def delete(self, key: str) -> None:
        self.contents.pop(key, None)
        self.versions.pop(key, None)

    def rename(self, old: str, new: str) -> None:
        text = self.contents[old]
        self.delete(old)
        self.write(new, text)

    def scan(self) -> Iterator[Item]:
        self.there_at_scan = set(self.contents)
        for key in sorted(self.contents):
            self.chaos.fault("scan")
            if not (self.hidden and key.startswith(self.hidden)):
                yield self.item(key)
        if self.hidden:
            raise PartialScan("hidden", [self.hidden])

    def item(self, key: str) -> Item:
        return Item(key, str(self.versions[key]), f"/root/{key}", len(self.contents[key]))

    def fetch(self, item: Item) -> Blob:
        self.chaos.point("fetch")
        if item.key not in self.contents or self.item(item.key) != item:
            raise Stale("changed since it was listed")
        return Blob(self.contents[item.key].encode(), item.key)


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


def vector(text: str, recipe: str) -> np.ndarray:
    seed = int(text_digest(recipe + text)[:8], 16)
    found = np.random.default_rng(seed).standard_normal(4).astype(np.float32)
    return found / np.linalg.norm(found)


class Inline:
    """A pool without threads: work is done when it is handed in."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []

    def submit(self, tag: object, work: Callable[[], object], *, scan: bool = False) -> None:
        try:
            self.outcomes.append(Outcome(tag, work()))
        except Exception as error:  # noqa: BLE001 - as the real pool does
            self.outcomes.append(Outcome(tag, error=error))

    def listen(self, tag: object, hints: object) -> Callable[[], None]:
        return lambda: None

    def next(self, timeout: float) -> Outcome | None:
        return self.outcomes.pop(0) if self.outcomes else None


@dataclass
class World:
    """``step`` and ``settle`` run the program; ``check`` holds it to its laws."""

    folder: Path
    seed: int
    crash_rate: float = 0.0
    error_rate: float = 0.0
    collective: bool = False
    per_chunk: int = 1
    mode: str = "in_place"
    embedder: str = "embedder"
    now: float = 1e9
    embedded: int = 0

    def __post_init__(self) -> None:
        self.visible: tuple[str | None, set[str]] = (None, set())
        self.chaos = Chaos(Random(self.seed))
        self.files, self.shelves = Files(self.chaos), Shelves(self.chaos)
        self.remembered = Remembered(self.chaos)
        self.calm()
        self.start()

    def calm(self) -> None:
        self.chaos.crash_rate = self.chaos.error_rate = 0.0

    def start(self) -> None:
        """A new process over what is durable."""
        journal = CrashingJournal.__new__(CrashingJournal)
        journal.chaos = Chaos(Random(0))  # opening is not what is tested here
        journal.__init__(self.folder / "journal.sqlite3", synchronous="OFF")  # type: ignore[misc]
        journal.chaos, journal.files = self.chaos, self.files
        self.journal = journal
        self.vectors: dict[str, np.ndarray] = {}
        self.engine = self._engine(journal, self.shelves)
        self.configure()

    def _engine(self, journal: Journal, shelves: Shelves) -> Engine:
        self.models: dict[str, Model] = {}
        shelf = Shelf(journal, shelves, lambda name: self.models.get(name) or Model(Fingerprint("lost")))
        self.transitions = Transitions(journal, shelf, lambda: self.now)
        return Engine(journal, shelf, Inline(), lambda: self.now, self.chaos.random.random, 4, self.forget)

    def forget(self, source: str, key: str) -> None:
        self.remembered.pop(key, None)

    def configure(self) -> None:
        """As wiring.Running does it: every edition that is in force, by its own recipe."""
        chunking = {"kind": "lines", "version": 1, "options": {"per_chunk": self.per_chunk}}
        wanted = {
            "embedding": {"kind": "e", "version": 1, "options": {}, "recipe": self.embedder},
            "sources": {"files": {"chunking": chunking, "parsing": {}}},
        }
        standings = self.transitions.arrange("docs", wanted, Rechunk(mode=self.mode, grace=GRACE))
        sources = [self.source(s.edition, s.choices) for s in standings if s.choices is not None]
        self.engine.configure(sources, watch=False)

    def source(self, edition: str, choices: Choices) -> Source:
        recipe = Fingerprint(choices["embedding"]["recipe"])
        per_chunk = choices["sources"]["files"]["chunking"]["options"]["per_chunk"]
        chunker = Fickle() if self.collective else Lines(per_chunk)
        self.models[edition] = Model(recipe)
        reader = Reader(
            "files", self.files.fetch, {"text": TEXT.build(TEXT.options())}, {"text": Fingerprint("text")},
            self.remembered, costly=("text",),
        )  # fmt: skip
        tools = Tools(
            reader, edition, chunker, Fingerprint(f"{type(chunker).__name__}{per_chunk}"),
            "lines", lambda texts: self.embed(texts, recipe), recipe, lambda texts: [len(t) for t in texts],
        )  # fmt: skip
        return Source("files", edition, self.files, tools, max_loss=1.0, scan_every=10.0)

    def engine_step(self) -> None:
        """What daemon.Loop does in a round."""
        self.engine.step(0)
        settings = Rechunk(mode=self.mode, grace=GRACE)
        if self.transitions.advance(settings, self.engine.scanner.listed, self.engine.busy()):
            self.configure()

    def embed(self, texts: Sequence[str], recipe: str) -> Vectors:
        for _text in texts:
            self.chaos.point("embed")
            self.chaos.fault("embed")
            self.embedded += 1
        return np.array([vector(text, recipe) for text in texts], np.float32).reshape(-1, 4)

    def step(self, steps: int) -> None:
        """Let the program run a while; if it dies, start it again."""
        self.chaos.crash_rate, self.chaos.error_rate = self.crash_rate, self.error_rate
        for _ in range(steps):
            try:
                self.now += self.chaos.random.choice([0.0, 0.3, 5.0, 90.0])
                self.engine_step()
                self.check_readers()
            except Crash:
                self.calm()
                self.journal.close()
                self.check_superset()
                self.start()
                self.check_readers()
                self.chaos.crash_rate, self.chaos.error_rate = self.crash_rate, self.error_rate
        self.calm()

    def settle(self) -> None:
        """No more faults: run until there is nothing left to do."""
        self.files.hidden = None
        self.engine.scanner.look_again()
        for _ in range(2000):
            self.now += 1.0
            self.engine_step()
            self.check_readers()
            if self.resting():
                return
        raise AssertionError("the program never came to rest")

    def resting(self) -> bool:
        engine = self.engine
        quiet = engine.resting() and engine.wake_at(routine=False) == float("inf")
        return quiet and not self.transitions.building()

    def check_superset(self) -> None:
        """Law 2: whatever is in the index is in the journal."""
        journal = Journal(self.folder / "journal.sqlite3", synchronous="OFF")
        names = self.shelves.names()
        for edition in Editions(journal).all():
            known = {
                f"{e.document_id}#{k.slot}" for e in journal.of_collection(edition.name) for k in e.known
            }
            name = names.get(edition.uuid or "")
            orphans = {record.id for record in self.shelves.records(name)} - known if name else set()
            assert not orphans, f"records the journal does not know: {orphans}"
        journal.close()

    def check_readers(self) -> None:
        """Law 8: records of one embedder only; and of one recipe, where collections are swapped."""
        made_by = {record.metadata["recipe"] for record in self.shelves.records("docs")}
        if self.mode == "swap":
            assert len(made_by) <= 1, f"readers see records of several recipes: {made_by}"
        seen = {
            name
            for record in self.shelves.records("docs")
            for name in EMBEDDERS
            if np.array_equal(record.vector, vector(record.text, name))
        }
        assert len(seen) <= 1, f"readers see vectors of several embedders: {seen}"
        self._check_swap()

    def _check_swap(self) -> None:
        """A collection that takes another's place has every document that is still there, as last listed."""
        before, uuid = self.visible, self.shelves.uuid("docs")
        if uuid is None:  # between two renames
            return
        keys = {str(record.metadata["source"]) for record in self.shelves.records("docs")}
        self.visible = (uuid, keys)
        if before[0] in self.shelves.names() and uuid != before[0]:
            old = next(edition for edition in Editions(self.journal).all() if edition.uuid == before[0])
            entries = self.journal.of_collection(old.name)
            there = {
                f"/root/{e.key}" for e in entries if e.item and self.files.contents.get(e.key, "").strip()
            }
            lost = (before[1] & there) - keys
            assert not lost, f"readers lost documents in a swap: {lost}"

    def check(self) -> None:
        """Law 1: at rest the index equals that of a run from nothing."""
        fresh = World(
            self._scratch(), self.seed, collective=self.collective, per_chunk=self.per_chunk,
            embedder=self.embedder,
        )  # fmt: skip
        fresh.files.contents, fresh.files.versions = self.files.contents, self.files.versions
        fresh.settle()
        expected, found = fresh.essence(), self.essence()
        fresh.journal.close()
        assert not Reports(self.journal).failures()
        assert bool(expected) == any(text.strip() for text in self.files.contents.values())
        assert found == expected, f"surplus: {found - expected}\nmissing: {expected - found}"
        self.check_superset()
        live = Editions(self.journal).live("docs").name
        assert Reports(self.journal).records(live) == len(self.shelves.records("docs"))
        assert not [k for e in self.journal.of_collection(live) for k in e.known if k.unsure]
        ours = {edition.shown for edition in Editions(self.journal).all()}
        assert set(self.shelves.collections) <= ours, "a collection was left behind"

    def _scratch(self) -> Path:
        path = self.folder / f"fresh-{self.chaos.random.random()}"
        path.mkdir()
        return path

    def essence(self) -> Counter[tuple[object, ...]]:
        """The records less what history may name."""
        return Counter(
            (
                record.text,
                record.vector.tobytes(),
                *sorted(
                    (k, v) for k, v in record.metadata.items() if k not in NAMED_BY_HISTORY and v is not None
                ),
            )
            for record in self.shelves.records("docs")
        )
