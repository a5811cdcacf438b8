"""``GET /``: state of sources and collections, current work, failures; and the last evaluation."""

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.requests import Request

from ingestor.evaluate import kept
from ingestor.http_server.requests import RequestProblem
from ingestor.page.shown import figures
from ingestor.page.shown.charts import History, charts
from ingestor.page.shown.figures import CollectionFacts, ShownCollection, ShownSource, SourceFacts
from ingestor.ports import Gone, NeedsHuman, Torn, Transient
from ingestor.rechunk.recipes import strategies_and_model, unpacked
from ingestor.service.daemon_view import DaemonView
from ingestor.service.situation import Situation
from ingestor.state.editions import all_editions, notices
from ingestor.state.queries.browsing import failures, reasons
from ingestor.state.sources import reasons_for_keeping, states

FAILURES = 10  # that the overview names


def overview(daemon: DaemonView, found: Situation, history: History) -> Mapping[str, Any]:
    """Raises sqlite3.Error."""
    sources, collections = sources_now(daemon, found), collections_now(daemon, found)
    failed = failures(daemon.journal, FAILURES + 1)
    counts = figures.counts_of(found)
    return {
        "now": found.at,
        "found": found,
        "headline": figures.headline(found, sources, collections),
        "counts": counts,
        "lag": figures.lag_of(sources),
        "sources": sources,
        "collections": collections,
        "evaluated": evaluated(daemon),
        "failures": failed[:FAILURES],
        "more_failures": len(failed) > FAILURES,
        "reasons": figures.shown_reasons(reasons(daemon.journal)) if failed else [],
        "charts": charts(history.samples(), found.at),
        "since": history.since,
        "stretch": daemon.stretch(),
        "pending": figures.pending_words(counts, sum(found.in_flight.values())),
    }


def sources_now(daemon: DaemonView, found: Situation) -> list[ShownSource]:
    kept = reasons_for_keeping(daemon.journal)
    languages = notices(daemon.journal, "language")
    facts = {
        str(name): SourceFacts(
            row.held, row.loss, row.trouble, row.paused, kept.get(name), languages.get(str(name))
        )
        for name, row in states(daemon.journal).items()
    }
    listing = {name: (one.since, one.seen) for name, one in daemon.live().listing.items()}
    return figures.sources_of(found, facts, listing)


def collections_now(daemon: DaemonView, found: Situation) -> list[ShownCollection]:
    editions = all_editions(daemon.journal)
    waits, delayed = notices(daemon.journal, "waits"), notices(daemon.journal, "delayed")
    old = {edition.serves: edition.since for edition in editions if edition.role == "previous"}
    facts = {
        str(edition.serves): CollectionFacts(
            _records(daemon, edition.uuids) if found.chroma_up else None,
            _means(edition.choices),
            waits.get(edition.serves),
            delayed.get(edition.serves),
            old.get(edition.serves),
        )
        for edition in editions
        if edition.role == "live"
    }
    return figures.collections_of(found, facts)


def _records(daemon: DaemonView, uuids: Sequence[str]) -> int | None:
    """Count a collection's records; None if Chroma cannot count them."""
    try:
        return daemon.collection(uuids).count() if uuids else None
    except (Gone, Transient, NeedsHuman, Torn):
        return None


def _means(choices: str | None) -> str:
    if choices is None:
        return ""
    strategies, model = strategies_and_model(unpacked(choices))
    return ", ".join([*sorted(set(strategies)), model])


HERE = "/page/evaluation"


def evaluation(daemon: DaemonView, found: Situation, request: Request) -> Mapping[str, Any]:
    """Raises RequestProblem."""
    wanted = request.query_params.get("collection", "")
    known = kept.read(daemon.folders["state"])
    if wanted not in known:
        raise RequestProblem.at(
            "collection", 404, "no evaluation of this collection is kept: run `ingestor evaluate` first"
        )
    report = known[wanted].report
    rows = report["strategies"]
    budgets = list(rows[0]["recall"]) if rows else []
    return {
        "now": found.at,
        "at": known[wanted].at,
        "report": report,
        "rows": rows,
        "budgets": budgets,
        "priced": any(one["collection"]["cost"] is not None for one in rows),
        "reranked": any(one["rerank_seconds"] is not None for one in rows),
    }


def evaluated(daemon: DaemonView) -> frozenset[str]:
    """Collections that have an evaluation."""
    return frozenset(kept.read(daemon.folders["state"]))
