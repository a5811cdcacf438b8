"""Decides what follows from the outcome of a document's preparation, counts it, and logs failures.

The functions ``action_of`` and ``count_records`` name the outcome. The writer counts what it did to each
document, and `plan` announces what a sync would do. Both call these functions, so they cannot disagree.

``DocumentFlow`` queues a prepared document to be written, and quarantines or retries a failed one. Failures
are logged in a few lines, however many documents fail: they are counted by reason, since one cause can affect
thousands of documents. The work on a document ends in engine/writer.py.
"""

from __future__ import annotations

import logging
import traceback
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from ingestor.core import decisions
from ingestor.core.decisions import Failure
from ingestor.core.document_state import NO_PARSER
from ingestor.core.entries import EditionName, Entry, Feed, Receipt
from ingestor.core.errors import LONGEST, Slow, delay, kind_of, shorten
from ingestor.core.escape import line
from ingestor.core.events import Event, event
from ingestor.engine.flight import Flight, InFlight
from ingestor.engine.health import CollectionHealth
from ingestor.engine.scanner import Scanner
from ingestor.engine.workers import Outcome
from ingestor.model import DocumentId, SourceName
from ingestor.pipeline.language import describe_foreign, describe_unknown, is_english
from ingestor.pipeline.listing import Source
from ingestor.pipeline.prepare import Prepared, withdraw
from ingestor.ports import NeedsHuman, Stale, Unsupported
from ingestor.state.editions import Notice, Notices
from ingestor.state.journal import Journal
from ingestor.state.reports import source_of
from ingestor.state.sources import Withdrawals

if TYPE_CHECKING:
    from ingestor.engine.loop import EngineParts

log = logging.getLogger("ingestor")

MOST_REASONS = 200  # pairs of source and kind of reason; later pairs are counted as "other"
ALIKE = 3  # failures of one reason that are logged one by one
DISTINCT = 1000  # reasons whose first documents are remembered
LINE, KEY, ROOM = 100, 40, 30  # characters of a line; of a key at most; of a reason at least
COUNTED = 10_000  # documents of a source whose language is counted; more would show no more
EMPTIED = Failure("the document no longer has any text", 1, 0.0, quarantined=False)

BySource = Counter[tuple[str, str]]  # by source, and by kind of action or reason

# moved: the document adopts the records of a vanished one. rebuilt: written into an edition that is built to
# replace another. recut: the document did not change, but the statistic of its collection did. unchanged: no
# record changes. withdrawn: the content cannot be read, the records are deleted. removed: the
# source no longer has the document.
Action = Literal["added", "changed", "moved", "rebuilt", "recut", "unchanged", "withdrawn", "removed"]


def action_of(prepared: Prepared, *, building: bool) -> Action:
    """Return the kind of the action that writes a prepared document.

    ``building``: whether the document's edition is still being built, and not yet seen by readers.
    """
    if prepared.receipt.failure is not None:
        return "withdrawn"
    if building and prepared.entry.state != "settled":
        return "rebuilt"
    if prepared.intent.renamed is not None:
        return "moved"
    if prepared.entry.digest is None:
        return "added"
    if not prepared.intent.slots:
        return "unchanged"
    return "recut" if prepared.entry.state == "settled" else "changed"


def count_records(prepared: Prepared) -> Counter[str]:
    """Count the records that a write adds, replaces, patches (changes in metadata only) and deletes."""
    added, patched, dropped = prepared.added, len(prepared.patches), len(prepared.deletes)
    return Counter(added=added, replaced=len(prepared.records) - added, patched=patched, dropped=dropped)


