"""``status``: the state of everything, from the journal, the live file and Chroma."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ingestor.app.handover import renamed
from ingestor.app.renames import Renames
from ingestor.config.models import Config
from ingestor.core.completeness import Skipped
from ingestor.core.decisions import NEVER
from ingestor.core.document_state import PENDING, WITHOUT_RECORDS, shown
from ingestor.core.entries import ChromaName, Edition
from ingestor.lexical.check import words_of
from ingestor.lexical.file import reading
from ingestor.model import CollectionName, SourceName
from ingestor.rechunk.policy import named
from ingestor.rechunk.recipes import strategies_and_model, unpacked
from ingestor.state.editions import Editions
from ingestor.state.files import lexical_path
from ingestor.state.journal import Journal
from ingestor.state.queries.reports import Reports, Short
from ingestor.state.requests import Notices, Requests
from ingestor.state.run_status import Live, RunningListing
from ingestor.state.sources import SourceRows
from ingestor.state.withdrawals import Withdrawals


@dataclass(slots=True)
class SourceStatus:
    """Status of a source: documents by state. Times are POSIX seconds."""

    settled: int = 0
    due: int = 0  # new, changed or gone, those that wait for a retry included
    waiting: int = 0  # of the due: wait for a retry
    in_flight: int = 0
    quarantined: int = 0
    empty: int = 0  # of the settled: no text was found in them
    incomplete: int = 0  # of the settled: less text was found than they hold
    unsupported: dict[str, int] = field(default_factory=dict)  # by file extension: no parser reads them
    last_scan: float | None = None
    held: str | None = None
    paused: float | None = None  # since when
    trouble: str | None = None  # why the last listing failed or is incomplete
    configured: bool = True
    renamed_from: str | None = None  # old name, until the next pass hands its documents over
    listing: RunningListing | None = None  # under way


@dataclass(frozen=True, slots=True)
class FailedDocument:
    """A document that failed; ``next_try`` is None if it is not retried without a change."""

    source: str
    document: str
    reason: str
    attempts: int
    next_try: float | None
    quarantined: bool


@dataclass(slots=True)
class CollectionStatus:
    """Status of a collection. ``healthy``: None if not asked. ``records``: number in the journal."""

    records: int = 0
    healthy: bool | None = None
    reason: str | None = None
    waits: str | None = None  # why a changed config is not applied to it
    delayed: str | None = None  # why the new collection cannot replace it yet
    built: tuple[int, int] | None = None  # documents of the new collection: done, of all
    lexical: str | None = None  # why there is no keyword search yet
    old_until: float | None = None  # POSIX seconds until which `rollback` works
    old_undone: bool = False  # whether it is the state before the last rollback, not before the last change
    strategy: str = ""  # of its documents; several names if its sources differ
    model: str = ""  # that embeds them
    shards: int = 1  # collections in Chroma that it is made of


@dataclass(slots=True)
class Status:
    running: bool = False
    started: float | None = None  # POSIX seconds; None if nothing runs
    chroma: str = ""
    config_error: str | None = None  # why an older config is in force, and not the config file
    config_restart: tuple[str, ...] = ()  # keys in which the config file waits for a restart
    config_since: float | None = None  # POSIX seconds: when the config in force was taken over
    sources: dict[str, SourceStatus] = field(default_factory=dict)
    collections: dict[str, CollectionStatus] = field(default_factory=dict)
    failures: list[FailedDocument] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    short: list[Short] = field(default_factory=list)  # empty and incomplete documents
    embedded_texts: int = 0  # by this run, or the last one; rates are per second of embedding
    embedded_tokens: int = 0
    embedding_cost: float = 0.0  # where the config has a price
    texts_per_second: float | None = None
    tokens_per_second: float | None = None
    no_service: str = ""  # why the running daemon has no service port although the config wants one
    guard: str = ""  # how the port of our Chroma server is guarded; "" if none runs
    isolation: str = ""  # how parsers are confined, in this run or the last one that parsed; "" if none did

    @property
    def sound(self) -> bool:
        """Whether the daemon runs, no source is held and every collection answers."""
        held = any(source.held for source in self.sources.values())
        sick = any(collection.healthy is False for collection in self.collections.values())
        return self.running and not held and not sick


def gather(
    config: Config,
    journal: Journal | None,
    live: Live,
    running: bool,
    probe: Callable[[ChromaName], str | None] | None,
) -> Status:
    """The whole status.

    ``probe``: returns why a collection is not healthy, or None. It is None itself if Chroma cannot be asked.
    """
    status = Status(running, embedded_texts=live.texts, isolation=live.isolation)
    status.embedded_tokens, status.embedding_cost = live.tokens, live.embedding_cost
    if running:
        status.started, status.chroma, status.guard = live.started or None, live.chroma, live.guard
        status.no_service = live.no_service
    if live.embedding_seconds:
        status.texts_per_second = round(live.texts / live.embedding_seconds, 1)
        status.tokens_per_second = round(live.tokens / live.embedding_seconds, 1)
    for source in config.sources:
        status.sources[source.name] = SourceStatus()
        status.collections[source.collection] = CollectionStatus()
    for name in config.collections:
        _add_means(status.collections[name], *_configured(config, name))
    if journal is not None:
        _add_sources(status, journal, live if running else Live(), renamed(config, journal))
        _add_collections(status, journal, probe, config.rechunk.grace)
        _add_words(status, journal, config)
    return status


def _add_sources(status: Status, journal: Journal, live: Live, renames: Renames) -> None:
    unseen = {edition.name for edition in Editions(journal).all() if edition.role != "live"}
    for name, collection, state, documents in Reports(journal).counts():
        if collection in unseen or state == "unsupported":
            continue
        called = renames.get(SourceName(name), name)
        source = status.sources.setdefault(called, SourceStatus(configured=False))
        source.renamed_from = name if called != name else source.renamed_from
        counted = "due" if state in PENDING else shown(state)
        setattr(source, counted, getattr(source, counted) + documents)
        source.waiting += documents if state == "waiting" else 0
    for name, source in status.sources.items():
        row = SourceRows(journal).of(SourceName(source.renamed_from or name))
        source.last_scan, source.held, source.trouble = row.last_scan, row.held, row.trouble
        source.held = source.held or Withdrawals(journal).kept(SourceName(source.renamed_from or name))
        source.paused = row.paused
        source.in_flight = live.in_flight.get(name, 0)
        source.listing = live.listing.get(name)
    status.skipped = Reports(journal).skipped()
    for kind in status.skipped:
        called = renames.get(SourceName(kind.source), kind.source)
        source = status.sources.setdefault(called, SourceStatus(configured=False))
        source.unsupported[kind.kind] = kind.documents
    status.short = Reports(journal).short()
    for short in status.short:
        called = renames.get(SourceName(short.source), short.source)
        source = status.sources.setdefault(called, SourceStatus(configured=False))
        setattr(source, short.state, getattr(source, short.state) + 1)
    status.failures = [
        FailedDocument(source, key, reason, attempts, None if retry_at == NEVER else retry_at, quarantined)
        for source, key, reason, attempts, retry_at, quarantined, _ in Reports(journal).failures()
    ]


def _add_collections(
    status: Status, journal: Journal, probe: Callable[[ChromaName], str | None] | None, grace: float
) -> None:
    for edition in Editions(journal).all():
        name, records = edition.serves, Reports(journal).records(edition.name)
        if edition.role != "live":
            _add_edition(status, journal, edition, grace)
            continue
        if name not in status.collections and not records:
            continue
        collection = status.collections.setdefault(name, CollectionStatus())
        collection.records = records
        if edition.choices is not None:
            _add_means(collection, *strategies_and_model(unpacked(edition.choices)))
        collection.waits = Notices(journal).get("waits", name)
        collection.delayed = Notices(journal).get("delayed", name)
        if probe is not None and edition.uuid is not None:
            collection.shards = edition.shards
            collection.reason = _reason(edition, probe)
            collection.healthy = collection.reason is None


def _reason(edition: Edition, probe: Callable[[ChromaName], str | None]) -> str | None:
    """Why the collection, or a shard of it, is not healthy."""
    said = ((name, probe(name)) for _, name in edition.places)
    found = [reason if name == edition.shown else f"{name}: {reason}" for name, reason in said if reason]
    return "; ".join(found) or None


def _add_words(status: Status, journal: Journal, config: Config) -> None:
    for edition in Editions(journal).all():
        collection = status.collections.get(edition.serves)
        if edition.role == "live" and collection is not None and collection.records:
            with words_of(reading(lexical_path(config)), edition.uuid) as words:
                collection.lexical = words.unready()


def _add_edition(status: Status, journal: Journal, edition: Edition, grace: float) -> None:
    """Add what a staging or previous edition means for its collection."""
    collection = status.collections.setdefault(edition.serves, CollectionStatus())
    if edition.role == "staging":
        counts = [
            (state, number) for _, name, state, number in Reports(journal).counts() if name == edition.name
        ]
        done = sum(number for state, number in counts if state in ("settled", *WITHOUT_RECORDS))
        collection.built = done, sum(number for _, number in counts)
    elif edition.role == "previous":
        collection.old_until = edition.since + grace
        collection.old_undone = undone(journal, edition)


def undone(journal: Journal, edition: Edition) -> bool:
    """Whether a previous edition was left by a rollback."""
    left = Requests(journal).get("refused", edition.serves)
    return edition.choices is not None and left == named(unpacked(edition.choices))


def _add_means(collection: CollectionStatus, strategies: Iterable[str], model: str) -> None:
    collection.strategy, collection.model = ", ".join(sorted(set(strategies))), model


def _configured(config: Config, name: CollectionName) -> tuple[list[str], str]:
    """Strategies and model of the config."""
    strategies = [source.chunking.plugin.kind for source in config.sources if source.collection == name]
    embedding = config.embedding
    return strategies, str(getattr(embedding.options, "model", None) or embedding.plugin.kind)
