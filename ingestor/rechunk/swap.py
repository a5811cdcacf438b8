"""The blue-green switch: carries out the decisions of rechunk/policy.py.

Readers never see half of a change. The new edition is built beside the old one, and gets its name once it is
complete. Roles change in the journal first, then collections are renamed in Chroma. Every step can be
repeated: if the process is killed at any point, the next start continues. All methods must be called by the
engine's thread.
"""

import logging
import sqlite3
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from ingestor.config.models import Rechunk
from ingestor.core.decisions import Clock, too_many
from ingestor.core.entries import Choices, Edition, EditionName, Feed
from ingestor.core.errors import has_passed
from ingestor.core.events import Event, event
from ingestor.engine.edition_store import EditionStore
from ingestor.model import CollectionName, Fingerprint, SourceName
from ingestor.ports import Gone, NeedsHuman, Torn, Transient
from ingestor.rechunk import policy
from ingestor.rechunk.policy import CollectionSituation, EditionSetup, changes, shards_of, without_unused
from ingestor.state.editions import Editions, Notice, Notices, Requests
from ingestor.state.journal import Journal
from ingestor.state.reports import count_records_of, parsers_of
from ingestor.state.sources import Withdrawals
from ingestor.units import quantity

log = logging.getLogger("ingestor")

HasListed = Callable[[EditionName], bool]  # whether all sources of an edition had a complete listing
CHARACTERS = 4  # estimated length of a token
Prices = Mapping[SourceName, float]  # by source, money for a million tokens: see policy.model_prices
MAX_LOSS = 0.5  # max_loss of a source that left the config
REBUILD_EVERY = 86_400.0  # seconds between two rebuilds of a collection because search misses records
RETRY_EVERY = 5.0  # seconds between two attempts at a switch or deletion
EMPTIED = 2000  # records of a deleted edition that one step deletes
SAMPLE = 5  # records that search must find by their own vectors before readers get a new collection


