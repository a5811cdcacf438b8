"""Decides whether a loss is too sudden to accept, and what follows when a document fails. Pure."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ingestor.core.errors import LONGEST, delay, describe
from ingestor.model import INSIDE, Item
from ingestor.ports import BadDocument, NeedsHuman, Transient
from ingestor.units import quantity

NEVER = math.inf  # as a time: not until the document's version or recipe changes
PERIOD = 86_400.0  # seconds for which losses of a source add up
SMALL_LOSS = 5  # fewer documents may be lost without approval, unless they were all of several


@dataclass(frozen=True, slots=True)
class Changes:
    """Differences between a listing and the journal, or a part of the differences."""

    changed: Sequence[Item] = ()  # new, or of another version
    vanished: Sequence[str] = ()  # keys


@dataclass(frozen=True, slots=True)
class Scope:
    """The listed part of a source: ``under`` these keys ("" is all), without ``unknown`` subtrees."""

    under: tuple[str, ...] = ("",)
    unknown: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        return "" in self.under

    def covers(self, key: str) -> bool:
        """Return whether the listing would contain this key if it still existed."""
        return any(_below(key, u) for u in self.under) and not any(_below(key, u) for u in self.unknown)


def _below(key: str, under: str) -> bool:
    return under == "" or key == under or key.startswith(under + "/")


SMALL, LARGE = 2**16, 2 * 10**6  # bytes


class QueueTurns:
    """The places of the new documents of one listing in the queue, behind documents that readers have."""

    def __init__(self) -> None:
        self._members = Counter[str]()

    def of(self, item: Item) -> float:
        """Return the place of the next document, as the POSIX seconds from which on it is due.

        Small documents go first, large ones last. Members of a container have 1, 2, ...: an archive of
        thousands of files makes no other document wait. Two archives are read side by side.
        """
        container, inside, _ = item.key.partition(INSIDE)
        if not inside:
            size = item.size or SMALL + 1  # unknown, as of a page
            return 0.25 if size <= SMALL else 0.5 if size <= LARGE else 0.75
        self._members[container] += 1
        return float(self._members[container])


def sudden_loss(
    vanished: int, appeared: int, known: int, before: int | None, max_loss: float, moved_root: bool
) -> str | None:
    """Return why a person must confirm this listing, or None.

    ``vanished``, ``appeared``, ``known``: numbers of documents; ``known`` is the journal's number for the
    source. ``before``: the largest number within a PERIOD, or since a loss was accepted; None before the
    first complete listing. So losses of several listings add up.

    Renames are no loss: documents that appear offset documents that vanish. With ``moved_root`` they do not:
    another file system is mounted where the source was, so every vanished document is suspect.
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
    """A failed attempt, and the time of the next attempt in POSIX seconds.

    ``quarantined``: the content cannot be read, so its records are withdrawn and only a new version or recipe
    is tried.
    """

    reason: str
    attempts: int
    retry_at: float
    quarantined: bool
    detail: str | None = None  # a traceback, where the cause is unknown


def after_failure(error: Exception, attempts: int, now: float, random: float, detail: str) -> Failure:
    """Return the failure to record for an error: quarantine the document, or retry it later.

    ``attempts``: number of earlier failures; ``random`` in [0, 1) spreads the retries. Only BadDocument is an
    error of the content. After every other error the document keeps its records and is retried: an unknown
    error is as likely a full GPU or a broken plugin.
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
    """Return why the records of an unreadable document are kept for now, or None.

    ``withdrawn``: documents withdrawn since the source was last in step. ``indexed``: documents that the
    source had in the index then. A broken parser must not empty an index, whatever error it raises.
    """
    if not too_many(withdrawn + 1, indexed, max_loss):
        return None
    return (
        f"more than {withdrawn:,} of {quantity(indexed, 'document')} cannot be read any more "
        f"(max_loss is {max_loss:.0%}; this one: {failure.reason})"
    )


def too_many(lost: int, of: int, max_loss: float) -> bool:
    """Return whether a person must agree before ``lost`` of ``of`` documents leave the index.

    The share must exceed ``max_loss``, and the loss must be SMALL_LOSS or more, or all of several documents.
    No share exceeds ``max_loss: 1``.
    """
    return lost > max_loss * of and (lost >= SMALL_LOSS or lost == of > 1)
