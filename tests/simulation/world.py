"""A small world to crash in: a source, a clock, an index and a program that dies wherever chance says.

Everything between the ports (ports.py) is the real program, with its journal on disk.
"""

import sqlite3
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np

from ingestor.chroma.shards.backend import ShardedBackend
from ingestor.config.models import Rechunk
from ingestor.core.backend import Model
from ingestor.core.backoff import LONGEST
from ingestor.core.entries import Feed
from ingestor.core.fingerprint import embedder_fingerprint
from ingestor.core.metadata_keys import Profile
from ingestor.engine.loop import Engine
from ingestor.engine.open_collections import OpenCollections
from ingestor.lexical.backend import LexicalBackend
from ingestor.model import Fingerprint, SourceName, Vectors
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
from tests.simulation.checks.durable import check_durable
from tests.simulation.checks.moved import watched
from tests.simulation.checks.readers import Readers
from tests.simulation.laws import ALIVE, ASKED, HELD, IN_HAND, REST, LawBroken, hold
from tests.simulation.lexical import CrashingFile, ticking
from tests.simulation.ports.chaos import Chaos, Crash
from tests.simulation.ports.collections import Shelves
from tests.simulation.ports.files import MAX_LOSS, SMALL, Files
from tests.simulation.ports.journal import CrashingJournal
from tests.simulation.ports.making import Fickle, Lines, Parsing, Remembered, vector
from tests.simulation.ports.workers import AtOnce, Stepwise

FILES, MORE, ELSE = SourceName("files"), SourceName("more"), SourceName("else")
GRACE = 200.0  # seconds
PUT_BACK = 5.0  # seconds, as daemon.PUT_BACK


