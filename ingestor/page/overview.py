"""Values for two pages: the overview (``GET /``), and the last evaluation of a collection.

The overview shows sources and collections, current work, failures, and charts. Charts are SVG; they show the
time since the daemon's start, at most a day.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from sqlite3 import Error
from threading import Event, Thread
from time import time
from typing import Any

from markupsafe import Markup
from starlette.requests import Request

from ingestor.core.entries import Choices
from ingestor.evaluate import stored_report
from ingestor.http_server.requests import RequestProblem
from ingestor.page import figures
from ingestor.page.figures import CollectionFacts, ShownCollection, ShownSource, SourceNotes, number, span
from ingestor.ports import Gone, NeedsHuman, Torn, Transient
from ingestor.rechunk.policy import strategies_and_model
from ingestor.service.daemon_view import DaemonView
from ingestor.service.situation import Situation
from ingestor.state.editions import all_editions, notices
from ingestor.state.reports import failures, reasons
from ingestor.state.sources import reasons_for_keeping, states

FAILURES = 10  # that the overview names


def overview(daemon: DaemonView, situation: Situation, history: "History") -> Mapping[str, Any]:
    """Return the values for the template of the overview. Raises sqlite3.Error."""
    sources, collections = sources_now(daemon, situation), collections_now(daemon, situation)
    failed = failures(daemon.journal, FAILURES + 1)
    counts = figures.counts_of(situation)
    return {
        "now": situation.at,
        "situation": situation,
        "headline": figures.headline(situation, sources, collections),
        "counts": counts,
        "lag": figures.lag_of(sources),
        "sources": sources,
        "collections": collections,
        "evaluated": evaluations(daemon),
        "failures": failed[:FAILURES],
        "more_failures": len(failed) > FAILURES,
        "reasons": figures.group_reasons(reasons(daemon.journal)) if failed else [],
        "charts": charts(history.samples(), situation.at),
        "since": history.since,
        "stretch": daemon.stretch(),
        "pending": figures.describe_pending(counts, sum(situation.live.in_flight.values())),
    }


def sources_now(daemon: DaemonView, situation: Situation) -> list[ShownSource]:
    """Return all sources with the notes of the journal about them. Raises sqlite3.Error."""
    kept = reasons_for_keeping(daemon.journal)
    languages, tokens = notices(daemon.journal, "language"), notices(daemon.journal, "tokens")
    notes = {
        str(name): SourceNotes(
            row,
            kept.get(name),
            "; ".join(filter(None, (languages.get(str(name)), tokens.get(str(name))))) or None,
        )
        for name, row in states(daemon.journal).items()
    }
    listing = {name: (one.since, one.seen) for name, one in daemon.live().listing.items()}
    return figures.sources_of(situation, notes, listing)


def collections_now(daemon: DaemonView, situation: Situation) -> list[ShownCollection]:
    """Return all collections with facts about them from the journal and Chroma. Raises sqlite3.Error."""
    editions = all_editions(daemon.journal)
    waits, delayed = notices(daemon.journal, "waits"), notices(daemon.journal, "delayed")
    old = {edition.serves: edition.since for edition in editions if edition.role == "previous"}
    facts = {
        str(edition.serves): CollectionFacts(
            _records(daemon, edition.uuids) if situation.chroma_up else None,
            _means(edition.choices),
            waits.get(edition.serves),
            delayed.get(edition.serves),
            old.get(edition.serves),
        )
        for edition in editions
        if edition.role == "live"
    }
    return figures.collections_of(situation, facts)


def _records(daemon: DaemonView, uuids: Sequence[str]) -> int | None:
    """Count the records of a collection; None if Chroma cannot count them now.

    ``uuids``: UUIDs of the collection's shards.
    """
    try:
        return daemon.collection(uuids).count() if uuids else None
    except (Gone, Transient, NeedsHuman, Torn):
        return None


def _means(choices: Choices | None) -> str:
    """Name the strategies and the model that a collection was built with; "" if unknown."""
    if choices is None:
        return ""
    strategies, model = strategies_and_model(choices)
    return ", ".join([*sorted(set(strategies)), model])


# --- charts of the last day -----------------------------------------------------------------------

DAY = 86_400.0  # seconds
EVERY = 20.0  # seconds between two samples
MOST_BARS = 96
_HEIGHT = 36
_LEAST = {"lag": 10.0}  # least value of a full bar
_SPANS = (600.0, 1800.0, 3600.0, 3 * 3600.0, 6 * 3600.0, 12 * 3600.0, DAY)  # seconds


@dataclass(frozen=True, slots=True)
class ChartPoint:
    """Numbers of the daemon at one moment, from which charts are drawn.

    ``at``: POSIX seconds. ``lag``: seconds. ``documents``, ``records``: numbers of documents and records
    written since the daemon's start.
    """

    at: float
    lag: float
    documents: int
    records: int


@dataclass(frozen=True, slots=True)
class Chart:
    """A bar chart over time.

    ``drawn``: the bars as SVG. ``most``: value of the highest possible bar, as text. ``summary``: description
    of the chart in words. ``since``: seconds from the left end of the chart until now. ``each``: seconds that
    one bar covers.
    """

    title: str
    drawn: Markup
    most: str
    summary: str
    since: float
    each: float


def charts(samples: Sequence[ChartPoint], now: float) -> list[Chart]:
    """Draw charts of the lag, the documents and the records over the last day, or since the first sample."""
    begun = samples[0].at if samples else now
    width = next((each for each in _SPANS if each >= now - begun), DAY)
    bars = min(MOST_BARS, int(width / EVERY))  # so that a bar has a sample
    lags, documents, records = [0.0] * bars, [0.0] * bars, [0.0] * bars
    for one in samples:
        if (at := _bar(one.at, now, width, bars)) is not None:
            lags[at] = max(lags[at], one.lag)
    for before, one in pairwise(samples):
        if (at := _bar(one.at, now, width, bars)) is not None:
            documents[at] += max(0, one.documents - before.documents)
            records[at] += max(0, one.records - before.records)
    return [
        _chart("Lag", "lag", lags, span, f"at most {span(max(lags))}", width),
        _chart("Documents brought in step", "documents", documents, number, _sum(documents), width),
        _chart("Records written", "records", records, number, _sum(records), width),
    ]


def _bar(at: float, now: float, width: float, bars: int) -> int | None:
    """Return the number of the bar that covers the time ``at``; None if the chart begins later.

    ``width``: seconds that the chart covers. ``bars``: number of its bars.
    """
    place = int((at - (now - width)) / width * bars)
    return min(place, bars - 1) if 0 <= place <= bars else None


def _sum(values: Sequence[float]) -> str:
    return f"{number(sum(values))} in all"


def _chart(
    title: str,
    kind: str,
    values: Sequence[float],
    as_text: Callable[[float], str],
    summary: str,
    width: float,
) -> Chart:
    most = max(*values, _LEAST.get(kind, 1.0))
    path = "".join(
        f"M{at + 0.1:g} {_HEIGHT}v{-max(_HEIGHT * value / most, 1):.4g}h.8V{_HEIGHT}z"
        for at, value in enumerate(values)
        if value > 0
    )
    drawn = Markup(
        '<svg class="bars {}" viewBox="0 0 {} {}" role="img" preserveAspectRatio="none">'
        '<title>{}: {}</title><path d="{}"/></svg>'
    ).format(kind, len(values), _HEIGHT, title, summary, path)
    return Chart(title, drawn, as_text(most) if any(values) else "", summary, width, width / len(values))


PATIENCE = 3.0  # seconds that the daemon's end waits for figures that are being gathered


class History:
    """Thread that takes samples of the daemon's numbers at intervals, for charts.

    Any thread may read the samples. ``gather``: returns the current numbers; may raise sqlite3.Error.
    """

    def __init__(self, gather: Callable[[], Situation]) -> None:
        self._gather, self._ended, self.since = gather, Event(), time()
        self._samples: deque[ChartPoint] = deque(maxlen=int(DAY / EVERY) + 1)
        self._thread = Thread(target=self._run, name="history", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        self._thread.join(PATIENCE)

    def samples(self) -> list[ChartPoint]:
        return list(self._samples)

    def add(self, situation: Situation) -> None:
        self._samples.append(sample_of(situation))

    def _run(self) -> None:
        while not self._ended.wait(EVERY if self._samples else 0):
            try:
                self.add(self._gather())
            except Error:
                continue


def sample_of(situation: Situation) -> ChartPoint:
    """Return the numbers that charts show, at one moment."""
    lags = [situation.at - one.oldest for one in situation.sources.values() if one.oldest is not None]
    documents = sum(
        situation.live.tally.get(kind, 0) for kind in ("added", "changed", "moved", "removed", "rebuilt")
    )
    kinds = ("records_added", "records_replaced", "records_patched", "records_dropped")
    records = sum(situation.live.tally.get(kind, 0) for kind in kinds)
    return ChartPoint(situation.at, max(0.0, max(lags, default=0.0)), documents, records)


# --- the last evaluation ---------------------------------------------------------------------------

HERE = "/page/evaluation"


def evaluation(daemon: DaemonView, situation: Situation, request: Request) -> Mapping[str, Any]:
    """Return the values for the template of the page about an evaluation. Raises RequestProblem."""
    wanted = request.query_params.get("collection", "")
    known = stored_report.read(daemon.folders["state"])
    if wanted not in known:
        raise RequestProblem.at(
            "collection", 404, "this collection was not evaluated yet: run `ingestor evaluate`"
        )
    report = known[wanted].report
    rows = report["strategies"]
    budgets = list(rows[0]["recall"]) if rows else []
    return {
        "now": situation.at,
        "at": known[wanted].at,
        "report": report,
        "rows": rows,
        "budgets": budgets,
        "priced": any(one["collection"]["cost"] is not None for one in rows),
        "reranked": any(one["rerank_seconds"] is not None for one in rows),
    }


def evaluations(daemon: DaemonView) -> frozenset[str]:
    """Return the names of the collections that have a stored report of an evaluation."""
    return frozenset(stored_report.read(daemon.folders["state"]))
