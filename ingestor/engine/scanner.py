"""When each source is listed, and what follows from the listing. Belongs to the engine's thread."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ingestor.core import decisions
from ingestor.core.backoff import delay
from ingestor.core.decisions import Changes, QueueTurns, Scope
from ingestor.core.entries import EditionName, Feed, SourceRow
from ingestor.core.error_text import describe
from ingestor.core.events import event
from ingestor.core.interruptions import Stopped
from ingestor.engine.workers import Outcome, Work
from ingestor.model import Hint, SourceName
from ingestor.pipeline import listing
from ingestor.pipeline.listing import Listing, Progress, Source
from ingestor.ports import NeedsHuman, Transient, Watchable
from ingestor.state.journal import Journal
from ingestor.state.listings import LastListing
from ingestor.state.sources import SourceRows

log = logging.getLogger("ingestor")

GRACE = 60.0  # seconds a vanished document waits to be found again under another name


@dataclass(slots=True)
class _Watch:
    """How one source stands."""

    dirty: set[str] = field(default_factory=lambda: {""})
    scanning: bool = False
    in_parts: bool = False  # a listing is being taken over, and there is more of it
    progress: Progress = field(default_factory=lambda: Progress(0.0))  # of the listing under way
    whole: bool = False  # a whole listing was taken over
    next_scan: float = 0.0
    attempts: int = 0  # listings in a row that failed; hints do not make the next one sooner
    partial: int = 0  # whole listings in a row that could not see everything
    said: str | None = None  # last problem that was logged: each is logged once
    watched: bool = False  # for changes, if its connector can
    end: Callable[[], None] = lambda: None

    @property
    def in_trouble(self) -> bool:
        """Whether another config is a reason to try again."""
        return bool(self.attempts or self.partial) or self.said is not None

    @property
    def under_way(self) -> bool:
        return self.scanning or self.in_parts


@dataclass(frozen=True, slots=True, eq=False)
class Scan:
    """The tag of a listing that is under way. ``accepted``: a person had accepted a loss before it began."""

    source: SourceName
    scope: Scope
    state: _Watch
    accepted: bool = False


@dataclass(slots=True, eq=False)
class _TakeOver:
    """A listing that is being taken over part by part. Work goes on between the parts.

    All parts for the first edition come first: documents of the others get their ids from it. What the
    journal does not have yet when the process ends is found by the next listing.
    """

    found: Listing
    edition: int = 0
    part: int = 0  # the next one
    turns: QueueTurns = field(default_factory=QueueTurns)

    @property
    def whole(self) -> bool:
        """Whether every part is in the journal."""
        return self.edition == len(self.found.changes)

    def next_part(self) -> Changes:
        return self.found.changes[self.edition].part(self.part)

    def advance(self) -> None:
        """After that part is in the journal."""
        self.part += 1
        if self.part == self.found.changes[self.edition].parts:
            self.edition, self.part, self.turns = self.edition + 1, 0, QueueTurns()


class Scanner:
    """Lists sources and takes their listings over into the journal, each into all editions of its source.

    The first edition, which readers see, decides whether a listing lost too much, for all of them.
    ``clock``: POSIX seconds. ``random``: evenly drawn from [0, 1). ``whole``: called with a collection
    whenever one of its sources was listed whole.
    """

    def __init__(
        self,
        journal: Journal,
        pool: Work,
        clock: Callable[[], float],
        random: Callable[[], float],
        whole: Callable[[EditionName], None],
    ) -> None:
        self.journal, self.pool, self.clock, self.random, self._whole = journal, pool, clock, random, whole
        self.source_rows = SourceRows(journal)
        self._sources: dict[SourceName, list[Source]] = {}  # by name: one for each edition
        self._watches: dict[SourceName, _Watch] = {}

    def configure(self, sources: Sequence[Source], *, watch: bool) -> None:
        """List these sources from now on.

        A source that is set as before keeps its watch. It is listed anew if it is held or in trouble, or
        feeds an edition that it did not feed. ``sources``: of those of one name, the first is of the edition
        that readers see.
        """
        before, self._sources = self._sources, {}
        for source in sources:
            self._sources.setdefault(source.name, []).append(source)
        former, self._watches = self._watches, {name: _Watch(watched=watch) for name in self._sources}
        same = {name for name, each in self._sources.items() if _is_placed(before.get(name, []), each)}
        for name, state in former.items():
            if name not in same or state.watched != watch:
                state.end()
                same.discard(name)
            elif self._goes_on(name, state, before[name]):
                self._watches[name] = state
            else:
                self._watches[name].end = state.end
        for name, (first, *_) in self._sources.items():
            if watch and name not in same and isinstance(first.connector, Watchable):
                self._watches[name].end = self.pool.listen(name, first.connector.watch)

    def _goes_on(self, name: SourceName, state: _Watch, before: Sequence[Source]) -> bool:
        """Whether the listings of a source that is set as before go on, also one that is under way."""
        if state.in_trouble or self.source_rows.of(name).held is not None:
            return False
        fed = [[(one.collection, one.only_loses) for one in each] for each in (before, self._sources[name])]
        return fed[0] == fed[1] or (state.whole and not state.under_way and set(fed[1]) <= set(fed[0]))

    def is_first(self, feed: Feed) -> bool:
        """Whether the listings of this edition decide for the source."""
        return self._sources[feed.source][0].feed == feed

    def start(self) -> None:
        """Begin every listing that is due."""
        for name, state in self._watches.items():
            if state.scanning:  # the time of the next one is set when it ends
                continue
            row = self.source_rows.of(name)
            if self.clock() >= state.next_scan or row.accepted or (row.loss and state.dirty):
                state.dirty.add("")  # only a whole listing shows whether vanished documents are back
            if not self._may_list(name, state):
                continue
            editions = self._sources[name]
            scope = listing.scope_of(editions[0], state.dirty)
            state.dirty, state.scanning, state.progress = set(), True, Progress(self.clock())
            work = self._listing(editions, scope, state.progress)
            self.pool.submit(Scan(name, scope, state, row.accepted), work, scan=True)

    def look_again(self, source: SourceName | None = None, under: str = "") -> None:
        """List a source soon, at and below the key ``under``; without ``source`` every source, whole."""
        for other, state in self._watches.items():
            if source in (None, other):
                state.dirty.add(under)

    def wait_no_longer(self) -> None:
        """List every source now, also those whose last listing failed."""
        for state in self._watches.values():
            state.next_scan = 0.0

    # --- state -------------------------------------------------------------------------------

    def busy(self) -> bool:
        """Whether a listing runs or is due."""
        return any(state.scanning or self._may_list(name, state) for name, state in self._watches.items())

    def quiet(self) -> bool:
        """Whether no listing runs or is pending; paused sources do not count."""
        return not any(
            state.scanning or (state.dirty and not self._paused(name))
            for name, state in self._watches.items()
        )

    def listed(self, collection: EditionName) -> bool:
        """Whether every source of this edition was listed whole since the config was taken over."""
        fed = {name for name, each in self._sources.items() if collection in [one.collection for one in each]}
        return all(self._watches[name].whole for name in fed)

    def under_way(self) -> dict[SourceName, Progress]:
        """The listings that run, by source."""
        return {name: state.progress for name, state in self._watches.items() if state.scanning}

    def taking_over(self) -> set[SourceName]:
        """Sources of whose last listing a part is not in the journal yet."""
        return {name for name, state in self._watches.items() if state.in_parts}

    def unlisted(self) -> set[SourceName]:
        """Sources that were not listed whole since the config was taken over; paused ones left out."""
        return {name for name, state in self._watches.items() if not (state.whole or self._paused(name))}

    def wake_at(self, *, routine: bool) -> float:
        """When the next listing is due, in POSIX seconds. ``routine``: regular listings count, too."""
        times = [
            state.next_scan
            for name, state in self._watches.items()
            if not (state.scanning or self._paused(name)) and (routine or self._may_recover(name, state))
        ]
        return min(times, default=decisions.NEVER)

    def _may_recover(self, name: SourceName, state: _Watch) -> bool:
        """Whether its last listing failed in a way that may pass by itself."""
        return bool(state.attempts or state.partial) and self.source_rows.of(name).held is None

    def _may_list(self, name: SourceName, state: _Watch) -> bool:
        """Whether a listing may start now. After a failure only its backoff decides, not hints."""
        due = bool(state.dirty) and (not state.attempts or self.clock() >= state.next_scan)
        return due and not self._paused(name)

    def _paused(self, name: SourceName) -> bool:
        return self.source_rows.of(name).paused is not None

    def _listing(self, editions: Sequence[Source], scope: Scope, progress: Progress) -> Callable[[], Listing]:
        known = [LastListing(self.journal, one.feed) for one in editions]

        def work() -> Listing:
            return listing.take(editions[0], scope, known, progress.note)

        return work

    # --- what comes in -------------------------------------------------------------------------------

    def hinted(self, name: SourceName, outcome: Outcome) -> None:
        """A watcher sent a hint, or ended with an error."""
        if (state := self._watches.get(name)) is None:
            return  # of a config that is no longer in force
        failed_before, state.watched = not state.watched, outcome.error is None
        if outcome.error is not None:
            if failed_before:
                return  # what it missed since, regular listings find
            log.warning(
                "watching %s failed: %s; regular listings continue",
                name,
                describe(outcome.error),
                extra=event("source_watch_failed", source=str(name), reason=describe(outcome.error)),
            )
        hint = outcome.value if isinstance(outcome.value, Hint) else Hint()
        meant = name if hint.source is None else hint.source
        if meant not in self._watches:
            log.warning(
                "source %s sends a hint for source %r, which is not in the config",
                name,
                meant,
                extra=event("source_watch_failed", source=str(name)),
            )
        self.look_again(meant, hint.under)

    def scanned(self, scan: Scan, outcome: Outcome) -> None:
        """A listing ended, or a part of it was taken over. After an error it is called again."""
        state = scan.state
        if state is not self._watches.get(scan.source):
            return  # of a config that is no longer in force
        editions, value = self._sources[scan.source], outcome.value
        if isinstance(value, Listing) and self._may_take_over(editions[0], scan, value):
            value = _TakeOver(value)
        if isinstance(value, _TakeOver):
            if not value.whole:
                self._take_over(editions, value)
            state.in_parts = not value.whole
            if state.in_parts:
                self.pool.post(scan, value)
                return
            self._taken_over(editions, state, value.found)
        elif isinstance(outcome.error, Stopped):
            state.dirty.update(scan.scope.under)
        elif not isinstance(value, Listing):
            self._failed(editions[0], state, outcome)
        state.scanning = False

    def _may_take_over(self, source: Source, scan: Scan, found: Listing) -> bool:
        """Whether the listing is of the right place, and no person must be asked first."""
        state = scan.state
        row = self.source_rows.of(source.name)
        moved_root = row.identity not in (None, found.identity)
        if moved_root and not found.scope.whole:  # only a whole listing shows what another root lacks
            state.dirty.add("")
            return False
        if self._held(source, scan, found, row, moved_root):
            state.next_scan, state.attempts = self.clock() + source.scan_every, 0  # listed: no backoff
            return False
        if row.identity is None:  # before its documents, for a crash in between
            self.source_rows.identify(source.name, found.identity)
        return True

    def _take_over(self, editions: Sequence[Source], under_way: _TakeOver) -> None:
        """The next part."""
        source, changes = editions[under_way.edition], under_way.next_part()
        if source.only_loses:
            changes = Changes(vanished=changes.vanished)
        remove_at = self.clock() + GRACE
        self.journal.observe(source.name, source.collection, changes, remove_at, under_way.turns)
        under_way.advance()

    def _taken_over(self, editions: Sequence[Source], state: _Watch, found: Listing) -> None:
        source = editions[0]
        if found.more:
            state.dirty.update(found.scope.under)
            return
        if found.scope.whole:
            added = 0 if source.only_loses else found.changes[0].appeared
            left = found.known[0] - len(found.changes[0].vanished) + added
            self.source_rows.scanned(source.name, self.clock(), found.identity, left, found.trouble)
            for each in editions:
                if not each.only_loses:
                    self._whole(each.collection)
            state.next_scan = self.clock() + source.scan_every
            state.attempts, state.whole = 0, True
            self._say(source, state, found.trouble)
        if found.trouble is None:
            state.partial = 0 if found.scope.whole else state.partial
        elif found.scope.whole or not state.partial:
            state.next_scan = self._later(source, state.partial)
            state.partial += 1

    def _held(self, source: Source, scan: Scan, found: Listing, row: SourceRow, moved_root: bool) -> bool:
        vanished, known = found.loss()
        reason = decisions.sudden_loss(
            vanished, _appeared(found), known, row.documents, source.max_loss, moved_root
        )
        if reason is None:
            return False
        if row.accepted and not scan.accepted:  # it shows what was there before: the next one counts
            return True
        if row.may_lose(found.identity):
            return False
        held = f"{reason}; nothing is removed; if that is right, run: ingestor accept {source.name}"
        self._say(source, scan.state, held)
        self.source_rows.hold(source.name, held, loss=True, root=found.identity)
        return True

    def _failed(self, source: Source, state: _Watch, outcome: Outcome) -> None:
        reason = describe(outcome.error) if outcome.error is not None else "the connector gave no listing"
        self._say(source, state, reason)
        if isinstance(outcome.error, NeedsHuman):
            self.source_rows.hold(source.name, reason)
        else:
            self.source_rows.troubled(source.name, reason)
            if not isinstance(outcome.error, Transient):
                log.error(
                    "source %s: unexpected error",
                    source.name,
                    extra=event("source_failed", source=str(source.name), trace=outcome.trace),
                )
        state.next_scan = self._later(source, state.attempts)
        state.attempts += 1

    def _say(self, source: Source, state: _Watch, trouble: str | None) -> None:
        if trouble is None and state.said is not None:
            log.info(
                "source %s: listing complete again",
                source.name,
                extra=event("source_listed", source=str(source.name)),
            )
        elif trouble != state.said:
            log.warning(
                "source %s: %s",
                source.name,
                trouble,
                extra=event("source_failed", source=str(source.name), reason=trouble),
            )
        state.said = trouble

    def _later(self, source: Source, attempts: int) -> float:
        """When a listing is repeated: with exponential backoff, at most ``scan_every``."""
        return self.clock() + min(delay(attempts, self.random()), source.scan_every)


def _appeared(found: Listing) -> int:
    """The number of new documents; an edition that only loses documents knows none since it was left."""
    return min(changes.appeared for changes in found.changes)


def _is_placed(before: Sequence[Source], now: Sequence[Source]) -> bool:
    """Whether the same place is listed in the same way."""
    settings = [one.setting for one in (*before, *now)]
    return bool(before) and None not in settings and all(one == settings[0] for one in settings)
