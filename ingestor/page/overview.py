"""Values for two pages: the overview (``GET /``), and the last evaluation of a collection.

The overview shows sources and collections, current work, failures, and charts. Charts are SVG; they show the
time since the daemon's start, at most a day.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from sqlite3 import Error
from threading import Event, Thread
from time import time
from typing import Any

from markupsafe import Markup
from starlette.requests import Request

from ingestor.core.entries import SourceRow
from ingestor.evaluate import stored_report
from ingestor.http_server.requests import RequestProblem
from ingestor.model import SourceName
from ingestor.page import figures
from ingestor.page.figures import ShownCollection, ShownSource, counts_of, number, span
from ingestor.ports import Gone, NeedsHuman, Torn, Transient
from ingestor.rechunk.policy import strategies_and_model
from ingestor.service.daemon_view import DaemonView
from ingestor.service.situation import Situation
from ingestor.state.editions import all_editions, notices
from ingestor.state.reports import failures, reasons
from ingestor.state.sources import states

FAILURES = 10  # that the overview names


def overview(daemon: DaemonView, situation: Situation, history: "History") -> Mapping[str, Any]:
    """Return the values for the template of the overview. Raises sqlite3.Error."""
    sources, collections = sources_now(daemon, situation), collections_now(daemon, situation)
    failed = failures(daemon.journal, FAILURES + 1)
    counts = counts_of(situation)
    asking = [one.name for one in sources if one.row.hold] + [one.name for one in collections if one.waits]
    lag = max((source.lag for source in sources if source.lag is not None), default=None)
    return {
        "now": situation.at,
        "situation": situation,
        "headline": figures.headline(situation, asking, lag),
        "counts": counts,
        "lag": lag,
        "sources": sources,
        "collections": collections,
        "evaluated": stored_report.read(daemon.folders["state"]),
        "failures": failed[:FAILURES],
        "more_failures": len(failed) > FAILURES,
        "reasons": figures.group_reasons(reasons(daemon.journal)) if failed else [],
        "charts": charts(history.samples(), situation.at),
        "since": history.since,
        "stretch": daemon.stretch(),
        "pending": figures.describe_pending(counts, sum(situation.live.in_flight.values())),
    }


def sources_now(daemon: DaemonView, situation: Situation) -> list[ShownSource]:
    """Return the sources of the config, and former sources that still have documents.

    Raises sqlite3.Error.
    """
    rows = states(daemon.journal)
    notes = [notices(daemon.journal, kind) for kind in ("language", "tokens")]
    listing, shown = daemon.live().listing, list[ShownSource]()
    for name, one in situation.sources.items():
        counts, source = counts_of(situation, source=name), SourceName(name)
        if one.interval is None and not counts.all:
            continue
        shown.append(
            ShownSource(
                name,
                sorted({into for of, into, _ in situation.documents if of == name}),
                counts,
                rows.get(source, SourceRow()),
                "; ".join(each[name] for each in notes if each.get(name)),
                situation.lag(name),
                one.last_listing,
                listing.get(name),
                situation.live.in_flight.get(name, 0),
                configured=one.interval is not None,
            )
        )
    return shown


def collections_now(daemon: DaemonView, situation: Situation) -> list[ShownCollection]:
    """Return all collections that have documents or can be searched. Raises sqlite3.Error."""
    editions = all_editions(daemon.journal)
    waits, delayed = notices(daemon.journal, "waits"), notices(daemon.journal, "delayed")
    live = {str(one.serves): one for one in editions if one.role == "live"}
    old = {one.serves: one.since for one in editions if one.role == "previous"}
    shown = list[ShownCollection]()
    for name in sorted({into for _, into, _ in situation.documents} | live.keys()):
        one = ShownCollection(name, counts_of(situation, collection=name), situation.swaps.get(name))
        if edition := live.get(name):
            one.waits, one.delayed = waits.get(name), delayed.get(name)
            one.old_since = old.get(edition.serves)
            if edition.choices is not None:
                strategies, model = strategies_and_model(edition.choices)
                one.means = ", ".join([*sorted(set(strategies)), model])
            if situation.chroma_up and edition.uuids:
                with suppress(Gone, Transient, NeedsHuman, Torn):
                    one.records = daemon.collection(edition.uuids).count()
        shown.append(one)
    return shown


# --- charts of the last day -----------------------------------------------------------------------

DAY = 86_400.0  # seconds
EVERY = 20.0  # seconds between two samples
MOST_BARS = 96
_HEIGHT = 36
_TALLIED = (  # kinds of changed documents, and of written records
    ("added", "changed", "moved", "removed", "rebuilt"),
    ("records_added", "records_replaced", "records_patched", "records_dropped"),
)
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
    for before, one in zip([None, *samples], samples, strict=False):
        place = int((one.at - (now - width)) / width * bars)
        if 0 <= place <= bars:
            at = min(place, bars - 1)
            lags[at] = max(lags[at], one.lag)
            if before is not None:
                documents[at] += max(0, one.documents - before.documents)
                records[at] += max(0, one.records - before.records)

    def draw(
        title: str, kind: str, values: Sequence[float], as_text: Callable[[float], str], summary: str
    ) -> Chart:
        most = max(*values, 10.0 if kind == "lag" else 1.0)  # of a full bar
        path = "".join(
            f"M{at + 0.1:g} {_HEIGHT}v{-max(_HEIGHT * value / most, 1):.4g}h.8V{_HEIGHT}z"
            for at, value in enumerate(values)
            if value > 0
        )
        drawn = Markup(
            '<svg class="bars {}" viewBox="0 0 {} {}" role="img" preserveAspectRatio="none">'
            '<title>{}: {}</title><path d="{}"/></svg>'
        ).format(kind, bars, _HEIGHT, title, summary, path)
        return Chart(title, drawn, as_text(most) if any(values) else "", summary, width, width / bars)

    written = (("Documents brought in step", "documents", documents), ("Records written", "records", records))
    return [
        draw("Lag", "lag", lags, span, f"at most {span(max(lags))}"),
        *(draw(title, kind, each, number, f"{number(sum(each))} in all") for title, kind, each in written),
    ]


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

    def _run(self) -> None:
        while not self._ended.wait(EVERY if self._samples else 0):
            with suppress(Error):
                now = self._gather()
                lag = max((now.lag(name) or 0.0 for name in now.sources), default=0.0)
                documents, records = (sum(now.live.tally.get(k, 0) for k in kinds) for kinds in _TALLIED)
                self._samples.append(ChartPoint(now.at, lag, documents, records))


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
