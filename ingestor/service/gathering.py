"""Gathers the numbers and states of a running daemon, once a second at most."""

import os
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from copy import copy
from dataclasses import replace
from pathlib import Path
from shutil import disk_usage
from threading import Lock
from time import monotonic, time
from typing import Generic, TypeVar

from ingestor.core.entries import Edition, SourceRow
from ingestor.pipeline.actions import WorkCounts
from ingestor.ports import Gone, NeedsHuman, Torn, Transient
from ingestor.service.daemon_view import DaemonView
from ingestor.service.situation import CollectionFigures, Situation, SourceFigures
from ingestor.state.editions import all_editions
from ingestor.state.reports import Reports, reasons
from ingestor.state.sources import states

T = TypeVar("T")

FRESH = 1.0  # seconds for which figures are reused
CHROMA_PATIENCE = 2.0  # seconds


def gather(daemon: DaemonView) -> Situation:
    """Gather all numbers and states of the daemon as they are now. Raises sqlite3.Error."""
    reports, live, now = Reports(daemon.journal), daemon.live(), daemon.counts()
    work = WorkCounts(copy(now.changes), copy(now.failures), copy(now.retries), copy(now.successes))
    editions = {str(edition.name): edition for edition in all_editions(daemon.journal)}
    counts = reports.counts()
    unseen = {name for name, edition in editions.items() if edition.role != "live"}
    up = daemon.chroma_answers(CHROMA_PATIENCE)
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
        sources=_sources(daemon, reports, work.successes),
        reasons=reasons(daemon.journal, "quarantined"),
        swaps={
            str(edition.serves): _progress(counts, name)
            for name, edition in editions.items()
            if edition.role == "staging"
        },
        chroma_up=up,
        chroma_loads=daemon.chroma_loads(
            [uuid for edition in editions.values() if edition.role == "live" for uuid in edition.uuids],
            CHROMA_PATIENCE,
        ),
        chroma_restarts=daemon.chroma_restarts(),
        collections=_collections(daemon, editions.values(), live.unwritable, up),
        sizes=_sizes(daemon.folders),
        dead=_dead(daemon),
        stages=dict(daemon.stages()),
        disk_free={name: disk_usage(path).free for name, path in daemon.folders.items() if path.is_dir()},
        checks=[
            each
            for each in daemon.checks()
            if each.collection in {edition.serves for edition in editions.values()}
        ],
    )


_PAGES = ("freelist_count", "page_size")  # pragmas of SQLite
_FILES = {"journal": "journal.sqlite3", "cache": "cache.sqlite3", "lexical": "lexical.sqlite3"}


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


def _dead(daemon: DaemonView) -> dict[str, int]:
    """Return how many bytes of our SQLite files are free pages.

    Files that cannot be read now are left out.
    """
    counts = dict[str, int]()
    for name, file in _FILES.items():
        path = daemon.folders["state"] / file
        with suppress(sqlite3.Error):
            with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=0.1)) as db:
                pages, size = (db.execute(f"PRAGMA {what}").fetchone()[0] for what in _PAGES)
            counts[name] = pages * size
    return counts


def _sources(daemon: DaemonView, reports: Reports, written: Mapping[str, float]) -> dict[str, SourceFigures]:
    """Return numbers and states of each source. ``written``: POSIX seconds of the last write, by source."""
    known = {str(name): row for name, row in states(daemon.journal).items()}
    oldest, intervals = reports.oldest(), daemon.intervals()
    figures = dict[str, SourceFigures]()
    for name in sorted(known.keys() | intervals.keys() | oldest.keys()):
        row = known.get(name, SourceRow())
        success = max(filter(None, (row.last_scan, written.get(name))), default=None)
        figures[name] = SourceFigures(
            row.last_scan,
            row.held is not None,
            row.paused is not None,
            intervals.get(name),
            oldest.get(name),
            success,
        )
    return figures


def _progress(counts: Sequence[tuple[str, str, str, int]], edition: str) -> tuple[int, int]:
    """Return the number of finished documents, and of all documents, of an edition that is being built."""
    states = [(state, number) for _, name, state, number in counts if name == edition]
    done = sum(number for state, number in states if state in ("settled", "quarantined", "unsupported"))
    return done, sum(number for _, number in states)


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
