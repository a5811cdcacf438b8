"""The one loop: listen, list, dispatch, write. Its thread alone writes the journal and the index.

There is no event queue: a hint only makes a listing happen sooner, and due work is a query on the journal.
Read ``step`` first.
"""

import logging
from collections import deque
from collections.abc import Collection, Sequence
from functools import partial

from ingestor.core.decisions import Failure
from ingestor.core.entries import EditionName, Entry, Feed
from ingestor.core.errors import Stopped, has_passed
from ingestor.engine.dispatcher import Dispatcher
from ingestor.engine.flight import AT_WORK, BATCH, Flight, InFlight, Start, cancel_overtaken
from ingestor.engine.outcomes import DocumentFlow
from ingestor.engine.parts import EngineParts
from ingestor.engine.scanner import GRACE, Scan, Scanner
from ingestor.engine.workers import Outcome
from ingestor.model import SourceName
from ingestor.pipeline.listing import Source, want
from ingestor.pipeline.prepare import Job, Predecessor
from ingestor.state.backlog import Backlog, predecessor, still_wanted, without_heirs
from ingestor.state.sources import SourceRows

log = logging.getLogger("ingestor")

LEAST = 5.0  # seconds for which a vanished document is put off that a waiting one may be
CANCEL_EVERY = 1.0  # seconds; a pause, an edit and a removal are seen no later
RESTLESS = "it changes while it is read, again and again"


