"""A bound on what is under way at the same time: text that is chunked takes tens of bytes of memory for each
character, and bytes on their way to other machines wait in memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition

from ingestor.core.interruptions import Stopped

TOGETHER = 8_000_000  # characters of the large documents that are chunked at the same time
_SMALL = 250_000  # characters; documents below that size never wait


class TextBudget:
    """Large documents take part of the budget while they are chunked, or wait. Threads share it."""

    def __init__(self, characters: int = TOGETHER, small: int = _SMALL) -> None:
        self._budget, self._small = characters, small
        self._taken = 0
        self._stopped = False
        self._changed = Condition()

    @contextmanager
    def taken(self, characters: int) -> Iterator[None]:
        """Waits until the budget has room. A document larger than the whole budget is chunked alone.

        Raises Stopped after ``stop``.
        """
        share = 0 if characters <= self._small else min(characters, self._budget)
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or self._taken + share <= self._budget)
            if self._stopped:
                raise Stopped
            self._taken += share
        try:
            yield
        finally:
            with self._changed:
                self._taken -= share
                self._changed.notify_all()

    def stop(self) -> None:
        """Waiting threads get Stopped."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
