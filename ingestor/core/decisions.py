"""Decides what to do about lost documents and failed documents, and orders new documents in the queue.

Pure.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ingestor.core.errors import LONGEST, delay, describe
from ingestor.model import INSIDE, Item
from ingestor.ports import BadDocument, NeedsHuman, Transient
from ingestor.units import quantity

Clock = Callable[[], float]  # returns POSIX seconds
Random = Callable[[], float]  # returns a number evenly drawn from [0, 1)

NEVER = math.inf  # as a time: not until the document's version or recipe changes
PERIOD = 86_400.0  # seconds for which losses of a source add up
SMALL_LOSS = 5  # documents; fewer may be lost without approval, unless they are all of several documents


@dataclass(frozen=True, slots=True)
class Changes:
    """The differences between a listing and the journal, or one part of these differences."""

    changed: Sequence[Item] = ()  # new, or of another version
    vanished: Sequence[str] = ()  # keys


@dataclass(frozen=True, slots=True)
class Scope:
    """The part of a source that a listing covers.

    ``under``: the listed keys, each with all keys below it; "" is the whole source. ``unknown``: keys that
    could not be listed, each with all keys below it.
    """

    under: tuple[str, ...] = ("",)
    unknown: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        """Return whether the whole source was to be listed."""
        return "" in self.under

    def covers(self, key: str) -> bool:
        """Return whether the listing would contain a document with this key if it existed."""
        return any(_below(key, u) for u in self.under) and not any(_below(key, u) for u in self.unknown)


def _below(key: str, under: str) -> bool:
    return under == "" or key == under or key.startswith(under + "/")


SMALL, LARGE = 2**16, 2 * 10**6  # bytes: up to SMALL a document is small, above LARGE it is large


class QueuePositions:
    """Computes the positions in the queue for the new documents of one listing.

    The queue is ordered by the time at which a document becomes due. The positions are such times, in POSIX
    seconds near 0. Documents that readers already see are due from 0.0 on, so that their edits come first.
    """

    def __init__(self) -> None:
        self._members = Counter[str]()

    def of(self, item: Item) -> float:
        """Return the position of the next new document.

        Small documents come first, then those of medium size, then large ones. The members of a container
        follow, at 1.0, 2.0 and so on. So an archive of thousands of files does not delay other documents, and
        the members of two archives alternate.
        """
        container, inside, _ = item.key.partition(INSIDE)
        if not inside:
            size = item.size or SMALL + 1  # the size of a web page is unknown
            return 0.25 if size <= SMALL else 0.5 if size <= LARGE else 0.75
        self._members[container] += 1
        return float(self._members[container])


def sudden_loss(
    vanished: int, appeared: int, known: int, before: int | None, max_loss: float, moved_root: bool
) -> str | None:
    """Return why a person must confirm a listing before it is applied; None if it can be applied.

    ``vanished``: how many documents the listing lacks. ``appeared``: how many are new in it. ``known``: how
    many the journal has. ``before``: the largest number that the journal had within a PERIOD, or since a loss
    was accepted. By this number the losses of several listings add up. It is None before the first complete
    listing. ``max_loss``: the fraction of the documents that may vanish. ``moved_root``: whether another file
    system is mounted where the source was.

    A renamed document is not lost, so new documents are counted against vanished ones. If another file system
    is mounted, they are not, because every vanished document is suspect then.
    """
    if not vanished:
        return None
    if moved_root:
        documents = quantity(known, "document")
        return f"{vanished:,} of {documents} vanished, and another file system is mounted there"
    of = max(known, before or 0)
    lost = of - (known - vanished + appeared)
    if not too_many(lost, of, max_loss):
        return None
    when = "at once" if of == known else "within a day"
    return f"{lost:,} of {quantity(of, 'document')} vanished {when} (max_loss is {max_loss:.0%})"


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed attempt at a document.

    ``attempts``: number of failures in a row. ``retry_at``: POSIX seconds of the next attempt.
    ``quarantined``: whether the content cannot be read. Then its records are deleted, and it is tried again
    only with a new version or recipe. ``detail``: a traceback, if the cause is unknown.
    """

    reason: str
    attempts: int
    retry_at: float
    quarantined: bool
    detail: str | None = None


def after_failure(error: Exception, attempts: int, now: float, random: float, detail: str) -> Failure:
    """Return what to record after an attempt failed: quarantine the document, or retry it later.

    ``attempts``: number of earlier failures. ``now``: POSIX seconds. ``random``: a number in [0, 1), which
    spreads the retries. ``detail``: the traceback.

    Only BadDocument means that the content is at fault. After every other error the document keeps its
    records and is retried, because an unknown error may be a full GPU or a broken plugin.
    """
    reason = str(error) or type(error).__name__
    if isinstance(error, BadDocument):
        return Failure(reason, attempts + 1, NEVER, quarantined=True)
    if isinstance(error, (Transient, NeedsHuman)):
        return Failure(reason, attempts + 1, now + delay(attempts, random), quarantined=False)
    reason = describe(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
    wait = delay(attempts, random, LONGEST)
    return Failure(reason, attempts + 1, now + wait, quarantined=False, detail=detail)


def withdrawal(failure: Failure, withdrawn: int, indexed: int, max_loss: float) -> str | None:
    """Return why the records of an unreadable document are kept for now; None if they may be deleted.

    ``withdrawn``: number of the source's documents whose records were deleted since it last had no due
    document. ``indexed``: number of its documents that had records at that time. Too many deletions need a
    person, so that a broken parser does not empty an index, whatever error it raises.
    """
    if not too_many(withdrawn + 1, indexed, max_loss):
        return None
    return (
        f"more than {withdrawn:,} of {quantity(indexed, 'document')} cannot be read any more "
        f"(max_loss is {max_loss:.0%}; this one: {failure.reason})"
    )


def too_many(lost: int, of: int, max_loss: float) -> bool:
    """Return whether a person must agree before ``lost`` of ``of`` documents leave the index.

    A person is asked if the lost fraction exceeds ``max_loss``, and at least SMALL_LOSS documents are lost. A
    smaller number counts, too, if all documents are lost and there was more than one. With ``max_loss: 1``
    nobody is asked.
    """
    return lost > max_loss * of and (lost >= SMALL_LOSS or lost == of > 1)