@dataclass(slots=True)
class WorkCounts:
    """Counts since the program started, by source. The engine's thread writes them; other threads copy them.

    ``changes``: documents by kind of action. ``failures``: quarantined documents by kind of reason.
    ``retries``: failed attempts that will be repeated, by kind of reason. ``successes``: POSIX seconds of a
    source's last written document. ``records``: records of all sources by what was done to them.
    """

    changes: BySource = field(default_factory=Counter)
    failures: BySource = field(default_factory=Counter)
    retries: BySource = field(default_factory=Counter)
    successes: dict[str, float] = field(default_factory=dict)
    records: Counter[str] = field(default_factory=Counter)

    def note_write(self, source: str, kind: str, now: float) -> None:
        """Count a written document of a source. ``kind``: kind of its action. ``now``: POSIX seconds."""
        if kind != "unchanged":
            self.changes[source, kind] += 1
        if kind != "withdrawn":
            self.successes[source] = now

    def tally(self) -> Counter[str]:
        """Return the counts of all sources together: documents by kind of action, and records by change.

        The keys for records are ``records_added`` and so on. Withdrawn documents are not counted here,
        because they count as failures.
        """
        counted = Counter({f"records_{deed}": number for deed, number in self.records.items() if number})
        for (_, kind), number in self.changes.items():
            counted[kind] += number
        del counted["withdrawn"]
        return counted

    def note_failure(self, source: str, reason: str, *, retried: bool = False) -> None:
        """Count a failed attempt at a document of a source. ``retried``: whether it will be repeated."""
        counts, key = self.retries if retried else self.failures, (source, kind_of(reason))
        counts[key if key in counts or len(counts) < MOST_REASONS else (source, "other")] += 1


