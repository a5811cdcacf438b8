"""``GET /``: sources and collections as they stand, what is under way, and what failed and why."""

from collections.abc import Mapping
from typing import Any

from ingestor.page.evaluation import evaluated
from ingestor.page.history import History
from ingestor.page.shown import figures
from ingestor.page.shown.charts import charts
from ingestor.page.shown.figures import CollectionFacts, ShownCollection, ShownSource, SourceFacts
from ingestor.ports import Gone, NeedsHuman, Torn, Transient
from ingestor.rechunk.recipes import strategies_and_model, unpacked
from ingestor.service.daemon_view import DaemonView
from ingestor.service.situation import Situation
from ingestor.state.queries.browsing import failures, reasons

FAILURES = 10  # that the overview names

_SOURCES = """SELECT name, held, loss, trouble, paused,
                (SELECT kept FROM withdrawals WHERE source = name) FROM sources"""
_EDITIONS = "SELECT coalesce(serves, name), role, uuid, choices, since FROM collections"


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
    facts = {
        name: SourceFacts(held, bool(loss), trouble, paused, kept)
        for name, held, loss, trouble, paused, kept in daemon.journal.select(_SOURCES)
    }
    listing = {name: (one.since, one.seen) for name, one in daemon.live().listing.items()}
    return figures.sources_of(found, facts, listing)


def collections_now(daemon: DaemonView, found: Situation) -> list[ShownCollection]:
    editions = daemon.journal.select(_EDITIONS)
    said = {(kind, of): value for kind, of, value in daemon.journal.select("SELECT * FROM notices")}
    old = {serves: since for serves, role, _, _, since in editions if role == "previous"}
    facts = {
        serves: CollectionFacts(
            _records(daemon, uuid) if found.chroma_up else None,
            _means(choices),
            said.get(("waits", serves)),
            said.get(("delayed", serves)),
            old.get(serves),
        )
        for serves, role, uuid, choices, _ in editions
        if role == "live"
    }
    return figures.collections_of(found, facts)


def _records(daemon: DaemonView, uuid: str | None) -> int | None:
    """Count a collection's records; None if Chroma cannot count them."""
    try:
        return None if uuid is None else daemon.collection(uuid).count()
    except (Gone, Transient, NeedsHuman, Torn):
        return None


def _means(choices: str | None) -> str:
    if choices is None:
        return ""
    strategies, model = strategies_and_model(unpacked(choices))
    return ", ".join([*sorted(set(strategies)), model])
