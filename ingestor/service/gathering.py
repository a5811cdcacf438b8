"""Gathers the figures of a running daemon, once a second at most."""

from collections.abc import Callable, Sequence
from shutil import disk_usage
from threading import Lock
from time import monotonic, time
from typing import Generic, TypeVar

from ingestor.service.daemon_view import DaemonView
from ingestor.service.situation import CheckFigures, Situation, SourceFigures
from ingestor.state.queries.reports import Reports

T = TypeVar("T")

FRESH = 1.0  # seconds for which figures are not gathered again
CHROMA_PATIENCE = 2.0  # seconds


def gather(daemon: DaemonView) -> Situation:
    """Raises sqlite3.Error."""
    reports, embeddings = Reports(daemon.journal), daemon.embeddings
    roles = {name: (role, serves) for name, role, serves in daemon.journal.select(_EDITIONS)}
    counts = reports.counts()
    visible = [row for row in counts if roles.get(row[1], ("live", ""))[0] == "live"]
    building = {serves: name for name, (role, serves) in roles.items() if role == "staging"}
    live = daemon.live()
    return Situation(
        at=time(),
        idle=daemon.idle(),
        in_flight=live.in_flight,
        waiting=live.waiting,
        listing={name: one.since for name, one in live.listing.items()},
        tally=live.tally,
        documents={
            (source, roles.get(name, ("", name))[1], state): number for source, name, state, number in visible
        },
        sources=_sources(daemon, reports),
        reasons=reports.reasons(),
        swaps={serves: _progress(counts, name) for serves, name in building.items()},
        chroma_up=daemon.chroma_answers(CHROMA_PATIENCE),
        chroma_loads=daemon.chroma_loads([uuid for (uuid,) in daemon.journal.select(_LIVE)], CHROMA_PATIENCE),
        chroma_restarts=daemon.chroma_restarts(),
        retries=daemon.retries(),
        stages=dict(daemon.stages()),
        disk_free={name: disk_usage(path).free for name, path in daemon.folders.items() if path.is_dir()},
        texts=embeddings.texts,
        tokens=embeddings.tokens,
        cached=embeddings.cached,
        embedding_seconds=embeddings.seconds,
        queued_texts=embeddings.waiting,
        batch_seconds=embeddings.busy_for,
        checks={
            (each.collection, each.questions): CheckFigures(each.recall, each.fell, each.passed, each.at)
            for each in daemon.checks()
            if each.collection in {serves for _, serves in roles.values()}
        },
    )


_LIVE = "SELECT uuid FROM collections WHERE role = 'live' AND uuid IS NOT NULL"
_EDITIONS = "SELECT name, role, coalesce(serves, name) FROM collections"


def _sources(daemon: DaemonView, reports: Reports) -> dict[str, SourceFigures]:
    rows = daemon.journal.select("SELECT name, last_scan, held IS NOT NULL, paused IS NOT NULL FROM sources")
    known = {name: (last, bool(held), bool(paused)) for name, last, held, paused in rows}
    oldest, intervals = reports.oldest(), daemon.intervals()
    return {
        name: SourceFigures(*known.get(name, (None, False, False)), intervals.get(name), oldest.get(name))
        for name in sorted(known.keys() | intervals.keys() | oldest.keys())
    }


def _progress(counts: Sequence[tuple[str, str, str, int]], edition: str) -> tuple[int, int]:
    states = [(state, number) for _, name, state, number in counts if name == edition]
    done = sum(number for state, number in states if state in ("settled", "quarantined", "unsupported"))
    return done, sum(number for _, number in states)


class Kept(Generic[T]):
    """A value that is made again when it is older than FRESH seconds; one thread makes it at a time."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make, self._lock = make, Lock()
        self._made: tuple[float, T] | None = None

    def value(self) -> T:
        with self._lock:
            if self._made is None or monotonic() - self._made[0] > FRESH:
                self._made = monotonic(), self._make()
            return self._made[1]
