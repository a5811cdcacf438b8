"""Stretches of work, from rest to rest: how much of one is done, how fast, and how long the rest takes.

A daemon's next stretch starts at zero.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ingestor.state.run_status import Live, RunningListing


@dataclass(frozen=True, slots=True)
class SyncProgress:
    """Progress of work from rest to rest.

    ``texts`` were embedded in ``seconds``; ``left`` are those of documents that were read.

    ``begun`` documents are being prepared.
    """

    done: int = 0  # documents
    waiting: int = 0  # documents, those that were begun included
    texts: int = 0
    seconds: float = 0.0
    listing: Mapping[str, RunningListing] = field(default_factory=dict)  # by source
    left: int = 0
    begun: int = 0
    loading: bool = False  # a model, into memory
    at: float = 0.0  # POSIX seconds

    @property
    def expected(self) -> float:
        """Return texts of all documents: those of unread ones are estimated from the others."""
        known = self.done + self.begun
        average = (self.texts + self.left) / known if known else 0.0
        return max(self.texts + self.left, average * (self.done + self.waiting))

    @property
    def share(self) -> float:
        """Return how much of the work is done, from 0 to 1."""
        documents = self.done + self.waiting
        if not self.waiting:
            return 1.0
        return self.texts / self.expected if self.texts else self.done / documents

    @property
    def rate(self) -> float | None:
        """Return texts embedded a second; None while that is unknown."""
        return self.texts / self.seconds if self.texts and self.seconds >= 1 else None

    @property
    def seconds_left(self) -> float | None:
        if self.waiting and 0 < self.share < 1 and self.seconds >= 1:
            return self.seconds / self.share - self.seconds
        return None


@dataclass(slots=True)
class Meter:
    """Splits progress into stretches of work, and passes each reading to ``show``."""

    show: Callable[[SyncProgress], None]
    _rest: Live = field(default_factory=Live)
    _begun: float | None = None  # POSIX seconds

    def __call__(self, live: Live) -> None:
        self._begun = live.at if self._begun is None else self._begun
        self.show(
            SyncProgress(
                _done(live) - _done(self._rest),
                live.waiting,
                texts=live.texts_stepped - self._rest.texts_stepped,
                seconds=live.at - self._begun,
                listing=live.listing,
                left=live.texts_left,
                begun=sum(live.in_flight.values()),
                loading=live.loading,
                at=live.at,
            )
        )
        if not live.waiting:
            self._rest, self._begun = live, None


def _done(live: Live) -> int:
    return sum(live.tally.get(kind, 0) for kind in ("added", "changed", "moved", "removed"))
