"""Effects of a changed config on each collection, and the commands ``apply`` and ``rollback``.

Requests are written to the journal, where a running daemon reads them. Without a daemon the caller works.
"""

import time
from dataclasses import dataclass, replace

from ingestor.app.handover import rehearse, sources_not_in_config
from ingestor.app.parts import Parts, embedder_recipes_of
from ingestor.config.models import Config
from ingestor.core.entries import Edition, EditionName
from ingestor.model import CollectionName
from ingestor.ports import NeedsHuman, Transient
from ingestor.queries.access import BadRequest, collections_of, is_running, journal_of, no_collection
from ingestor.queries.status import undone
from ingestor.rechunk import policy
from ingestor.rechunk.recipes import Change, metadata_change, model_prices
from ingestor.rechunk.swap import situation
from ingestor.state.editions import Editions, Notices, Requests
from ingestor.state.journal import Journal
from ingestor.state.reports import Reports
from ingestor.units import in_words, quantity

PATIENCE = 30.0  # seconds that a daemon may take to carry out a request


@dataclass(frozen=True, slots=True)
class CollectionChange:
    """Effects of a changed config on a collection.

    ``metadata``: another choice of metadata keys. ``swap``: whether a second collection is built, which then
    takes the name. ``chunks``: records of the documents that change. ``waits``: why `apply` is needed.
    """

    collection: CollectionName
    changes: tuple[Change, ...] = ()
    metadata: Change | None = None
    swap: bool = False
    chunks: int = 0
    waits: str | None = None

    @property
    def says_anything(self) -> bool:
        return bool(self.changes or self.swap or self.metadata)


@dataclass(frozen=True, slots=True)
class Outlook:
    """Consequence of a config for a collection, as if it were approved."""

    edition: EditionName  # to which the documents would be written
    change: CollectionChange


def outlook(parts: Parts, journal: Journal) -> list[Outlook]:
    """Return the outlook of each collection of the config."""
    return [_outlook(parts, journal, serves) for serves in parts.config.collections]


def _outlook(parts: Parts, journal: Journal, serves: CollectionName) -> Outlook:
    wanted, settings = parts.choices_for(serves), parts.config.rechunk
    now = situation(
        journal, serves, wanted, model_prices(parts.config, serves), parts.embedder_choice.other_recipes
    )
    decision = policy.decide(replace(now, approved=policy.fingerprint_of(wanted), refused=None), settings)
    written = policy.editions_of(now, decision)[-1]
    described = metadata_change(now.live, wanted) if now.live is not None and not now.empty else None
    waits = policy.decide(now, settings).why or None
    change = CollectionChange(serves, decision.changes, described, written.building, now.chunks, waits)
    return Outlook(written.edition or EditionName(f"{serves}--new"), change)


def approve(config: Config) -> list[str]:
    """Approve every waiting change. Returns a line of text for each."""
    approved = []
    with journal_of(config) as journal, rehearse(config, journal) as seen:
        parts, requests = Parts(config, embedder_recipes_of(journal)), Requests(journal)
        for change in (each.change for each in outlook(parts, seen)):
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
    """Return readers to the collection before the last swap. Returns whether that was itself a rollback.

    Raises BadRequest when there is none, NeedsHuman when Chroma no longer has its records, Transient when the
    daemon does not answer in time.
    """
    serves = CollectionName(collection)
    with journal_of(config) as journal:
        retired = Editions(journal).of(serves, "previous")
        if not retired and serves not in config.collections:
            raise no_collection(journal, serves)
        if not retired:
            raise BadRequest(
                f"nothing to roll back for {collection!r}: a replaced collection is kept for "
                f"{in_words(config.rechunk.grace)} (rechunk.grace)"
            )
        latest = max(retired, key=lambda edition: edition.since)
        _require(config, journal, latest)
        redone = undone(journal, latest)
        Requests(journal).put("roll back", serves, latest.name)
        done = _await_daemon(config, journal, serves)
    if not done:
        from ingestor.app.wiring import open_state  # takes long to import; `plan` reads this module, too

        with open_state(config, serve=False) as running:
            running.swaps.run_pending_requests()
    with journal_of(config) as journal:
        if Editions(journal).live(serves).name != latest.name:
            raise BadRequest(f"{collection!r} was not rolled back: the old collection was deleted just now")
    return redone


def _require(config: Config, journal: Journal, edition: Edition) -> None:
    """Raise NeedsHuman when Chroma no longer has the old collection, whatever the journal says."""
    with collections_of(config, journal) as collections:
        index = collections.edition(edition)
        there, kept = index.count() if index is not None else 0, Reports(journal).records(edition.name)
    if there < kept:
        raise NeedsHuman(
            f"{edition.serves!r} was not rolled back: Chroma has {there:,} of {quantity(kept, 'record')} "
            "left; to have the old chunks again, change the config back"
        )


def _await_daemon(config: Config, journal: Journal, serves: CollectionName) -> bool:
    """Return whether the running daemon carried the request out; False when none runs any more."""
    until = time.monotonic() + PATIENCE
    while Requests(journal).get("roll back", serves):
        if not is_running(config):
            return False
        if time.monotonic() > until:
            raise Transient("the daemon has not run the rollback yet; see: ingestor status")
        time.sleep(0.1)
    return True
