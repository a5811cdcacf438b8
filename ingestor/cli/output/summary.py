"""The summary of a sync."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ingestor.app.handover import gone_sources
from ingestor.app.wiring import Running
from ingestor.core.entries import SourceRow
from ingestor.model import SourceName
from ingestor.state.editions import Editions
from ingestor.state.queries.reports import Reports
from ingestor.state.requests import Notices
from ingestor.state.sources import SourceRows
from ingestor.state.withdrawals import Withdrawals
from ingestor.units import counted


def unconfigured(running: Running) -> dict[SourceName, int]:
    """The number of documents of each source that left the config."""
    gone = gone_sources(running.parts.config, running.journal)
    counts = {name: Reports(running.journal).number(name) for name in gone}
    return {name: number for name, number in counts.items() if number}


def of_sync(running: Running, seconds: float, before: Mapping[SourceName, int]) -> dict[str, Any]:
    """The stable keys of ``sync --json``. ``before``: what was ``unconfigured`` then."""
    tally, journal, embedding = running.engine.writer.tally, running.journal, running.embedding
    rows = {source.name: SourceRows(journal).of(source.name) for source in running.parts.config.sources}
    after = unconfigured(running)
    kept, states = Withdrawals(journal).kept, _states(running, rows)
    names = running.parts.config.collections
    skipped = Counter[str]()
    for kind in Reports(journal).skipped():
        skipped[kind.kind] += kind.documents
    touched = tally.added + tally.changed + tally.moved + tally.rebuilt
    return {
        "documents": {
            "added": tally.added,
            "changed": tally.changed,
            "moved": tally.moved,
            "rebuilt": tally.rebuilt,
            "removed": tally.removed,
            "unchanged": max(0, states["settled"] - touched),
            "quarantined": states["quarantined"],
            "unsupported": states["unsupported"],
            "failed": states["waiting"],
            "due": states["due"] + states["gone"],
        },
        "records": {
            "added": tally.records_added,
            "replaced": tally.records_replaced,
            "patched": tally.records_patched,
            "dropped": tally.records_dropped,
        },
        "embedded": {
            "texts": embedding.texts,
            "tokens": embedding.tokens,
            "cost": round(running.embedding_cost, 6),
        },
        "asked": running.answers.counts(),
        "seconds": round(seconds, 3),
        "problems": [{"source": f[0], "document": f[1], "reason": f[2]} for f in Reports(journal).failures()],
        "waits": {str(name): why for name in names if (why := Notices(journal).get("waits", name))},
        "short": [asdict(short) for short in Reports(journal).short()],
        "unsupported": dict(skipped.most_common()),
        "held": {name: why for name, row in rows.items() if (why := row.held or kept(name)) is not None},
        "paused": [name for name, row in rows.items() if row.paused is not None],
        "unusable": running.engine.writer.troubles(),
        "unseen": _unseen(running, rows),
        "unconfigured": {
            name: {"removed": max(0, number - after.get(name, 0)), "kept": after.get(name, 0)}
            for name, number in before.items()
        },
    }


def _states(running: Running, rows: Mapping[SourceName, SourceRow]) -> Counter[str]:
    """Documents by state: settled in the live edition; else in it, or in the one that replaces it."""
    states, editions, reports = Counter[str](), Editions(running.journal).all(), Reports(running.journal)
    replacing = {each.serves: each.name for each in editions if each.role == "staging"}
    replaced = {
        each.name: replacing[each.serves]
        for each in editions
        if each.role == "live" and each.serves in replacing
    }
    found = [
        (source, state, documents)
        for source, edition, state, documents in reports.counts()
        if edition not in (replacing.values() if state == "settled" else replaced)
    ]
    for live, staging in replaced.items():
        found += [each for each in reports.unsettled_alone(live, staging) if each[1] != "settled"]
    for source, state, documents in found:
        if source in rows or source in running.engine.leaving:
            states[state] += documents
    return states


def _unseen(running: Running, rows: Mapping[SourceName, SourceRow]) -> dict[str, str]:
    """Sources that were not listed whole, with the reason."""
    scanner = running.engine.scanner
    unlisted = dict.fromkeys(scanner.unlisted(), "the listing did not complete")
    unfinished = {
        name: f"the listing stopped after {counted(listing.seen, 'document')}"
        for name, listing in scanner.under_way().items()
    }
    troubled = {name: row.trouble for name, row in rows.items() if row.trouble is not None}
    found = {**unlisted, **unfinished, **troubled}
    return {
        name: why for name, why in found.items() if name in rows and (name in troubled or not rows[name].held)
    }
