"""Prepared documents of one collection that wait to be written."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from ingestor.core.entries import Entry
from ingestor.pipeline.prepare import Prepared
from ingestor.ports import Index

BATCH = 400  # records written at once; a document of more is large
BEHIND = 50  # records of a rebuild written at once: removals and edits wait for a few such writes


@dataclass(frozen=True, slots=True)
class UnderWay:
    """A large document that is partly written. ``index``: what it is written to."""

    index: Index
    rest: Iterator[None]


@dataclass(slots=True)
class Outbox:
    """``size``: records of all that wait. ``under_way``: large documents that are partly written."""

    prepared: list[Prepared] = field(default_factory=list)
    size: int = 0
    under_way: dict[Prepared, UnderWay] = field(default_factory=dict)
    since: float = 0.0
    not_before: float = 0.0
    look: bool = False  # whether the collection must be examined
    attempts: int = 0
    said: str | None = None  # why it is paused: logged once, not at every attempt

    def put(self, prepared: Prepared, now: float) -> None:
        if not self.prepared:
            self.since = now
        self.prepared.append(prepared)
        self.size += _size(prepared)

    def batch(self, most: int) -> list[Prepared]:
        """The first documents that are not large, about ``most`` records."""
        whole = [prepared for prepared in self.prepared if not is_large(prepared)]
        sizes = accumulate(map(_size, whole))
        return whole[: 1 + sum(size < most for size in sizes)]

    def large(self) -> Prepared | None:
        """The large document whose turn it is."""
        return next(filter(is_large, self.prepared), None)

    def rotate(self, large: Prepared) -> None:
        """It is the turn of the next large document."""
        self.prepared.remove(large)
        self.prepared.append(large)

    def done(self, batch: Sequence[Prepared]) -> list[Entry]:
        """Forget these writes. Returns the documents of which nothing else waits.

        One that Chroma refused waits on: its withdrawal was put here meanwhile.
        """
        written = set(batch)
        self.prepared = [prepared for prepared in self.prepared if prepared not in written]
        self.size = sum(map(_size, self.prepared))
        waiting = {prepared.entry.row for prepared in self.prepared}
        return [prepared.entry for prepared in batch if prepared.entry.row not in waiting]


def is_large(prepared: Prepared) -> bool:
    """Whether it is written a slice at a time. A renamed document is not: its row in the journal changes."""
    return _size(prepared) > BATCH and prepared.intent.predecessor is None


def _size(prepared: Prepared) -> int:
    return len(prepared.records) + len(prepared.patches) + len(prepared.drops)
