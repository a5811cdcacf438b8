"""The state of the program, its sources and collections for ``status``, and the report of a ``sync``."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ingestor.app.handover import source_renames, sources_not_in_config
from ingestor.config.models import Config
from ingestor.core.completeness import Skipped
from ingestor.core.decisions import NEVER
from ingestor.core.document_state import PENDING, WITHOUT_RECORDS, State, visible_state
from ingestor.core.entries import ChromaName, Edition, SourceRow
from ingestor.lexical.check import words_of
from ingestor.lexical.file import open_for_reading
from ingestor.model import SourceName
from ingestor.ports import NeedsHuman, Transient
from ingestor.queries.access import collections_of, has_file, is_running, journal_or_blank
from ingestor.rechunk.policy import fingerprint_of, strategies_and_model
from ingestor.state import run_status
from ingestor.state.editions import Editions, Notices, Requests
from ingestor.state.files import journal_path, lexical_path, lock_path, read_note
from ingestor.state.journal import Journal
from ingestor.state.reports import Reports, Short, failures
from ingestor.state.run_status import InForce, Live, RunningListing
from ingestor.state.sources import SourceRows, Withdrawals
from ingestor.units import quantity

if TYPE_CHECKING:
    from ingestor.app.wiring import Running


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """Status of a source, with numbers of its documents by state. Times are POSIX seconds."""

    settled: int = 0
    due: int = 0  # new, changed or vanished, with those that wait for a retry
    waiting: int = 0  # due documents that wait for a retry
    in_flight: int = 0
    quarantined: int = 0
    empty: int = 0  # settled documents without text
    incomplete: int = 0  # settled documents of which the parser could not read everything
    unsupported: Mapping[str, int] = field(default_factory=dict)  # by extension: no parser reads these files
    last_scan: float | None = None
    held: str | None = None
    paused: float | None = None  # since when
    trouble: str | None = None  # why the last listing failed or is incomplete
    language: str | None = None  # how many documents have a language that the model does not know
    tokens: str | None = None  # how many tokens the model does not know
    configured: bool = True
    renamed_from: str | None = None  # old name, until the next pass gives its documents the new one
    listing: RunningListing | None = None  # if a listing is under way


@dataclass(frozen=True, slots=True)
class FailedDocument:
    """A failed document.

    ``next_try``: POSIX seconds; None if it is retried only when it or its recipe changes.
    """

    source: str
    document: str
    reason: str
    attempts: int
    next_try: float | None
    quarantined: bool


@dataclass(frozen=True, slots=True)
class CollectionStatus:
    """Status of a collection, with its records, its model, and a change that is under way or waits."""

    records: int = 0  # in the journal
    healthy: bool | None = None  # None if Chroma was not asked
    reason: str | None = None  # why it is not healthy
    waits: str | None = None  # why a changed config is not applied to it
    delayed: str | None = None  # why the new collection cannot replace it yet
    built: tuple[int, int] | None = None  # documents that the new collection has, and shall have
    lexical: str | None = None  # why there is no keyword search yet
    old_until: float | None = None  # POSIX seconds until which `rollback` works
    old_undone: bool = False  # whether `rollback` undoes the last rollback, and not the last change
    strategy: str = ""  # chunking strategy; several names if its sources differ
    model: str = ""  # embedding model
    shards: int = 1  # collections in Chroma of which it consists


@dataclass(frozen=True, slots=True)
class Status:
    """Status of the program with all sources and collections."""

    running: bool = False
    started: float | None = None  # POSIX seconds; None if nothing runs
    chroma: str = ""
    config_error: str | None = None  # why an older config is in force instead of the config file
    config_restart: tuple[str, ...] = ()  # changed keys of the config file that wait for a restart
    config_since: float | None = None  # POSIX seconds: when the config in force took effect
    sources: Mapping[str, SourceStatus] = field(default_factory=dict)
    collections: Mapping[str, CollectionStatus] = field(default_factory=dict)
    failures: tuple[FailedDocument, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    short: tuple[Short, ...] = ()  # empty and incomplete documents
    embedded_texts: int = 0  # in this run, or the last one
    embedded_tokens: int = 0
    embedding_cost: float = 0.0  # where the config has a price
    texts_per_second: float | None = None  # per second of embedding
    tokens_per_second: float | None = None
    no_service: str = ""  # why the running daemon has no service port although the config wants one
    guard: str = ""  # how the port of our Chroma server is guarded; "" if none runs
    isolation: str = ""  # how parsers are confined, in this run or the last one that parsed a document

    @property
    def sound(self) -> bool:
        """Return whether all is well: the daemon runs, no source is held, and every collection answers."""
        held = any(source.held for source in self.sources.values())
        sick = any(collection.healthy is False for collection in self.collections.values())
        return self.running and not held and not sick


def gather(
    config: Config,
    journal: Journal,
    live: Live,
    running: bool,
    probe: Callable[[ChromaName], str | None] | None,
) -> Status:
    """Collect the whole status from the journal, Chroma and the progress of the program.

    ``live``: progress of the program that runs or ran last. ``probe``: returns why a collection is not
    healthy, or None. If ``probe`` itself is None, Chroma is not asked.
    """
    now, seconds, reports = live if running else Live(), live.embedding_seconds, Reports(journal)
    skipped, short, failed = tuple(reports.count_skipped()), tuple(reports.short()), list[FailedDocument]()
    for row in failures(journal):
        next_try, is_bad = None if row.retry_at == NEVER else row.retry_at, row.state == "quarantined"
        failed.append(FailedDocument(row.source, row.key, row.reason or "", row.attempts, next_try, is_bad))
    return Status(
        running,
        started=now.started or None,
        chroma=now.chroma,
        guard=now.guard,
        no_service=now.no_service,
        texts_per_second=round(live.texts / seconds, 1) if seconds else None,
        tokens_per_second=round(live.tokens / seconds, 1) if seconds else None,
        sources=_sources(config, journal, now, skipped, short),
        collections=_collections(config, journal, probe),
        skipped=skipped,
        short=short,
        failures=tuple(failed),
        embedded_texts=live.texts,
        embedded_tokens=live.tokens,
        embedding_cost=live.embedding_cost,
        isolation=live.isolation,
    )


def _sources(
    config: Config, journal: Journal, live: Live, skipped: Iterable[Skipped], shortfalls: Iterable[Short]
) -> dict[str, SourceStatus]:
    """Return the status of each source that is in the config or has documents."""
    unseen = {edition.name for edition in Editions(journal).all() if edition.role != "live"}
    renames, notices = source_renames(config, journal), Notices(journal)
    languages, tokens = notices.all("language"), notices.all("tokens")
    configured = dict.fromkeys(str(source.name) for source in config.sources)
    former = dict[str, str]()  # old names of renamed sources
    numbers = defaultdict[str, Counter[str]](Counter)
    unsupported = defaultdict[str, dict[str, int]](dict)

    def new_name(name: str) -> str:
        return renames.get(SourceName(name), name)

    for name, collection, state, documents in Reports(journal).counts():
        if collection not in unseen and state != "unsupported":
            called = new_name(name)
            numbers[called]["due" if state in PENDING else visible_state(state)] += documents
            numbers[called]["waiting"] += documents if state == "waiting" else 0
            former |= {called: name} if called != name else {}
    for kind in skipped:
        unsupported[new_name(kind.source)][kind.kind] = kind.documents
    for short in shortfalls:
        numbers[new_name(short.source)][short.state] += 1
    known = dict[str, SourceStatus]()
    for called in dict.fromkeys((*configured, *numbers, *unsupported)):
        name = SourceName(former.get(called, called))
        row = SourceRows(journal).of(name)
        known[called] = SourceStatus(
            **numbers[called],
            unsupported=unsupported[called],
            last_scan=row.last_scan,
            held=row.held or Withdrawals(journal).of(name).kept,
            trouble=row.trouble,
            language=languages.get(name),
            tokens=tokens.get(name),
            paused=row.paused,
            in_flight=live.in_flight.get(called, 0),
            listing=live.listing.get(called),
            configured=called in configured,
            renamed_from=former.get(called),
        )
    return known


def _collections(
    config: Config, journal: Journal, probe: Callable[[ChromaName], str | None] | None
) -> dict[str, CollectionStatus]:
    """Return the status of each collection that is in the config or has records."""
    embedding, notices = config.embedding, Notices(journal)
    model = str(getattr(embedding.options, "model", None) or embedding.plugin.kind)
    known = {
        str(name): _with_means(
            CollectionStatus(),
            (each.chunking.plugin.kind for each in config.sources if each.collection == name),
            model,
        )
        for name in config.collections
    }
    for edition in Editions(journal).all():
        name, records = edition.serves, Reports(journal).records(edition.name)
        collection = known.get(name) or CollectionStatus()
        if edition.role != "live":
            known[name] = with_edition(collection, journal, edition, config.rechunk.grace)
            continue
        if name not in known and not records:
            continue
        waits, delayed = notices.get("waits", name), notices.get("delayed", name)
        collection = replace(collection, records=records, waits=waits, delayed=delayed)
        if edition.choices is not None:
            collection = _with_means(collection, *strategies_and_model(edition.choices))
        if probe is not None and edition.uuids:
            sick = [(shard, why) for _, shard in edition.in_chroma if (why := probe(shard))]
            reasons = (why if shard == edition.chroma_name else f"{shard}: {why}" for shard, why in sick)
            reason = "; ".join(reasons) or None
            collection = replace(collection, shards=edition.shards, reason=reason, healthy=reason is None)
        if records:
            with words_of(open_for_reading(lexical_path(config)), edition.uuids) as words:
                collection = replace(collection, lexical=words.unready())
        known[name] = collection
    return known


def with_edition(
    collection: CollectionStatus, journal: Journal, edition: Edition, grace: float
) -> CollectionStatus:
    """Add facts about a further edition to a collection's status.

    A staging edition adds its progress. A previous edition adds the time until which it is kept. ``grace``:
    seconds for which previous editions are kept.
    """
    if edition.role == "staging":
        counts = [(state, n) for _, name, state, n in Reports(journal).counts() if name == edition.name]
        done = sum(n for state, n in counts if state in ("settled", *WITHOUT_RECORDS))
        return replace(collection, built=(done, sum(n for _, n in counts)))
    if edition.role == "previous":
        return replace(collection, old_until=edition.since + grace, old_undone=undone(journal, edition))
    return collection


def undone(journal: Journal, edition: Edition) -> bool:
    """Return whether readers left this previous edition by a rollback.

    Another rollback would return to it.
    """
    left = Requests(journal).get("refused", edition.serves)
    return edition.choices is not None and left == fingerprint_of(edition.choices)


def _with_means(collection: CollectionStatus, strategies: Iterable[str], model: str) -> CollectionStatus:
    """Add the chunking strategies and the embedding model, by name, to a collection's status."""
    return replace(collection, strategy=", ".join(sorted(set(strategies))), model=model)


