"""The health of collections: decides from an error of a write what to do, and does it.

After an error a collection is paused, held for a person, or rebuilt, and its documents wait. A failed request
does not prove that Chroma refused the write: Chroma may have applied it. So the same records are sent again.
"""

import logging
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import partial

from ingestor.core.decisions import Clock, Random
from ingestor.core.entries import EditionName, Feed
from ingestor.core.errors import delay
from ingestor.core.events import event
from ingestor.engine.edition_store import EditionStore
from ingestor.ports import Gone, Later, NeedsHuman, Torn, Transient
from ingestor.state.sources import SourceRows

log = logging.getLogger("ingestor")

LONGEST_PAUSE = 15.0  # seconds
LONGEST_ASKED = 300.0  # seconds of a pause that a server asks for
PERSISTENT = 3  # failed attempts in a row after which a collection is reported as unwritable
HELD = 300.0  # seconds until a held edition that readers do not see is tried again


# Errors of a collection or of the journal. Chroma's refusals of a document share no class.
TROUBLES = Torn, Gone, Transient, NeedsHuman, sqlite3.Error


@dataclass(slots=True)
class Health:
    """The health of one collection.

    ``not_before``: POSIX seconds until which the collection is paused. ``marked``: whether it must be
    examined. ``attempts``: number of failures in a row. ``trouble``: the reason of its pause or hold, which
    is logged once.
    """

    not_before: float = 0.0
    marked: bool = False
    attempts: int = 0
    trouble: str | None = None