class DocumentFlow:
    """Decides what to do with the outcome of a document's preparation.

    A prepared document is queued to be written. A document that failed is quarantined, or retried later.
    """

    def __init__(
        self, parts: EngineParts, flight: Flight, health: CollectionHealth, scanner: Scanner
    ) -> None:
        self._journal, self._clock, self._random = parts.journal, parts.clock, parts.random
        self._flight, self._health, self._scanner = flight, health, scanner
        self._sources: Mapping[Feed, Source] = {}
        self.background: Collection[EditionName] = ()
        self.counts, self.guard = WorkCounts(), Withdrawals(parts.journal)
        self._failures, self._languages = FailureLog(), LanguageWarnings(parts.journal)

    def configure(self, sources: Mapping[Feed, Source], background: Collection[EditionName]) -> None:
        """Apply a config.

        ``sources``: the sources by feed. ``background``: editions that are built to replace the ones readers
        see.
        """
        self._sources, self.background = sources, background
        self._languages.configure(sources)

    def process(self, document: InFlight, outcome: Outcome) -> None:
        """Queue the writes of a prepared document.

        If its preparation failed, quarantine it or retry it later.
        """
        entry, attempts = document.entry, document.attempts
        attempts.cancelled = False
        if isinstance(outcome.error, Slow) or self._has_new_source(entry):
            self._flight.land(document)  # due again: with more time, or under the new name
        elif isinstance(outcome.value, Prepared):
            attempts.forget_failures()
            if outcome.value.empties and not self._may_withdraw(document, EMPTIED):
                return
            self._languages.add(entry, outcome.value, self._sources.get(entry.feed))
            self._flight.put(document, outcome.value, self._clock())
        elif outcome.error is not None:
            self._fail(document, outcome.error, outcome.trace)

    def refuse(self, document: InFlight, error: Exception) -> None:
        """Handle a document that Chroma refused: quarantine it or retry it later.

        Its row is read from the journal again, since the journal changed it before the write. A document that
        adopted the row of its former name keeps that row.
        """
        assert document.prepared is not None
        receipt = document.prepared.receipt
        entry, other = self._journal.entry(receipt.row), self._flight.get(receipt.row)
        self._flight.land(document)
        # the version that was listed meanwhile is not to blame, and work on the former name may not be over
        if entry is None or entry.item is None or entry.item.version != receipt.version:
            return
        if other in (None, document):
            recipe, attempts = document.quarantine_recipe, document.attempts
            refused = InFlight(entry, quarantine_recipe=recipe, attempts=attempts)
            self._flight.begin(refused)
            try:
                self._fail(refused, error, "".join(traceback.format_exception(error)))
            except BaseException:  # no outcome follows, so the document would be in flight for ever
                self._flight.land(refused)
                raise

    def _fail(self, document: InFlight, error: Exception, trace: str) -> None:
        """Quarantine a document that could not be prepared or written, or retry it later.

        ``trace``: the traceback.
        """
        entry = document.entry
        failure = decisions.after_failure(error, entry.attempts, self._clock(), self._random(), trace)
        if entry.feed not in self._sources:  # it has left the config
            self._flight.land(document)
            return
        if failure.quarantined and entry.item is not None:
            if self._may_withdraw(document, failure):
                self.counts.note_failure(entry.source, failure.reason)
                unsupported = isinstance(error, Unsupported)
                name: Event = "document_unsupported" if unsupported else "document_quarantined"
                self._failures.note(entry, name, failure)
                parser, recipe = NO_PARSER if unsupported else "", document.quarantine_recipe
                receipt = Receipt(entry.row, entry.item.version, recipe, "", "", parser, failure=failure)
                self._flight.put(document, withdraw(entry, receipt), self._clock())
            return
        if isinstance(error, NeedsHuman):
            self._ask_person(entry, failure.reason)
        stale = isinstance(error, Stale)
        if stale:
            self._scanner.request_listing(entry.source, entry.key)
        if failure.detail is not None:
            self._failures.note(entry, "document_failed", failure)
        elif document.attempts.note_failure(entry, self._clock()):
            if stale:  # one cause, such as a renamed folder, can affect thousands of documents
                self._scanner.note_stale(entry.source, entry.key)
            level = logging.DEBUG if stale else logging.INFO
            log_document(level, "document_retried", "%s (%s): %s; will be retried", entry, failure.reason)
        self._put_off(document, failure)

    def _ask_person(self, entry: Entry, reason: str) -> None:
        """Hold the document's edition if it is in the background, else its source, until a person helps.

        Neither is held if a background edition replaces this one: the model of the old edition need not exist
        any more.
        """
        if entry.edition in self.background:
            self._health.hold(entry.edition, reason)
        elif any(feed.source == entry.source and feed.edition in self.background for feed in self._sources):
            words = "%s (%s): %s; waits for the new collection"
            log_document(logging.WARNING, "document_retried", words, entry, reason)
        else:
            about = event("source_held", source=entry.source, reason=reason)
            log.error("source %s is held: %s", entry.source, reason, extra=about)
            self._scanner.source_rows.hold(entry.source, reason)

    def _put_off(self, document: InFlight, failure: Failure) -> None:
        """End the work on a document, and schedule its retry. Until then the document keeps its records."""
        entry = document.entry
        self.counts.note_failure(entry.source, failure.reason, retried=True)
        self._journal.fail(entry.row, entry.item.version if entry.item else None, failure)
        self._flight.land(document)

    def _has_new_source(self, entry: Entry) -> bool:
        """Return whether the source of a document was renamed since the work on the document began.

        Then the document is due again under the new name.
        """
        return source_of(self._journal, entry.row) not in (None, entry.source)

    def _may_withdraw(self, document: InFlight, failure: Failure) -> bool:
        """Return whether the document's records may be removed.

        If too many documents of its source became unreadable, a person must accept the loss first. The
        document is then retried later, and False is returned.
        """
        entry, source = document.entry, self._sources.get(document.entry.feed)
        # losses of other editions are judged before the switch
        if source is None or entry.edition in self.background:
            return True
        if self.guard.passes(entry, failure, source.max_loss):
            return True
        later = self._clock() + delay(entry.attempts, self._random(), LONGEST)
        self._put_off(document, Failure(failure.reason, entry.attempts + 1, later, quarantined=False))
        return False

    def is_current(self, prepared: Prepared) -> bool:
        """Return whether a document was prepared by the recipe of today's config.

        Return True if today's config has no recipe for it.
        """
        receipt, source = prepared.receipt, self._sources.get(prepared.entry.feed)
        return source is None or source.tools.recipe(receipt.parser) == receipt.recipe


# A format with places for key, source and reason; how many failures of a reason are logged; their level.
_MESSAGES: Mapping[Event, tuple[str, int, int]] = {
    "document_unsupported": ("skipped %s (%s): %s", 1, logging.INFO),
    "document_quarantined": ("quarantined %s (%s): %s", ALIKE, logging.WARNING),
    "document_failed": ("%s (%s) failed, keeps its records and is retried: %s", ALIKE, logging.WARNING),
}


