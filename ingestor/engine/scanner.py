"""Watches sources: decides when each is listed, and carries out its listing.

A watch is a state machine with the table MOVES. What follows from a listing is decided in core/listings.py;
the scanner carries it out in the journal. All methods belong to the engine's thread. The way of a document
begins here, and goes on in engine/loop.py.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial

from ingestor.core import decisions
from ingestor.core.decisions import QueueTurns, Scope
from ingestor.core.entries import EditionName, Feed, SourceRow
from ingestor.core.errors import Stopped, delay, describe
from ingestor.core.events import Event, event
from ingestor.core.listings import Action, Conclude, Hold, Identify, ListAgain, Listing, Observe, reconcile
from ingestor.engine.parts import EngineParts
from ingestor.engine.workers import Outcome
from ingestor.model import Hint, SourceName
from ingestor.pipeline import listing
from ingestor.pipeline.listing import Source
from ingestor.ports import NeedsHuman, Transient, Watchable
from ingestor.state.run_status import RunningListing
from ingestor.state.sources import LastListing, SourceRows

log = logging.getLogger("ingestor")

GRACE = 60.0  # seconds a vanished document waits to be found again under another name


class WatchPhase(Enum):
    IDLE = auto()
    LISTING = auto()  # on a worker
    TAKING_OVER = auto()  # some of its actions are carried out; other work precedes the next ones
    FAILED = auto()  # listed again after a backoff, which no hint shortens
    HELD = auto()  # its listing lacks documents, and a person must accept the loss


MOVES = {
    WatchPhase.IDLE: (WatchPhase.LISTING,),
    WatchPhase.LISTING: (WatchPhase.TAKING_OVER, WatchPhase.IDLE, WatchPhase.FAILED, WatchPhase.HELD),
    WatchPhase.TAKING_OVER: (WatchPhase.TAKING_OVER, WatchPhase.IDLE),
    WatchPhase.FAILED: (WatchPhase.LISTING,),
    WatchPhase.HELD: (WatchPhase.LISTING,),
}
AT_WORK = WatchPhase.LISTING, WatchPhase.TAKING_OVER


@dataclass(slots=True, eq=False)
class Watch:
    """The state of one source's watch.

    ``dirty``: keys to list, with what is below them. ``whole``: a whole listing is in the journal.
    ``failures``, ``partial``: whole listings in a row that failed, or could not see everything.
    ``problem``: the last one that was logged; each is logged once. ``watched``: for changes, if the connector
    can. ``end``: ends that.
    """

    phase: WatchPhase = WatchPhase.IDLE
    dirty: set[str] = field(default_factory=lambda: {""})
    progress: RunningListing = field(default_factory=lambda: RunningListing(0.0))  # of the listing under way
    whole: bool = False
    next_scan: float = 0.0
    failures: int = 0
    partial: int = 0
    problem: str | None = None
    watched: bool = False
    end: Callable[[], None] = lambda: None

    def move(self, to: WatchPhase) -> None:
        assert to in MOVES[self.phase], f"a watch cannot move from {self.phase} to {to}"
        self.phase = to

    @property
    def in_trouble(self) -> bool:
        """Return whether another config is a reason to try again."""
        return bool(self.failures or self.partial) or self.problem is not None


@dataclass(frozen=True, slots=True, eq=False)
class Scan:
    """The tag of a listing that is under way. ``row``: of the source when the listing began."""

    source: SourceName
    scope: Scope
    watch: Watch
    row: SourceRow


@dataclass(slots=True, eq=False)
class TakeOver:
    """A listing, and the actions that are left of it.

    If the process ends in between, the next listing finds what the journal lacks.
    """

    result: Listing
    left: deque[Action]
    turns: dict[int, QueueTurns] = field(default_factory=dict)  # by edition


class Scanner:
    """Lists sources and stores their listings in the journal, each for all editions of its source.

    ``whole``: called with a collection whenever one of its sources was listed whole.
    """

    def __init__(self, parts: EngineParts, whole: Callable[[EditionName], None]) -> None:
        self.journal, self.pool = parts.journal, parts.pool
        self.clock, self.random, self._whole = parts.clock, parts.random, whole
        self.source_rows = SourceRows(parts.journal)
        self._sources: dict[SourceName, list[Source]] = {}  # by name: one for each edition
        self._watches: dict[SourceName, Watch] = {}

    def configure(self, sources: Sequence[Source], *, watch: bool) -> None:
        """List these sources from now on.

        A source that is set as before keeps its watch. It is listed anew if it is held or in trouble, or
        feeds an edition that it did not feed. ``sources``: of those of one name, the first is of the edition
        that readers see.
        """
        before, self._sources = self._sources, {}
        for source in sources:
            self._sources.setdefault(source.name, []).append(source)
        former, self._watches = self._watches, {}
        kept = {
            name
            for name, known in former.items()
            if known.watched == watch and _is_placed(before[name], self._sources.get(name, ()))
        }
        for name, known in former.items():
            if name not in kept:
                known.end()  # first: beside them the system may refuse another
        for name, (first, *_) in self._sources.items():
            if name in kept and self._continues(name, former[name], before[name]):
                self._watches[name] = former[name]
                continue
            self._watches[name] = fresh = Watch(watched=watch)
            if name in kept:
                fresh.end, fresh.problem = former[name].end, former[name].problem
            elif watch and isinstance(first.connector, Watchable):
                fresh.end = self.pool.listen(name, first.connector.watch)

    def _continues(self, name: SourceName, watch: Watch, before: Sequence[Source]) -> bool:
        """Return whether an unchanged source keeps its watch, with a listing that is under way."""
        if watch.in_trouble or self.source_rows.of(name).held is not None:
            return False
        fed, feeds = (
            {(one.collection, one.only_loses) for one in each} for each in (before, self._sources[name])
        )
        return fed == feeds or (watch.whole and watch.phase not in AT_WORK and feeds <= fed)

    def is_first(self, feed: Feed) -> bool:
        """Return whether the listings of this edition decide for the source."""
        return self._sources[feed.source][0].feed == feed

    def start(self) -> None:
        """Begin every listing that is due."""
        for name, watch in self._watches.items():
            if watch.phase in AT_WORK:  # the time of the next one is set when it ends
                continue
            row = self.source_rows.of(name)
            if self.clock() >= watch.next_scan or row.accepted or (row.loss and watch.dirty):
                watch.dirty.add("")  # only a whole listing shows whether vanished documents are back
            if not self._may_list(name, watch):
                continue
            watch.move(WatchPhase.LISTING)
            editions = self._sources[name]
            scope = listing.scope_of(editions[0], watch.dirty)
            watch.dirty, watch.progress = set(), RunningListing(self.clock())
            known = [LastListing(self.journal, one.feed) for one in editions]
            work = partial(listing.take, editions[0], scope, known, watch.progress.note)
            self.pool.submit(Scan(name, scope, watch, row), work, scan=True)

    def look_again(self, source: SourceName | None = None, under: str = "") -> None:
        """List a source soon, at and below the key ``under``; without ``source`` every source, whole."""
        for other, watch in self._watches.items():
            if source in (None, other):
                watch.dirty.add(under)

    def wait_no_longer(self) -> None:
        """List every source now, also those whose last listing failed."""
        for watch in self._watches.values():
            watch.next_scan = 0.0

    # --- state ---------------------------------------------------------------------------------------

    def is_busy(self) -> bool:
        """Return whether a listing runs or is due."""
        return any(
            watch.phase in AT_WORK or self._may_list(name, watch) for name, watch in self._watches.items()
        )

    def is_quiet(self) -> bool:
        """Return whether no listing runs or is pending; paused sources do not count."""
        return not any(
            watch.phase in AT_WORK or (watch.dirty and not self._is_paused(name))
            for name, watch in self._watches.items()
        )

    def has_listed(self, collection: EditionName) -> bool:
        """Return whether every source of this edition was listed whole under this config."""
        fed = {name for name, each in self._sources.items() if collection in [one.collection for one in each]}
        return all(self._watches[name].whole for name in fed)

    def under_way(self) -> dict[SourceName, RunningListing]:
        """Return the listings that run, by source."""
        return {name: watch.progress for name, watch in self._watches.items() if watch.phase in AT_WORK}

    def incomplete_sources(self) -> set[SourceName]:
        """Return the sources whose last listing is only partly in the journal."""
        return {name for name, watch in self._watches.items() if watch.phase is WatchPhase.TAKING_OVER}

    def sources_not_listed(self) -> set[SourceName]:
        """Return the sources that were not listed whole under this config, without paused ones."""
        return {name for name, watch in self._watches.items() if not (watch.whole or self._is_paused(name))}

    def wake_at(self, *, routine: bool) -> float:
        """Return when the next listing is due, in POSIX seconds. ``routine``: regular listings count, too.

        Other listings are those after one that failed in a way that may pass by itself.
        """
        times = [
            watch.next_scan
            for name, watch in self._watches.items()
            if not (watch.phase in AT_WORK or self._is_paused(name))
            and (routine or ((watch.failures or watch.partial) and self.source_rows.of(name).held is None))
        ]
        return min(times, default=decisions.NEVER)

    def _may_list(self, name: SourceName, watch: Watch) -> bool:
        """Return whether a listing may start now."""
        due = bool(watch.dirty) and (watch.phase is not WatchPhase.FAILED or self.clock() >= watch.next_scan)
        return due and not self._is_paused(name)

    def _is_paused(self, name: SourceName) -> bool:
        return self.source_rows.of(name).paused is not None

    # --- what comes in -------------------------------------------------------------------------------

    def take_hint(self, name: SourceName, outcome: Outcome) -> None:
        """Take a hint of a watch, or note that the watch ended with an error."""
        if (watch := self._watches.get(name)) is None:
            return  # of a config that is no longer in force
        failed_before, watch.watched = not watch.watched, outcome.error is None
        if outcome.error is not None:
            if failed_before:
                return  # regular listings find what it missed since
            reason = describe(outcome.error)
            about = event("source_watch_failed", source=str(name), reason=reason)
            log.warning("watching %s failed: %s; regular listings continue", name, reason, extra=about)
        hint = outcome.value if isinstance(outcome.value, Hint) else Hint()
        meant = name if hint.source is None else hint.source
        if meant not in self._watches:
            words = "source %s sends a hint for source %r, which is not in the config"
            log.warning(words, name, meant, extra=event("source_watch_failed", source=str(name)))
        self.look_again(meant, hint.under)

    def take_listing(self, scan: Scan, outcome: Outcome) -> None:
        """Take the end of a listing, or carry out its next actions. After an error it is called again."""
        watch, value = scan.watch, outcome.value
        if watch is not self._watches.get(scan.source):
            return  # of a config that is no longer in force
        source, *_ = editions = self._sources[scan.source]
        if isinstance(value, Listing):
            row = self.source_rows.of(source.name)
            losing = [one.only_loses for one in editions]
            value = TakeOver(value, deque(reconcile(value, scan.row, row, source.max_loss, losing)))
        if isinstance(value, TakeOver):
            self._carry_out(editions, scan, value)
        elif isinstance(outcome.error, Stopped):
            watch.dirty.update(scan.scope.under)
            watch.move(WatchPhase.IDLE)
        else:
            self._fail(source, watch, outcome)

    def _carry_out(self, editions: Sequence[Source], scan: Scan, under_way: TakeOver) -> None:
        """Carry out actions up to the first part of the changes and, if that is the last one, the others."""
        source, watch, observed = editions[0], scan.watch, False
        while under_way.left:
            action = under_way.left[0]
            if isinstance(action, Observe):
                if observed:
                    watch.move(WatchPhase.TAKING_OVER)
                    self.pool.post(scan, under_way)
                    return
                turns = under_way.turns.setdefault(action.edition, QueueTurns())
                fed = editions[action.edition]
                listing.observe(self.journal, fed, [action], self.clock() + GRACE, turns)
                observed = True
            elif isinstance(action, Identify):
                self.source_rows.identify(source.name, action.identity)
            elif isinstance(action, Conclude):
                self._conclude(editions, watch, under_way.result, action)
            elif isinstance(action, ListAgain):
                watch.dirty.update(action.under)
            else:
                self._hold(source, watch, action)
                return
            under_way.left.popleft()
        trouble, whole = under_way.result.trouble, under_way.result.scope.whole
        if trouble is None:
            watch.partial = 0 if whole else watch.partial
        elif not under_way.result.more and (whole or not watch.partial):
            watch.next_scan = self._later(source, watch.partial)
            watch.partial += 1
        watch.move(WatchPhase.IDLE)

    def _conclude(self, editions: Sequence[Source], watch: Watch, result: Listing, action: Conclude) -> None:
        source = editions[0]
        self.source_rows.note_listing(
            source.name, self.clock(), result.identity, action.documents, result.trouble
        )
        for each in editions:
            if not each.only_loses:
                self._whole(each.collection)
        watch.next_scan, watch.failures, watch.whole = self.clock() + source.scan_every, 0, True
        self._log(source, watch, result.trouble, "source_failed")

    def _hold(self, source: Source, watch: Watch, action: Hold) -> None:
        reason = f"{action.reason}; nothing is removed until `ingestor accept {source.name}`"
        self._log(source, watch, reason, "source_held")
        self.source_rows.hold(source.name, reason, loss=True, root=action.root)
        watch.next_scan, watch.failures = self.clock() + source.scan_every, 0
        watch.move(WatchPhase.HELD)

    def _fail(self, source: Source, watch: Watch, outcome: Outcome) -> None:
        reason = describe(outcome.error) if outcome.error is not None else "the connector gave no listing"
        held = isinstance(outcome.error, NeedsHuman)
        self._log(source, watch, reason, "source_held" if held else "source_failed")
        if held:
            self.source_rows.hold(source.name, reason)
        else:
            self.source_rows.note_trouble(source.name, reason)
            if not isinstance(outcome.error, Transient):
                about = event("source_failed", source=str(source.name), trace=outcome.trace)
                log.error("source %s: unexpected error", source.name, extra=about)
        watch.next_scan = self._later(source, watch.failures)
        watch.failures += 1
        watch.move(WatchPhase.FAILED)

    def _log(self, source: Source, watch: Watch, problem: str | None, name: Event) -> None:
        if problem is None and watch.problem is not None:
            about = event("source_listed", source=str(source.name))
            log.info("source %s: listing complete again", source.name, extra=about)
        elif problem != watch.problem:
            about = event(name, source=str(source.name), reason=problem)
            log.warning("source %s: %s", source.name, problem, extra=about)
        watch.problem = problem

    def _later(self, source: Source, attempts: int) -> float:
        """Return when a listing is repeated: with exponential backoff, at most ``scan_every``."""
        return self.clock() + min(delay(attempts, self.random()), source.scan_every)


def _is_placed(before: Sequence[Source], now: Sequence[Source]) -> bool:
    """Return whether the same place is listed in the same way."""
    settings = [one.setting for one in (*before, *now)]
    return bool(now) and None not in settings and all(one == settings[0] for one in settings)