class Swaps:
    """Builds, promotes and deletes editions of collections.

    ``emptying``: whether records of a deleted edition are still left in Chroma.
    """

    def __init__(self, journal: Journal, store: EditionStore, clock: Clock) -> None:
        self._journal, self._store, self._clock = journal, store, clock
        self._editions = Editions(journal)
        self._requests, self._notices = Requests(journal), Notices(journal)
        self._requests.take_arrange()  # the caller arranges all collections at the start anyway
        self._max_loss: Mapping[SourceName, float] = {}  # by the config that was applied last
        self.emptying = False
        self._changed = False  # returned by the next ``advance`` that succeeds
        # the journal's mark when an edition was found incomplete
        self._examined: dict[EditionName, object] = {}
        # by edition, and under "" for names: the problem that was logged last, since each is logged once
        self._logged: dict[str, str] = {}
        self._failed_at: dict[EditionName, float] = {}  # POSIX seconds of the last failed attempt

    def arrange(
        self,
        collections: Sequence[CollectionSituation],
        settings: Rechunk,
        max_loss: Mapping[SourceName, float],
    ) -> list[EditionSetup]:
        """Apply a config: begin and delete editions, and store why changes wait for approval.

        ``collections``: one value for each collection, from ``situation``. ``max_loss``: by source, the
        fraction of documents that may be lost by a switch. Returns the editions to keep in step, for each
        collection the live one first. Raises sqlite3.Error.
        """
        self._examined.clear()
        self._max_loss = max_loss
        for serves in self._notices.all("waits").keys() - {now.editions[0].serves for now in collections}:
            self._notices.put("waits", serves, None)  # no source of the config has it any more
        return [setup for now in collections for setup in self._arrange_one(now, settings)]

    def _arrange_one(self, now: CollectionSituation, settings: Rechunk) -> list[EditionSetup]:
        """Apply a config to one collection. Return its editions to keep in step."""
        decision, serves = policy.decide(now, settings), now.editions[0].serves
        for name in now.wanted["sources"]:  # forget approved removals of sources that are in the config again
            self._requests.put("prune", name, None)
        if now.refused is not None and now.refused != policy.fingerprint_of(now.wanted):
            # the config changed since the rollback: if the refused one is written again, it is meant
            self._requests.put("refused", serves, None)
        described = ", ".join(map(str, decision.changes)) or "another embedder"
        self._notices.put("waits", serves, decision.why and f"{decision.why}; {described}")
        if decision.act == "keep":
            words = f"the new config waits for `ingestor apply` ({described})"
            _log(logging.WARNING, "collection_waits", serves, words, decision.why)
        setups = policy.editions_of(now, decision)
        choices = {each.name: each.choices for each in now.editions}
        for edition in now.editions:
            if edition.role == "staging" and edition.name not in [setup.edition for setup in setups]:
                _log(logging.INFO, "collection_dropped", serves, "the unfinished replacement is dropped")
                self._editions.become(self._clock(), (edition.name, "deleted"))
        for at, setup in enumerate(setups):
            if setup.choices is None:
                continue
            if setup.edition is None:
                made = self._begin(serves, setup.choices, described)
                setups[at] = replace(setup, edition=made.name)
            elif choices[setup.edition] != setup.choices:
                self._editions.choose(setup.edition, serves, setup.choices)
        return setups

    def _begin(self, serves: CollectionName, wanted: Choices, described: str) -> Edition:
        """Begin an edition that will replace the live one, and return it.

        ``wanted``: the choices for it. ``described``: the reason for the log. If a previous edition was made
        by the wanted choices, it is used again, unless a rebuild of all records was requested.
        """
        if (why := self._requests.get("rebuild", serves)) is not None:
            self._requests.put("rebuilding", serves, why)  # a later request is for the next rebuild
            self._requests.take("rebuild", serves, why)
        rebuild = self._requests.get("rebuilding", serves)
        words = "building a replacement beside the old one"
        _log(logging.INFO, "collection_building", serves, words, rebuild or described)
        for edition in self._editions.of(serves, "previous") if not rebuild else ():
            if edition.choices is not None and not changes(edition.choices, wanted):
                self._editions.become(self._clock(), (edition.name, "staging"))
                return edition
        made = self._editions.build(serves, wanted, self._clock(), self._store.names())
        self._notices.put("reach", made.name, None)  # left by an earlier edition of this name
        return made

    def advance(self, settings: Rechunk, listed: HasListed, busy: Container[EditionName]) -> bool:
        """Carry out requests, promote complete editions and delete old ones. Called in each step of the loop.

        ``busy``: editions with documents in flight. Returns True if ``arrange`` must be called again. Raises
        sqlite3.Error. Other errors are logged, and the switch or deletion of that collection is retried after
        RETRY_EVERY seconds.
        """
        self._changed |= self.run_pending_requests() | self._must_rebuild()
        self._match_names()
        self.emptying = False
        for edition in self._editions.all():
            if edition.role == "live" or edition.name in busy:
                continue
            failed_at = self._failed_at.get(edition.name)
            if failed_at is not None and not has_passed(failed_at, RETRY_EVERY, self._clock()):
                continue
            self._failed_at[edition.name] = self._clock()
            try:
                self._advance_edition(edition, settings, listed)
                del self._failed_at[edition.name]
            except Transient as error:
                _log(logging.DEBUG, "collection_failed", edition.serves, "its switch will be retried", error)
            except NeedsHuman as error:
                self._note_obstacle(edition, str(error))
            except sqlite3.Error:
                raise
            except Exception as error:  # noqa: BLE001 - one collection's trouble does not end the program
                self._note_obstacle(edition, f"{type(error).__name__}: {error}; will retry")
        changed, self._changed = self._changed, False
        return changed

    def _advance_edition(self, edition: Edition, settings: Rechunk, listed: HasListed) -> None:
        """Promote an edition that is being built, or delete some records of an edition that is no longer
        needed."""
        if edition.role == "staging":
            # an attempt is costly, since it reads whole tables: it is repeated once the journal has changed
            if not listed(edition.name) or self._examined.get(edition.name) == self._journal.mark():
                return
            try:
                self._promote(edition)
            except (Torn, Gone) as error:
                words = "rewriting all records of the replacement"
                _log(logging.ERROR, "collection_rebuilt", edition.serves, words, error)
                self._journal.doubt(edition.name)
                self._store.discard(edition.name, torn=True)
            else:
                self._examined[edition.name] = self._journal.mark()
        elif edition.role == "deleted":
            if self._store.empty(edition.name, EMPTIED):
                self.emptying = True
                return  # the next step deletes the next records: edits come in between
            self._store.discard(edition.name, torn=True)
            self._editions.forget(edition.name)
            self._changed = True  # its embedder may leave the memory
        elif self._clock() >= edition.since + settings.grace:
            _log(logging.INFO, "collection_dropped", edition.serves, "the previous version is deleted")
            self._editions.become(self._clock(), (edition.name, "deleted"))

    def rebuild(self, serves: CollectionName, why: str) -> None:
        """Request that all records of a collection are written into a new collection, with cached vectors."""
        _log(logging.WARNING, "collection_building", serves, "building a replacement", why)
        self._requests.put("rebuild", serves, why)

    def _must_rebuild(self) -> bool:
        """Request a rebuild of each collection whose search misses too many records. Return whether any was
        requested.

        None is requested while a replacement is being built anyway. A collection is rebuilt at most every
        REBUILD_EVERY seconds, because in any graph some vectors cannot be reached.
        """
        now = self._clock()
        requested = False
        for edition in [edition for edition in self._editions.all() if edition.role == "live"]:
            serves, reason = edition.serves, self._notices.get("reach", edition.name)
            if reason is None or _rebuild_of(self._requests, serves) is not None:
                continue
            rebuilt_at = float(self._notices.get("rebuilt", serves) or 0)
            if self._editions.replacement(serves) is None and now >= rebuilt_at + REBUILD_EVERY:
                self.rebuild(serves, reason)
                requested = True
        return requested

    def roll_back(self, retired: Edition) -> None:
        """Switch readers back to a previous edition.

        The edition that they leave is kept for ``grace`` seconds.
        """
        serves = retired.serves
        live = self._editions.live(serves)
        if live.choices is not None:
            self._requests.put("refused", serves, policy.fingerprint_of(live.choices))
        self._switch(live, retired, self._editions.of(serves, "staging"), policy.UNDONE)
        words = "rolled back to the state before the last switch"
        _log(logging.INFO, "collection_rolled_back", serves, words)

    def _switch(self, live: Edition, to: Edition, dropped: Sequence[Edition], waits: str | None) -> None:
        """Let readers see another edition, and delete some. ``waits``: why the config is not applied now."""
        deleted = ((one.name, "deleted") for one in dropped)
        self._store.forget_names()
        rebuilt = to.serves if to.role == "staging" else None
        roles = (live.name, "previous"), (to.name, "live"), *deleted
        self._editions.become(self._clock(), *roles, rebuilt=rebuilt)  # type: ignore[arg-type]
        self._changed = True
        self._notices.put("waits", to.serves, waits)
        self._match_names()

    def run_pending_requests(self) -> bool:
        """Carry out the requests that commands stored in the journal. Return whether there were any."""
        pending = self._requests.all("roll back")
        for edition in self._editions.all() if pending else ():
            # an edition with another role was rolled back before a crash
            if pending.get(edition.serves) == edition.name and edition.role == "previous":
                self.roll_back(edition)
        for serves, name in pending.items():
            self._requests.take("roll back", serves, name)
        return self._requests.take_arrange() or bool(pending)

    def _promote(self, building: Edition) -> None:
        """Make an edition live if it is complete and nothing prevents the switch.

        Raises Torn if its records differ from the journal, and Gone, Transient and NeedsHuman.
        """
        live = self._editions.live(building.serves)
        obstacle = self._editions.obstacle(building.name, live.name)
        self._note_obstacle(building, obstacle or "")
        if obstacle is not None:
            return
        if (loss := self._loss(building, live)) is not None:
            self._note("waits", building.serves, loss, "the replacement waits for apply")
            return
        self._verify(building.name)
        words = "the replacement took the place of the old one"
        _log(logging.INFO, "collection_swapped", building.serves, words)
        self._switch(live, building, self._editions.of(building.serves, "previous"), None)

    def _loss(self, building: Edition, live: Edition) -> str | None:
        """Return why a person must approve the switch to a replacement, or None.

        Approval is needed if readers would lose a larger fraction of a source's documents than ``max_loss``
        allows.
        """
        approved = self._requests.get("approved", building.serves)
        if building.choices is not None and approved == policy.fingerprint_of(building.choices):
            return None
        for source, lost, of, example in self._editions.losses(building.name, live.name):
            if (kept := Withdrawals(self._journal).of(source).kept) is not None:
                return f"source {source}: {kept}"
            if too_many(lost, of, self._max_loss.get(source, MAX_LOSS)):
                total = quantity(of, "document")
                return f"the replacement quarantines {lost:,} of {total} of {source}, such as {example}"
        return None

    def _note(self, notice: Notice, serves: CollectionName, why: str, words: str) -> None:
        """Store why a replacement waits, and log a new reason once.

        ``why``: the reason; "" if it does not wait.
        """
        if (self._notices.get(notice, serves) or "") != why:
            self._notices.put(notice, serves, why)
            if why:
                _log(logging.WARNING, "collection_waits", serves, words, why)

    def _note_obstacle(self, edition: Edition, why: str) -> None:
        """Report why a replacement cannot be promoted yet, or why a previous edition cannot be deleted."""
        if edition.role == "staging":
            self._note("delayed", edition.serves, why, "the replacement waits")
        elif self._logged.get(edition.name) != why:
            self._logged[edition.name] = why
            _log(logging.WARNING, "collection_waits", edition.serves, "the previous version stays", why)

    def _match_names(self) -> None:
        """Rename collections in Chroma to match the roles of their editions.

        An error is logged once, and the next step retries.
        """
        try:
            self._store.match_names()
            self._logged.pop("", None)
        except sqlite3.Error:
            raise
        except Exception as error:  # noqa: BLE001 - as in advance
            if self._logged.get("") != (reason := str(error)):
                self._logged[""] = reason
                words = "collections could not be renamed to match their roles: %s; will retry"
                log.warning(words, reason, extra=event("collection_failed", reason=reason))

    def _verify(self, name: EditionName) -> None:
        """Raise Torn if an edition's number of records differs from the journal, or if search misses some of
        a sample."""
        index = self._store.open(name)
        number, known = index.count(), count_records_of(self._journal, name)
        # vanished documents may have records in doubt, which Chroma need not have
        if not count_records_of(self._journal, name, sure=True) <= number <= known:
            raise Torn(f"the new collection has {quantity(number, 'record')} instead of {known:,}")
        for record in index.read(list(islice(index.ids(), SAMPLE)), vectors=True):
            hits = index.nearest(record.vector[np.newaxis], 1)[0]
            if not hits or hits[0][1] < 0.99:
                raise Torn(f"the new collection does not find {record.id} by its own vector")


