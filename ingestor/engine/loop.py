"""The engine's loop: list sources, begin documents, process outcomes, write, remove. One thread runs it.

Only this thread writes the journal and the index. There is no event queue: a hint only makes a listing happen
sooner, and due documents are found by a query on the journal. Read ``Engine.step`` first. ``choose`` decides
which due documents are begun. engine/outcomes.py decides what to do with the outcome of a document.

A background edition is being built to replace the one that readers see. Work for it comes after all other
work. The work on a document continues in engine/flight.py.
"""

from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ingestor.core.decisions import LARGE, NEVER, SMALL, Clock, Failure, Random
from ingestor.core.entries import EditionName, Entry, Feed
from ingestor.core.errors import Stopped, has_passed
from ingestor.engine.edition_store import EditionStore
from ingestor.engine.flight import BATCH, RAREST, Flight, InFlight, Phase
from ingestor.engine.health import CollectionHealth
from ingestor.engine.outcomes import DocumentFlow
from ingestor.engine.scanner import Scanner, Watch
from ingestor.engine.workers import BEGUN, Lane, Outcome, Pool
from ingestor.engine.writer import Writer
from ingestor.model import SourceName
from ingestor.pipeline.limits import StageTimes
from ingestor.pipeline.listing import Source, store_feeds
from ingestor.pipeline.prepare import Job, Preparing
from ingestor.state.backlog import Backlog, Queued, predecessor, still_wanted
from ingestor.state.journal import Journal
from ingestor.state.sources import SourceRows

AHEAD = BATCH  # small documents, of one record each often, begun before a worker is free for them
CANCEL_EVERY = 1.0  # seconds; a pause, an edit and a removal are noticed no later
QUEUE_READ = 1000  # due documents among which those to begin are chosen
ONE_SOURCE = 3 / 4  # of the workers, that one of several sources may occupy: its server may hang
Documents = Sequence[Queued | Entry]  # due, or begun
RESTLESS = "the document changes again and again while it is read"


@dataclass(frozen=True, kw_only=True)
class EngineParts:
    """Everything that the engine works with.

    ``workers``: number of documents prepared at the same time. ``forget``: called with source and key of each
    document that is removed. ``times``: seconds spent in each stage. ``preparing``: prepares a document,
    called on a worker. ``in_flight_bytes``: bound of the bytes of begun documents that are not small; a
    larger one is prepared alone. ``ahead``: how many small documents may be begun before a worker is free.
    """

    journal: Journal
    store: EditionStore
    pool: Pool
    clock: Clock
    random: Random
    workers: int
    forget: Callable[[SourceName, str], None]
    times: StageTimes
    preparing: Preparing
    in_flight_bytes: int
    ahead: int