class FailureLog:
    """Logs the failures of documents. WorkCounts counts them."""

    def __init__(self) -> None:
        # by reason: source, key and version of the first documents
        self._logged = dict[str, set[tuple[str, str, str | None]]]()

    def note(self, entry: Entry, name: Event, failure: Failure) -> None:
        """Log the failure of a document.

        The first few failures of each reason are logged at the level of event ``name``, the others at DEBUG.
        A version that fails in several editions of a collection is logged once.
        """
        message, alike, level = _MESSAGES[name]
        if len(self._logged) > DISTINCT:
            self._logged.clear()
        reason, version = failure.reason, entry.item.version if entry.item else None
        logged, document = self._logged.setdefault(reason, set()), (entry.source, entry.key, version)
        if document in logged or len(logged) >= alike:
            log_document(logging.DEBUG, name, message, entry, reason)
            return
        logged.add(document)
        more = "; more like this: see `ingestor status`" if len(logged) == alike else ""
        trace = failure.detail or None if len(logged) == 1 else None
        log_document(level, name, message, entry, reason, more, trace)


def log_document(
    level: int, name: Event, words: str, entry: Entry, reason: str, more: str = "", trace: str | None = None
) -> None:
    """Log a failure, with key and reason shortened so that the line fits.

    ``words``: a format with places for key, source and reason. ``more``: words at the end of the line.
    """
    key = line(entry.key)
    key = key if len(key) <= KEY else f"…{key[1 - KEY :]}"
    shown = shorten(reason, max(ROOM, LINE - len(words % (key, entry.source, "")) - len(more)))
    about = event(name, source=entry.source, document=entry.key, reason=reason, trace=trace)
    log.log(level, words + "%s", key, entry.source, shown, more, extra=about)


@dataclass(slots=True)
class _Sample:
    """Counts of languages and tokens in the first documents of a source.

    ``warned``: kinds of warnings that these counts caused.
    """

    documents: set[DocumentId] = field(default_factory=set)
    languages: Counter[str] = field(default_factory=Counter)
    unknown: int = 0  # tokens that the model does not know
    tokens: int = 0
    warned: set[Notice] = field(default_factory=set)


class LanguageWarnings:
    """Warns if an embedding model does not know the language of most documents of a source, or many of its
    tokens."""

    def __init__(self, journal: Journal) -> None:
        self._notices = Notices(journal)
        self._samples = defaultdict[tuple[SourceName, str], _Sample](_Sample)  # by source and model

    def configure(self, sources: Mapping[Feed, Source]) -> None:
        """Delete warnings about embedding models that the config no longer names."""
        for feed, source in sources.items():
            tools, words = source.tools, self._notices.get("tokens", feed.source)
            if not is_english(tools.model):
                self._notices.put("language", feed.source, None)
            if words and (tools.count_unknown is None or f" {tools.model}," not in words):
                self._notices.put("tokens", feed.source, None)

    def add(self, entry: Entry, prepared: Prepared, source: Source | None) -> None:
        """Count the language and tokens of a prepared document.

        Store a warning for `status` if its source does not fit the model, and log the first of a kind.
        """
        if source is None or not prepared.records:
            return
        tools = source.tools
        sample = self._samples[entry.source, str(tools.embedder_recipe)]
        language = prepared.records[0].metadata.get("language")
        if entry.document_id not in sample.documents and len(sample.documents) < COUNTED:
            sample.documents.add(entry.document_id)
            sample.languages.update([str(language)] if language else [])
            sample.unknown += prepared.tokens[0]
            sample.tokens += prepared.tokens[1]
        if is_english(tools.model):
            self._warn("language", entry.source, describe_foreign(sample.languages, tools.model), sample)
        if tools.count_unknown is not None:
            words = describe_unknown(sample.unknown, sample.tokens, tools.model)
            self._warn("tokens", entry.source, words, sample)

    def _warn(
        self, kind: Literal["language", "tokens"], source: SourceName, words: str | None, sample: _Sample
    ) -> None:
        """Store a warning, and log it if no warning of this kind about the source is stored yet.

        Delete the stored warning if later documents of the same sample refute it.
        """
        if words is None:
            if kind in sample.warned:
                sample.warned.remove(kind)
                self._notices.put(kind, source, None)
            return
        sample.warned.add(kind)
        if self._notices.get(kind, source) is None:
            name: Event = "language_unknown" if kind == "language" else "tokens_unknown"
            log.warning("source %s: %s", source, words, extra=event(name, source=source, reason=words))
        self._notices.put(kind, source, words)
