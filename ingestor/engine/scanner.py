"""Watches sources: decides when each source is listed, and applies each listing to the journal.

The state of a source is a ``Watch``, a state machine with the table MOVES. The module core/listings.py
decides which actions a listing demands, and the scanner carries them out in the journal. All methods must be
called by the engine's thread. The work on a document begins here, and continues in engine/loop.py.
"""

import logging
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial

from ingestor.core.decisions import NEVER, Clock, QueuePositions, Random, Scope
from ingestor.core.entries import EditionName, SourceRow
from ingestor.core.errors import Stopped, delay, describe
from ingestor.core.events import Event, event, name_all
from ingestor.core.listings import Action, Conclude, Hold, Identify, ListAgain, Listing, Observe, reconcile
from ingestor.engine.workers import Outcome, Pool
from ingestor.model import Hint, SourceName
from ingestor.pipeline import listing
from ingestor.pipeline.listing import Source
from ingestor.ports import Dispatching, NeedsHuman, Transient, Watchable
from ingestor.state.journal import Journal
from ingestor.state.run_status import RunningListing
from ingestor.state.sources import LastListing, SourceRows

log = logging.getLogger("ingestor")

OnListed = Callable[[EditionName], None]

GRACE = 60.0  # seconds for which a vanished document may still be found under another name


class WatchPhase(Enum):
    """Phase of a source's watch: what the scanner is doing with the source."""

    IDLE = auto()
    LISTING = auto()  # on a thread of its own
    APPLYING = auto()  # some actions of a listing are carried out; other work comes before the next ones
    FAILED = auto()  # listed again after a backoff, which no hint shortens


MOVES = {
    WatchPhase.IDLE: (WatchPhase.LISTING,),
    WatchPhase.LISTING: (WatchPhase.APPLYING, WatchPhase.IDLE, WatchPhase.FAILED),
    WatchPhase.APPLYING: (WatchPhase.APPLYING, WatchPhase.IDLE),
    WatchPhase.FAILED: (WatchPhase.LISTING,),
}
UNDER_WAY = WatchPhase.LISTING, WatchPhase.APPLYING


@dataclass(slots=True, eq=False)
class Watch:
    """The state of one source for the scanner. The object is also the tag by which its listings are
    recognised.

    ``editions``: the source, once for each edition that it feeds; the edition that readers see is first.
    ``dirty``: keys to list again, together with all keys below them; "" is the whole source. ``is_listed``:
    whether a complete listing under this config is in the journal. ``next_scan``: POSIX seconds of the next
    complete listing. ``failures``: how many listings in a row failed or lacked keys. ``problem``: the problem
    that was logged last, since each is logged once. ``watched``: whether the connector reports changes.
    ``end``: a function that ends these reports.
    ``stale``: keys of documents that changed before they were read. The next listing logs them in one line.

    The other fields belong to the running listing. ``row``: the source's row of the journal when the listing
    began. ``result``: the finished listing. ``left``: its actions that are not carried out yet. Both are lost
    if the process ends; the next listing finds what the journal lacks. ``positions``: by edition, the
    positions in the queue for its new documents.
    """

    editions: Sequence[Source]
    phase: WatchPhase = WatchPhase.IDLE
    dirty: set[str] = field(default_factory=lambda: {""})
    is_listed: bool = False
    next_scan: float = 0.0
    failures: int = 0
    problem: str | None = None
    watched: bool = False
    end: Callable[[], None] = lambda: None
    stale: list[str] = field(default_factory=list)
    scope: Scope = field(default_factory=Scope)
    row: SourceRow = field(default_factory=SourceRow)
    progress: RunningListing = field(default_factory=lambda: RunningListing(0.0))
    result: Listing | None = None
    left: deque[Action] = field(default_factory=deque)
    positions: defaultdict[int, QueuePositions] = field(default_factory=lambda: defaultdict(QueuePositions))

    @property
    def source(self) -> Source:
        """Return the source with the tools of its first edition."""
        return self.editions[0]

    def move(self, to: WatchPhase) -> None:
        assert to in MOVES[self.phase], f"a watch cannot move from {self.phase} to {to}"
        self.phase = to