class CollectionHealth:
    """Runs work on collections, and pauses, holds or rebuilds a collection after an error."""

    def __init__(
        self, collections: EditionStore, clock: Clock, random: Random, source_rows: SourceRows
    ) -> None:
        self._collections, self._clock, self._random = collections, clock, random
        self._source_rows, self._feeds = source_rows, tuple[Feed, ...]()
        self.of = defaultdict[EditionName, Health](Health)

    def collections_paused(self) -> set[EditionName]:
        now = self._clock()
        return {name for name, health in self.of.items() if now < health.not_before}

    def is_retrying(self) -> bool:
        """Return whether a collection is paused, or is examined again in the next step."""
        return bool(self.collections_paused()) or any(health.marked for health in self.of.values())

    def troubles(self) -> dict[str, str]:
        """Return why the last attempt to use a collection failed, for each collection where it did.

        Keys are the names that readers use. If both the edition that readers see and its replacement failed,
        the reason of the edition that readers see is returned.
        """
        failed = {name: health.trouble for name, health in self.of.items() if health.trouble is not None}
        building_first = sorted(failed, key=self._collections.is_building, reverse=True)
        return {self._collections.serves(name): failed[name] for name in building_first}

    def unwritable(self) -> dict[str, str]:
        """Return why a collection could not be written PERSISTENT times in a row, by the name that readers
        use."""
        return {
            self._collections.serves(name): health.trouble
            for name, health in self.of.items()
            if health.trouble is not None
            and health.attempts >= PERSISTENT
            and not self._collections.is_building(name)
        }

    def configure(self, feeds: Iterable[Feed]) -> None:
        """Apply a config: retry paused collections at once, and forget the errors of all other editions."""
        self.retry_now()
        self._feeds = tuple(feeds)
        for name in self.of.keys() - {feed.edition for feed in self._feeds}:
            self.of[name].trouble = None

    def retry_now(self) -> None:
        """End the pauses of all collections, so that their writes are retried at once."""
        for health in self.of.values():
            health.not_before = 0.0

    def mark(self, collection: EditionName) -> None:
        """Have a collection examined in the next step: it may have been deleted, replaced or damaged."""
        self.of[collection].marked = True

    def examine(self, busy: Collection[EditionName]) -> None:
        """Examine the marked collections, before documents are prepared for them.

        ``busy``: collections with waiting writes. Their error is forgotten after a successful write, not
        after a successful examination.
        """
        for collection, health in list(self.of.items()):
            if health.marked and self._clock() >= health.not_before:
                # an edition out of force is not examined: another one may have its name in Chroma by now
                check = partial(self._check, collection, busy)
                in_force = self._collections.is_in_force(collection)
                health.marked = in_force and not self.attempt(collection, check)

    def _check(self, collection: EditionName, busy: Collection[EditionName]) -> None:
        self._collections.check(collection)
        if collection not in busy:
            self.resume(collection)

    def attempt(self, collection: EditionName, work: Callable[[], None]) -> bool:
        """Call ``work``, which uses a collection; after an error pause, hold or rebuild the collection.

        Return False if the collection is paused, so that the same work is tried again after the pause. If it
        is held or rebuilt, documents are prepared again if they are still due. Raises sqlite3.Error if the
        journal is damaged.
        """
        try:
            try:
                work()
            except (Torn, Gone) as error:  # the rebuild may fail, too
                self._rebuild(collection, error)
        except NeedsHuman as error:
            self.hold(collection, str(error))
        except Exception as error:
            if isinstance(error, sqlite3.Error) and not isinstance(error, sqlite3.OperationalError):
                raise
            self._pause(collection, error)
            return False
        return True

    def resume(self, collection: EditionName) -> None:
        """Note that a collection was written or examined without an error."""
        health = self.of[collection]
        if health.trouble is not None:
            shown = self._collections.serves(collection)
            about = event("collection_usable", collection=shown)
            log.info("collection %s: writes resumed", shown, extra=about)
        health.attempts, health.trouble = 0, None

    def hold(self, collection: EditionName, reason: str) -> None:
        """Note that only a person can repair a collection.

        If readers see the collection, hold its sources, so that nothing is written to it. Otherwise pause it.
        """
        health, shown = self.of[collection], self._collections.serves(collection)
        if health.trouble != reason:
            about = event("collection_unusable", collection=shown, reason=reason)
            log.error("collection %s cannot be used: %s", shown, reason, extra=about)
        health.trouble, health.attempts = reason, max(health.attempts, PERSISTENT)
        if self._collections.is_building(collection):
            health.not_before = self._clock() + HELD
            return
        for feed in self._feeds:
            if feed.edition == collection:
                self._source_rows.hold(feed.source, reason)

    def _pause(self, collection: EditionName, error: Exception) -> None:
        """Pause a collection, and log the reason once.

        The pause grows with each failure, and is at least as long as the server asks for.
        """
        health, shown, reason = self.of[collection], self._collections.serves(collection), str(error)
        unexpected = None if isinstance(error, Transient | sqlite3.OperationalError) else error
        if isinstance(error, sqlite3.OperationalError):
            reason = f"the journal cannot be written: {error}"
        elif unexpected is not None:
            reason = f"{type(error).__name__}: {error}"
        # before the wait begins: this may restart Chroma, which takes time
        self._collections.note_failure(collection, error)
        wait = delay(health.attempts, self._random(), LONGEST_PAUSE)
        asked = min(error.wait, LONGEST_ASKED) if isinstance(error, Later) else 0.05
        health.attempts += 1
        health.not_before = self._clock() + max(wait, asked)
        if reason != health.trouble:
            about = event("collection_failed", collection=shown, reason=reason)
            words = "collection %s: write failed, will retry: %s"
            log.warning(words, shown, reason, exc_info=unexpected, extra=about)
        health.trouble = reason

    def _rebuild(self, collection: EditionName, error: Torn | Gone) -> None:
        """Have all records of a collection, or of its damaged shard, written again with cached vectors."""
        shown, shard = self._collections.serves(collection), error.shard
        self._collections.doubt(collection, None if shard is None else [shard])
        self._collections.discard(collection, torn=isinstance(error, Torn), shard=shard)
        which = "" if shard is None else f", shard {shard},"
        about = event("collection_rebuilt", collection=shown, reason=str(error))
        log.error("rebuilding collection %s%s: %s", shown, which, error, extra=about)
