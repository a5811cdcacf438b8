"""The state of the program, its sources and collections for ``status``, and the report of a ``sync``."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from ingestor.app.handover import source_renames, sources_not_in_config
from ingestor.config.models import Config
from ingestor.core.completeness import Skipped
from ingestor.core.decisions import NEVER
from ingestor.core.document_state import PENDING, State, visible_state
from ingestor.core.entries import ChromaName, Edition, SourceRow
from ingestor.lexical.check import words_of
from ingestor.lexical.file import open_for_reading
from ingestor.model import SourceName
from ingestor.ports import NeedsHuman, Transient
from ingestor.queries.access import collections_of, has_file, is_running, journal_of
from ingestor.rechunk.policy import fingerprint_of, strategies_and_model
from ingestor.state import run_status
from ingestor.state.editions import Editions, Notices, Requests
from ingestor.state.files import journal_path, lexical_path, lock_path, read_note
from ingestor.state.journal import Journal
from ingestor.state.reports import (
    Count,
    Short,
    count_documents,
    count_documents_of,
    count_records_of,
    count_skipped,
    failures,
    list_short,
    progress,
)
from ingestor.state.run_status import InForce, Live, RunningListing
from ingestor.state.sources import SourceRows

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

    running: bool
    started: float | None  # POSIX seconds; None if nothing runs
    chroma: str
    config_error: str | None  # why an older config is in force instead of the config file
    config_restart: tuple[str, ...]  # changed keys of the config file that wait for a restart
    config_since: float | None  # POSIX seconds: when the config in force took effect
    sources: Mapping[str, SourceStatus]
    collections: Mapping[str, CollectionStatus]
    failures: tuple[FailedDocument, ...]
    skipped: tuple[Skipped, ...]
    short: tuple[Short, ...]  # empty and incomplete documents
    embedded_texts: int  # in this run, or the last one
    embedded_tokens: int
    embedding_cost: float  # where the config has a price
    texts_per_second: float | None  # per second of embedding
    tokens_per_second: float | None
    no_service: str  # why the running daemon has no service port although the config wants one
    guard: str  # how the port of our Chroma server is guarded; "" if none runs
    isolation: str  # how parsers are confined, in this run or the last one that parsed a document

    @property
    def sound(self) -> bool:
        """Return whether all is well: the daemon runs, no source is held, and every collection answers."""
        held = any(source.held for source in self.sources.values())
        sick = any(collection.healthy is False for collection in self.collections.values())
        return self.running and not held and not sick


def current_status(in_force: InForce) -> Status:
    """Return the whole status, whether or not a daemon runs."""
    config, running = in_force.config, is_running(in_force.config)
    probe: Callable[[ChromaName], str | None] | None = None
    live = run_status.read_live(config.state)
    if running and str(live.pid) not in read_note(lock_path(config))[:1]:
        live = Live()  # an earlier process wrote the file
    now, seconds = live if running else Live(), live.embedding_seconds
    with ExitStack() as stack:
        journal = stack.enter_context(journal_of(config, or_blank=True))
        if has_file(journal_path(config)):  # otherwise no Chroma server is started
            try:
                chroma = collections_of(config, journal, 0.0 if running else None)
                probe = stack.enter_context(chroma).probe
            except (NeedsHuman, Transient) as error:
                probe = partial(lambda why, shard: why, str(error))
        counts, skipped = count_documents(journal), tuple(count_skipped(journal))
        short = tuple(list_short(journal))
        return Status(
            running,
            started=now.started or None,
            chroma=now.chroma,
            config_error=in_force.error,
            config_restart=in_force.restart,
            config_since=in_force.since,
            guard=now.guard,
            no_service=now.no_service,
            texts_per_second=round(live.texts / seconds, 1) if seconds else None,
            tokens_per_second=round(live.tokens / seconds, 1) if seconds else None,
            sources=_sources(config, journal, now, counts, skipped, short),
            collections=_collections(config, journal, counts, probe),
            skipped=skipped,
            short=short,
            failures=_failures(journal),
            embedded_texts=live.texts,
            embedded_tokens=live.tokens,
            embedding_cost=live.embedding_cost,
            isolation=live.isolation,
        )


def _failures(journal: Journal) -> tuple[FailedDocument, ...]:
    retries = ((row, None if row.retry_at == NEVER else row.retry_at) for row in failures(journal))
    return tuple(
        FailedDocument(row.source, row.key, row.reason or "", row.attempts, at, row.state == "quarantined")
        for row, at in retries
    )


def _sources(
    config: Config,
    journal: Journal,
    live: Live,
    counts: Iterable[Count],
    skipped: Iterable[Skipped],
    shortfalls: Iterable[Short],
) -> dict[str, SourceStatus]:
    """Return the status of each source that is in the config or has documents."""
    unseen = {edition.name for edition in Editions(journal).all() if edition.role != "live"}
    renames, notices = source_renames(config, journal), Notices(journal)
    configured = dict.fromkeys(str(source.name) for source in config.sources)
    former = {str(new): str(old) for old, new in renames.items()}
    numbers = defaultdict[str, Counter[str]](Counter)
    unsupported = defaultdict[str, dict[str, int]](dict)

    def new_name(name: str) -> str:
        return renames.get(SourceName(name), name)

    for name, collection, state, documents in counts:
        if collection not in unseen and state != "unsupported":
            called = new_name(name)
            numbers[called]["due" if state in PENDING else visible_state(state)] += documents
            numbers[called]["waiting"] += documents if state == "waiting" else 0
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
            held=row.hold,
            trouble=row.trouble,
            language=notices.get("language", name),
            tokens=notices.get("tokens", name),
            paused=row.paused,
            in_flight=live.in_flight.get(called, 0),
            listing=live.listing.get(called),
            configured=called in configured,
            renamed_from=former.get(called),
        )
    return known


def _collections(
    config: Config,
    journal: Journal,
    counts: Sequence[Count],
    probe: Callable[[ChromaName], str | None] | None,
) -> dict[str, CollectionStatus]:
    """Return the status of each collection that is in the config or has records.

    ``probe``: returns why a shard is not healthy, or None. If ``probe`` is None, Chroma is not asked.
    """
    known, embedding, notices = defaultdict[str, dict[str, Any]](dict), config.embedding, Notices(journal)
    model = str(getattr(embedding.options, "model", None) or embedding.plugin.kind)
    for name in config.collections:
        strategies = {each.chunking.plugin.kind for each in config.sources if each.collection == name}
        known[name] = {"strategy": ", ".join(sorted(strategies)), "model": model}
    for edition in Editions(journal).all():
        name, records = edition.serves, count_records_of(journal, edition.name)
        if edition.role == "staging":
            known[name]["built"] = progress(counts, edition.name)
        elif edition.role == "previous":
            until, is_undone = edition.since + config.rechunk.grace, undone(journal, edition)
            known[name] |= {"old_until": until, "old_undone": is_undone}
        elif edition.role == "live" and (records or name in known):
            known[name] |= {kind: notices.get(kind, name) for kind in ("waits", "delayed")}
            known[name]["records"] = records
            if edition.choices is not None:
                used, model = strategies_and_model(edition.choices)
                known[name] |= {"strategy": ", ".join(sorted(set(used))), "model": model}
            if probe is not None and edition.uuids:
                sick = {shard: why for _, shard in edition.in_chroma if (why := probe(shard))}
                several = [f"{shard}: {why}" for shard, why in sick.items()]
                reason = "; ".join(several if edition.shards > 1 else sick.values()) or None
                known[name] |= {"shards": edition.shards, "reason": reason, "healthy": reason is None}
            if records:
                with words_of(open_for_reading(lexical_path(config)), edition.uuids) as words:
                    known[name]["lexical"] = words.unready()
    return {name: CollectionStatus(**facts) for name, facts in known.items()}


def undone(journal: Journal, edition: Edition) -> bool:
    """Return whether readers left this previous edition by a rollback.

    Another rollback would return to it.
    """
    left = Requests(journal).get("refused", edition.serves)
    return edition.choices is not None and left == fingerprint_of(edition.choices)


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

    texts: int
    tokens: int
    cost: float


@dataclass(frozen=True, slots=True)
class Asked:
    """Requests that were sent to language models, since the cache had no answer.

    ``cost``: by the config's prices.
    """

    calls: int
    prompt_tokens: int
    completion_tokens: int
    cost: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncReport:
    """The report of a sync. The fields are keys of ``ingestor sync --json`` (see docs/commands.md)."""

    documents: DocumentCounts
    records: RecordCounts
    embedded: EmbeddedTexts
    asked: Asked
    seconds: float
    problems: tuple[FailedDocument, ...]
    waits: Mapping[str, str]
    short: tuple[Short, ...]
    unsupported: Mapping[str, int]
    held: Mapping[str, str]
    paused: tuple[str, ...]
    unusable: Mapping[str, str]
    unseen: Mapping[str, str]
    unconfigured: Mapping[str, Mapping[str, int]]
    interrupted: bool

    @property
    def complete(self) -> bool:
        """Return whether the sync finished its work: no document failed or is due.

        Quarantined documents do not count as failed.
        """
        left = self.documents.failed or self.documents.due
        return not (self.held or self.unseen or self.unusable or left or self.interrupted)


def report_sync(running: Running, seconds: float, *, interrupted: bool = False) -> SyncReport:
    """Report what a sync did.

    ``seconds``: its duration. ``interrupted``: whether it was stopped before its end.
    """
    tally, journal = running.engine.writer.counts.tally(), running.journal
    embedded = running.embedding.counts()
    rows = {source.name: SourceRows(journal).of(source.name) for source in running.parts.config.sources}
    done = running.engine.writer.counts.changes
    gone = [str(name) for name in sources_not_in_config(running.parts.config, journal)]
    gone += [source for source, kind in done if kind == "removed" and source not in (*rows, *gone)]
    unconfigured = {
        name: {"removed": done[name, "removed"], "kept": count_documents_of(journal, name)} for name in gone
    }
    states = _states(running, rows)
    skipped = Counter[str]()
    for kind in count_skipped(journal):
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
        asked=Asked(**running.answers.counts()),
        seconds=round(seconds, 3),
        problems=_failures(journal),
        waits=Notices(journal).all("waits"),
        short=tuple(list_short(journal)),
        unsupported=dict(skipped.most_common()),
        held={name: row.hold for name, row in rows.items() if row.hold},
        paused=tuple(name for name, row in rows.items() if row.paused is not None),
        unusable=running.engine.health.troubles(),
        unseen=_unseen(running, rows),
        unconfigured={name: numbers for name, numbers in unconfigured.items() if any(numbers.values())},
        interrupted=interrupted,
    )


def _states(running: Running, rows: Mapping[SourceName, SourceRow]) -> Counter[str]:
    """Count documents by state.

    A document may be in the live edition and in the edition that is to replace it. So the larger number of
    both editions is taken for each source and state.
    """
    serves: dict[str, str] = {each.name: each.serves for each in Editions(running.journal).all()}
    largest = Counter[tuple[str, str | None, State]]()
    for source, edition, state, documents in count_documents(running.journal):
        if source in rows or source in running.engine.leaving:
            of = source, serves.get(edition), state
            largest[of] = max(largest[of], documents)
    states = Counter[str]()
    for (_, _, state), documents in largest.items():
        states[state] += documents
    return states


def _unseen(running: Running, rows: Mapping[SourceName, SourceRow]) -> dict[str, str]:
    """Return the sources of which no complete listing was applied, each with the reason."""
    late = running.engine.scanner.sources_not_listed()
    return {
        name: row.trouble or "the listing did not complete"
        for name, row in rows.items()
        if row.trouble or (name in late and not row.held)
    }
