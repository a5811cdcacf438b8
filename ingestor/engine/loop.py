"""The one loop: list, begin, take outcomes, write, remove. Its thread alone writes the journal and the index.

There is no event queue: a hint only makes a listing happen sooner, and due work is a query on the journal.
Read ``step`` first. ``choose`` decides which due documents are begun, and ``DocumentFlow`` what becomes of
them. The way of a document goes on in engine/flight.py.
"""

import logging
import traceback
from collections import Counter, deque
from collections.abc import Collection, Container, Mapping, Sequence
from functools import partial

from ingestor.core import decisions
from ingestor.core.decisions import LARGE, NEVER, SMALL, Failure
from ingestor.core.document_state import NO_PARSER
from ingestor.core.entries import EditionName, Entry, Feed, Receipt
from ingestor.core.errors import LONGEST, Slow, Stopped, delay, has_passed
from ingestor.core.events import event
from ingestor.engine.flight import AT_WORK, BATCH, Flight, InFlight, cancel_overtaken
from ingestor.engine.notes import FailureLog, LanguageNotes, fit_line
from ingestor.engine.parts import EngineParts
from ingestor.engine.scanner import Scan, Scanner
from ingestor.engine.workers import BEGUN, Lane, Outcome
from ingestor.engine.writer import Writer
from ingestor.model import SourceName
from ingestor.pipeline.listing import Source, want
from ingestor.pipeline.prepare import Job, Predecessor, Prepared, withdraw
from ingestor.ports import NeedsHuman, Stale, Unsupported
from ingestor.state.backlog import Backlog, Queued, as_queued, predecessor, still_wanted
from ingestor.state.reports import source_of
from ingestor.state.sources import SourceRows, Withdrawals

log = logging.getLogger("ingestor")

CANCEL_EVERY = 1.0  # seconds; a pause, an edit and a removal are seen no later
LOOKED_AT = 1000  # due documents among which those to begin are chosen
SOURCE_SHARE = 3 / 4  # of the workers, that one of several sources may occupy: its server may hang
EMPTIED = Failure("the document has no text any more", 1, 0.0, quarantined=False)
RESTLESS = "it changes while it is read, again and again"


