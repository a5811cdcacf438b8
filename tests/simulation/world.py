"""A small world to crash in: a source, a clock, an index and a program that dies wherever chance says.

Everything between the ports (ports.py) is the real program, with its journal on disk.
"""

import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from random import Random

import numpy as np

from ingestor.chroma.shards.backend import ShardedBackend
from ingestor.config.models import Rechunk
from ingestor.core.backend import Model
from ingestor.core.backoff import LONGEST
from ingestor.core.entries import EditionName, Entry, Feed
from ingestor.core.fingerprint import embedder_fingerprint
from ingestor.core.metadata_keys import Profile
from ingestor.engine.loop import Engine
from ingestor.engine.open_collections import OpenCollections
from ingestor.engine.scanner import _TakeOver
from ingestor.lexical.backend import LexicalBackend
from ingestor.model import Fingerprint, Record, SourceName, Vectors
from ingestor.pipeline.listing import Source
from ingestor.pipeline.prepare import Tools
from ingestor.pipeline.reading import Reader
from ingestor.rechunk.recipes import Choices, profile_of
from ingestor.rechunk.swap import Swaps
from ingestor.state.editions import Editions
from ingestor.state.journal import Journal
from ingestor.state.listings.last_listing import LastListing
from ingestor.state.queries.reports import Reports
from ingestor.state.sources import SourceRows
from ingestor.state.withdrawals import Withdrawals
from tests.plain_embedder import PLUGIN, PlainOptions
from tests.simulation.laws import (
    ALIVE,
    CLEAN,
    COMPLETE,
    EXACT,
    IN_HAND,
    IN_PLACE,
    KNOWN_WORDS,
    LEXICAL,
    MOVED,
    ONE_EMBEDDER,
    ONE_LIVE,
    ONE_RECIPE,
    ONE_SET,
    REST,
    SUPERSET,
    LawBroken,
    hold,
)
from tests.simulation.lexical import CrashingFile, difference, records_of, ticking
from tests.simulation.ports.chaos import Chaos, Crash
from tests.simulation.ports.collections import Shelves
from tests.simulation.ports.files import MAX_LOSS, Files, spoiled
from tests.simulation.ports.journal import CrashingJournal
from tests.simulation.ports.making import Fickle, Lines, Parsing, Remembered, vector
from tests.simulation.ports.workers import AtOnce, Stepwise

EMBEDDERS = ("sweet", "sour")  # an option of a third party's embedder, which tells nothing else of itself
FILES, MORE = SourceName("files"), SourceName("more")
GRACE = 200.0  # seconds
PUT_BACK = 5.0  # seconds, as daemon.PUT_BACK
NAMED_BY_HISTORY = {"document_id", "doc_id", "ref_doc_id", "relationships"}


def place(id_: str, shards: int) -> int:
    """The shard of a record, as docs/reading.md tells readers."""
    return int.from_bytes(blake2b(id_.split("#")[0].encode(), digest_size=8).digest(), "big") % shards


def whole_set(name: str, listed: Collection[str]) -> tuple[str, ...]:
    """The rule of docs/reading.md: the collection of that name, or all its shards, or nothing."""
    found = [re.fullmatch(rf"{re.escape(name)}-0-of-(\d+)", each) for each in listed]
    sets = [tuple(f"{name}-{n}-of-{one[1]}" for n in range(int(one[1]))) for one in found if one]
    whole = [each for each in [(name,), *sets] if set(each) <= set(listed)]
    hold(ONE_SET, whole[1:])
    return whole[0] if whole else ()