class Engine:
    """Makes the index equal to the desired state in the journal. All methods must be called by one thread."""

    def __init__(self, parts: EngineParts) -> None:
        self.parts, self.journal, self.pool, self.clock = parts, parts.journal, parts.pool, parts.clock
        self.preparing = parts.preparing
        self.source_rows, self.backlog = SourceRows(parts.journal), Backlog(parts.journal)
        self.sources: dict[Feed, Source] = {}
        self.leaving: Sequence[SourceName] = ()  # no longer in the config: their documents are removed
        self.losing: Collection[SourceName] = ()  # with an edition that only loses documents
        self.flight = Flight()
        self.health = CollectionHealth(parts.store, parts.clock, parts.random, self.source_rows)
        self.scanner = Scanner(parts.journal, parts.pool, parts.clock, parts.random, self.health.mark)
        self.flow = DocumentFlow(parts, self.flight, self.health, self.scanner)
        self.writer = Writer(parts, self.flight, self.health, self.flow, self.scanner)
        self._one_source = 1.0  # of the workers, that a source may occupy
        # the journal's mark when due documents were queried last, the time, and how many may be left of the
        # documents begun then until the next query
        self._queried: tuple[object, float, float] = None, 0.0, 0.0
        self._cancelled_at = self._removed_at = -CANCEL_EVERY  # POSIX seconds
        # an outcome leaves the inbox only after it is processed: the journal may refuse a write meanwhile
        self._inbox: deque[Outcome] = deque()

    # --- for the daemon's loop -----------------------------------------------------------------------

    def configure(
        self, sources: Sequence[Source], *, watch: bool, leaving: Sequence[SourceName] = ()
    ) -> None:
        """Apply a config: at the start, and whenever it changes.

        ``sources``: one for each pair of a source and an edition, the edition that readers see first.
        ``watch``: whether connectors watch for changes. ``leaving``: sources whose documents are removed.
        Raises sqlite3.OperationalError when the journal cannot be written.
        """
        self.leaving = leaving
        self.sources = {source.feed: source for source in sources if not source.only_loses}
        self.losing = {source.name for source in sources if source.only_loses}
        self._one_source = ONE_SOURCE if len({source.name for source in sources}) > 1 else 1.0
        self._queried = None, 0.0, 0.0
        store_feeds(self.journal, sources, leaving)
        self.scanner.configure(sources, watch=watch)
        editions = {feed.edition for feed in self.sources}
        self.flow.configure(self.sources, {*filter(self.parts.store.is_building, editions)})
        self.health.configure(self.sources)
        self.check_editions()

    def check_editions(self) -> None:
        """Have every edition examined in the next step.

        Call this when Chroma was restarted or the config changed.
        """
        for feed in self.sources:
            self.health.mark(feed.edition)

    def step(self, timeout: float) -> None:
        """Process the outcomes of finished work, then list sources, prepare documents and write what is
        ready.

        ``timeout``: seconds to wait for an outcome if there is none. Raises sqlite3.Error or OSError, for
        example if the disk is full. Nothing is lost then: the next step continues.
        """
        outcome = self.pool.next(timeout)
        while outcome is not None:
            self._inbox.append(outcome)
            outcome = self.pool.next(0)
        while self._inbox:
            self._process(self._inbox[0])
            self._inbox.popleft()
        # Outcomes come first, since they free workers. Collections are examined before documents are prepared
        # for them. Writes come before removals: a new document may adopt the records of a vanished one.
        self._cancel()
        self.scanner.start()
        self.health.examine({name for name, queue in self.flight.queues.items() if queue.documents})
        self._dispatch()
        self.writer.flush()
        self._tidy()

    def flush(self) -> None:
        """Write one batch of prepared documents before the program ends.

        The next run prepares the rest again.
        """
        self.writer.flush(everything=True)

    def is_resting(self) -> bool:
        """Return whether the engine has nothing to do now: no work runs, waits to be written, or is due."""
        if self.scanner.is_busy() or self.flight.rows():
            return False
        ready = self._ready()
        return not (
            self.backlog.queue(ready, self.clock(), 1)
            or self._removable(ready, 1, NEVER, unknown=True)
            or self._find_drifted(ready, 1, ())
        )

    def wake_at(self, *, routine: bool = True) -> float:
        """Return the POSIX seconds at which the engine has work again.

        ``routine``: whether the regular listings of sources count as work.
        """
        times = [self.writer.wake_at(), self.scanner.wake_at(routine=routine)]
        if not self.flight.rows():
            times.append(self.backlog.next_retry(self._ready()))
        return min(times)

    # --- outcomes ------------------------------------------------------------------------------------

    def _process(self, outcome: Outcome) -> None:
        """Process the outcome of a document's preparation, of a source's listing, or of a connector's watch
        for changes."""
        stopped = isinstance(outcome.error, Stopped)  # the program stops, or the embedder was replaced
        if isinstance(outcome.tag, InFlight):
            if stopped or outcome.tag.cancelled:
                self.flight.land(outcome.tag)
            else:
                self.flow.process(outcome.tag, outcome)
        elif isinstance(outcome.tag, Watch):
            self.scanner.take_listing(outcome.tag, outcome)
        elif isinstance(outcome.tag, str) and not stopped:
            self.scanner.take_hint(SourceName(outcome.tag), outcome)

    # --- due documents -------------------------------------------------------------------------------

    def _ready(self) -> list[Feed]:
        """Return the feeds that can be worked on: the source is not held or paused, and its collection can be
        written."""
        paused = self.health.editions_paused()
        feeds = (feed for feed in self.sources if feed.edition not in paused)
        return [feed for feed in feeds if self.source_rows.of(feed.source).ready]

    def _dispatch(self) -> None:
        """Begin due documents.

        The journal is queried after a write to it, after an eighth of the begun documents ended, and after
        some time in any case.

        Documents of editions that readers see come first, and may use all workers and all space in batches.
        Documents of editions in building get what is left.
        """
        mark, at, few = self._queried
        idle = mark == self.journal.mark() and not has_passed(at, CANCEL_EVERY, self.clock())
        if idle and len(self._begun()) > few:
            return
        ready, full, background = self._ready(), self.writer.full(), self.flow.background
        for without in (background, frozenset[EditionName]()) if background else (background,):
            feeds = [feed for feed in ready if feed.edition not in without]
            begun = [each.entry for each in self._begun() if each.entry.edition not in without]
            waiting = [entry for entry in full if entry.edition not in without]
            in_flight = [each.entry for each in self.flight.documents()]
            queue = self.backlog.queue(feeds, self.clock(), QUEUE_READ, in_flight)
            for entry in self.journal.of_rows(self._choose(queue, begun, waiting)):
                self._start(entry)
        self._queried = self.journal.mark(), self.clock(), len(self._begun()) * 7 / 8

    def _begun(self) -> list[InFlight]:
        return [each for each in self.flight.documents(Phase.PREPARING) if not each.drifted]

    def _choose(self, queue: Documents, begun: Sequence[Entry], full: Sequence[Entry] = ()) -> list[int]:
        """Choose which due documents to begin, and return their rows. For the parameters see ``choose``."""
        parts = self.parts
        most = {"small": parts.ahead, "large": max(1, parts.workers // 2), "": BEGUN * parts.workers}
        return choose(queue, begun, full, most, self._one_source, parts.in_flight_bytes)

    def _cancel(self) -> None:
        """Cancel work on documents that were removed or changed, or whose source was paused.

        If a document changes all the time, the work on every other version is finished.
        """
        at_work = [each for each in self.flight.documents(Phase.PREPARING) if not each.cancelled]
        if at_work and has_passed(self._cancelled_at, CANCEL_EVERY, now := self.clock()):
            self._cancelled_at = now
            wanted = still_wanted(self.journal, [each.entry.row for each in at_work])
            for each in at_work:
                item, (_, version) = each.entry.item, wanted.get(each.entry.row, (None, None))
                if version is None:
                    each.cancelled = True
                elif (item is None or version != item.version) and not each.attempts.cancelled:
                    each.attempts.cancelled = each.cancelled = True

    def _start(self, entry: Entry, *, drifted: bool = False) -> None:
        """Submit a document to the pool of workers. A document that keeps changing while it is read waits
        instead.

        ``drifted``: the document is up to date, and is only chunked again.
        """
        attempts, now = self.flight.attempts(entry.row), self.clock()
        if now < attempts.until <= now + RAREST and entry.item:
            later = Failure(RESTLESS, entry.attempts + 1, attempts.until, quarantined=False)
            self.journal.fail(entry.row, entry.item.version, later)
            return
        source = self.sources[entry.feed]
        tools, job = source.tools, Job(entry)
        document = InFlight(entry, drifted, tools.recipe(""), tools.statistic, attempts)
        if tools.statistic is not None:
            others = partial(self.flight.sums_of_others, self.journal, document)
            job = Job(entry, others(), others)
        at_once = max(1, int(self.parts.workers * self._one_source))
        lane = Lane(entry.source, at_once, background=drifted or entry.edition in self.flow.background)
        find = partial(predecessor, self.journal, source.is_moved)
        self.flight.begin(document)
        self.pool.submit(document, lambda: self.preparing(job, tools, find), lane=lane)

    # --- vanished and drifted documents --------------------------------------------------------------

    def _tidy(self) -> None:
        """Remove vanished documents. Then chunk documents again if the statistic of their collection has
        changed too much.

        Some chunkers cut by a statistic of the whole collection, which changes with each document. A document
        is removed only when no listing and no document waiting to be read can find it under another name.
        Documents are chunked again when all new ones are read, so that the statistic does not change
        meanwhile.
        """
        ready = self._ready()
        if not (ready or self.leaving or self.losing):
            return
        in_flight = self.flight.documents()
        drifting = {each.entry.row for each in in_flight if each.drifted}
        idle = self.scanner.is_quiet() and len(drifting) == len(in_flight)
        # a due document may turn out to be a vanished one under a new name
        quiet = idle and not self.backlog.queue(ready, self.clock(), 1, [each.entry for each in in_flight])
        gone = list[Entry]()
        if idle or has_passed(self._removed_at, CANCEL_EVERY, self.clock()):
            # while no listing is under way, none can find vanished documents under another name: no grace
            until = NEVER if self.scanner.is_quiet() else self.clock()
            gone = self._removable(ready, BATCH, until, unknown=quiet)
            self._removed_at = -CANCEL_EVERY if gone else self.clock()  # the next step removes the next ones
        for entry in gone:  # before the removal: after a crash nothing would trigger it
            self.parts.forget(entry.source, entry.key)
        self.writer.remove(gone)
        most = max(self.parts.ahead, self.parts.workers)
        if quiet and not gone and 2 * len(drifting) <= most:
            drifted = self._find_drifted(ready, most - len(drifting), drifting)
            # withdrawals add up until all documents are cut: counted anew between two batches of cuts, the
            # losses of each batch would be too few to ask about
            if not (drifted or drifting):
                self._rest(ready)
            chosen = self._choose(drifted, [each.entry for each in in_flight])
            for entry in [entry for entry in drifted if entry.row in chosen]:
                self._start(entry, drifted=True)
        elif gone and self.is_resting():  # the next step may begin with another listing
            self._rest(ready)

    def _rest(self, ready: Sequence[Feed]) -> None:
        """Record that the sources of these feeds have no due documents: what a person accepted is past."""
        sources = sorted({name for name, _ in ready})
        self.flow.guard.settle(sources)
        self.source_rows.rest(sources, self.clock())

    def _removable(self, ready: Sequence[Feed], limit: int, until: float, *, unknown: bool) -> list[Entry]:
        """Return vanished documents that may be removed by now, with about ``limit`` records in all.

        A document is left out while a document that waits to be read may be the same one under another name.
        ``until`` and ``unknown`` are passed to Backlog.documents_gone.
        """
        incomplete = self.scanner.incomplete_sources()
        losing = {name for name in self.losing if self.source_rows.of(name).ready}
        losing |= {name for name, _ in ready if name not in incomplete}
        return self.backlog.documents_gone(
            [*losing, *self.leaving], until, limit, self.flight.rows(), self.health.editions_paused(),
            unknown=unknown,
        )  # fmt: skip

    def _find_drifted(self, ready: Sequence[Feed], limit: int, without: Collection[int]) -> list[Entry]:
        """Return documents that are up to date, but whose cuts no longer fit the statistic of their
        collection.

        ``without``: rows to leave out.
        """
        chunkers = {
            (source.edition, chunker.statistic): chunker
            for source in self.sources.values()
            if (chunker := source.tools.collective) is not None
        }
        drifted: list[Entry] = []
        for (edition, statistic), chunker in chunkers.items():
            total = self.journal.total(edition, statistic)
            if total is not None:
                feeds = [feed for feed in ready if feed.edition == edition]
                at = chunker.value(total)
                drifted += self.backlog.find_drifted(feeds, statistic, at, limit, without)
        return drifted[:limit]


def choose(
    queue: Documents, begun: Documents, full: Documents, most: Mapping[str, int], share: float, space: int
) -> list[int]:
    """Choose which due documents to begin, and return their rows. Pure.

    ``begun``: documents that are being prepared. ``full``: documents of full batches, which are to be written
    first. ``most``: by kind (see ``_kind``), how many documents may be in preparation. While a full batch of
    small documents is written, twice as many small ones are allowed in all. ``share``: the fraction of
    each number that a single source may use. ``space``: bound of the bytes of all documents that are not
    small. A document larger than this bound is begun alone.
    """
    kinds = Counter(_kind(each, most) for each in begun)
    sources = Counter((_kind(each, most), each.source) for each in begun)
    written = Counter(_kind(each, most) for each in full)
    moving, chosen = sum(each.size for each in (*begun, *full) if _kind(each, most) != "small"), list[int]()
    for each in queue:
        kind = _kind(each, most)
        room = min(most[kind], (2 if kind == "small" else 1) * most[kind] - written[kind])
        size = 0 if kind == "small" else each.size
        fits = not (size and moving) or moving + size <= space
        if fits and kinds[kind] < room and sources[kind, each.source] < max(1, int(share * room)):
            kinds[kind] += 1
            sources[kind, each.source] += 1
            moving += size
            chosen.append(each.row)
    return chosen


def _kind(document: Queued | Entry, most: Mapping[str, int]) -> str:
    """Return the kind of a due document, for the limits of ``choose``: "small", "large", or "" for others."""
    # documents of unknown size, and those that failed before, may take long: they are not begun ahead
    if most["small"] and 0 < document.size <= SMALL and not document.attempts:
        return "small"
    return "large" if document.size > LARGE else ""