def current_status(in_force: InForce) -> Status:
    """Return the whole status, whether or not a daemon runs."""
    config, running = in_force.config, is_running(in_force.config)
    live = run_status.read_live(config.state)
    if running and str(live.pid) not in read_note(lock_path(config))[:1]:
        live = Live()  # an earlier process wrote the file
    with journal_or_blank(config) as journal:
        if not has_file(journal_path(config)):  # nothing was indexed: no Chroma server is started for that
            status = gather(config, journal, live, running, None)
        else:
            try:
                with collections_of(config, journal, 0.0 if running else None) as collections:
                    status = gather(config, journal, live, running, collections.probe)
            except (NeedsHuman, Transient) as error:
                reason = str(error)
                status = gather(config, journal, live, running, lambda name: reason)
    wrong, since, restart = in_force.error, in_force.since, in_force.restart
    return replace(status, config_error=wrong, config_since=since, config_restart=restart)


@dataclass(frozen=True, slots=True)
class DocumentCounts:
    """Numbers of documents by what a sync did to them. ``due``: documents that the sync left unfinished."""

    added: int = 0
    changed: int = 0
    moved: int = 0
    rebuilt: int = 0
    recut: int = 0
    removed: int = 0
    unchanged: int = 0
    quarantined: int = 0
    unsupported: int = 0
    failed: int = 0
    due: int = 0


