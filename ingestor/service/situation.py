"""Numbers and states of a daemon, gathered once a second at most, and what keeps it from being ready."""

import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from shutil import disk_usage
from threading import Lock
from time import monotonic, time
from typing import Generic, TypeVar

from ingestor.core.entries import Edition, SourceRow
from ingestor.engine.embedding import Counts
from ingestor.engine.outcomes import WorkCounts
from ingestor.ports import Gone, NeedsHuman, Torn, Transient
from ingestor.service.daemon_view import DaemonView
from ingestor.state.editions import all_editions
from ingestor.state.reports import count_documents, find_oldest_changes, progress, reasons
from ingestor.state.run_status import CheckResult, Live
from ingestor.state.sources import states

T = TypeVar("T")

SLOW = 60.0  # seconds without a step, or for one batch of texts, after which the daemon is not ready
FRESH = 1.0  # seconds for which figures are reused
CHROMA_PATIENCE = 2.0  # seconds


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

    def count(self, source: str | None = None, collection: str | None = None) -> Counter[str]:
        """Count the documents by state. ``source``, ``collection``: count only documents of this one."""
        counts = Counter[str]()
        for (of, into, state), number in self.documents.items():
            if source in (None, of) and collection in (None, into):
                counts[state] += number
        return counts

    def lag(self, source: str) -> float | None:
        """Return the age in seconds of a source's oldest change that a search does not find yet.

        Return None if a search finds every change.
        """
        oldest = self.sources[source].oldest
        return None if oldest is None else max(0.0, self.at - oldest)


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


def gather(daemon: DaemonView) -> Situation:
    """Gather all numbers and states of the daemon as they are now. Raises sqlite3.Error."""
    live, now = daemon.live(), daemon.counts
    work = WorkCounts(copy(now.changes), copy(now.failures), copy(now.retries), copy(now.successes))
    editions = {str(edition.name): edition for edition in all_editions(daemon.journal)}
    counts = count_documents(daemon.journal)
    unseen = {name for name, edition in editions.items() if edition.role != "live"}
    served = {edition.serves for edition in editions.values()}
    staging = [edition for edition in editions.values() if edition.role == "staging"]
    live_uuids = [uuid for one in editions.values() if one.role == "live" for uuid in one.uuids]
    up = daemon.chroma.answers(CHROMA_PATIENCE)
    return Situation(
        at=time(),
        idle=daemon.idle(),
        live=live,
        embedded=daemon.embeddings.counts(),
        work=work,
        documents={
            (source, str(editions[name].serves) if name in editions else name, state): number
            for source, name, state, number in counts
            if name not in unseen
        },
        sources=_sources(daemon, work.successes),
        reasons=reasons(daemon.journal, "quarantined"),
        swaps={str(edition.serves): progress(counts, edition.name) for edition in staging},
        chroma_up=up,
        chroma_loads=daemon.chroma.is_loading(live_uuids, CHROMA_PATIENCE),
        chroma_restarts=daemon.chroma.restarts,
        collections=_collections(daemon, editions.values(), live.unwritable, up),
        sizes=_sizes(daemon.folders),
        dead=_dead(daemon),
        stages=dict(daemon.stages),
        disk_free={name: disk_usage(path).free for name, path in daemon.folders.items() if path.is_dir()},
        checks=[each for each in daemon.checks() if each.collection in served],
    )


def _collections(
    daemon: DaemonView, editions: Iterable[Edition], unwritable: Mapping[str, str], up: bool
) -> dict[str, CollectionFigures]:
    """Count the records of each collection in Chroma, separately for each role of its editions.

    ``up``: whether Chroma answers. If it does not, records are not counted, because the request could hang.
    """
    figures = dict[str, CollectionFigures]()
    made = (edition for edition in editions if edition.uuids)
    for edition in sorted(made, key=lambda one: (one.serves, one.role)):
        serves, role = str(edition.serves), edition.role
        known = figures.get(serves, CollectionFigures(writable=serves not in unwritable))
        try:
            if not up:
                raise Transient("Chroma does not answer")
            known = replace(known, records={**known.records, role: daemon.collection(edition.uuids).count()})
        except (Gone, NeedsHuman, Torn, Transient):
            known = replace(known, readable=known.readable and role != "live")
        figures[serves] = known
    return figures


def _sizes(folders: Mapping[str, Path]) -> dict[str, int]:
    """Return how many bytes each folder occupies on the disk."""
    sizes = dict[str, int]()
    for name, folder in folders.items():
        sizes[name] = 0
        for path, _, files in os.walk(folder):
            for file in files:
                with suppress(OSError):  # removed meanwhile
                    sizes[name] += Path(path, file).lstat().st_blocks * 512
    return sizes


_PAGES = ("freelist_count", "page_size")  # pragmas of SQLite


def _dead(daemon: DaemonView) -> dict[str, int]:
    """Return how many bytes of our SQLite files are free pages.

    Files that cannot be read now are left out.
    """
    counts = dict[str, int]()
    for name in ("journal", "cache", "lexical"):
        path = daemon.folders["state"] / f"{name}.sqlite3"
        with suppress(sqlite3.Error):
            with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=0.1)) as db:
                pages, size = (db.execute(f"PRAGMA {what}").fetchone()[0] for what in _PAGES)
            counts[name] = pages * size
    return counts


def _sources(daemon: DaemonView, written: Mapping[str, float]) -> dict[str, SourceFigures]:
    """Return numbers and states of each source. ``written``: POSIX seconds of the last write, by source."""
    known = {str(name): row for name, row in states(daemon.journal).items()}
    oldest, intervals = find_oldest_changes(daemon.journal), daemon.intervals()
    figures = dict[str, SourceFigures]()
    for name in sorted(known.keys() | intervals.keys() | oldest.keys()):
        row = known.get(name, SourceRow())
        held, paused = row.hold is not None, row.paused is not None
        success = max(filter(None, (row.last_scan, written.get(name))), default=None)
        every = intervals.get(name)
        figures[name] = SourceFigures(row.last_scan, held, paused, every, oldest.get(name), success)
    return figures


class Kept(Generic[T]):
    """A value that is computed again when it is older than FRESH seconds.

    Only one thread computes at a time.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make, self._lock = make, Lock()
        self._made: tuple[float, T] | None = None

    def value(self) -> T:
        with self._lock:
            if self._made is None or monotonic() - self._made[0] > FRESH:
                self._made = monotonic(), self._make()
            return self._made[1]