def situation(
    journal: Journal,
    serves: CollectionName,
    wanted: Choices,
    prices: Prices,
    other_recipes: frozenset[Fingerprint],
) -> CollectionSituation:
    """Return the state of a collection in the journal, together with the choices of a config. Only reads.

    ``wanted``: the config's choices, from policy.choices_of. ``prices``: from policy.model_prices.
    ``other_recipes``: recipes of the embedders that the same config selects on other machines.
    """
    editions, requests = Editions(journal), Requests(journal)
    live, building = editions.live(serves), editions.replacement(serves)
    read_by = {name: parsers_of(journal, Feed(SourceName(name), live.name)) for name in wanted["sources"]}
    choices = live.choices, None if building is None else building.choices
    old, new = (None if made_by is None else without_unused(made_by, read_by) for made_by in choices)
    differences = [] if old is None else changes(old, wanted)
    sizes = editions.sizes_of(live.name)
    touched = ({change.source for change in differences} - {""} or wanted["sources"].keys()) & sizes.keys()
    tokens = {name: sizes[name].listed / CHARACTERS for name in sorted(touched)}
    return CollectionSituation(
        old,
        new,
        live.embedder,
        wanted,
        empty=not any(size.records for size in sizes.values()),
        chunks=sum(sizes[name].records for name in touched),
        tokens=int(sum(tokens.values())),
        asking=sum(number / 1e6 * prices.get(name, 0) for name, number in tokens.items()),
        approved=requests.get("approved", serves),
        refused=requests.get("refused", serves),
        rebuild=_rebuild_of(requests, serves),
        resharded=bool(live.uuids) and live.shards != shards_of(wanted),
        moved=live.embedder in other_recipes,
        editions=(live,) if building is None else (live, building),
    )


def _rebuild_of(requests: Requests, serves: CollectionName) -> str | None:
    """Return why all records of a collection must be written into a new one; None if no rebuild was
    requested."""
    return requests.get("rebuild", serves) or requests.get("rebuilding", serves)


def _log(level: int, name: Event, serves: CollectionName, words: str, reason: object = None) -> None:
    """Log an event of a collection, with its reason."""
    about = event(name, collection=serves, reason=None if reason is None else str(reason))
    log.log(level, "collection %s: %s%s", serves, words, "" if reason is None else f": {reason}", extra=about)
