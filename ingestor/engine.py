"""The one loop: listen, list, dispatch, write. Its thread alone writes the journal and the index.

There is no queue of events to lose: hints only hasten a listing, and what is to be done is asked of the
journal each time. Read ``step`` first.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ingestor import decide, listing
from ingestor.backoff import delay
from ingestor.decide import NEVER, Scope
from ingestor.journal import Journal
from ingestor.listing import Listing, Source
from ingestor.model import CollectionName, Hint, SourceName, Sums
from ingestor.ports import Collective, NeedsHuman, Scoped, Stale, Stop, Transient, Watchable
from ingestor.prepare import Job, Prepared, prepare, withdraw
from ingestor.rows import Entry, Feed, Receipt
from ingestor.shelf import Shelf
from ingestor.writer import BATCH, Writer

log = logging.getLogger("ingestor")

GRACE = 60.0  # seconds a vanished document waits to be found again under another name
IN_FLIGHT_BYTES = 128 * 2**20  # of documents being prepared; one larger than that goes alone


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What became of the work handed in under ``tag``: a value, or an error with its traceback."""

    tag: object
    value: object = None
    error: Exception | None = None
    trace: str = ""


class Work(Protocol):
    """What the engine needs of pool.Pool."""

    def submit(self, tag: object, work: Callable[[], object], *, scan: bool = False) -> None: ...
    def listen(self, tag: object, hints: Callable[[Stop], Iterator[Hint]]) -> Callable[[], None]: ...
    def next(self, timeout: float) -> Outcome | None: ...


class Stopped(Exception):
    """The program is going down: the work is abandoned, and nothing of it was written."""


@dataclass(slots=True)
class _Watch:
    """How one source stands."""

    dirty: set[str] = field(default_factory=lambda: {""})
    scanning: bool = False
    whole: bool = False  # a whole listing was taken over
    next_scan: float = 0.0
    attempts: int = 0  # listings in a row that failed; hints don't hasten the next
    partial: int = 0  # whole listings in a row that could not see everything
    said: str | None = None  # of its listings' trouble, lest it be said at every one
    end: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True, eq=False)
class _Scan:
    feed: Feed
    scope: Scope
    state: _Watch


