"""Numbers and states that the pages show, and the formats of numbers, durations and times. Pure."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from ingestor.core.document_state import PENDING
from ingestor.core.entries import SourceRow
from ingestor.core.errors import kind_of
from ingestor.service.situation import UNLISTED, Situation, obstacles
from ingestor.units import quantity

if TYPE_CHECKING:
    from ingestor.state.run_status import RunningListing

MOST_REASONS = 12  # groups of failures that are shown

Mood = Literal["good", "busy", "asks", "bad", "empty"]


@dataclass(frozen=True, slots=True)
class Headline:
    """Sentence about the state of all sources and collections. ``mood``: decides the colour of the sentence.

    ``more``: details, shown below the sentence.
    """

    mood: Mood
    text: str
    more: str = ""


@dataclass(frozen=True, slots=True)
class ShownCounts:
    """Numbers of documents by state. ``due``: documents to write, to remove or to retry."""

    settled: int = 0
    due: int = 0
    waiting: int = 0  # due documents that failed and will be retried
    quarantined: int = 0
    unsupported: int = 0

    @property
    def readable(self) -> int:
        """Return the number of documents whose format is supported."""
        return self.settled + self.due + self.quarantined

    @property
    def all(self) -> int:
        return self.readable + self.unsupported


@dataclass(frozen=True, slots=True)
class ShownSource:
    """A source as the pages show it. ``row``: its state in the journal. Times are POSIX seconds.

    ``warning``: about languages or tokens that the model does not know.
    """

    name: str
    collections: list[str]
    counts: ShownCounts
    row: SourceRow
    warning: str
    lag: float | None  # seconds; None if readers see everything
    last_listing: float | None
    listing: "RunningListing | None"
    in_flight: int
    configured: bool

    @property
    def problem(self) -> str | None:
        """Return the most urgent message about the source, if there is a problem."""
        return self.row.hold or self.row.trouble or self.warning


@dataclass(slots=True)
class ShownCollection:
    """A collection as the pages show it, with facts from the journal and Chroma.

    ``swap``: number of finished documents and of all documents, while the collection is being rebuilt.
    ``waits``: why a config change is not applied yet. ``delayed``: why the rebuilt collection does not
    replace the old one yet.
    """

    name: str
    counts: ShownCounts
    swap: tuple[int, int] | None
    records: int | None = None
    means: str = ""  # strategy and model
    waits: str | None = None
    delayed: str | None = None
    old_since: float | None = None  # since when an old collection is kept for rollback


def counts_of(situation: Situation, source: str | None = None, collection: str | None = None) -> ShownCounts:
    """Count the documents by state.

    ``source``, ``collection``: count only documents of this source or collection; None for all.
    """
    of = situation.count(source, collection)
    due = sum(of[state] for state in (*PENDING, "gone"))
    return ShownCounts(of["settled"], due, of["waiting"], of["quarantined"], of["unsupported"])


@dataclass(frozen=True, slots=True)
class ShownReason:
    """Documents of a source that failed for reasons of the same kind.

    ``example``: the reason of one of the documents. ``alike``: whether all of them have exactly this reason.
    """

    source: str
    kind: str
    documents: int
    example: str
    alike: bool

    @property
    def address(self) -> str:
        """Return the value of the button that retries these documents, which identifies them."""
        return json.dumps([self.source, self.kind])


def group_reasons(reasons: Iterable[tuple[str, str, int]]) -> list[ShownReason]:
    """Group failed documents by source and kind of reason, the largest group first.

    At most MOST_REASONS groups are returned.
    """
    groups = dict[tuple[str, str], list[tuple[str, int]]]()
    for source, reason, documents in reasons:
        groups.setdefault((source, kind_of(reason)), []).append((reason, documents))
    shown = [
        ShownReason(source, kind, sum(n for _, n in members), members[0][0], len(members) == 1)
        for (source, kind), members in groups.items()
    ]
    return sorted(shown, key=lambda one: (-one.documents, one.source, one.kind))[:MOST_REASONS]


def describe_pending(counts: ShownCounts, in_flight: int) -> str:
    """Describe pending documents, as in ``3 being read, 7 waiting, 2 to be retried``.

    ``in_flight``: number of documents that are being read.
    """
    read = min(in_flight, counts.due)
    waiting = max(0, counts.due - counts.waiting - read)
    parts = ((read, "being read"), (waiting, "waiting"), (counts.waiting, "to be retried"))
    return ", ".join(f"{number(n)} {what}" for n, what in parts if n) or "nothing waits"


def headline(situation: Situation, asking: Sequence[str], lag: float | None) -> Headline:
    """Describe the state of all sources and collections in one sentence.

    ``asking``: sources and collections about which a person must decide. ``lag``: age in seconds of the
    oldest change that a search does not find yet; None if there is none.
    """
    counts, obstacle = counts_of(situation), obstacles(situation)
    unread = f"{quantity(counts.quarantined, 'document')} cannot be read" if counts.quarantined else ""
    if [one for one in obstacle if one != UNLISTED]:
        return Headline("bad", "Readers may not find everything", "; ".join(obstacle))
    if asking:
        return Headline("asks", "A person must decide", ", ".join(asking))
    if obstacle:
        return Headline("busy", "Sources are being scanned", UNLISTED)
    if situation.swaps and not counts.due:
        more = f"{', '.join(sorted(situation.swaps))}: readers see the previous collection until then"
        return Headline("busy", "A collection is being rebuilt", "; ".join(filter(None, (more, unread))))
    if counts.due or situation.live.in_flight:
        age = f"the oldest change is {span(lag)} old" if lag is not None else ""
        more = "; ".join(filter(None, (age, unread)))
        return Headline("busy", f"{quantity(counts.due, 'change')} pending", more)
    if not counts.all:
        return Headline("empty", "No documents yet", "documents appear here when a source has some")
    if unread:
        return Headline("good", "In step, with exceptions", unread)
    return Headline("good", "Everything is in step", "readers find every document as it is now")


def span(seconds: float) -> str:
    """Format a duration in its largest unit: ``1 min`` for 90 seconds."""
    left = max(0.0, seconds)
    for most, unit in ((60, "s"), (60, "min"), (24, "h")):
        if left < most:
            return f"{int(left)} {unit}"
        left /= most
    return f"{int(left):,} d"


def number(value: float) -> str:
    return f"{value:,.0f}"


def moment(at: float) -> str:
    """Format POSIX seconds in UTC, in the form of HTML's attribute ``datetime``."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def clock(at: float) -> str:
    """Format POSIX seconds as date and time in UTC, for people."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")


def ago(at: float, now: float) -> str:
    """Format a time relative to now: ``3 min ago``, ``in 3 min``.

    A time up to two seconds after ``now`` counts as past, because ``now`` may be a little old.
    """
    return f"{span(now - at)} ago" if at <= now + 2 else f"in {span(at - now)}"
