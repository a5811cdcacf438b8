"""Writes log lines about failed documents and unknown languages: a few lines, however many documents there
are.

Failures are counted by reason, since one cause can affect thousands of documents.
"""

import logging
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ingestor.core.decisions import Failure
from ingestor.core.entries import Entry, Feed
from ingestor.core.errors import shorten
from ingestor.core.events import Event, event
from ingestor.model import SourceName
from ingestor.pipeline.language import describe_foreign, describe_unknown
from ingestor.pipeline.listing import Source
from ingestor.pipeline.prepare import Prepared
from ingestor.state.editions import Notices
from ingestor.state.journal import Journal

log = logging.getLogger("ingestor")

ALIKE = 3  # failures of one reason that are logged one by one
DISTINCT = 1000  # reasons that are counted
LINE, KEY, ROOM = 100, 40, 30  # characters of a line; of a key at most; of a reason at least
COUNTED = 10_000  # documents of a source whose language is counted; more would show no more

# A format with places for key, source and reason; how many failures of a reason are logged; their level.
MESSAGES = {
    "document_unsupported": ("skipped %s (%s): %s", 1, logging.INFO),
    "document_quarantined": ("quarantined %s (%s): %s", ALIKE, logging.WARNING),
    "document_failed": ("%s (%s) failed, keeps its records and is retried: %s", ALIKE, logging.WARNING),
}
Failed = Literal["document_unsupported", "document_quarantined", "document_failed"]


class FailureLog:
    """Logs the failures of documents, and counts them by reason since the program started."""

    def __init__(self) -> None:
        self._counts = Counter[str]()
        self._logged = set[tuple[str, str, str | None, str]]()

    def note(self, entry: Entry, name: Failed, failure: Failure) -> None:
        """Log the failure of a document.

        The first few failures of each reason are logged at the level of event ``name``, the others at DEBUG.
        A version that fails in several editions of a collection is logged once.
        """
        message, alike, level = MESSAGES[name]
        if len(self._counts) > DISTINCT or len(self._logged) > DISTINCT:
            self._counts.clear()
            self._logged.clear()
        version = entry.item.version if entry.item else None
        logged, document = self._logged, (entry.source, entry.key, version, failure.reason)
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
        shown = level if number <= alike and document not in logged else logging.DEBUG
        logged.add(document)
        log.log(shown, message + "%s", *fit_line(message, entry, failure.reason, more), more, extra=about)


def fit_line(message: str, entry: Entry, reason: str, more: str = "") -> tuple[str, SourceName, str]:
    """Return key, source and reason as the values for ``message``, shortened so that the log line fits.

    ``more``: words that follow at the end of the line.
    """
    key = entry.key if len(entry.key) <= KEY else f"…{entry.key[1 - KEY :]}"
    room = LINE - len(message % (key, entry.source, "")) - len(more)
    return key, entry.source, shorten(reason, max(ROOM, room))


@dataclass(slots=True)
class _Sample:
    """Counts of languages and tokens in the first documents of a source.

    ``documents``: the rows of these documents in the journal.
    """

    documents: set[int] = field(default_factory=set)
    languages: Counter[str] = field(default_factory=Counter)
    unknown: int = 0  # tokens that the model does not know
    tokens: int = 0


class LanguageWarnings:
    """Warns if an embedding model does not know the language of most documents of a source, or many of its
    tokens."""

    def __init__(self, journal: Journal) -> None:
        self._notices = Notices(journal)
        self._samples = defaultdict[tuple[SourceName, str], _Sample](_Sample)  # by source and model

    def configure(self, sources: Mapping[Feed, Source]) -> None:
        """Delete warnings about embedding models that the config no longer names."""
        for feed, source in sources.items():
            if source.tools.languages is None:
                self._notices.put("language", feed.source, None)
            vocabulary, words = source.tools.vocabulary, self._notices.get("tokens", feed.source)
            if words and (vocabulary is None or f" {vocabulary.model}," not in words):
                self._notices.put("tokens", feed.source, None)

    def add(self, entry: Entry, prepared: Prepared, source: Source | None) -> None:
        """Count the language and tokens of a prepared document.

        Warn once if its source does not fit the model.
        """
        if source is None or not prepared.records:
            return
        known, vocabulary = source.tools.languages, source.tools.vocabulary
        sample = self._samples[entry.source, str(source.tools.embedder_recipe)]
        language = prepared.records[0].metadata.get("language")
        if entry.row not in sample.documents and len(sample.documents) < COUNTED:
            sample.documents.add(entry.row)
            sample.languages.update([str(language)] if language else [])
            sample.unknown += prepared.tokens[0]
            sample.tokens += prepared.tokens[1]
        if known is not None and (words := describe_foreign(sample.languages, known)) is not None:
            self._warn("language", entry.source, words)
        if vocabulary is not None:
            words = describe_unknown(sample.unknown, sample.tokens, vocabulary.model)
            if words is not None:
                self._warn("tokens", entry.source, words)

    def _warn(self, kind: Literal["language", "tokens"], source: SourceName, words: str) -> None:
        """Store a warning for `status`.

        Log it, too, if no warning of this kind about the source is stored yet.
        """
        if self._notices.get(kind, source) is None:
            name: Event = "language_unknown" if kind == "language" else "tokens_unknown"
            log.warning("source %s: %s", source, words, extra=event(name, source=str(source), reason=words))
        self._notices.put(kind, source, words)
