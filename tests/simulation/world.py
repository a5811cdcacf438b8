"""A small world to crash in: sources, a clock, an index and a program that dies wherever chance says.

Everything between the ports (wiring.Ports, and the plugins that a config names) is the real program, composed
and stepped as a daemon does it, with its files on disk.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from random import Random

from ingestor.app.daemon import Loop, Signals
from ingestor.app.wiring import Ports, open_state
from ingestor.config.models import Choice, Config, Log, Parsing, Rechunk, SourceConfig
from ingestor.config.servers import Embedded
from ingestor.config.workers import Workers
from ingestor.core.entries import Edition, EditionName, Feed
from ingestor.core.errors import LONGEST
from ingestor.core.metadata_keys import Profile
from ingestor.engine import flight, writer
from ingestor.engine.flight import InFlight, Phase
from ingestor.engine.loop import Engine
from ingestor.engine.scanner import WatchPhase
from ingestor.engine.workers import Outcome
from ingestor.lexical.filling import Upkeep
from ingestor.model import CollectionName, SourceName
from ingestor.pipeline.prepare import Prepared
from ingestor.rechunk.swap import Swaps
from ingestor.state.backlog import Backlog
from ingestor.state.editions import Editions, Notices, Requests
from ingestor.state.journal import Journal
from ingestor.state.reports import count_documents, failures
from ingestor.state.sources import LastListing, SourceRows, Withdrawals, states
from tests.simulation.checks.approvals import Approvals
from tests.simulation.checks.durable import check_durable, check_stamped
from tests.simulation.checks.moved import watched
from tests.simulation.checks.readers import Readers
from tests.simulation.laws import ALIVE, ASKED, AT_ONCE, BEGUN, HELD, OTHERS, PHASES, REST, LawBroken, hold
from tests.simulation.lexical import CrashingFile, ticking
from tests.simulation.ports import plugins
from tests.simulation.ports.chaos import Chaos, Crash
from tests.simulation.ports.collections import Shelves
from tests.simulation.ports.files import MAX_LOSS, SMALL, Files
from tests.simulation.ports.journal import CrashingJournal
from tests.simulation.ports.plugins import Forgetful, Remembered
from tests.simulation.ports.workers import BEING_WRITTEN, AtOnce, Inline, Stepwise
from tests.simulation.restores import Backups

FILES, MORE, ELSE = SourceName("files"), SourceName("more"), SourceName("else")
DOCS, NOTES = CollectionName("docs"), CollectionName("notes")
MORE_ROOT = "/more"
GRACE = 200.0  # seconds
LINGER = 0.5  # seconds that a prepared document may wait for others
MOST_STEPS = 20  # of the program, and one for each slice of a document, in which one that is due is not begun
_NUMBERS = count(1)  # of worlds


@dataclass(eq=False)
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
    restores: bool = False  # people restore backups, and strangers replace metadata
    dwindling: bool = False  # folders are deleted one after the other, each listed whole
    spoiling: bool = False  # most documents become unreadable at once
    two: bool = False  # the second source feeds a collection of its own, by a recipe of its own
    remote: bool = False  # a server embeds
    prune: bool = True  # documents of sources that leave the config are removed without a person
    approves: bool = False  # a person must approve every change that writes records again
    asking: bool = False  # readers ask all the time
    restless: bool = False  # documents grow while they are read
    meddled: bool = False  # strangers change settings, collections take no writes, keys are refused
    now: float = 1e9
    embedded: int = 0

    def __post_init__(self) -> None:
        self.deeds = Counter[str]()  # of people, by kind
        self.withheld: list[Outcome] = []  # by a test: neither with the pool nor with the engine
        self.chaos = Chaos(
            Random(self.seed),
            reads=Random(f"reads {self.seed}"),
            outages=self.outages,
            outage=Random(f"outage {self.seed}"),
        )
        self.files, self.shelves = Files(self.chaos), Shelves(self.chaos)
        self.readers = Readers(self.shelves, DOCS)
        self.all_readers = [self.readers, *([Readers(self.shelves, NOTES)] if self.two else [])]
        self.disturbed = True  # what readers see may change as a whole
        self.server_away, self.server_model, self.revision = False, "", 0
        self.refused: set[str] = set()  # flavours of embedders that want another key
        self.past: set[str] = set()  # why sources were held under the config before, until they are listed
        self.choices: list[object] = []  # of the editions that readers see, after the last step
        self.approved, self.backups = Approvals(self), Backups(self)
        self.places: dict[SourceName, Files] = {FILES: self.files}
        self.gone_since: dict[int, float] = {}  # by row of the journal
        self.apart: list[Files] = []  # of sources that have left the config
        self.renamed = False  # one of them
        if self.several or self.two:
            self.places[MORE] = Files(self.chaos, MORE_ROOT)
        self.words = self.folder / "lexical.sqlite3"
        self.paces = Random(f"paces {self.seed}")
        self.questions = Random(f"questions {self.seed}")
        self.number = next(_NUMBERS)
        plugins.WORLDS[self.number] = self
        plugins.IDS.seed(f"ids {self.seed}")
        self.calm()
        self.start()

    def calm(self) -> None:
        self.chaos.crash_rate = self.chaos.error_rate = self.chaos.read_rate = 0.0
        self.chaos.away = 0

    def serves(self, files: Files) -> CollectionName:
        """The collection that a source feeds."""
        return NOTES if self.two and files.root == MORE_ROOT else DOCS

    def feeding(self, serves: CollectionName) -> list[Files]:
        """What feeds a collection, or did."""
        return [files for files in (*self.places.values(), *self.apart) if self.serves(files) == serves]

    def strike(self) -> None:
        self.chaos.crash_rate, self.chaos.error_rate = self.crash_rate, self.error_rate
        self.chaos.read_rate = self.read_rate

    def start(self) -> None:
        """A new process over what is durable."""
        self.process = ExitStack()
        self.shelves.models.clear()
        running = self.process.enter_context(open_state(self.config(), serve=False, ports=self._ports()))
        self.loop = Loop(running, Signals())
        engine = running.engine
        engine.writer.remove = watched(self, engine.writer.remove)  # type: ignore[method-assign]
        self.read = dict[tuple[int, Prepared | None], float]()  # by row and writes: since when they wait
        self.due = dict[int, int]()  # by row: steps since a document is due and not begun
        if self.watched:
            self.files.touched = lambda key: engine.scanner.request_listing(FILES, key)
        if self.asking:
            self.chaos.asked = self.ask
        self.approved.count_records()  # the process before may have died right after it removed some
        running.configure(watch=False)
        self.expect_listed(self.places)  # a crash leaves open whether the last listing was noted

    def expect_listed(self, sources: Iterable[SourceName]) -> None:
        """Take for the last listings of these sources those that the journal has."""
        for source in sources:
            wanted = self.places[source].wanted
            wanted.clear()
            for edition in Editions(self.journal).all():
                wanted[edition.name] = dict(LastListing(self.journal, Feed(source, edition.name)).below(""))

    def end(self) -> None:
        """The process ends, in order or not."""
        self.process.close()

    def _ports(self) -> Ports:
        return Ports(
            clock=lambda: self.now,
            ticks=ticking(),
            sleep=lambda seconds: None,
            random=self.chaos.random.random,
            journal=self._journal,
            cache=lambda path, size: Forgetful(path, size, self.chaos),
            memory=lambda cache: Remembered(cache, self.chaos),
            words=lambda path: CrashingFile(path, self.chaos),
            store=lambda parts, journal, serve: nullcontext(self._shelves_of(journal)),  # type: ignore[arg-type]
            pool=lambda workers: (
                Stepwise(self.paces, self.chaos, self.files)
                if self.stepwise
                else AtOnce(self.chaos, self.places)
            ),
            ahead=self.ahead,
        )

    def _shelves_of(self, journal: Journal) -> Shelves:
        self.shelves.owner = journal.owner
        return self.shelves

    @contextmanager
    def _journal(self, path: Path) -> Iterator[Journal]:
        journal = CrashingJournal(path, self.chaos, self.places, self.gone_since)
        if self.dated:
            journal.set_clock(lambda: self.now)
        try:
            yield journal
        finally:
            journal.close()

    @property
    def journal(self) -> CrashingJournal:
        return self.loop.running.journal  # type: ignore[return-value]

    @property
    def engine(self) -> Engine:
        return self.loop.running.engine

    @property
    def swaps(self) -> Swaps:
        return self.loop.running.swaps

    @property
    def lexical(self) -> Upkeep:
        return self.loop.running.lexical

    @property
    def pool(self) -> AtOnce | Stepwise:
        return self.engine.pool  # type: ignore[return-value]

    def config(self) -> Config:
        """What the file says now."""
        here = {"world": self.number}
        chunking = self._chunking(DOCS)
        embedding = (
            Choice(plugins.SERVED, plugins.Address(flavour=self.embedder, revision=self.revision, **here))
            if self.remote
            else Choice(plugins.EMBEDDER, plugins.Flavour(flavour=self.embedder, **here))
        )
        parsing = Choice(plugins.parser(self.parser), plugins.InWorld(**here))
        return Config(
            state=self.folder,
            chroma=Embedded(path=self.folder / "chroma"),
            embedding=embedding,
            chunking=chunking,
            sources=tuple(
                SourceConfig(
                    name=name,
                    collection=self.serves(files),
                    connector=Choice(plugins.CONNECTOR, plugins.Place(root=files.root, **here)),
                    chunking=self._chunking(self.serves(files)),
                    parsing=(parsing,),
                    scan_every=1e9 if self.watched else 10.0,
                    max_loss=MAX_LOSS,
                    metadata=self.profile,
                    shards=self.shards,
                )
                for name, files in self.places.items()
            ),
            cache_size=10**9,
            workers=Workers(count=4),
            log=Log(),
            parsing=Parsing(),
            max_records=100_000,
            rechunk=Rechunk(
                mode=self.mode, grace=self.grace, approve="above 0 chunks" if self.approves else None
            ),
            prune=self.prune,
        )

    def _chunking(self, serves: CollectionName) -> Choice:
        """Collections differ in it."""
        per_chunk = self.per_chunk if serves == DOCS else 1 + self.per_chunk % 3
        strategy = plugins.FICKLE if self.collective else plugins.LINES
        return Choice(strategy, plugins.LinesOptions(per_chunk=per_chunk, world=self.number))

    def configure(self, **changes: object) -> None:
        """Change the file, and reload it."""
        for name, value in changes.items():
            setattr(self, name, value)
        self.disturbed = True
        self.past = {row.held for row in states(self.journal).values() if row.held}
        self.loop._change_config(self.config())
        self.loop._configure()

    def engine_step(self) -> None:
        """What a daemon does in a round, held to the laws."""
        self.approved.expect()
        for source, files in self.places.items():
            if not Withdrawals(self.journal).of(source).documents:
                files.before = self.journal.indexed(source)
        try:
            with self.chaos.failing_reads():
                stepped = self.loop._step()
        except Crash:  # it may have come after the program noted that nothing is due
            table = Withdrawals(self.journal)
            self._settled(
                {each for each in self.in_step() if not (table.of(each).documents or table.of(each).accepted)}
            )
            raise
        except LawBroken:
            raise
        except Exception as error:
            raise LawBroken(ALIVE, repr(error)) from error
        self.journal.check_listed()
        check_stamped(self.journal, self.shelves)
        self._check_waiting()
        self._check_read(stepped)
        self._check_begun(stepped)
        self._check_held()
        if self.dwindling:
            self._check_losses()
        self.approved.check()
        self._settled(self.in_step())
        if self.asking:
            self.ask()
            if self.resting():
                self._rest()

    def ask(self) -> None:
        for readers in self.all_readers:
            readers.ask(self)

    def _rest(self) -> None:
        # a torn collection that nobody has used yet is rebuilt later
        self.disturbed = any(index.torn for index, _ in self.shelves.collections.values())
        for files in self.places.values():
            listed = files.wanted[Editions(self.journal).live(self.serves(files)).name]
            now = {key: str(version) for key, version in files.versions.items()}
            files.stirred = {key for key in files.stirred if listed.get(key) != now.get(key)}
        for readers in self.all_readers:
            readers.rest(self)

    def check_readers(self) -> None:
        for readers in self.all_readers:
            readers.check(self)

    def _settled(self, sources: Collection[SourceName]) -> None:
        for source in sources:
            files = self.places[source]
            files.withdrawn, files.had, files.accepted, files.most = set(), set(), False, 0

    def _check_losses(self) -> None:
        """Most documents that a source had since it was last at rest are there, or a person agreed."""
        for source, files in self.places.items():
            live = Editions(self.journal).live(self.serves(files)).name
            watch = self.engine.scanner._watches[source]
            if not watch.is_listed or watch.phase is WatchPhase.APPLYING:
                continue
            left = len(files.wanted[live])
            lost = files.most - left
            if lost >= SMALL and lost > MAX_LOSS * files.most:
                hold(ASKED, not files.may_lose and f"{lost} of {files.most} vanished")
                files.most, files.may_lose = left, False
            files.most = max(files.most, left)

    def _check_waiting(self) -> None:
        for each in self.engine.flight.documents():
            has = each.prepared is not None, each.slices is not None
            hold(PHASES, has != (each.phase in BEING_WRITTEN, each.phase is Phase.WRITING) and each)
        for queue in self.engine.flight.queues.values():
            hold(PHASES, queue.records != sum(each.records for each in queue.documents.values()) and queue)
            hold(PHASES, [each for each in queue.documents.values() if each.prepared is None])

    def _check_read(self, stepped: bool) -> None:
        """A document that was read is written soon, unless its collection or the journal cannot be.

        Large documents are written a slice each in turn.
        """
        documents, health = self.engine.flight, self.engine.health.of
        full = {name for name, queue in documents.queues.items() if queue.records >= self._batch(name)}
        busy = full | {name for name, one in health.items() if one.attempts or self.now < one.not_before}
        waiting = [
            (each.entry.row, each.prepared)
            for each in (*documents.documents(*BEING_WRITTEN), *self._held_back())
            if each.entry.edition not in busy and not each.large
        ]
        known = self.read if stepped else {}
        self.read = {each: min(known.get(each, self.now), self.now) for each in waiting}
        hold(AT_ONCE, [row for (row, _), since in self.read.items() if since <= self.now - LINGER])

    def _held_back(self) -> list[InFlight]:
        """Return documents whose work has ended, and that are not handed to the writer."""
        if not isinstance(pool := self.engine.pool, Inline):
            return []
        coming = [outcome.tag for outcome in (*pool.outcomes, *self.withheld, *self.engine._inbox)]
        at_work = self.engine.flight.documents(Phase.PREPARING)
        return [each for each in at_work if each in pool.worked and each not in coming]

    def _check_begun(self, stepped: bool) -> None:
        """A document waits for few others, and for none of an edition whose collection takes no writes."""
        engine = self.engine
        full = {name for name, queue in engine.flight.queues.items() if queue.records >= self._batch(name)}
        later = full | {name for name, health in engine.health.of.items() if health.trouble is not None}
        ready = [feed for feed in engine._ready() if feed.edition not in later]
        in_flight = [each.entry for each in engine.flight.documents()]
        due = Backlog(engine.journal).queue(ready, self.now, 1000, in_flight) if stepped else ()
        self.due = {each.row: self.due.get(each.row, 0) + 1 for each in due}
        texts = [text for files in self.places.values() for text in files.contents.values()]
        most = MOST_STEPS + sum(1 + (text.count("\n") + 1) // writer.SLICE for text in texts)
        hold(BEGUN, [row for row, steps in self.due.items() if steps > most])

    def _batch(self, edition: EditionName) -> int:
        """Return the number of records of an edition that are written at once."""
        return flight.BACKGROUND_BATCH if self.engine.writer._store.is_building(edition) else flight.BATCH

    def _check_held(self) -> None:
        now = {row.held for row in states(self.journal).values() if row.held}
        choices = [edition.choices for edition in Editions(self.journal).all() if edition.role == "live"]
        self.past = now if choices != self.choices else self.past & now  # a step may apply what waited
        self.choices = choices
        for source, files in self.places.items():
            if (reason := SourceRows(self.journal).of(source).held or "") in self.past:
                continue
            hold(HELD, "credentials" in reason and files.root not in reason and (source, reason))
            live = Editions(self.journal).live(self.serves(files))
            hold(HELD, "key for" in reason and not made_by(live, reason) and (source, reason))

    def embed(self, text: str) -> None:
        """What befalls a text that is embedded."""
        self.chaos.fate("embed", text)
        self.embedded += 1

    def step(self, steps: int) -> None:
        """Let the program run a while; if it dies, start it again."""
        self.strike()
        for _ in range(steps):
            try:
                self.now += self.chaos.random.choice([0.0, 0.3, 5.0, 90.0])
                if self.asking and self.questions.random() < 0.5:
                    self.readers.question(self)
                else:
                    self.engine_step()
                self.check_readers()
            except Crash:
                self.calm()
                self.end()
                check_durable(self.folder, self.shelves, self.words)
                self.start()
                self.check_readers()
                self.strike()
        self.calm()

    def settle(self) -> None:
        """No more faults: run until there is nothing left to do."""
        self.refused.clear()
        self.shelves.heal()
        self.backups.adopt()
        if self.remote:  # whoever exchanged the model says so
            self.server_away, self.revision = False, self.revision + 1
            self.configure()
        outdated = any(files.parser_broken for files in self.places.values())
        self.parser += outdated
        for source, files in self.places.items():
            files.heal()
            SourceRows(self.journal).resume(source)
        for files in self.apart:  # the parser is one for all
            files.parser_broken = False
        if outdated:
            self.configure()
        if self.restless:
            self._settle_others()
        if not self.watched:
            self.engine.scanner.request_listing()
        for _ in range(10):  # until the file is looked after
            self.lexical.work()
        # Seven rounds are the most that a sound program needed in 60 histories, but for slow listings.
        for _ in range(1000 if self.stepwise else 200):
            waits = self.engine.is_resting() or self.engine.health.editions_paused()
            wait = self.engine.wake_at(routine=False) - self.now if waits else 1.0
            self.now += min(max(wait, 1.0), LONGEST)
            self.engine_step()
            self.check_readers()
            self.answer()
            if self.resting():
                return
        raise LawBroken(REST, failures(self.journal) or count_documents(self.journal))

    def answer(self) -> None:
        """A person looks: where nothing is broken or out of sight, what is gone is really gone."""
        if Notices(self.journal).all("waits"):
            self.approved.approve()
        for source, files in list(self.places.items()):
            sound = files.disk == "own" and not files.hidden and not files.parser_broken
            if sound and self.asked(source):
                files.may_lose |= SourceRows(self.journal).accept(source)
                files.accepted |= Withdrawals(self.journal).accept(source)
                for number in range(100):  # it is listed at once: what a person saw is what is believed
                    if number > 2 and not self.asked(source):
                        break
                    self.engine_step()

    def _settle_others(self) -> None:
        """Some documents change whenever they are read; all others are served meanwhile."""
        self.engine.scanner.request_listing()
        for number in range(40):
            self.now += LONGEST if number % 8 == 0 else 5.0
            self.engine_step()
            self.answer()
        for source, files in self.places.items():
            left = {row.key for row in failures(self.journal) if row.source == source}
            hold(OTHERS, [key for key in left - files.restless - files.logs.keys() if files.readable(key)])
            files.restless.clear()
            files.logs.clear()

    def asked(self, source: SourceName) -> bool:
        row = SourceRows(self.journal).of(source)
        return row.held is not None or Withdrawals(self.journal).of(source).kept is not None

    def in_step(self) -> set[SourceName]:
        """Sources of which nothing is due, so what a person accepted is past. Of paused ones it is not."""
        kept = [Withdrawals(self.journal).of(source).kept for source in self.places]
        at_rest = self.engine.is_resting() and not any(kept)
        return {feed.source for feed in self.engine._ready()} & self.places.keys() if at_rest else set()

    def resting(self) -> bool:
        engine = self.engine
        quiet = (
            engine.is_resting() and engine.wake_at(routine=False) == float("inf") and self.lexical.complete
        )
        building = any(edition.role == "staging" for edition in Editions(self.journal).all())
        waits = Notices(self.journal).all("waits") or Requests(self.journal).get("arrange")
        building |= self.swaps.emptying
        return quiet and not building and not waits and not any(map(self.asked, self.places))


def made_by(edition: Edition, reason: str) -> bool:
    """Whether the embedder of this edition is the one that wants another key."""
    return (edition.choices or {})["embedding"]["options"]["flavour"] in reason