@dataclass
class World:
    """``step`` and ``settle`` run the program; ``check`` holds it to its laws."""

    folder: Path
    seed: int
    crash_rate: float = 0.0
    error_rate: float = 0.0
    collective: bool = False
    per_chunk: int = 1
    profile: Profile = "full"
    shards: int = 1
    resharded: int = 0  # how likely it is that the number changes
    remounted: int = 0  # how much likelier it is that another disk is mounted
    mode: str = "in_place"
    embedder: str = "sweet"
    parser: int = 1  # version
    ahead: int = 0  # small documents that are begun before a worker is free
    stepwise: bool = False  # listings take a while, in which all else goes on
    several: bool = False  # a second source feeds the collection: it is renamed, leaves and joins
    watched: bool = False  # nothing that people do is missed, and nothing is listed just because of the time
    now: float = 1e9
    embedded: int = 0

    def __post_init__(self) -> None:
        self.visible: tuple[str | None, set[str]] = (None, set())
        self.chaos = Chaos(Random(self.seed))
        self.files, self.shelves = Files(self.chaos), Shelves(self.chaos)
        self.places: dict[SourceName, Files] = {FILES: self.files}
        self.apart: list[Files] = []  # of sources that have left the config
        self.renamed = False  # one of them
        if self.several:
            self.places[MORE] = Files(self.chaos, "/more")
        self.remembered = Remembered(self.chaos)
        self.words = self.folder / "lexical.sqlite3"
        self.paces = Random(f"paces {self.seed}")
        self.calm()
        self.start()

    def calm(self) -> None:
        self.chaos.crash_rate = self.chaos.error_rate = 0.0

    def start(self) -> None:
        """A new process over what is durable."""
        journal = CrashingJournal.__new__(CrashingJournal)
        journal.chaos = Chaos(Random(0))  # opening is not what is tested here
        journal.__init__(self.folder / "journal.sqlite3", synchronous="OFF")  # type: ignore[misc]
        journal.chaos, journal.places = self.chaos, self.places
        self.journal, self.before, self.outdated = journal, self.now, False
        for edition in Editions(journal).all():  # a crash leaves open whether the last listing was noted
            for source, files in self.places.items():
                files.wanted[edition.name] = dict(LastListing(journal, Feed(source, edition.name)).below(""))
        self.engine = self._engine(journal, self.shelves)
        if self.watched:
            self.files.touched = lambda key: self.engine.scanner.look_again(FILES, key)
        self.configure()

    def _engine(self, journal: Journal, shelves: Shelves) -> Engine:
        self.models: dict[str, Model] = {}
        sharded = ShardedBackend(shelves, Editions(journal).shards)
        self.lexical = LexicalBackend(sharded, CrashingFile(self.words, self.chaos), ticking())
        shelf = OpenCollections(
            journal, self.lexical, lambda name: self.models.get(name) or Model(Fingerprint("lost"))
        )
        self.swaps = Swaps(journal, shelf, lambda: self.now)
        self.pool = Stepwise(self.paces, self.chaos, self.files) if self.stepwise else AtOnce(self.places)
        engine = Engine(
            journal, shelf, self.pool, lambda: self.now, self.chaos.random.random, 4, self.forget,
            ahead=self.ahead,
        )  # fmt: skip
        engine.writer.remove = self._watched(engine.writer.remove)  # type: ignore[method-assign]
        return engine

    def _watched(self, remove: Callable[[Sequence[Entry]], None]) -> Callable[[Sequence[Entry]], None]:
        """The writer's method, held to the law that a large folder can be renamed."""

        def held(gone: Sequence[Entry]) -> None:
            awaited = {feed: self._awaited(*feed) for feed in {entry.feed for entry in gone}}
            hold(MOVED, [entry.key for entry in gone if self._text(entry) in awaited[entry.feed]])
            remove(gone)

        return held

    def _awaited(self, source: SourceName, edition: EditionName) -> set[str]:
        """Texts of new documents that are due in the edition, or in parts of the source's listing that the
        journal does not have yet."""
        due = self.journal.select(
            """SELECT source, wanted_version FROM documents WHERE collection = ? AND retry_at <= ?
               AND digest IS NULL AND NOT quarantined AND wanted_version IS NOT NULL""",
            (edition, self.now),
        )
        listed = [
            outcome.value
            for outcome in self.pool.outcomes
            if isinstance(outcome.value, _TakeOver) and outcome.tag.source == source
        ]
        parts = [one.found.changes[0].part(n) for one in listed if not one.edition
                 for n in range(one.part, one.found.changes[0].parts)]  # fmt: skip
        versions = due + [(source, item.version) for one in parts for item in one.changed]
        at_work = {name for name in self.places if SourceRows(self.journal).of(name).ready}
        return {self.places[name].written[int(version)] for name, version in versions if name in at_work}

    def _text(self, entry: Entry) -> str | None:
        """That of its records. None if it is not known, or if another version was listed later."""
        if entry.done_version is None or entry.source not in self.places:
            return None
        text = self.places[entry.source].written[int(entry.done_version)]
        [(size,)] = self.journal.select("SELECT size FROM documents WHERE id = ?", (entry.row,)) or [(None,)]
        return text if len(text) == size else None

    def end(self) -> None:
        """The process ends, in order or not."""
        self.pool.abandon()
        self.journal.close()

    def forget(self, source: str, key: str) -> None:
        self.remembered.pop((source, key), None)

    def configure(self) -> None:
        """As wiring.Running does it: every edition that is in force, by its own recipe."""
        options = PlainOptions(flavour=self.embedder)
        recipe = embedder_fingerprint(PLUGIN, options, None)
        chunking = {"kind": "lines", "version": 1, "options": {"per_chunk": self.per_chunk}}
        wanted = {
            "embedding": {
                "kind": "plain",
                "version": 1,
                "options": {"flavour": self.embedder},
                "recipe": recipe,
            },
            "sources": {source: {"chunking": chunking, "parsing": {}} for source in self.places},
            "metadata": self.profile,
            **({"shards": self.shards} if self.shards > 1 else {}),
        }
        self.swaps.max_loss = dict.fromkeys(self.places, MAX_LOSS)
        standings = self.swaps.arrange("docs", wanted, Rechunk(mode=self.mode, grace=GRACE))
        sources = [
            self.source(standing.edition, standing.choices, source)
            for standing in standings
            for source in self.places
            if standing.choices is not None and source in standing.choices["sources"]
        ]
        leaving = [name for name in self.journal.sources() if name not in self.places]
        self.engine.configure(sources, watch=False, leaving=leaving)
        self.outdated = False

    def source(self, edition: str, choices: Choices, name: SourceName) -> Source:
        recipe, flavour = (
            Fingerprint(choices["embedding"]["recipe"]),
            choices["embedding"]["options"]["flavour"],
        )
        files = self.places[name]
        per_chunk = choices["sources"][name]["chunking"]["options"]["per_chunk"]
        chunker = Fickle() if self.collective else Lines(per_chunk)
        self.models[edition] = Model(recipe)
        reader = Reader(
            name, files.fetch, {"text": Parsing(files, self.chaos)},
            {"text": Fingerprint(f"text {self.parser}")}, self.remembered, costly=("text",),
        )  # fmt: skip
        tools = Tools(
            reader, edition, chunker, Fingerprint(f"{type(chunker).__name__}{per_chunk}"),
            "lines", lambda texts: self.embed(texts, flavour), recipe, lambda texts: [len(t) for t in texts],
            profile=profile_of(choices),
        )  # fmt: skip
        routine = 1e9 if self.watched else 10.0  # seconds
        limits: dict[str, float] = {"max_loss": MAX_LOSS, "scan_every": routine}
        return Source(name, edition, files, tools, **limits, setting=limits)

    def engine_step(self) -> None:
        """What daemon.Loop does in a round."""
        try:
            self._mind_the_clock()
            self.engine.step(0)
            self.lexical.work()
            settings = Rechunk(mode=self.mode, grace=GRACE)
            self.outdated |= self.swaps.advance(settings, self.engine.scanner.listed, self.engine.busy())
            if self.outdated:
                self.configure()
        except sqlite3.OperationalError:
            pass  # the disk was full: the next round goes on
        except (Crash, LawBroken):
            raise
        except Exception as error:
            raise LawBroken(ALIVE, repr(error)) from error
        self.journal.check_listed()
        self._check_waiting()
        if self.in_step():
            for files in self.places.values():
                files.withdrawn, files.accepted = 0, False

    def _check_waiting(self) -> None:
        for outbox in self.engine.writer._outboxes.values():
            waiting = Counter(prepared.entry.row for prepared in outbox.prepared)
            hold(IN_HAND, [row for row, times in waiting.items() if times > 1])
            hold(IN_HAND, waiting.keys() - self.engine.flight.entries.keys())

    def _mind_the_clock(self) -> None:
        before, self.before = self.before, self.now
        if self.now < before - PUT_BACK:
            self.engine.writer.wait_no_longer()
            self.journal.wait_until(self.now + LONGEST)
            self.engine.scanner.wait_no_longer()

    def embed(self, texts: Sequence[str], flavour: str) -> Vectors:
        for _text in texts:
            self.chaos.point("embed")
            self.chaos.fault("embed")
            self.embedded += 1
        return np.array([vector(text, flavour) for text in texts], np.float32).reshape(-1, 4)

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
                self.end()
                self.check_superset()
                self.start()
                self.check_readers()
                self.chaos.crash_rate, self.chaos.error_rate = self.crash_rate, self.error_rate
        self.calm()

    def settle(self) -> None:
        """No more faults: run until there is nothing left to do."""
        outdated = self.files.parser_broken
        self.parser += self.files.parser_broken
        for source, files in self.places.items():
            files.heal()
            SourceRows(self.journal).resume(source)
        if outdated:
            self.configure()
        if not self.watched:
            self.engine.scanner.look_again()
        for _ in range(10):  # until the file is looked after
            self.lexical.work()
        # Seven rounds are the most that a sound program needed in 60 histories, but for slow listings.
        for _ in range(1000 if self.stepwise else 200):
            wait = self.engine.wake_at(routine=False) - self.now if self.engine.resting() else 1.0
            self.now += min(max(wait, 1.0), LONGEST)
            self.engine_step()
            self.check_readers()
            self.answer()
            if self.resting():
                return
        raise LawBroken(REST, Reports(self.journal).failures() or Reports(self.journal).counts())

    def answer(self) -> None:
        """A person looks: where nothing is broken or out of sight, what is gone is really gone."""
        for source, files in list(self.places.items()):
            sound = files.disk == "own" and not files.hidden and not files.parser_broken
            if sound and self.asked(source):
                SourceRows(self.journal).accept(source)
                files.accepted |= Withdrawals(self.journal).accept(source)
                for number in range(100):  # it is listed at once: what a person saw is what is believed
                    if number > 2 and not self.asked(source):
                        break
                    self.engine_step()

    def asked(self, source: SourceName) -> bool:
        row = SourceRows(self.journal).of(source)
        return row.held is not None or Withdrawals(self.journal).kept(source) is not None

    def in_step(self) -> bool:
        kept = [Withdrawals(self.journal).kept(source) for source in self.places]
        return self.engine.resting() and not any(kept)

    def resting(self) -> bool:
        engine = self.engine
        quiet = engine.resting() and engine.wake_at(routine=False) == float("inf") and self.lexical.complete
        building = any(edition.role == "staging" for edition in Editions(self.journal).all())
        return quiet and not building and not any(map(self.asked, self.places))

    def check_superset(self) -> None:
        """Law 2: whatever is in the index is in the journal."""
        journal = Journal(self.folder / "journal.sqlite3", synchronous="OFF")
        names = self.shelves.names()
        for edition in Editions(journal).all():
            known = {
                f"{e.document_id}#{k.slot}" for e in journal.of_collection(edition.name) for k in e.known
            }
            for number, (uuid, _) in enumerate(edition.places):
                there = {record.id for record in self.shelves.records(names.get(uuid, ""))}
                hold(SUPERSET, there - known)
                hold(IN_PLACE, {id_ for id_ in there if place(id_, edition.shards) != number})
            if all(uuid in names for uuid, _ in edition.places):
                hold(KNOWN_WORDS, records_of(self.words, edition.uuid or "").keys() - known)
        journal.close()

    def check_readers(self) -> None:
        """Law 8: records of one embedder only; and of one recipe, where collections are swapped."""
        self._check_editions()
        if self.mode == "swap" and self.parser == 1 and not self.renamed:  # a name is part of the recipe
            for root in {files.root for files in (*self.places.values(), *self.apart)}:
                of_one = [each for each in self.seen() if str(each.metadata["source"]).startswith(f"{root}/")]
                made_by = {record.metadata["recipe"] for record in of_one}
                hold(ONE_RECIPE, made_by if len(made_by) > 1 else ())
        seen = {
            name
            for record in self.seen()
            for name in EMBEDDERS
            if np.array_equal(record.vector, vector(record.text, name))
        }
        hold(ONE_EMBEDDER, seen if len(seen) > 1 else ())
        self._check_swap()

    def _check_editions(self) -> None:
        """A forgotten edition that is opened by its old name would be a second one of a collection."""
        editions = Editions(self.journal).all()
        live = [edition.name for edition in editions if edition.role == "live"]
        uuids = Counter(edition.uuid for edition in editions if edition.uuid is not None)
        hold(ONE_LIVE, live if len(live) > 1 else ())
        hold(ONE_LIVE, [uuid for uuid, times in uuids.items() if times > 1])

    def _check_swap(self) -> None:
        """A collection that takes another's place has every document that is still there, as last listed."""
        before, names = self.visible, self.names()
        if not names:  # between two renames
            return
        uuid = "+".join(self.shelves.uuid(name) or "" for name in names)
        keys = {str(record.metadata["source"]) for record in self.seen()}
        self.visible = (uuid, keys)
        editions = {edition.uuid: edition for edition in Editions(self.journal).all()}
        there = self.shelves._names().keys() >= set((before[0] or "-").split("+"))
        if uuid != before[0] and before[0] in editions and there:
            entries = self.journal.of_collection(editions[before[0]].name)
            readable = {f"{self.places[e.source].root}/{e.key}" for e in entries if self._there(e)}
            hold(COMPLETE, (before[1] & readable) - keys)

    def _there(self, entry) -> bool:  # type: ignore[no-untyped-def]
        """Whether the document could be read as it was last listed, and is still there."""
        files = self.places.get(entry.source)
        if files is None or entry.item is None or entry.key not in files.contents:
            return False
        text, odd = files.written[int(entry.item.version)], files.ever_broken
        return bool(text.strip()) and not spoiled(text) and not odd and entry.key not in files.locked

    def check(self) -> None:
        """Law 1: at rest the index equals that of a run from nothing."""
        fresh = World(
            self._scratch(), self.seed, collective=self.collective, per_chunk=self.per_chunk,
            embedder=self.embedder, parser=self.parser, profile=self.profile, shards=self.shards,
        )  # fmt: skip
        for source, files in self.places.items():
            own = fresh.places.setdefault(source, Files(fresh.chaos, files.root))
            own.contents, own.versions, own.written = files.contents, files.versions, files.written
        fresh.configure()
        fresh.settle()
        expected, found = fresh.essence(), self.essence()
        fresh.journal.close()
        if found != expected:
            raise LawBroken(EXACT, f"surplus: {found - expected}\nmissing: {expected - found}")
        self._check_clean(bool(expected))
        self._check_lexical()
        self.check_superset()

    def _check_clean(self, full: bool) -> None:
        readable = {
            (source, key): files.contents[key]
            for source, files in self.places.items()
            for key in files.contents
            if files.readable(key)
        }
        hold(CLEAN, [failure for failure in Reports(self.journal).failures() if failure[:2] in readable])
        hold(CLEAN, full != any(map(str.strip, readable.values())) and "an empty index")
        live = Editions(self.journal).live("docs").name
        records = len(self.seen())
        hold(CLEAN, Reports(self.journal).records(live) - records)
        hold(CLEAN, [k for e in self.journal.of_collection(live) for k in e.known if k.unsure])
        ours = {name for edition in Editions(self.journal).all() for _, name in edition.places}
        hold(CLEAN, set(self.shelves.collections) - ours)

    def _check_lexical(self) -> None:
        for edition in Editions(self.journal).all():
            records = [record for _, name in edition.places for record in self.shelves.records(name)]
            live = edition.role == "live"
            found = difference(self.words, edition.uuid or "", records, required=live)
            entries = (
                [] if live else self.journal.of_collection(edition.name)
            )  # one that retired may be in doubt
            doubted = {f"{e.document_id}#{k.slot}" for e in entries for k in e.known if k.unsure}
            hold(LEXICAL, {each for each in found if each[0] not in doubted})

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
            for record in self.seen()
        )

    def names(self) -> tuple[str, ...]:
        """The collections in Chroma that readers see: one, or all shards that a single listing shows."""
        return whole_set("docs", self.shelves.collections)

    def seen(self) -> list[Record]:
        return [record for name in self.names() for record in self.shelves.records(name)]