@dataclass
class World:
    """``step`` and ``settle`` run the program, and hold it to the laws of every moment (checks/)."""

    folder: Path
    seed: int
    crash_rate: float = 0.0
    error_rate: float = 0.0
    read_rate: float = 0.0  # how likely it is that a query of the journal fails
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
    outages: float = 0.0  # see ports/chaos.py
    grace: float = GRACE
    stepwise: bool = False  # listings take a while, in which all else goes on
    several: bool = False  # a second source feeds the collection: it is renamed, leaves and joins
    sliced: bool = False  # sources are renamed while documents of theirs are partly written
    watched: bool = False  # nothing that people do is missed, and nothing is listed just because of the time
    dated: bool = False  # the journal has the world's clock
    dwindling: bool = False  # folders are deleted one after the other, each listed whole
    now: float = 1e9
    embedded: int = 0

    def __post_init__(self) -> None:
        self.chaos = Chaos(
            Random(self.seed),
            reads=Random(f"reads {self.seed}"),
            outages=self.outages,
            outage=Random(f"outage {self.seed}"),
        )
        self.files, self.shelves = Files(self.chaos), Shelves(self.chaos)
        self.readers = Readers(self.shelves)
        self.places: dict[SourceName, Files] = {FILES: self.files}
        self.gone_since: dict[int, float] = {}  # by row of the journal
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
        self.chaos.crash_rate = self.chaos.error_rate = self.chaos.read_rate = 0.0
        self.chaos.away = 0

    def strike(self) -> None:
        self.chaos.crash_rate, self.chaos.error_rate = self.crash_rate, self.error_rate
        self.chaos.read_rate = self.read_rate

    def start(self) -> None:
        """A new process over what is durable."""
        journal = CrashingJournal.__new__(CrashingJournal)
        journal.chaos = Chaos(Random(0))  # opening is not what is tested here
        journal.__init__(self.folder / "journal.sqlite3", synchronous="OFF")  # type: ignore[misc]
        journal.chaos, journal.places, journal.gone_since = self.chaos, self.places, self.gone_since
        if self.dated:
            journal.set_clock(lambda: self.now)
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
        engine.writer.remove = watched(self, engine.writer.remove)  # type: ignore[method-assign]
        return engine

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
        standings = self.swaps.arrange("docs", wanted, Rechunk(mode=self.mode, grace=self.grace))
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
        return Source(name, edition, files, tools, **limits, setting={**limits, "root": files.root})

    def engine_step(self) -> None:
        """What daemon.Loop does in a round."""
        try:
            self._mind_the_clock()
            with self.chaos.failing_reads():
                self.engine.step(0)
            self.lexical.work()
            settings = Rechunk(mode=self.mode, grace=self.grace)
            self.outdated |= self.swaps.advance(settings, self.engine.scanner.listed, self.engine.busy())
            if self.outdated:
                self.configure()
        except sqlite3.OperationalError:
            pass  # the disk was full, or could not be read: the next round goes on
        except Crash:  # it may have come after the program noted that nothing is due
            table = Withdrawals(self.journal)
            self._settled(
                {each for each in self.in_step() if not (table.count(each) or table.accepted(each))}
            )
            raise
        except LawBroken:
            raise
        except Exception as error:
            raise LawBroken(ALIVE, repr(error)) from error
        self.journal.check_listed()
        self._check_waiting()
        self._check_held()
        if self.dwindling:
            self._check_losses()
        self._settled(self.in_step())

    def _settled(self, sources: Collection[SourceName]) -> None:
        for source in sources:
            files = self.places[source]
            files.withdrawn, files.had, files.accepted, files.most = set(), set(), False, 0

    def _check_losses(self) -> None:
        """Most documents that a source had since it was last at rest are there, or a person agreed."""
        live = Editions(self.journal).live("docs").name
        for source, files in self.places.items():
            watch = self.engine.scanner._watches[source]
            if not watch.whole or watch.in_parts:
                continue
            left = len(files.wanted[live])
            lost = files.most - left
            if lost >= SMALL and lost > MAX_LOSS * files.most:
                hold(ASKED, not files.may_lose and f"{lost} of {files.most} vanished")
                files.most, files.may_lose = left, False
            files.most = max(files.most, left)

    def _check_waiting(self) -> None:
        for outbox in self.engine.writer._outboxes.values():
            waiting = Counter(prepared.entry.row for prepared in outbox.prepared)
            hold(IN_HAND, [row for row, times in waiting.items() if times > 1])
            hold(IN_HAND, waiting.keys() - self.engine.flight.entries.keys())

    def _check_held(self) -> None:
        for source, files in self.places.items():
            reason = SourceRows(self.journal).of(source).held or ""
            hold(HELD, "credentials" in reason and files.root not in reason and (source, reason))

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
        self.strike()
        for _ in range(steps):
            try:
                self.now += self.chaos.random.choice([0.0, 0.3, 5.0, 90.0])
                self.engine_step()
                self.readers.check(self)
            except Crash:
                self.calm()
                self.end()
                check_durable(self.folder, self.shelves, self.words)
                self.start()
                self.readers.check(self)
                self.strike()
        self.calm()

    def settle(self) -> None:
        """No more faults: run until there is nothing left to do."""
        outdated = any(files.parser_broken for files in self.places.values())
        self.parser += outdated
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
            self.readers.check(self)
            self.answer()
            if self.resting():
                return
        raise LawBroken(REST, Reports(self.journal).failures() or Reports(self.journal).counts())

    def answer(self) -> None:
        """A person looks: where nothing is broken or out of sight, what is gone is really gone."""
        for source, files in list(self.places.items()):
            sound = files.disk == "own" and not files.hidden and not files.parser_broken
            if sound and self.asked(source):
                files.may_lose |= SourceRows(self.journal).accept(source)
                files.accepted |= Withdrawals(self.journal).accept(source)
                for number in range(100):  # it is listed at once: what a person saw is what is believed
                    if number > 2 and not self.asked(source):
                        break
                    self.engine_step()

    def asked(self, source: SourceName) -> bool:
        row = SourceRows(self.journal).of(source)
        return row.held is not None or Withdrawals(self.journal).kept(source) is not None

    def in_step(self) -> set[SourceName]:
        """Sources of which nothing is due, so what a person accepted is past. Of paused ones it is not."""
        kept = [Withdrawals(self.journal).kept(source) for source in self.places]
        at_rest = self.engine.resting() and not any(kept)
        return {feed.source for feed in self.engine._ready()} & self.places.keys() if at_rest else set()

    def resting(self) -> bool:
        engine = self.engine
        quiet = engine.resting() and engine.wake_at(routine=False) == float("inf") and self.lexical.complete
        building = any(edition.role == "staging" for edition in Editions(self.journal).all())
        return quiet and not building and not any(map(self.asked, self.places))