@dataclass(frozen=True, slots=True)
class RecordCounts:
    """Numbers of records by what a sync did to them. ``patched``: records of which only metadata changed."""

    added: int = 0
    replaced: int = 0
    patched: int = 0
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class EmbeddedTexts:
    """Numbers of texts and tokens that the model embedded, without cached ones.

    ``cost``: by the config's price.
    """

    texts: int = 0
    tokens: int = 0
    cost: float = 0.0


@dataclass(frozen=True, slots=True)
class Asked:
    """Requests that were sent to language models, since the cache had no answer.

    ``cost``: by the config's prices.
    """

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0


@dataclass(frozen=True, slots=True)
class DocumentProblem:
    """A document that failed or is quarantined, with the reason."""

    source: str
    document: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncReport:
    """The report of a sync. The fields are keys of ``ingestor sync --json`` (see docs/commands.md)."""

    documents: DocumentCounts = DocumentCounts()
    records: RecordCounts = RecordCounts()
    embedded: EmbeddedTexts = EmbeddedTexts()
    asked: Asked = Asked()
    seconds: float = 0.0
    problems: tuple[DocumentProblem, ...] = ()
    waits: Mapping[str, str] = field(default_factory=dict)
    short: tuple[Short, ...] = ()
    unsupported: Mapping[str, int] = field(default_factory=dict)
    held: Mapping[str, str] = field(default_factory=dict)
    paused: tuple[str, ...] = ()
    unusable: Mapping[str, str] = field(default_factory=dict)
    unseen: Mapping[str, str] = field(default_factory=dict)
    unconfigured: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    interrupted: bool = False

    @property
    def complete(self) -> bool:
        """Return whether the sync finished its work: no document failed or is due.

        Quarantined documents do not count as failed.
        """
        left = self.documents.failed or self.documents.due
        return not (self.held or self.unseen or self.unusable or left or self.interrupted)


