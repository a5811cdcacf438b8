"""Decisions of people about a changed config: apply it, or roll it back.

Decisions are written to the journal, where a running daemon reads them. If no daemon runs, a rollback is
carried out here, and the next sync carries out the other decisions.
"""

import time
from dataclasses import dataclass, replace

from ingestor.app.handover import rehearse, sources_not_in_config
from ingestor.app.parts import Parts, embedder_recipes_of
from ingestor.config.models import Config
from ingestor.core.entries import EditionName
from ingestor.model import CollectionName
from ingestor.ports import NeedsHuman, Transient
from ingestor.queries.access import (
    BadRequest,
    collections_of,
    is_running,
    journal_of,
    live_editions,
    require_known,
)
from ingestor.queries.status import undone
from ingestor.rechunk import policy
from ingestor.rechunk.policy import Change, metadata_change
from ingestor.state.editions import Editions, Notices, Requests
from ingestor.state.journal import Journal
from ingestor.state.reports import count_records_of
from ingestor.units import in_words, quantity

PATIENCE = 30.0  # seconds that a daemon may take to carry out a rollback


@dataclass(frozen=True, slots=True)
class CollectionChange:
    """The effects of a changed config on a collection.

    ``changes``: the changed settings of chunking, parsing and embedding. ``metadata``: a change of the
    metadata keys, or None. ``swap``: whether a second collection is built, which later gets the name of the
    first. ``chunks``: how many records the affected documents have. ``waits``: why a person must run `apply`;
    None if nobody must.
    """

    collection: CollectionName
    changes: tuple[Change, ...]
    metadata: Change | None
    swap: bool
    chunks: int
    waits: str | None


def outlook(parts: Parts, journal: Journal) -> dict[EditionName, CollectionChange]:
    """Return for each collection the effect that the config would have on it if a person approved it.

    The keys are the editions into which the documents would be written.
    """
    effects, settings = dict[EditionName, CollectionChange](), parts.config.rechunk
    for serves in parts.config.collections:
        wanted, now = parts.choices_for(serves), parts.situation(journal, serves)
        decision = policy.decide(replace(now, approved=policy.fingerprint_of(wanted), refused=None), settings)
        written = policy.editions_of(now, decision)[-1]
        described = metadata_change(now.live, wanted) if now.live is not None and not now.empty else None
        waits = policy.decide(now, settings).why or None
        effects[written.edition or EditionName(f"{serves}--new")] = CollectionChange(
            serves, decision.changes, described, written.building, now.chunks, waits
        )
    return effects


def approve(config: Config) -> list[str]:
    """Approve every change of the config that waits for a person. Return a line of text for each change."""
    approved = []
    with journal_of(config) as journal, rehearse(config, journal) as seen:
        parts, requests = Parts(config, embedder_recipes_of(journal)), Requests(journal)
        for change in outlook(parts, seen).values():
            serves = change.collection
            if change.waits or Notices(journal).get("waits", serves):
                requests.put("approved", serves, policy.fingerprint_of(parts.choices_for(serves)))
                requests.put("refused", serves, None)
                approved.append(f"{serves}: {', '.join(map(str, change.changes))}")
        for name in sources_not_in_config(config, journal):
            requests.put("prune", name, "yes")
            approved.append(f"source {name}: its documents are removed")
        requests.arrange()
    return approved


def roll_back(config: Config, collection: str) -> bool:
    """Switch readers back to the collection that they saw before the last change.

    Return whether that change was itself a rollback, which is now undone. Raises BadRequest if there is no
    earlier collection, and NeedsHuman if Chroma no longer has its records. Raises Transient if a running
    daemon does not carry the rollback out in time.
    """
    serves = CollectionName(collection)
    with journal_of(config) as journal:
        retired = Editions(journal).of(serves, "previous")
        if not retired:
            live = (edition.serves for edition in live_editions(journal))
            require_known("collection", serves, {*config.collections, *live})
            raise BadRequest(
                f"nothing to roll back for {collection!r}: a replaced collection is kept for "
                f"{in_words(config.rechunk.grace)} (rechunk.grace)"
            )
        latest = max(retired, key=lambda edition: edition.since)
        with collections_of(config, journal) as collections:  # whose records the journal may know wrongly
            index = collections.edition(latest)
            there, kept = index.count() if index is not None else 0, count_records_of(journal, latest.name)
        if there < kept:
            raise NeedsHuman(
                f"collection {serves!r} was not rolled back: Chroma has only {there:,} of its former "
                f"{quantity(kept, 'record')}; to get the former chunks, change the config back"
            )
        redone = undone(journal, latest)
        Requests(journal).put("roll back", serves, latest.name)
        if not _await_daemon(config, journal, serves):
            from ingestor.app.wiring import open_state  # takes long to import; `plan` reads this module, too

            with open_state(config, serve=False) as running:
                running.swaps.run_pending_requests()
        if Editions(journal).live(serves).name != latest.name:
            raise BadRequest(f"{collection!r} was not rolled back: the old collection was deleted just now")
    return redone


def _await_daemon(config: Config, journal: Journal, serves: CollectionName) -> bool:
    """Wait until the running daemon has rolled a collection back. Return False if no daemon runs."""
    until = time.monotonic() + PATIENCE
    while Requests(journal).get("roll back", serves):
        if not is_running(config):
            return False
        if time.monotonic() > until:
            raise Transient("the daemon has not run the rollback yet; see: ingestor status")
        time.sleep(0.1)
    return True
