"""The health of editions: decides from an error of a write what to do, and does it.

After an error an edition is paused, held for a person, or rebuilt, and its documents wait. A failed request
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
PERSISTENT = 3  # failed attempts in a row after which an edition is reported as unwritable
HELD = 300.0  # seconds until a held edition that readers do not see is tried again


# Errors of an edition or of the journal. Chroma's refusals of a document share no class.
TROUBLES = Torn, Gone, Transient, NeedsHuman, sqlite3.Error


@dataclass(slots=True)
class Health:
    """The health of one edition.

    ``not_before``: POSIX seconds until which the edition is paused. ``marked``: whether it must be
    examined. ``attempts``: number of failures in a row. ``trouble``: the reason of its pause or hold, which
    is logged once.
    """

    not_before: float = 0.0
    marked: bool = False
    attempts: int = 0
    trouble: str | None = None


class CollectionHealth:
    """Runs work on editions, and pauses, holds or rebuilds an edition after an error."""

    def __init__(self, store: EditionStore, clock: Clock, random: Random, source_rows: SourceRows) -> None:
        self._store, self._clock, self._random = store, clock, random
        self._source_rows, self._feeds = source_rows, tuple[Feed, ...]()
        self.of = defaultdict[EditionName, Health](Health)

    def editions_paused(self) -> set[EditionName]:
        now = self._clock()
        return {name for name, health in self.of.items() if now < health.not_before}

    def is_retrying(self) -> bool:
        """Return whether an edition is paused, or is examined again in the next step."""
        return bool(self.editions_paused()) or any(health.marked for health in self.of.values())

    def troubles(self) -> dict[str, str]:
        """Return why the last attempt to use an edition failed, for each edition where it did.

        Keys are the names that readers use. If both the edition that readers see and its replacement failed,
        the reason of the edition that readers see is returned.
        """
        failed = {name: health.trouble for name, health in self.of.items() if health.trouble is not None}
        building_first = sorted(failed, key=self._store.is_building, reverse=True)
        return {self._store.serves(name): failed[name] for name in building_first}

    def unwritable(self) -> dict[str, str]:
        """Return why an edition could not be written PERSISTENT times in a row, by the name that readers
        use."""
        return {
            self._store.serves(name): health.trouble
            for name, health in self.of.items()
            if health.trouble is not None
            and health.attempts >= PERSISTENT
            and not self._store.is_building(name)
        }

    def configure(self, feeds: Iterable[Feed]) -> None:
        """Apply a config: retry paused editions at once, and forget the errors of all other editions."""
        self.retry_now()
        self._feeds = tuple(feeds)
        for name in self.of.keys() - {feed.edition for feed in self._feeds}:
            self.of[name].trouble = None

    def retry_now(self) -> None:
        """End the pauses of all editions, so that their writes are retried at once."""
        for health in self.of.values():
            health.not_before = 0.0

    def mark(self, edition: EditionName) -> None:
        """Have an edition examined in the next step: it may have been deleted, replaced or damaged."""
        self.of[edition].marked = True

    def examine(self, busy: Collection[EditionName]) -> None:
        """Examine the marked editions, before documents are prepared for them.

        ``busy``: editions with waiting writes. Their error is forgotten after a successful write, not
        after a successful examination.
        """
        for edition, health in list(self.of.items()):
            if health.marked and self._clock() >= health.not_before:
                # an edition out of force is not examined: another one may have its name in Chroma by now
                check = partial(self._check, edition, busy)
                in_force = self._store.is_in_force(edition)
                health.marked = in_force and not self.attempt(edition, check)

    def _check(self, edition: EditionName, busy: Collection[EditionName]) -> None:
        self._store.check(edition)
        if edition not in busy:
            self.resume(edition)

    def attempt(self, edition: EditionName, work: Callable[[], None]) -> bool:
        """Call ``work``, which uses an edition; after an error pause, hold or rebuild the edition.

        Return False if the edition is paused, so that the same work is tried again after the pause. If it
        is held or rebuilt, documents are prepared again if they are still due. Raises sqlite3.Error if the
        journal is damaged.
        """
        try:
            try:
                work()
            except (Torn, Gone) as error:  # the rebuild may fail, too
                self._rebuild(edition, error)
        except NeedsHuman as error:
            self.hold(edition, str(error))
        except Exception as error:
            if isinstance(error, sqlite3.Error) and not isinstance(error, sqlite3.OperationalError):
                raise
            self._pause(edition, error)
            return False
        return True

    def resume(self, edition: EditionName) -> None:
        """Note that an edition was written or examined without an error."""
        health = self.of[edition]
        if health.trouble is not None:
            shown = self._store.serves(edition)
            about = event("collection_usable", collection=shown)
            log.info("collection %s: writes resumed", shown, extra=about)
        health.attempts, health.trouble = 0, None

    def hold(self, edition: EditionName, reason: str) -> None:
        """Note that only a person can repair an edition.

        If readers see the edition, hold its sources, so that nothing is written to it. Otherwise pause it.
        """
        health, shown = self.of[edition], self._store.serves(edition)
        if health.trouble != reason:
            about = event("collection_unusable", collection=shown, reason=reason)
            log.error("collection %s cannot be used: %s", shown, reason, extra=about)
        health.trouble, health.attempts = reason, max(health.attempts, PERSISTENT)
        if self._store.is_building(edition):
            health.not_before = self._clock() + HELD
            return
        for feed in self._feeds:
            if feed.edition == edition:
                self._source_rows.hold(feed.source, reason)

    def _pause(self, edition: EditionName, error: Exception) -> None:
        """Pause an edition, and log the reason once.

        The pause grows with each failure, and is at least as long as the server asks for.
        """
        health, shown, reason = self.of[edition], self._store.serves(edition), str(error)
        unexpected = None if isinstance(error, Transient | sqlite3.OperationalError) else error
        if isinstance(error, sqlite3.OperationalError):
            reason = f"the journal cannot be written: {error}"
        elif unexpected is not None:
            reason = f"{type(error).__name__}: {error}"
        # before the wait begins: this may restart Chroma, which takes time
        self._store.note_failure(edition, error)
        wait = delay(health.attempts, self._random(), LONGEST_PAUSE)
        asked = min(error.wait, LONGEST_ASKED) if isinstance(error, Later) else 0.05
        health.attempts += 1
        health.not_before = self._clock() + max(wait, asked)
        if reason != health.trouble:
            about = event("collection_failed", collection=shown, reason=reason)
            words = "collection %s: write failed, will retry: %s"
            log.warning(words, shown, reason, exc_info=unexpected, extra=about)
        health.trouble = reason

    def _rebuild(self, edition: EditionName, error: Torn | Gone) -> None:
        """Have all records of an edition, or of its damaged shard, written again with cached vectors."""
        shown, shard = self._store.serves(edition), error.shard
        self._store.doubt(edition, None if shard is None else [shard])
        self._store.discard(edition, torn=isinstance(error, Torn), shard=shard)
        which = "" if shard is None else f", shard {shard},"
        about = event("collection_rebuilt", collection=shown, reason=str(error))
        log.error("rebuilding collection %s%s: %s", shown, which, error, extra=about)
