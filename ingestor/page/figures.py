"""Formats numbers, times and figures of a daemon for people. Pure."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from ingestor.core.document_state import PENDING
from ingestor.core.errors import kind_of
from ingestor.service.situation import UNLISTED, Situation, obstacles
from ingestor.units import quantity

MOST_REASONS = 12  # groups of failures that are shown

Mood = Literal["good", "busy", "asks", "bad", "empty"]


@dataclass(frozen=True, slots=True)
class Headline:
    mood: Mood
    text: str
    more: str = ""


@dataclass(frozen=True, slots=True)
class ShownCounts:
    """Numbers of documents. ``due``: includes documents to remove and documents waiting for a retry."""

    settled: int = 0
    due: int = 0
    waiting: int = 0  # due documents that wait for a retry
    quarantined: int = 0
    unsupported: int = 0

    @property
    def readable(self) -> int:
        """Return the number of documents in supported formats."""
        return self.settled + self.due + self.quarantined

    @property
    def all(self) -> int:
        return self.readable + self.unsupported


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """Facts about a source, from the journal.

    ``held``: why no document of the source is removed; ``loss``: whether a person may accept the loss.
    """

    held: str | None = None
    loss: bool = False
    trouble: str | None = None
    paused: float | None = None  # since when
    kept: str | None = None  # why records of unreadable documents are kept
    language: str | None = None  # message about documents whose language the model does not know


@dataclass(frozen=True, slots=True)
class ShownSource:
    name: str
    collections: tuple[str, ...]
    counts: ShownCounts
    facts: SourceFacts
    lag: float | None  # seconds; None if readers see everything
    last_listing: float | None
    listing: tuple[float, int] | None  # running: since when, and documents up to now
    in_flight: int
    configured: bool


@dataclass(frozen=True, slots=True)
class CollectionFacts:
    """Facts about a collection, from the journal and Chroma.

    ``waits``: why a changed config is not applied. ``delayed``: why a new collection is not swapped in yet.
    """

    records: int | None = None
    means: str = ""  # strategy and model
    waits: str | None = None
    delayed: str | None = None
    old_since: float | None = None  # since when an old collection is kept for rollback


@dataclass(frozen=True, slots=True)
class ShownCollection:
    name: str
    counts: ShownCounts
    facts: CollectionFacts = field(default_factory=CollectionFacts)
    swap: tuple[int, int] | None = None


def counts_of(situation: Situation, source: str | None = None, collection: str | None = None) -> ShownCounts:
    states = Counter[str]()
    for (of, into, state), documents in situation.documents.items():
        if source in (None, of) and collection in (None, into):
            states[state] += documents
    due = sum(states[state] for state in (*PENDING, "gone"))
    return ShownCounts(
        states["settled"], due, states["waiting"], states["quarantined"], states["unsupported"]
    )


def sources_of(
    situation: Situation, facts: Mapping[str, SourceFacts], listing: Mapping[str, tuple[float, int]]
) -> list[ShownSource]:
    return [
        ShownSource(
            name,
            tuple(sorted({into for of, into, _ in situation.documents if of == name})),
            counts_of(situation, source=name),
            facts.get(name, SourceFacts()),
            None if one.oldest is None else max(0.0, situation.at - one.oldest),
            one.last_listing,
            listing.get(name),
            situation.live.in_flight.get(name, 0),
            one.interval is not None,
        )
        for name, one in situation.sources.items()
        if one.interval is not None or counts_of(situation, source=name).all
    ]


def collections_of(situation: Situation, facts: Mapping[str, CollectionFacts]) -> list[ShownCollection]:
    names = sorted({into for _, into, _ in situation.documents} | facts.keys())
    return [
        ShownCollection(
            name,
            counts_of(situation, collection=name),
            facts.get(name, CollectionFacts()),
            situation.swaps.get(name),
        )
        for name in names
    ]


@dataclass(frozen=True, slots=True)
class ShownReason:
    """Documents of a source that failed alike. ``example``: one reason.

    ``alike``: whether all share the reason.
    """

    source: str
    kind: str
    documents: int
    example: str
    alike: bool

    @property
    def address(self) -> str:
        """Return the value of the button that retries these documents."""
        return json.dumps([self.source, self.kind])


def group_reasons(reasons: Iterable[tuple[str, str, int]]) -> list[ShownReason]:
    """Group failures by source and kind of reason, the most frequent first; at most MOST_REASONS."""
    groups = dict[tuple[str, str], list[tuple[str, int]]]()
    for source, reason, documents in reasons:
        groups.setdefault((source, kind_of(reason)), []).append((reason, documents))
    shown = [
        ShownReason(source, kind, sum(n for _, n in members), members[0][0], len(members) == 1)
        for (source, kind), members in groups.items()
    ]
    return sorted(shown, key=lambda one: (-one.documents, one.source, one.kind))[:MOST_REASONS]


def describe_pending(counts: ShownCounts, in_flight: int) -> str:
    """Return how many pending documents are being read, wait, or will be retried."""
    read = min(in_flight, counts.due)
    waiting = max(0, counts.due - counts.waiting - read)
    parts = ((read, "being read"), (waiting, "waiting"), (counts.waiting, "to be retried"))
    return ", ".join(f"{number(n)} {what}" for n, what in parts if n) or "nothing waits"


def lag_of(sources: Iterable[ShownSource]) -> float | None:
    return max((source.lag for source in sources if source.lag is not None), default=None)


def headline(
    situation: Situation, sources: Iterable[ShownSource], collections: Iterable[ShownCollection]
) -> Headline:
    """Return the state of all sources and collections in one sentence."""
    shown, counts = list(sources), counts_of(situation)
    lag = lag_of(shown)
    obstacle = obstacles(situation)
    asking = [one.name for one in shown if one.facts.held or one.facts.kept]
    asking += [one.name for one in collections if one.facts.waits]
    unread = f"{quantity(counts.quarantined, 'document')} cannot be read" if counts.quarantined else ""
    if [one for one in obstacle if one != UNLISTED]:
        return Headline("bad", "Readers may not find everything", "; ".join(obstacle))
    if asking:
        return Headline("asks", "A person must decide", ", ".join(asking))
    if obstacle:
        return Headline("busy", "Sources are being scanned", UNLISTED)
    if situation.swaps and not counts.due:
        more = f"{', '.join(sorted(situation.swaps))}: readers see the collection before until then"
        return Headline("busy", "A new collection is being built", _join(more, unread))
    if counts.due or situation.live.in_flight:
        age = f"the oldest change is {span(lag)} old" if lag is not None else ""
        return Headline("busy", f"{quantity(counts.due, 'change')} pending", _join(age, unread))
    if not counts.all:
        return Headline("empty", "No documents yet", "put some into a source, and they appear here")
    if unread:
        return Headline("good", "In step, with exceptions", unread)
    return Headline("good", "Everything is in step", "readers find every document as it is now")


def _join(*parts: str) -> str:
    return "; ".join(filter(None, parts))


_STEPS = ((60, "s"), (60, "min"), (24, "h"))


def span(seconds: float) -> str:
    """Format a duration in its largest unit: ``1 min`` for 90 seconds."""
    left = max(0.0, seconds)
    for most, unit in _STEPS:
        if left < most:
            return f"{int(left)} {unit}"
        left /= most
    return f"{int(left):,} d"


def number(value: float) -> str:
    return f"{value:,.0f}"


def moment(at: float) -> str:
    """Format POSIX seconds in UTC for HTML's ``datetime``."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def clock(at: float) -> str:
    """Format POSIX seconds in UTC for people."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")


def ago(at: float, now: float) -> str:
    """Format a time relative to ``now``, which may be a second old: ``3 min ago``, ``in 3 min``."""
    return f"{span(now - at)} ago" if at <= now + 2 else f"in {span(at - now)}"
