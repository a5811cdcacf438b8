"""Lines of the log about documents and their languages, each written a few times for any number of documents.

Failures are logged by reason, since one cause can strike thousands of documents.
"""

import logging
from collections import Counter
from collections.abc import Mapping
from typing import Literal

from ingestor.core.decisions import Failure
from ingestor.core.entries import Entry, Feed
from ingestor.core.errors import shorten
from ingestor.core.events import Event, event
from ingestor.model import SourceName
from ingestor.pipeline.language import LanguageCounts
from ingestor.pipeline.listing import Source
from ingestor.pipeline.prepare import Prepared
from ingestor.state.editions import Notices
from ingestor.state.journal import Journal

log = logging.getLogger("ingestor")

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


class LanguageNotes:
    """Warnings about sources whose languages or tokens the model does not know."""

    def __init__(self, journal: Journal) -> None:
        self._notices, self._languages = Notices(journal), LanguageCounts()

    def configure(self, sources: Mapping[Feed, Source]) -> None:
        """Forget warnings that another model does not deserve."""
        for feed, source in sources.items():
            if source.tools.languages is None:
                self._notices.put("language", feed.source, None)
            vocabulary, words = source.tools.vocabulary, self._notices.get("tokens", feed.source)
            if words and (vocabulary is None or f" {vocabulary.model}," not in words):
                self._notices.put("tokens", feed.source, None)

    def add(self, entry: Entry, prepared: Prepared, source: Source | None) -> None:
        """Warn once if the model does not know the language of most documents of a source, or many tokens."""
        warnings = dict[Literal["language", "tokens"], str | None]()
        if source is None or not prepared.records:
            return
        known, vocabulary = source.tools.languages, source.tools.vocabulary
        if known is not None and (language := prepared.records[0].metadata.get("language")):
            warnings["language"] = self._languages.add(entry.source, entry.row, str(language), known)
        if vocabulary is not None:
            warnings["tokens"] = self._languages.add_tokens(
                entry.source, entry.row, prepared.tokens, vocabulary.model
            )
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