class Engine:
    """``clock`` gives POSIX seconds; ``random`` numbers in [0, 1)."""

    def __init__(
        self,
        journal: Journal,
        shelf: Shelf,
        pool: Work,
        clock: Callable[[], float],
        random: Callable[[], float],
        workers: int = 16,
    ) -> None:
        self.journal, self.pool, self.clock, self.random, self.workers = journal, pool, clock, random, workers
        self.sources: dict[Feed, Source] = {}
        self.leaving: Sequence[SourceName] = ()  # in no config any more, and their documents shall go
        self.in_flight: dict[int, Entry] = {}
        self.writer = Writer(journal, shelf, clock, random, self._wanted_recipe, self._hold_collection)
        self._watches: dict[Feed, _Watch] = {}
        self._inbox: deque[Outcome] = deque()  # an outcome leaves it only when it was taken over whole

    # --- what the shell calls ------------------------------------------------------------------------

    def configure(
        self, sources: Sequence[Source], *, watch: bool, leaving: Sequence[SourceName] = ()
    ) -> None:
        """Take over a config: at the start, and again whenever it changes."""
        for state in self._watches.values():
            state.end()
        self.leaving = leaving
        self.sources = {source.feed: source for source in sources}
        self._watches = {feed: _Watch() for feed in self.sources}
        for name in {*leaving, *(source.name for source in sources)}:
            self.journal.relocate(name, [source.collection for source in sources if source.name == name])
        for feed, source in self.sources.items():
            for parser in self.journal.parsers(feed):
                self.journal.want_recipe(feed, parser, source.tools.recipe(parser))
            if watch and isinstance(source.connector, Watchable):
                self._watches[feed].end = self.pool.listen(feed, source.connector.watch)

    def step(self, timeout: float) -> None:
        """Take what came in, then start whatever can be started.

        If it raises (a full disk, say), nothing is lost: the next step goes on from here.
        """
        outcome = self.pool.next(timeout)
        while outcome is not None:
            self._inbox.append(outcome)
            outcome = self.pool.next(0)
        while self._inbox:
            self._take(self._inbox[0])
            self._inbox.popleft()
        self._list()
        self._dispatch()
        self._write(everything=not self._preparing())
        self._tidy()

    def flush(self) -> None:
        """Write all that is prepared, as the last act."""
        self._write(everything=True)

    def resting(self) -> bool:
        """Nothing runs, nothing waits to be written, nothing is due now."""
        busy = any(state.scanning or self._may_list(state) for state in self._watches.values())
        return not (busy or self.in_flight or self._due_now())

    def wake_at(self, *, routine: bool = True) -> float:
        """When something is due without anything coming in; ``routine``: the regular listings, too."""
        times = [self.writer.wake_at()]
        if not self.in_flight:
            times.append(self.journal.next_retry(self._ready()))
        times += [
            state.next_scan
            for feed, state in self._watches.items()
            if not state.scanning and (routine or self._may_recover(feed[0], state))
        ]
        return min(times)

    def listed(self, collection: CollectionName) -> bool:
        """Whether every source that feeds it was listed whole since the config was taken over."""
        return all(state.whole for feed, state in self._watches.items() if feed[1] == collection)

    def busy(self) -> set[CollectionName]:
        """Editions that work is under way for."""
        return {entry.collection for entry in self.in_flight.values()}

    def look_again(self) -> None:
        """List every source now, and see to the collections."""
        for state in self._watches.values():
            state.dirty.add("")

    # --- what comes in -------------------------------------------------------------------------------

    def _take(self, outcome: Outcome) -> None:
        if isinstance(
            outcome.error, Stopped
        ):  # the program goes down, or the embedder is not wanted any more
            if isinstance(outcome.tag, Entry):
                self.in_flight.pop(outcome.tag.row, None)
            return
        if isinstance(outcome.tag, _Scan):
            self._scanned(outcome.tag, outcome)
        elif isinstance(outcome.tag, Entry):
            self._prepared(outcome.tag, outcome)
        elif isinstance(outcome.tag, tuple) and outcome.tag in self._watches:
            self._hinted(outcome.tag, outcome)

    def _hinted(self, feed: Feed, outcome: Outcome) -> None:
        if outcome.error is not None:
            log.warning("watching %s failed: %s; full scans go on", feed[0], outcome.error)
        hint = outcome.value if isinstance(outcome.value, Hint) else Hint()
        for other, state in self._watches.items():
            if other == feed if hint.source is None else other[0] == hint.source:
                state.dirty.add(hint.under)

    def _scanned(self, scan: _Scan, outcome: Outcome) -> None:
        source, state = self.sources.get(scan.feed), scan.state
        if source is None or state is not self._watches.get(scan.feed):
            return  # of a config that is no longer in force
        if isinstance(outcome.value, Listing):
            self._observe(source, state, outcome.value)
        else:
            self._scan_failed(source, state, outcome)
        state.scanning = False

    def _observe(self, source: Source, state: _Watch, found: Listing) -> None:
        if self._held(source, state, found):
            state.next_scan = self.clock() + source.scan_every
            return
        self.journal.observe(source.name, source.collection, found.changes, self.clock() + GRACE)
        if found.scope.whole:
            if source.leads:
                self.journal.scanned(source.name, self.clock(), found.identity, found.trouble)
            self.writer.check(source.collection)
            state.next_scan = self.clock() + source.scan_every
            state.attempts, state.whole = 0, True
            self._say(source, state, found.trouble)
        if found.trouble is None:
            state.partial = 0 if found.scope.whole else state.partial
        elif found.scope.whole or not state.partial:
            state.next_scan = self._later(source, state.partial)
            state.partial += 1

    def _held(self, source: Source, state: _Watch, found: Listing) -> bool:
        row = self.journal.source(source.name)
        moved_root = row.identity not in (None, found.identity)
        reason = decide.sudden_loss(found.changes, found.known, source.max_loss, moved_root)
        if reason is None or row.accepted:
            return False
        held = f"{reason}; nothing is removed; if that is right, run: ingestor accept {source.name}"
        self._say(source, state, held)
        self.journal.hold(source.name, held, loss=True)
        return True

    def _scan_failed(self, source: Source, state: _Watch, outcome: Outcome) -> None:
        reason = str(outcome.error)
        self._say(source, state, reason)
        if isinstance(outcome.error, NeedsHuman):
            self.journal.hold(source.name, reason)
        else:
            self.journal.troubled(source.name, reason)
            if not isinstance(outcome.error, Transient):
                log.error("%s", outcome.trace)
        state.next_scan = self._later(source, state.attempts)
        state.attempts += 1

    def _say(self, source: Source, state: _Watch, trouble: str | None) -> None:
        if trouble is None and state.said is not None:
            log.info("source %s: it was listed whole again", source.name)
        elif trouble != state.said:
            log.warning("source %s: %s", source.name, trouble)
        state.said = trouble

    def _later(self, source: Source, attempts: int) -> float:
        """When a listing is repeated whole: soon at first, then ever later."""
        return self.clock() + min(delay(attempts, self.random()), source.scan_every)

    def _prepared(self, entry: Entry, outcome: Outcome) -> None:
        if isinstance(outcome.value, Prepared):
            self.writer.put(outcome.value)
        elif outcome.error is not None:
            self._failed(entry, outcome.error, outcome.trace)

    def _failed(self, entry: Entry, error: Exception, trace: str) -> None:
        source, version = self.sources.get(entry.feed), entry.item.version if entry.item else None
        failure = decide.after_failure(error, entry.attempts, self.clock(), self.random(), trace)
        if failure.quarantined and source is not None and version is not None:
            log.warning("quarantined %s (%s): %s", entry.key, entry.source, failure.reason)
            nothing = Receipt(entry.row, version, source.tools.recipe(""), "", "", "", failure=failure)
            self.writer.put(withdraw(entry, nothing))
            return
        if isinstance(error, NeedsHuman):
            log.error("source %s is held: %s", entry.source, error)
            self.journal.hold(entry.source, str(error))
        if isinstance(error, Stale) and source is not None:
            self._watches[entry.feed].dirty.add(entry.key if isinstance(source.connector, Scoped) else "")
        self.journal.fail(entry.row, version, failure)
        first = logging.INFO if not entry.attempts else logging.DEBUG
        log.log(first, "%s (%s): %s; tried again later", entry.key, entry.source, failure.reason)
        self.in_flight.pop(entry.row, None)

    # --- listing -------------------------------------------------------------------------------------

    def _list(self) -> None:
        for feed, state in self._watches.items():
            if self.clock() >= state.next_scan or self.journal.source(feed[0]).accepted:
                state.dirty.add("")
            if state.scanning or not self._may_list(state):
                continue
            source = self.sources[feed]
            scope = listing.scope_of(source, state.dirty)
            state.dirty, state.scanning = set(), True
            self.pool.submit(_Scan(feed, scope, state), self._scanning(source, scope), scan=True)

    def _may_recover(self, name: SourceName, state: _Watch) -> bool:
        """Whether its last listing failed in a way that may pass without a person's doing."""
        return bool(state.attempts or state.partial) and self.journal.source(name).held is None

    def _may_list(self, state: _Watch) -> bool:
        """After a failure hints don't hasten a listing: its time is set."""
        return bool(state.dirty) and (not state.attempts or self.clock() >= state.next_scan)

    def _scanning(self, source: Source, scope: Scope) -> Callable[[], Listing]:
        known = self.journal.wanted_versions
        return lambda: listing.take(source, scope, known(source.name, source.collection))

    # --- dispatching ---------------------------------------------------------------------------------

    def _ready(self) -> list[Feed]:
        """What may be worked on: the source is not held, and the collection can be written."""
        paused = self.writer.paused()
        return [
            (name, collection)
            for name, collection in self.sources
            if collection not in paused and self.journal.source(name).held is None
        ]

    def _gone(self, ready: Sequence[Feed], now: float, limit: int) -> list[Entry]:
        return self.journal.gone([*{name for name, _ in ready}, *self.leaving], now, limit)

    def _due_now(self) -> bool:
        ready = self._ready()
        now = self.clock()
        return bool(self.journal.due(ready, now, 1) or self._gone(ready, NEVER, 1) or self._drifted(ready, 1))

    def _dispatch(self) -> None:
        """Keep the workers busy. What is prepared waits for company to be written, and holds up no worker."""
        ready, free = self._ready(), self.workers - self._preparing()
        if ready and free > 0:
            due = self.journal.due(ready, self.clock(), free, self.in_flight.keys())
            for entry in self._affordable(due):
                self._start(Job(entry, self._others(entry)))

    def _tidy(self) -> None:
        """Remove what is gone, unless it may yet be found under another name; last of all what drifted."""
        ready = self._ready()
        if not (ready or self.leaving):
            return
        quiet = not (self.in_flight or any(s.scanning or s.dirty for s in self._watches.values()))
        gone = self._gone(ready, NEVER if quiet else self.clock(), BATCH)
        self.writer.remove([entry for entry in gone if entry.row not in self.in_flight])
        if quiet and not gone:
            for entry in self._drifted(ready, self.workers):
                self._start(Job(entry, self._others(entry), force=True))

    def _preparing(self) -> int:
        return len(self.in_flight) - self.writer.waiting()

    def _affordable(self, entries: Sequence[Entry]) -> list[Entry]:
        """As many as their bytes allow; one that is too large for that goes alone."""
        room = IN_FLIGHT_BYTES - sum(_size(entry) for entry in self.in_flight.values())
        chosen: list[Entry] = []
        for entry in entries:
            if _size(entry) <= room or not (chosen or self.in_flight):
                chosen.append(entry)
                room -= _size(entry)
        return chosen

    def _start(self, job: Job) -> None:
        tools = self.sources[job.entry.feed].tools
        self.in_flight[job.entry.row] = job.entry
        self.pool.submit(job.entry, lambda: prepare(job, tools, self.journal.predecessor))

    def _others(self, entry: Entry) -> Sums | None:
        statistic = self.sources[entry.feed].tools.statistic
        total = None if statistic is None else self.journal.total(entry.collection, statistic)
        if total is None or entry.sums is None or entry.statistic != statistic:
            return total
        return total - entry.sums

    def _drifted(self, ready: Sequence[Feed], limit: int) -> list[Entry]:
        """Settled documents that their collection's statistic has left behind."""
        chunkers = {
            (source.collection, source.tools.chunker.statistic): source.tools.chunker
            for source in self.sources.values()
            if isinstance(source.tools.chunker, Collective)
        }
        found: list[Entry] = []
        for (collection, statistic), chunker in chunkers.items():
            total = self.journal.total(collection, statistic)
            if total is not None:
                sources = [name for name, fed in ready if fed == collection]
                found += self.journal.drifted(sources, collection, statistic, chunker.value(total), limit)
        return found[:limit]

    # --- writing -------------------------------------------------------------------------------------

    def _write(self, *, everything: bool) -> None:
        for entry in self.writer.flush(everything=everything):
            self.in_flight.pop(entry.row, None)

    def _wanted_recipe(self, prepared: Prepared) -> str:
        source = self.sources.get(prepared.entry.feed)
        return prepared.receipt.recipe if source is None else source.tools.recipe(prepared.receipt.parser)

    def _hold_collection(self, collection: CollectionName, error: Exception) -> None:
        for source in self.sources.values():
            if source.collection == collection:
                self.journal.hold(source.name, str(error))


def _size(entry: Entry) -> int:
    return (entry.item.size if entry.item else 0) or 0
