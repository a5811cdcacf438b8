"""Numbers and states of a running daemon at one moment, and the obstacles that keep it from being ready."""

from dataclasses import dataclass, field

from ingestor.engine.embedding import Counts
from ingestor.pipeline.actions import WorkCounts
from ingestor.state.run_status import CheckResult, Live

SLOW = 60.0  # seconds without a step, or for one batch of texts, after which the daemon is not ready


@dataclass(frozen=True, slots=True)
class SourceFigures:
    """Numbers and states of a source. Times are POSIX seconds."""

    last_listing: float | None = None
    held: bool = False
    paused: bool = False
    interval: float | None = None  # seconds between two listings; None if the source is not in the config
    oldest: float | None = None  # oldest change that is not searchable yet
    last_success: float | None = None  # last complete listing, or write of a document


@dataclass(frozen=True, slots=True)
class CollectionFigures:
    """Numbers and states of a collection.

    ``records``: number of records in Chroma, by role of the edition. The edition with the role "previous" is
    kept for a rollback.
    """

    readable: bool = True
    writable: bool = True
    records: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Situation:
    """State of all sources and collections at one moment.

    ``documents``: number of documents, by source, collection and state. ``swaps``: for each collection that
    is being rebuilt, the number of finished documents and of all documents.
    """

    at: float = 0.0  # POSIX seconds
    idle: float = 0.0  # seconds since the last step of the engine's loop
    live: Live = field(default_factory=Live)
    embedded: Counts = field(default_factory=Counts)
    work: WorkCounts = field(default_factory=WorkCounts)
    documents: dict[tuple[str, str, str], int] = field(default_factory=dict)
    sources: dict[str, SourceFigures] = field(default_factory=dict)
    reasons: list[tuple[str, str, int]] = field(default_factory=list)  # source, reason, documents
    swaps: dict[str, tuple[int, int]] = field(default_factory=dict)
    chroma_up: bool = True
    chroma_loads: bool = False  # whether Chroma still loads a collection after its start
    chroma_restarts: int = 0
    collections: dict[str, CollectionFigures] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)  # bytes, by folder
    dead: dict[str, int] = field(default_factory=dict)  # bytes of free pages, by SQLite file
    stages: dict[str, float] = field(default_factory=dict)  # seconds of all threads, by stage
    disk_free: dict[str, int] = field(default_factory=dict)  # bytes, by folder
    checks: list[CheckResult] = field(default_factory=list)  # the last of each collection and question file


UNLISTED = "a source was never listed completely"
UNREADABLE = ("Chroma does not answer", "Chroma is loading a collection", "a collection cannot be read")


def obstacles(situation: Situation) -> list[str]:
    """Return the reasons why the daemon is not ready to answer searches completely."""
    unlisted = [one for one in situation.sources.values() if one.interval and one.last_listing is None]
    down, loading, unreadable = UNREADABLE
    served, loads = situation.collections.values(), situation.chroma_up and situation.chroma_loads
    reasons = {
        down: not situation.chroma_up,
        loading: loads,
        unreadable: situation.chroma_up and not loads and not all(one.readable for one in served),
        "a collection cannot be written": not all(one.writable for one in served),
        "the state folder cannot be written": bool(situation.live.state_error),
        "the engine makes no progress": situation.idle > SLOW,
        "the embedder makes no progress": situation.embedded.busy_for > SLOW,
        UNLISTED: any(not (one.held or one.paused) for one in unlisted),
    }
    return [reason for reason, holds in reasons.items() if holds]