class Scanner:
    """Lists the sources, and stores each listing in the journal for all editions that the source feeds.

    ``on_listed``: called with each edition of a source after a complete listing of the source.
    """

    def __init__(
        self, journal: Journal, pool: Pool, clock: Clock, random: Random, on_listed: OnListed
    ) -> None:
        self.journal, self.pool, self.source_rows = journal, pool, SourceRows(journal)
        self.clock, self.random, self._on_listed = clock, random, on_listed
        self._watches: dict[SourceName, Watch] = {}

    def configure(self, sources: Sequence[Source], *, watch: bool) -> None:
        """Apply a config: list these sources from now on.

        ``sources``: a value for each source and edition, the edition that readers see first. ``watch``:
        whether connectors report changes. A source with the same connector keeps its state. It is listed anew
        if it is held, if its last listing had a problem, or if it now feeds a further edition.
        """
        by_name: dict[SourceName, list[Source]] = {}
        for source in sources:
            by_name.setdefault(source.name, []).append(source)
        old, self._watches = self._watches, {}
        for name, editions in by_name.items():
            connector, known = editions[0].connector, old.get(name)
            if isinstance(connector, Dispatching):
                connector.sources = tuple(by_name)
            if known is None or known.watched != watch or known.source.connector is not connector:
                self._watches[name] = fresh = Watch(editions, watched=watch)
                if watch and isinstance(connector, Watchable):
                    fresh.end = self.pool.listen(name, connector.watch)
            else:
                kept = self._continues(known, editions)
                fresh = Watch(editions, watched=watch, problem=known.problem, end=known.end)
                self._watches[name], known.editions = known if kept else fresh, editions
                del old[name]
        for known in old.values():
            known.end()

    def _continues(self, watch: Watch, editions: Sequence[Source]) -> bool:
        """Return whether a source with the same connector keeps its state, and a listing that is running."""
        failed = watch.failures or watch.problem is not None
        if failed or self.source_rows.of(watch.source.name).held is not None:
            return False  # the changed config may help
        both = watch.editions, editions
        fed, feeds = ({(one.edition, one.only_loses) for one in each} for each in both)
        return fed == feeds or (watch.is_listed and watch.phase not in UNDER_WAY and feeds <= fed)

    def start(self) -> None:
        """Begin the listing of each source that is due to be listed."""
        for watch in self._watches.values():
            if watch.phase in UNDER_WAY:  # the time of the next one is set when it ends
                continue
            watch.row = row = self.source_rows.of(watch.source.name)
            if self.clock() >= watch.next_scan or row.accepted or (row.loss and watch.dirty):
                watch.dirty.add("")  # only a complete listing shows whether vanished documents are back
            if not self._may_list(watch):
                continue
            watch.move(WatchPhase.LISTING)
            watch.scope = listing.scope_of(watch.source, watch.dirty)
            watch.dirty, watch.progress = set(), RunningListing(self.clock())
            if watch.stale:
                self._log_stale(watch)
            known = [LastListing(self.journal, one.feed) for one in watch.editions]
            work = partial(listing.take, watch.source, watch.scope, known, watch.progress.note)
            self.pool.submit(watch, work, scan=True)

    def request_listing(self, source: SourceName | None = None, under: str = "") -> None:
        """Have a source listed soon, at and below the key ``under``; every source if ``source`` is None."""
        for other, watch in self._watches.items():
            if source in (None, other):
                watch.dirty.add(under)

    def note_stale(self, source: SourceName, key: str) -> None:
        """Count a document that changed before it was read, for the log line of the next listing."""
        self._watches[source].stale.append(key)

    def retry_now(self) -> None:
        """Have every source listed now, including sources whose last listing failed."""
        for watch in self._watches.values():
            watch.next_scan = 0.0

    # --- state ---------------------------------------------------------------------------------------

    def is_busy(self) -> bool:
        """Return whether a listing is running, or could start now."""
        watches = self._watches.values()
        return any(watch.phase in UNDER_WAY or self._may_list(watch) for watch in watches)

    def is_quiet(self) -> bool:
        """Return whether no listing is running or requested. Requests for paused sources do not count."""
        return not any(
            watch.phase in UNDER_WAY or (watch.dirty and not self._is_paused(watch))
            for watch in self._watches.values()
        )

    def has_listed(self, edition: EditionName) -> bool:
        """Return whether every source of this edition had a complete listing under this config."""
        watches = self._watches.values()
        return all(each.is_listed for each in watches if edition in [one.edition for one in each.editions])

    def under_way(self) -> dict[SourceName, RunningListing]:
        """Return the progress of the listings that run, by source."""
        return {name: watch.progress for name, watch in self._watches.items() if watch.phase in UNDER_WAY}

    def incomplete_sources(self) -> set[SourceName]:
        """Return the sources whose last listing is stored only partly in the journal so far."""
        return {name for name, watch in self._watches.items() if watch.phase is WatchPhase.APPLYING}

    def sources_not_listed(self) -> set[SourceName]:
        """Return the sources that were not listed completely under this config, without paused sources."""
        watches = self._watches.items()
        return {name for name, watch in watches if not (watch.is_listed or self._is_paused(watch))}

    def wake_at(self, *, routine: bool) -> float:
        """Return the POSIX seconds at which the next listing is due.

        ``routine``: whether regular listings count. If not, only retries of failed listings count, and of
        these only the ones that need no help of a person.
        """
        times = [
            watch.next_scan
            for name, watch in self._watches.items()
            if not (watch.phase in UNDER_WAY or self._is_paused(watch))
            and (routine or (watch.failures and self.source_rows.of(name).held is None))
        ]
        return min(times, default=NEVER)

    def _may_list(self, watch: Watch) -> bool:
        due = bool(watch.dirty) and (watch.phase is not WatchPhase.FAILED or self.clock() >= watch.next_scan)
        return due and not self._is_paused(watch)

    def _is_paused(self, watch: Watch) -> bool:
        return self.source_rows.of(watch.source.name).paused is not None

    # --- outcomes ------------------------------------------------------------------------------------

    def take_hint(self, name: SourceName, outcome: Outcome) -> None:
        """Have a source listed, because its connector sent a hint or its watch failed.

        ``outcome``: the hint, or the error with which the watch ended. ``name``: the source of the connector.
        """
        if (watch := self._watches.get(name)) is None:
            return  # the source left the config
        failed_before, watch.watched = not watch.watched, outcome.error is None
        if outcome.error is not None:
            if failed_before:
                return  # regular listings find the changes since
            reason = describe(outcome.error)
            about = event("source_watch_failed", source=name, reason=reason)
            words = "source %s: watching for changes failed: %s; regular listings continue"
            log.warning(words, name, reason, extra=about)
        hint = outcome.value if isinstance(outcome.value, Hint) else Hint()
        source = name if hint.source is None else hint.source
        if source not in self._watches:
            words = "source %s reports a change in source %r, which is not in the config"
            log.warning(words, name, source, extra=event("source_watch_failed", source=str(name)))
        self.request_listing(source, hint.under)

    def take_listing(self, watch: Watch, outcome: Outcome) -> None:
        """Process a finished listing, or continue to apply it to the journal.

        ``outcome.value``: the listing; None if an earlier call posted this outcome to continue its work. If
        the journal raises an error, the engine calls again with the same outcome.
        """
        source = watch.source
        if watch is not self._watches.get(source.name):
            return  # another config is in force since
        if isinstance(outcome.error, Stopped):
            watch.dirty.update(watch.scope.under)
            watch.move(WatchPhase.IDLE)
        elif outcome.error is not None:
            self._fail(watch, outcome.error, outcome.trace)
        else:
            if isinstance(outcome.value, Listing):
                watch.result, watch.positions = outcome.value, defaultdict(QueuePositions)
                row, losing = self.source_rows.of(source.name), [one.only_loses for one in watch.editions]
                watch.left = deque(reconcile(watch.result, watch.row, row, source.max_loss, losing))
            assert watch.result is not None
            self._carry_out(watch, watch.result)

    def _carry_out(self, watch: Watch, result: Listing) -> None:
        """Carry out the actions of a listing, up to and including one part of its changes.

        The other actions follow in a later step. So edits of other sources are handled between the parts of a
        large listing. An action is removed from ``left`` only after it is carried out, since the journal may
        raise an error.
        """
        source, observed = watch.source, False
        while watch.left:
            now = self.clock()
            match watch.left[0]:
                case Observe() if observed:
                    watch.move(WatchPhase.APPLYING)
                    self.pool.post(watch)
                    return
                case Observe(edition) as action:
                    positions, observed = watch.positions[edition], True
                    listing.observe(self.journal, watch.editions[edition], [action], now + GRACE, positions)
                case Identify(identity):
                    self.source_rows.identify(source.name, identity)
                case ListAgain(under):
                    watch.dirty.update(under)
                case Conclude(documents):
                    self._conclude(watch, result, documents)
                case Hold(loss, root):
                    reason = f"{loss}; nothing is removed until `ingestor accept {source.name}`"
                    self._log(watch, reason, "source_held")
                    self.source_rows.hold(source.name, reason, loss=True, root=root)
                    watch.next_scan = now + source.scan_every
            watch.left.popleft()
        watch.result, whole = None, result.scope.whole  # frees the pages of its changes
        if result.trouble is None:
            watch.failures = 0 if whole else watch.failures
        elif not result.more and (whole or not watch.failures):
            self._retry_later(watch)
        watch.move(WatchPhase.IDLE)

    def _conclude(self, watch: Watch, result: Listing, documents: int) -> None:
        """Record that a complete listing is in the journal, and set the time of the next one."""
        source, now, trouble = watch.source, self.clock(), result.trouble
        self.source_rows.note_listing(source.name, now, documents, trouble)
        for each in watch.editions:
            if not each.only_loses:
                self._on_listed(each.edition)
        watch.next_scan, watch.is_listed = now + source.scan_every, True
        self._log(watch, trouble, "source_failed")

    def _fail(self, watch: Watch, error: Exception, trace: str) -> None:
        """Log why a listing failed, and set the time of its retry.

        A source is held if a person must help. A held source stays held, for the new reason, except after a
        loss of documents, which a person must still accept.
        """
        name, row, reason = watch.source.name, self.source_rows.of(watch.source.name), describe(error)
        if isinstance(error, NeedsHuman):
            self._log(watch, reason, "source_held")
        else:
            self._log(watch, reason, "source_failed", "" if isinstance(error, Transient) else trace)
        if isinstance(error, NeedsHuman) or (row.held is not None and not row.loss):
            self.source_rows.hold(name, reason)
            self.source_rows.note_trouble(name, None)
        else:
            self.source_rows.note_trouble(name, reason)
        self._retry_later(watch)
        watch.move(WatchPhase.FAILED)

    def _log(self, watch: Watch, problem: str | None, name: Event, trace: str = "") -> None:
        """Log the problem of a source when it appears, and log that it is over when it is gone."""
        source = watch.source
        if problem is None and watch.problem is not None:
            about = event("source_listed", source=str(source.name))
            log.info("source %s: listing complete again", source.name, extra=about)
        elif problem != watch.problem:
            about = event(name, source=str(source.name), reason=problem, trace=trace or None)
            log.warning("source %s: %s", source.name, problem, extra=about)
        watch.problem = problem

    def _log_stale(self, watch: Watch) -> None:
        """Log why a source is listed again, in one line for all its documents that changed meanwhile."""
        name, stale = watch.source.name, watch.stale
        about = event("document_retried", source=name, document=stale[0], documents=len(stale))
        words = "source %s: %s changed or vanished after the listing; listing it again"
        log.info(words, name, name_all(stale), extra=about)
        watch.stale = []

    def _retry_later(self, watch: Watch) -> None:
        """Set the time at which a failed listing is repeated.

        The wait grows exponentially with the number of failures, and is at most ``scan_every``.
        """
        watch.next_scan = self.clock() + min(delay(watch.failures, self.random()), watch.source.scan_every)
        watch.failures += 1