class Engine:
    """Reconciles the journal's desired state with Chroma. All methods belong to one thread."""

    def __init__(self, parts: EngineParts) -> None:
        self.parts, self.journal, self.pool, self.clock = parts, parts.journal, parts.pool, parts.clock
        self.forget, self.preparing, self.times = parts.forget, parts.preparing, parts.times
        self.source_rows, self.backlog = SourceRows(parts.journal), Backlog(parts.journal)
        self.sources: dict[Feed, Source] = {}
        self.leaving: Sequence[SourceName] = ()  # no longer in the config: their documents are removed
        self.losing: Collection[SourceName] = ()  # with an edition that only loses documents
        self._behind = set[EditionName]()  # built to replace others: they take what these leave over
        self.flight = Flight()
        self.scanner = Scanner(parts, whole=lambda edition: self.health.mark(edition))
        self.flow = DocumentFlow(parts, self.flight, self.scanner)
        self.writer, self.health = self.flow.writer, self.flow.writer.health
        self._share = 1.0  # of the workers, that a source may occupy
        self._looked: tuple[object, float, float] = None, 0.0, 0.0  # see ``_may_begin``
        self._cancelled_at = self._removed_at = -CANCEL_EVERY  # POSIX seconds
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
        self._share = SOURCE_SHARE if len({source.name for source in sources}) > 1 else 1.0
        self._looked = None, 0.0, 0.0
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
        """Return whether nothing runs, nothing waits to be written and nothing is due now."""
        return not (self.scanner.is_busy() or self.flight.rows() or self._due_now())

    def wake_at(self, *, routine: bool = True) -> float:
        """Return when work is due next, in POSIX seconds. ``routine``: regular listings count, too."""
        later = dict.fromkeys(self._behind, self._rebuilt_at + self._rebuilding) if self._yields() else {}
        times = [self.writer.wake_at(later), self.scanner.wake_at(routine=routine)]
        if not self.flight.rows():
            times.append(self.backlog.next_retry(self._ready()))
        return min(times)

    def busy(self) -> set[EditionName]:
        """Return editions with documents in flight."""
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
        """Return feeds whose source is neither held nor paused and whose collection can be written."""
        paused = self.health.collections_paused()
        return [
            feed
            for feed in self.sources
            if feed.edition not in paused and self.source_rows.of(feed.source).ready
        ]

    def _sources_losing_documents(self, ready: Sequence[Feed]) -> list[SourceName]:
        """Return sources whose vanished documents are removed."""
        losing = {name for name in self.losing if self.source_rows.of(name).ready}
        return [*losing.union(name for name, _ in ready), *self.leaving]

    def _due_now(self) -> bool:
        ready = self._ready()
        now = self.clock()
        return bool(
            self.backlog.due(ready, now, 1)
            or self._removable(ready, 1, NEVER, unknown=True)
            or self._find_drifted(ready, 1, ())
        )

    def _dispatch(self) -> None:
        """Begin due documents. Editions that readers see are served first, as if there were no others."""
        if not self._may_begin():
            return
        ready, full = self._ready(), self.writer.full()
        for behind in (self._behind, set[EditionName]()) if self._behind else (self._behind,):
            feeds = [feed for feed in ready if feed.edition not in behind]
            begun = [each.entry for each in self._begun() if each.entry.collection not in behind]
            waiting = [entry for entry in full if entry.collection not in behind]
            in_flight = [each.entry for each in self.flight.documents()]
            queue = self.backlog.queue(feeds, self.clock(), LOOKED_AT, in_flight)
            rows = self._choose(queue, begun, waiting)
            entries = self.journal.of_rows(rows)
            for entry in [entries[row] for row in rows if row in entries]:
                self._start(entry)
        few = len(self._begun()) * 7 / 8  # the queue is read again once an eighth of the work has ended
        self._looked = self.journal.mark(), self.clock(), few

    def _may_begin(self) -> bool:
        """Return whether to query due documents: after a write to the journal, or once some work ended."""
        mark, at, few = self._looked
        return (
            len(self._begun()) <= few
            or mark != self.journal.mark()
            or has_passed(at, CANCEL_EVERY, self.clock())
        )

    def _begun(self) -> list[InFlight]:
        return [each for each in self.flight.documents(*AT_WORK) if not each.again]

    def _choose(
        self, queue: Sequence[Queued], begun: Sequence[Entry], full: Sequence[Entry] = ()
    ) -> list[int]:
        parts = self.parts
        most = {"small": parts.ahead, "large": max(1, parts.workers // 2), "": BEGUN * parts.workers}
        moving = [*map(as_queued, begun)], [*map(as_queued, full)]
        return choose(queue, *moving, most, self._share, parts.in_flight_bytes)

    def _cancel(self) -> None:
        """Cancel work on documents that were removed or changed, or whose source was paused."""
        at_work = [each for each in self.flight.documents(*AT_WORK) if not each.cancelled]
        if at_work and has_passed(self._cancelled_at, CANCEL_EVERY, now := self.clock()):
            self._cancelled_at = now
            cancel_overtaken(at_work, still_wanted(self.journal, [each.entry.row for each in at_work]))

    def _tidy(self) -> None:
        """Remove vanished documents that no listing can find under another name; then cut drifted ones again.

        All new documents are read by then, so the statistic is constant while others are cut for it.
        """
        ready = self._ready()
        if not (ready or self.leaving or self.losing):
            return
        in_flight = self.flight.documents()
        again = {each.entry.row for each in in_flight if each.again}
        idle = self.scanner.is_quiet() and len(again) == len(in_flight)
        # one that is due may be found renamed
        quiet = idle and not self.backlog.due(ready, self.clock(), 1, again)
        gone = list[Entry]()
        if idle or has_passed(self._removed_at, CANCEL_EVERY, self.clock()):
            # the time of all has come while no listing could find them under another name
            until = NEVER if self.scanner.is_quiet() else self.clock()
            gone = self._removable(ready, BATCH, until, unknown=quiet)
            self._removed_at = -CANCEL_EVERY if gone else self.clock()  # the next step goes on
        for entry in gone:  # first: after a crash nothing would trigger it
            self.forget(entry.source, entry.key)
        self.writer.remove(gone)
        most = max(self.parts.ahead, self.parts.workers)
        if quiet and not gone and 2 * len(again) <= most:
            drifted = self._find_drifted(ready, most - len(again), again)
            if not (drifted or again):  # else a count that restarts between a few would never grow
                sources = sorted({name for name, _ in ready})
                self.flow.guard.settle(sources)
                self.source_rows.rest(sources, self.clock())
            chosen = self._choose([*map(as_queued, drifted)], [each.entry for each in in_flight])
            for entry in [entry for entry in drifted if entry.row in chosen]:
                self._start(entry, again=True)

    def _removable(self, ready: Sequence[Feed], limit: int, until: float, *, unknown: bool) -> list[Entry]:
        """Return vanished documents whose time has come, and that no waiting one can be: see Backlog.gone."""
        part = self.scanner.incomplete_sources()
        losing = self._sources_losing_documents([feed for feed in ready if feed.source not in part])
        return self.backlog.documents_gone(
            losing, until, limit, self.flight.rows(), self.health.collections_paused(), unknown=unknown
        )

    def _start(self, entry: Entry, *, again: bool = False) -> None:
        attempts = self.flight.attempts(entry.row)
        if (until := attempts.waits_until(self.clock())) is not None and entry.item:
            later = Failure(RESTLESS, entry.attempts + 1, until, quarantined=False)
            self.journal.fail(entry.row, entry.item.version, later)
            return
        source = self.sources[entry.feed]
        tools, job = source.tools, Job(entry)
        document = InFlight(entry, again, tools.recipe(""), tools.statistic, attempts)
        if tools.statistic is not None:
            others = partial(self.flight.sums_of_others, self.journal, document)
            job = Job(entry, others(), others)
        turns = max(1, int(self.parts.workers * self._share))
        lane = Lane(entry.source, turns, behind=again or entry.collection in self._behind)
        former: Predecessor = _no_predecessor
        if self.backlog.any_gone(entry.collection):
            former = partial(predecessor, self.journal, source.is_moved)
        self.flight.begin(document)
        self.pool.submit(document, lambda: self.preparing(job, tools, former), lane=lane)

    def _find_drifted(self, ready: Sequence[Feed], limit: int, besides: Collection[int]) -> list[Entry]:
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
                drifted += self.backlog.find_drifted(sources, collection, statistic, at, limit, besides)
        return drifted[:limit]

    # --- writing -------------------------------------------------------------------------------------

    def _write(self, *, everything: bool = False) -> None:
        """Write what is ripe, editions that readers see first. A batch is ripe if nothing can join it."""
        with self.times.measure("write"):
            for edition in sorted(self.flight.queues, key=self._behind.__contains__):
                behind = edition in self._behind
                if behind and not everything and self._yields():
                    continue
                alone, begun = everything or not self.flight.is_preparing(edition), self.clock()
                if self.writer.flush(edition, everything=alone) and behind:
                    self._rebuilt_at = self.clock()
                    self._rebuilding = self._rebuilt_at - begun

    def _yields(self) -> bool:
        """Return whether a rebuild's batch waits for readers' documents, at most as long as the last one."""
        if has_passed(self._rebuilt_at, self._rebuilding, self.clock()):
            return False
        seen = (each.entry.collection not in self._behind for each in self.flight.documents(*AT_WORK))
        return bool(self.scanner.under_way()) or any(seen)


def choose(
    queue: Sequence[Queued],
    begun: Sequence[Queued],
    full: Sequence[Queued],
    most: Mapping[str, int],
    share: float,
    most_bytes: int,
) -> list[int]:
    """Choose the documents to begin, and return their rows. Pure.

    ``begun``: at work. ``full``: of full batches, to be written first. ``most``: documents of a kind that may
    be begun: ``small`` ones many, and as many again while a batch of them is written; ``large`` ones few.
    ``share``: what a source may have of each kind. ``most_bytes``: of all that are not small; a larger one
    goes alone.
    """
    kinds = Counter(_kind(each, most) for each in begun)
    sources = Counter((_kind(each, most), each.source) for each in begun)
    written = Counter(_kind(each, most) for each in full)
    moving, chosen = sum(each.size for each in (*begun, *full) if _kind(each, most) != "small"), list[int]()
    for each in queue:
        kind = _kind(each, most)
        room = min(most[kind], (2 if kind == "small" else 1) * most[kind] - written[kind])
        size = 0 if kind == "small" else each.size
        fits = not (size and moving) or moving + size <= most_bytes
        if fits and kinds[kind] < room and sources[kind, each.source] < max(1, int(share * room)):
            kinds[kind] += 1
            sources[kind, each.source] += 1
            moving += size
            chosen.append(each.row)
    return chosen


def _kind(queued: Queued, most: Mapping[str, int]) -> str:
    if most["small"] and 0 < queued.size <= SMALL and not queued.attempts:
        return "small"
    return "large" if queued.size > LARGE else ""


def _no_predecessor(new: Entry, content: str) -> Entry | None:
    """Return no predecessor: nothing had vanished, and a renamed document is listed with its former name."""


class DocumentFlow:
    """Takes documents from a worker's outcome to the writer, or lands them."""

    def __init__(self, parts: EngineParts, flight: Flight, scanner: Scanner) -> None:
        self._journal, self._clock, self._random = parts.journal, parts.clock, parts.random
        self._flight, self._scanner, self._source_rows = flight, scanner, SourceRows(parts.journal)
        self._sources: Mapping[Feed, Source] = {}
        self._behind: Container[EditionName] = ()
        self.guard, self._failures = Withdrawals(parts.journal), FailureLog()
        self._languages = LanguageNotes(parts.journal)
        self.writer = Writer(parts, flight, self)

    def configure(self, sources: Mapping[Feed, Source], behind: Container[EditionName]) -> None:
        """Take over a config. ``behind``: editions that are built to replace others."""
        self._sources, self._behind = sources, behind
        self._languages.configure(sources)
        self.writer.health.configure({feed.edition for feed in sources})

    def take(self, document: InFlight, outcome: Outcome) -> None:
        entry, attempts = document.entry, document.attempts
        attempts.spared = False
        if isinstance(outcome.error, Slow) or self._has_new_source(entry):
            self._flight.land(document)
        elif isinstance(outcome.value, Prepared):
            attempts.forget_failures()
            if outcome.value.empties and not self._may_withdraw(document, EMPTIED):
                return
            self._languages.add(entry, outcome.value, self._sources.get(entry.feed))
            self._flight.put(document, outcome.value, self._clock())
        elif outcome.error is not None:
            self._fail(document, outcome.error, outcome.trace, document.refused)

    def refuse(self, document: InFlight, error: Exception) -> None:
        """Handle a refusal by Chroma. The entry is read again, since the intents changed it."""
        assert document.prepared is not None
        receipt = document.prepared.receipt
        entry, other = self._journal.entry(receipt.row), self._flight.of(receipt.row)
        if entry is None or entry.item is None or entry.item.version != receipt.version:
            self._flight.land(document)  # what was listed meanwhile is not to blame
        elif other not in (None, document):
            self._flight.land(document)  # work on the former name is not over: refused again after it
        else:
            self._flight.follow(document, entry)
            self._fail(document, error, "".join(traceback.format_exception(error)))

    def _fail(self, document: InFlight, error: Exception, trace: str, refused: str | None = None) -> None:
        """Handle a document that could not be prepared or written. ``refused``: recipe of its quarantine."""
        entry = document.entry
        failure = decisions.after_failure(error, entry.attempts, self._clock(), self._random(), trace)
        source = self._sources.get(entry.feed)
        if source is None:  # it has left the config
            self._flight.land(document)
            return
        if failure.quarantined and entry.item is not None:
            if self._may_withdraw(document, failure):
                self.writer.counts.note_failure(entry.source, failure.reason)
                unsupported = isinstance(error, Unsupported)
                if unsupported:
                    words, once = "skipped %s (%s): %s", {"alike": 1, "level": logging.INFO}
                    self._failures.note(entry, "document_unsupported", words, failure, **once)
                else:
                    self._failures.note(entry, "document_quarantined", "quarantined %s (%s): %s", failure)
                parser = NO_PARSER if unsupported else ""
                recipe = refused or source.tools.recipe("")
                receipt = Receipt(entry.row, entry.item.version, recipe, "", "", parser, failure=failure)
                self._flight.put(document, withdraw(entry, receipt), self._clock())
            return
        if isinstance(error, NeedsHuman):
            self._ask_person(entry, failure.reason)
        if isinstance(error, Stale):
            self._scanner.look_again(entry.source, entry.key)
        if failure.detail is not None:
            words = "%s (%s) failed, keeps its records, is retried: %s"
            self._failures.note(entry, "document_failed", words, failure)
        elif document.attempts.note_failure(entry, self._clock()):
            self._log_retry(logging.INFO, entry, failure.reason, "will be retried")
        self._put_off(document, failure)

    def _ask_person(self, entry: Entry, reason: str) -> None:
        """Hold what only a person can help: the edition that is built, or else the source.

        An edition that is replaced holds neither: its former model need not be there any more.
        """
        replaced = any(one.source == entry.source and one.edition in self._behind for one in self._sources)
        if entry.collection in self._behind:
            self.writer.health.hold(entry.collection, reason)
        elif replaced:
            self._log_retry(logging.WARNING, entry, reason, "it waits for the new collection")
        else:
            about = event("source_held", source=str(entry.source), reason=reason)
            log.error("source %s is held: %s", entry.source, reason, extra=about)
            self._source_rows.hold(entry.source, reason)

    def _log_retry(self, level: int, entry: Entry, reason: str, when: str) -> None:
        about = event("document_retried", source=str(entry.source), document=entry.key, reason=reason)
        words = f"%s (%s): %s; {when}"
        log.log(level, words, *fit_line(words, entry, reason), extra=about)

    def _put_off(self, document: InFlight, failure: Failure) -> None:
        """Land a document that keeps its records and is retried."""
        entry = document.entry
        self.writer.counts.add_retry(entry.source, failure.reason)
        self._journal.fail(entry.row, entry.item.version if entry.item else None, failure)
        self._flight.land(document)

    def _has_new_source(self, entry: Entry) -> bool:
        """Return whether the document's source was renamed: the document is due again under the new name."""
        return source_of(self._journal, entry.row) not in (None, entry.source)

    def _may_withdraw(self, document: InFlight, failure: Failure) -> bool:
        """Return whether the document's records may be removed; else a person must accept the loss first."""
        entry = document.entry
        source = self._sources.get(entry.feed)
        if (
            source is None
            or not self._scanner.is_first(entry.feed)
            or self.guard.passes(entry, failure, source.max_loss)
        ):
            return True  # losses of an edition in building are judged before the switch
        later = self._clock() + delay(entry.attempts, self._random(), LONGEST)
        self._put_off(document, Failure(failure.reason, entry.attempts + 1, later, quarantined=False))
        return False

    def current_recipe(self, prepared: Prepared) -> str:
        """Return the recipe by today's config. A document prepared under an old name fits no recipe."""
        if self._has_new_source(prepared.entry):
            return ""
        source = self._sources.get(prepared.entry.feed)
        return prepared.receipt.recipe if source is None else source.tools.recipe(prepared.receipt.parser)

    def hold(self, collection: EditionName, reason: str) -> None:
        """Hold the sources of a collection that readers see; only the collection waits if they do not."""
        for source in self._sources.values():
            if source.collection == collection and collection not in self._behind:
                self._source_rows.hold(source.name, reason)