class Engine:
    """Reconciles the journal's desired state with Chroma. All methods belong to one thread."""

    def __init__(self, parts: EngineParts) -> None:
        self.journal, self.pool, self.clock = parts.journal, parts.pool, parts.clock
        self.forget, self.preparing, self.times = parts.forget, parts.preparing, parts.times
        self.source_rows, self.backlog = SourceRows(parts.journal), Backlog(parts.journal)
        self.sources: dict[Feed, Source] = {}
        self.leaving: Sequence[SourceName] = ()  # no longer in the config: their documents are removed
        self.losing: Collection[SourceName] = ()  # with an edition that only loses documents
        self._behind = set[EditionName]()  # built to replace others: they take what these leave over
        self.flight = Flight()
        self.dispatcher = Dispatcher(parts, self.flight, self.backlog)
        self.scanner = Scanner(parts, whole=lambda edition: self.health.mark(edition))
        self.flow = DocumentFlow(parts, self.flight, self.scanner)
        self.writer, self.health = self.flow.writer, self.flow.writer.health
        self._most_again = max(parts.workers, parts.ahead)
        self._cancelled_at = -CANCEL_EVERY  # POSIX seconds
        self._rebuilt_at = self._rebuilding = 0.0  # POSIX seconds of a rebuild's last batch, and its seconds
        self._inbox: deque[Outcome] = deque()  # an outcome leaves it only after it is processed whole

    # --- what the shell calls ------------------------------------------------------------------------

    def configure(
        self, sources: Sequence[Source], *, watch: bool, leaving: Sequence[SourceName] = ()
    ) -> None:
        """Take over a config: at the start, and whenever it changes.

        ``sources``: one a source and edition, that of the edition that readers see first. ``watch``: whether
        connectors watch for changes. ``leaving``: sources whose documents are removed. Raises
        sqlite3.OperationalError when the journal cannot be written.
        """
        self.leaving = leaving
        self.sources = {source.feed: source for source in sources if not source.only_loses}
        self.losing = {source.name for source in sources if source.only_loses}
        self.dispatcher.several = len({source.name for source in sources}) > 1
        want(self.journal, sources, leaving)
        self.scanner.configure(sources, watch=watch)
        self._behind = {feed.edition for feed in self.sources if not self.scanner.is_first(feed)}
        self.flow.configure(self.sources, self._behind)
        self.check_collections()

    def check_collections(self) -> None:
        """Examine every collection soon: Chroma was restarted, or the config changed."""
        for edition in dict.fromkeys(feed.edition for feed in self.sources):
            self.health.mark(edition)

    def step(self, timeout: float) -> None:
        """Process finished work, then list, prepare and write what is due.

        ``timeout``: seconds to wait for finished work. Raises sqlite3.Error or OSError, on a full disk for
        example; nothing is lost, and the next step continues.
        """
        outcome = self.pool.next(timeout)
        while outcome is not None:
            self._inbox.append(outcome)
            outcome = self.pool.next(0)
        while self._inbox:
            self._take(self._inbox[0])
            self._inbox.popleft()
        self._cancel()
        self.scanner.start()
        self.health.examine({name for name, queue in self.flight.queues.items() if queue.documents})
        self._dispatch()
        self._write()
        self._tidy()

    def flush(self) -> None:
        """Write one batch of prepared documents before the end; the next run prepares the others."""
        self._write(everything=True)

    def is_resting(self) -> bool:
        """Whether nothing runs, nothing waits to be written and nothing is due now."""
        return not (self.scanner.is_busy() or self.flight.rows() or self._due_now())

    def wake_at(self, *, routine: bool = True) -> float:
        """Return when work is due next, in POSIX seconds. ``routine``: regular listings count, too."""
        later = dict.fromkeys(self._behind, self._rebuilt_at + self._rebuilding) if self._yields() else {}
        times = [self.writer.wake_at(later), self.scanner.wake_at(routine=routine)]
        if not self.flight.rows():
            times.append(self.backlog.next_retry(self._ready()))
        return min(times)

    def busy(self) -> set[EditionName]:
        """Editions with documents in flight."""
        return self.flight.editions()

    # --- what comes in -------------------------------------------------------------------------------

    def _take(self, outcome: Outcome) -> None:
        stopped = isinstance(outcome.error, Stopped)  # the program stops, or the embedder was replaced
        if isinstance(outcome.tag, InFlight):
            if stopped or outcome.tag.cancelled:
                self.flight.land(outcome.tag)
            else:
                self.flow.take(outcome.tag, outcome)
        elif isinstance(outcome.tag, Scan):
            self.scanner.take_listing(outcome.tag, outcome)
        elif isinstance(outcome.tag, str) and not stopped:
            self.scanner.take_hint(SourceName(outcome.tag), outcome)

    # --- dispatching ---------------------------------------------------------------------------------

    def _ready(self) -> list[Feed]:
        """Feeds whose source is neither held nor paused and whose collection can be written."""
        paused = self.health.paused()
        return [
            feed
            for feed in self.sources
            if feed.edition not in paused and self.source_rows.of(feed.source).ready
        ]

    def _losing(self, ready: Sequence[Feed]) -> list[SourceName]:
        """Sources whose vanished documents are removed."""
        losing = {name for name in self.losing if self.source_rows.of(name).ready}
        return [*losing.union(name for name, _ in ready), *self.leaving]

    def _due_now(self) -> bool:
        ready = self._ready()
        now = self.clock()
        return bool(
            self.backlog.due(ready, now, 1)
            or self.backlog.heirless(self._losing(ready), 1, paused=self.health.paused())
            or self._drifted(ready, 1, ())
        )

    def _dispatch(self) -> None:
        """Keep the workers busy."""
        ready, full = self._ready(), self.writer.full()
        for behind in (self._behind, set[EditionName]()) if self._behind else (self._behind,):
            served = [feed for feed in ready if feed.edition not in behind]
            free = self.dispatcher.free(behind)
            if served and free > 0:
                for entry in self.dispatcher.due(served, free, full, behind):
                    self._start(entry)
                for entry in self.dispatcher.due_ahead(served, full, behind):
                    self._start(entry, Start.AHEAD)

    def _cancel(self) -> None:
        """Cancel work on documents that were removed or changed, or whose source was paused."""
        at_work = [each for each in self.flight.documents(*AT_WORK) if not each.cancelled]
        if at_work and has_passed(self._cancelled_at, CANCEL_EVERY, now := self.clock()):
            self._cancelled_at = now
            cancel_overtaken(at_work, still_wanted(self.journal, [each.entry.row for each in at_work]))

    def _tidy(self) -> None:
        """Remove vanished documents that no listing can find under another name; then cut drifted ones again.

        All new documents are read by then, so the statistic stands still while others are cut for it.
        """
        ready = self._ready()
        if not (ready or self.leaving or self.losing):
            return
        in_flight = self.flight.documents()
        again = {each.entry.row for each in in_flight if each.start is Start.AGAIN}
        idle = self.scanner.is_quiet() and len(again) == len(in_flight)
        # one that is due may be found renamed
        quiet = idle and not self.backlog.due(ready, self.clock(), 1, again)
        gone = self._without_heirs(ready)
        if quiet and not gone:
            gone = self.backlog.heirless(self._losing(ready), BATCH, paused=self.health.paused())
        for entry in gone:  # first: after a crash nothing would trigger it
            self.forget(entry.source, entry.key)
        self.writer.remove(gone)
        room = self._most_again - len(again)
        if quiet and not gone and 2 * room >= self._most_again:
            drifted = self._drifted(ready, room, again)
            if not (drifted or again):  # else a count that restarts between a few would never grow
                sources = sorted({name for name, _ in ready})
                self.flow.guard.settle(sources)
                self.source_rows.rest(sources, self.clock())
            for entry in self.dispatcher.affordable(drifted, [each.entry for each in in_flight]):
                self._start(entry, Start.AGAIN)

    def _without_heirs(self, ready: Sequence[Feed]) -> list[Entry]:
        """Return vanished documents whose time has come, and that no waiting one can be.

        While no listing could find them under another name, their time comes GRACE earlier: at once.
        """
        until, part = self.clock(), self.scanner.taking_over()
        if self.scanner.is_quiet():
            until += GRACE
        losing = self._losing([feed for feed in ready if feed.source not in part])
        gone = self.backlog.gone(losing, until, BATCH, self.flight.rows(), self.health.paused())
        return without_heirs(self.journal, gone, until, LEAST)

    def _start(self, entry: Entry, start: Start = Start.ON_WORKER) -> None:
        attempts = self.flight.attempts(entry.row)
        if (until := attempts.waits_until(self.clock())) is not None and entry.item:
            later = Failure(RESTLESS, entry.attempts + 1, until, quarantined=False)
            self.journal.fail(entry.row, entry.item.version, later)
            return
        source = self.sources[entry.feed]
        tools, job = source.tools, Job(entry)
        document = InFlight(entry, start, tools.recipe(""), tools.statistic, attempts)
        if tools.statistic is not None:
            others = partial(self.flight.sums_of_others, self.journal, document)
            job = Job(entry, others(), others)
        behind = start is Start.AGAIN or entry.collection in self._behind
        lane = self.dispatcher.lane(entry.source, behind=behind)
        former: Predecessor = _no_predecessor
        if self.backlog.any_gone(entry.collection):
            former = partial(predecessor, self.journal, source.is_moved)
        self.flight.begin(document)
        self.pool.submit(document, lambda: self.preparing(job, tools, former), lane=lane)

    def _drifted(self, ready: Sequence[Feed], limit: int, besides: Collection[int]) -> list[Entry]:
        """Return settled documents whose cuts no longer fit their statistic, without the rows ``besides``."""
        chunkers = {
            (source.collection, chunker.statistic): chunker
            for source in self.sources.values()
            if (chunker := source.tools.collective) is not None
        }
        drifted: list[Entry] = []
        for (collection, statistic), chunker in chunkers.items():
            total = self.journal.total(collection, statistic)
            if total is not None:
                sources = [name for name, fed in ready if fed == collection]
                at = chunker.value(total)
                drifted += self.backlog.drifted(sources, collection, statistic, at, limit, besides)
        return drifted[:limit]

    # --- writing -------------------------------------------------------------------------------------

    def _write(self, *, everything: bool = False) -> None:
        """Write what is ripe, editions that readers see first. A batch is ripe if nothing can join it."""
        with self.times.measured("write"):
            for edition in sorted(self.flight.queues, key=self._behind.__contains__):
                behind = edition in self._behind
                if behind and not everything and self._yields():
                    continue
                alone, begun = everything or not self.flight.is_preparing(edition), self.clock()
                if self.writer.flush(edition, everything=alone) and behind:
                    self._rebuilt_at = self.clock()
                    self._rebuilding = self._rebuilt_at - begun

    def _yields(self) -> bool:
        """Whether a rebuild's batch waits for what readers see: at most as long as the last batch took."""
        if has_passed(self._rebuilt_at, self._rebuilding, self.clock()):
            return False
        seen = (each.entry.collection not in self._behind for each in self.flight.documents(*AT_WORK))
        return bool(self.scanner.under_way()) or any(seen)


def _no_predecessor(new: Entry, content: str) -> Entry | None:
    """Return no predecessor: nothing had vanished, and a renamed document is listed with its former name."""
