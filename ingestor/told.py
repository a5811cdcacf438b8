"""What the log says of documents that fail: a few for each reason. A folder of pictures has thousands."""

import logging
from collections import Counter

from ingestor.decide import Failure
from ingestor.rows import Entry

log = logging.getLogger("ingestor")

ALIKE = 3  # documents that failed for one reason that are told one by one
DISTINCT = 1000  # reasons that are counted


class Told:
    """Counts by reason, since the start."""

    def __init__(self) -> None:
        self._told = Counter[str]()

    def tell(
        self,
        entry: Entry,
        message: str,
        failure: Failure,
        *,
        alike: int = ALIKE,
        level: int = logging.WARNING,
    ) -> None:
        """Log so many documents ``alike`` per reason at that level, the rest at DEBUG.

        ``message`` has places for key, source and reason.
        """
        if len(self._told) > DISTINCT:
            self._told.clear()
        self._told[failure.reason] += 1
        number = self._told[failure.reason]
        more = "; others like it are only listed, by `ingestor status`" if number == alike else ""
        trace = f"\n{failure.detail}" if failure.detail and number == 1 else ""
        shown = level if number <= alike else logging.DEBUG
        log.log(shown, message + "%s%s", entry.key, entry.source, failure.reason, more, trace)
