"""Logs what can strike thousands of documents by one cause: failures by reason."""

import logging
from collections import Counter

from ingestor.core.decisions import Failure
from ingestor.core.entries import Entry
from ingestor.core.events import Event, event

log = logging.getLogger("ingestor")

ALIKE = 3  # documents logged one by one for each reason
DISTINCT = 1000  # reasons that are counted


class FailureLog:
    """Counts by reason, since the start."""

    def __init__(self) -> None:
        self._counts = Counter[str]()

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

        ``message``: a format with places for key, source and reason.
        """
        if len(self._counts) > DISTINCT:
            self._counts.clear()
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
        log.log(shown, message + "%s", entry.key, entry.source, failure.reason, more, extra=about)