def documents_not_in_config(running: Running) -> dict[SourceName, int]:
    """Return the number of documents of each source that has documents but left the config."""
    gone = sources_not_in_config(running.parts.config, running.journal)
    counts = {name: Reports(running.journal).number(name) for name in gone}
    return {name: number for name, number in counts.items() if number}


def report_sync(
    running: Running, seconds: float, before: Mapping[SourceName, int], *, interrupted: bool = False
) -> SyncReport:
    """Report what a sync did.

    ``seconds``: its duration. ``before``: the result of ``documents_not_in_config`` when it began.
    ``interrupted``: whether it was stopped before its end.
    """
    tally, journal = running.engine.writer.counts.tally(), running.journal
    embedded = running.embedding.counts()
    rows = {source.name: SourceRows(journal).of(source.name) for source in running.parts.config.sources}
    after, reports, answers = documents_not_in_config(running), Reports(journal), running.answers
    states, withdrawn = _states(running, rows), Withdrawals(journal)
    held = {name: row.held or withdrawn.of(name).kept for name, row in rows.items()}
    names = running.parts.config.collections
    skipped = Counter[str]()
    for kind in reports.count_skipped():
        skipped[kind.kind] += kind.documents
    touched = tally["added"] + tally["changed"] + tally["moved"] + tally["rebuilt"]
    return SyncReport(
        documents=DocumentCounts(
            **{kind: tally[kind] for kind in ("added", "changed", "moved", "rebuilt", "recut", "removed")},
            unchanged=max(0, states["settled"] - touched),
            quarantined=states["quarantined"],
            unsupported=states["unsupported"],
            failed=states["waiting"],
            due=states["due"] + states["gone"],
        ),
        records=RecordCounts(
            *(tally[f"records_{change}"] for change in ("added", "replaced", "patched", "dropped"))
        ),
        embedded=EmbeddedTexts(embedded.texts, embedded.tokens, round(running.cost_of_embedding, 6)),
        asked=Asked(answers.calls, answers.prompt_tokens, answers.completion_tokens, round(answers.cost, 6)),
        seconds=round(seconds, 3),
        problems=tuple(DocumentProblem(row.source, row.key, row.reason or "") for row in failures(journal)),
        waits={str(name): why for name in names if (why := Notices(journal).get("waits", name))},
        short=tuple(reports.short()),
        unsupported=dict(skipped.most_common()),
        held={name: why for name, why in held.items() if why is not None},
        paused=tuple(name for name, row in rows.items() if row.paused is not None),
        unusable=running.engine.health.troubles(),
        unseen=_unseen(running, rows),
        unconfigured={
            name: {"removed": max(0, number - after.get(name, 0)), "kept": after.get(name, 0)}
            for name, number in before.items()
        },
        interrupted=interrupted,
    )


def _states(running: Running, rows: Mapping[SourceName, SourceRow]) -> Counter[str]:
    """Count documents by state.

    A document may be in the live edition and in the edition that is to replace it. So the larger number of
    both editions is taken for each source and state.
    """
    serves: dict[str, str] = {each.name: each.serves for each in Editions(running.journal).all()}
    largest = Counter[tuple[str, str | None, State]]()
    for source, edition, state, documents in Reports(running.journal).counts():
        if source in rows or source in running.engine.leaving:
            of = source, serves.get(edition), state
            largest[of] = max(largest[of], documents)
    states = Counter[str]()
    for (_, _, state), documents in largest.items():
        states[state] += documents
    return states


def _unseen(running: Running, rows: Mapping[SourceName, SourceRow]) -> dict[str, str]:
    """Return the sources of which no complete listing was applied, each with the reason."""
    scanner = running.engine.scanner
    unlisted = dict.fromkeys(scanner.sources_not_listed(), "the listing did not complete")
    unfinished = {
        name: f"the listing stopped after {quantity(listing.seen, 'document')}"
        for name, listing in scanner.under_way().items()
    }
    troubled = {name: row.trouble for name, row in rows.items() if row.trouble is not None}
    reasons = {**unlisted, **unfinished, **troubled}
    return {n: why for n, why in reasons.items() if n in rows and (n in troubled or not rows[n].held)}
