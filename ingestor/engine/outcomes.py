"""The flow of a document that was prepared, failed or was refused: it is written, withdrawn or retried.

Failures are logged by reason, since one cause can strike thousands of documents.
"""

import logging
import traceback
from collections import Counter
from collections.abc import Container, Mapping
from typing import Literal

from ingestor.core import decisions
from ingestor.core.decisions import Failure
from ingestor.core.document_state import NO_PARSER
from ingestor.core.entries import EditionName, Entry, Feed, Receipt
from ingestor.core.errors import LONGEST, Slow, delay, shorten
from ingestor.core.events import Event, event
from ingestor.engine.flight import Flight, InFlight
from ingestor.engine.parts import EngineParts
from ingestor.engine.scanner import Scanner
from ingestor.engine.workers import Outcome
from ingestor.engine.writer import Writer
from ingestor.model import SourceName
from ingestor.pipeline.language import LanguageCounts
from ingestor.pipeline.listing import Source
from ingestor.pipeline.prepare import Prepared, withdraw
from ingestor.ports import NeedsHuman, Stale, Unsupported
from ingestor.state.editions import Notices
from ingestor.state.reports import source_of
from ingestor.state.sources import SourceRows, Withdrawals

log = logging.getLogger("ingestor")

EMPTIED = Failure("the document has no text any more", 1, 0.0, quarantined=False)
ALIKE = 3  # documents logged one by one for each reason
DISTINCT = 1000  # reasons that are counted
LINE, KEY, ROOM = 100, 40, 30  # characters of a line; of a key at most; of a reason at least


class FailureLog:
    """Counts by reason, and documents that are logged, since the start."""

    def __init__(self) -> None:
        self._counts = Counter[str]()
        self._logged = set[tuple[str, str, str | None, str]]()

    def note(
        self,
        entry: Entry,
        name: Event,
        message: str,
        failure: Failure,
        *,
        alike: int = ALIKE,
        level: int = logging.WARNING,
    ) -> None:
        """Log at most ``alike`` documents per reason at ``level``, the rest at DEBUG.

        A version that fails in several editions of a collection is logged once.

        ``message``: a format with places for key, source and reason; long ones are shortened to a line.
        """
        if len(self._counts) > DISTINCT or len(self._logged) > DISTINCT:
            self._counts.clear()
            self._logged.clear()
        version = entry.item.version if entry.item else None
        if (document := (entry.source, entry.key, version, failure.reason)) in self._logged:
            level = logging.DEBUG
        self._logged.add(document)
        self._counts[failure.reason] += 1
        number = self._counts[failure.reason]
        more = "; more like this: see `ingestor status`" if number == alike else ""
        about = event(
            name,
            source=str(entry.source),
            document=entry.key,
            reason=failure.reason,
            trace=failure.detail if failure.detail and number == 1 else None,
        )
        shown = level if number <= alike else logging.DEBUG
        log.log(shown, message + "%s", *fit_line(message, entry, failure.reason, more), more, extra=about)


def fit_line(message: str, entry: Entry, reason: str, more: str = "") -> tuple[str, SourceName, str]:
    """Return key, source and reason for ``message``, shortened to a line with ``more`` at its end."""
    key = entry.key if len(entry.key) <= KEY else f"…{entry.key[1 - KEY :]}"
    room = LINE - len(message % (key, entry.source, "")) - len(more)
    return key, entry.source, shorten(reason, max(ROOM, room))


class DocumentFlow:
    """Takes documents from a worker's outcome to the writer, or lands them."""

    def __init__(self, parts: EngineParts, flight: Flight, scanner: Scanner) -> None:
        self._journal, self._clock, self._random = parts.journal, parts.clock, parts.random
        self._flight, self._scanner, self._source_rows = flight, scanner, SourceRows(parts.journal)
        self._sources: Mapping[Feed, Source] = {}
        self._behind: Container[EditionName] = ()
        self.guard, self._failures = Withdrawals(parts.journal), FailureLog()
        self._notices, self._languages = Notices(parts.journal), LanguageCounts()
        self.writer = Writer(parts, flight, self)

    def configure(self, sources: Mapping[Feed, Source], behind: Container[EditionName]) -> None:
        """Take over a config. ``behind``: editions that are built to replace others."""
        self._sources, self._behind = sources, behind
        for feed, source in sources.items():
            if source.tools.languages is None:
                self._notices.put("language", feed.source, None)
            vocabulary, words = source.tools.vocabulary, self._notices.get("tokens", feed.source)
            if words and (vocabulary is None or f" {vocabulary.model}," not in words):
                self._notices.put("tokens", feed.source, None)
        self.writer.health.configure({feed.edition for feed in sources})

    def take(self, document: InFlight, outcome: Outcome) -> None:
        entry, attempts = document.entry, document.attempts
        attempts.spared = False
        attempts.slow = isinstance(outcome.error, Slow)
        if attempts.slow or self._has_new_source(entry):
            self._flight.land(document)
        elif isinstance(outcome.value, Prepared):
            attempts.forget_failures()
            if outcome.value.empties and not self._may_withdraw(document, EMPTIED):
                return
            self._warn_of_language(entry, outcome.value)
            self._flight.put(document, outcome.value, self._clock())
        elif outcome.error is not None:
            self._fail(document, outcome.error, outcome.trace, document.refused)

    def _warn_of_language(self, entry: Entry, prepared: Prepared) -> None:
        """Warn once if the model does not know the language of most documents of a source, or many tokens."""
        source, warnings = self._sources.get(entry.feed), dict[Literal["language", "tokens"], str | None]()
        if source is None or not prepared.records:
            return
        known, vocabulary = source.tools.languages, source.tools.vocabulary
        if known is not None and (language := prepared.records[0].metadata.get("language")):
            warnings["language"] = self._languages.add(entry.source, str(language), known)
        if vocabulary is not None:
            warnings["tokens"] = self._languages.add_tokens(entry.source, prepared.tokens, vocabulary.model)
        for kind, words in warnings.items():
            if words is not None and self._notices.get(kind, entry.source) is None:
                about = event(
                    "language_unknown" if kind == "language" else "tokens_unknown",
                    source=str(entry.source),
                    reason=words,
                )
                log.warning("source %s: %s", entry.source, words, extra=about)
            if words is not None:
                self._notices.put(kind, entry.source, words)

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
