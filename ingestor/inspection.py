"""What the commands that look ask for. They read the journal beside a running daemon, and change nothing
of it but by ``verify --repair``, which takes the daemon's place.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ingestor import live, rechunk, verify
from ingestor import plan as planning
from ingestor.answers import Reckoned
from ingestor.cache import VectorCache
from ingestor.choices import unpacked
from ingestor.collections import Collections
from ingestor.config import Config
from ingestor.editions import Editions
from ingestor.journal import Journal
from ingestor.journal import opened as open_journal
from ingestor.lock import held
from ingestor.model import CollectionName, Fingerprint, Hit, Record, SourceName
from ingestor.outlook import Outlook, bytes_a_record, outlook
from ingestor.plan import Plan, Recorder
from ingestor.ports import NeedsHuman, Torn, Transient
from ingestor.prepare import record_id
from ingestor.rows import Edition, Entry
from ingestor.status import Status, gather
from ingestor.wiring import Parts, cache_path, gone_sources, journal_path, lock_path, opened
from ingestor.wishes import Wishes

SAMPLE = 64  # texts embedded to measure the rate where none is known


class BadRequest(Exception):
    """What was asked for is not there, or makes no sense; the message says what would."""


@contextmanager
def journal_of(config: Config) -> Iterator[Journal]:
    """The journal, which must exist; fine beside a running daemon."""
    if not journal_path(config).exists():
        raise NeedsHuman(f"nothing was ingested yet: {config.state} holds no journal; run: ingestor sync")
    with open_journal(journal_path(config)) as journal:
        yield journal


def is_running(config: Config) -> bool:
    """Whether a daemon or a sync holds the state folder."""
    return held(lock_path(config))


@contextmanager
def collections_of(config: Config, journal: Journal) -> Iterator[Collections]:
    """Chroma for reading: the running daemon's server, else opened in this process."""
    with Parts(config).collections(journal, attach=is_running(config)) as collections:
        yield collections


def current_status(config: Config) -> Status:
    """Works whether or not a daemon runs."""
    running, said = is_running(config), live.read(config.state)
    if not journal_path(config).exists():
        return gather(config, None, said, running, None)
    with journal_of(config) as journal:
        try:
            with collections_of(config, journal) as collections:
                return gather(config, journal, said, running, collections.probe)
        except (NeedsHuman, Transient) as error:
            reason = str(error)
            return gather(config, journal, said, running, lambda name: reason)


def search(config: Config, text: str, n: int, collection: str, where: dict[str, object] | None) -> list[Hit]:
    """Nearest first, by the configured embedder."""
    if not text.strip():
        raise BadRequest("say what to look for: the text is empty")
    with journal_of(config) as journal, collections_of(config, journal) as collections:
        index = collections.existing(CollectionName(collection))
        if index is None:
            raise _no_collection(journal, collection)
        try:
            return index.query(Parts(config).query_vectors([text]), n, where)[0]
        except ValueError as error:
            raise BadRequest(str(error)) from error


def _no_collection(journal: Journal, wanted: str) -> Exception:
    known = [edition.serves for edition in _live(journal)]
    if wanted in known:
        return NeedsHuman(f"collection {wanted!r} is gone from Chroma; `ingestor sync` writes it anew")
    return BadRequest(f"there is no collection {wanted!r}; known: {', '.join(known) or 'none yet'}")


@dataclass(frozen=True, slots=True)
class Shown:
    """A document and its records, in document order."""

    entry: Entry
    records: list[Record]


def shown(config: Config, document: str) -> Shown:
    with journal_of(config) as journal, collections_of(config, journal) as collections:
        entry = find_documents(journal, document)[0]
        index = collections.edition(Editions(journal).named(entry.collection))
        ids = [record_id(entry.document_id, known.slot) for known in entry.known]
        records = index.read(ids) if index is not None and ids else []
        return Shown(
            entry, sorted(records, key=lambda record: int(str(record.metadata.get("chunk_index") or 0)))
        )


def find_documents(journal: Journal, wanted: str) -> list[Entry]:
    """By key, path or id. Raises BadRequest when there is none."""
    found = journal.named(wanted) or journal.named(str(Path(wanted).absolute()))
    if not found:
        raise BadRequest(f"no document {wanted!r}; `ingestor ls` lists them by key")
    return found


@dataclass(frozen=True, slots=True)
class Listed:
    source: str
    document: str
    document_id: str
    collection: str
    records: int
    settled: bool
    state: str  # settled, due, waiting (for another try) or quarantined


def listed(journal: Journal, source: str | None) -> list[Listed]:
    """Of one source, or of all. Raises BadRequest when there is no such source."""
    names = journal.sources()
    if source is not None and source not in names:
        raise BadRequest(f"no source {source!r} has documents; known: {', '.join(names) or 'none yet'}")
    failed = {(f[0], f[1]): "quarantined" if f[5] else "waiting" for f in journal.failures()}
    return [
        _listed(entry, failed.get((entry.source, entry.key)))
        for name in names
        if source in (None, name)
        for entry in journal.of_source(SourceName(name))
    ]


def _listed(entry: Entry, failed: str | None) -> Listed:
    done = entry.item is not None and entry.done_version == entry.item.version
    state = failed or ("settled" if done else "due")
    return Listed(
        entry.source, entry.key, entry.document_id, entry.collection, len(entry.known),
        state == "settled", state,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Estimate:
    """A plan with what it would take; ``seconds`` is None where no rate is known."""

    plan: Plan
    tokens_per_second: float | None
    seconds: float | None
    changes: tuple[Outlook, ...] = ()
    cost: float = 0.0  # of embedding, where the config has a price
    disk: int = 0  # bytes that the new records take, about
    leaving: tuple[SourceName, ...] = ()  # sources that are configured no more, whose documents are there


def make_plan(config: Config) -> Estimate:
    """Reads the sources; writes nothing, not even a journal where there is none."""
    parts = Parts(config)
    cache = VectorCache(cache_path(config), config.cache_size) if cache_path(config).exists() else None
    with _journal_or_blank(config) as journal:
        recorder = Recorder(cache, parts.embedder_recipe, parts.embedder.dimensions)
        reckoned = Reckoned(cache, parts.tokens.counts)
        expected = outlook(parts, journal)
        sources = [
            source
            for each in expected
            for source in parts.sources(each.serves, each.edition, recorder, reckoned)
        ]
        rebuilt = {each.edition for each in expected if each.another}
        plan = planning.make(journal, sources, recorder, reckoned, parts.tokens.counts, rebuilt)
        rate = journal.get("tokens_per_second")
        kept = sum(journal.record_count(edition.name) for edition in Editions(journal).all())
        leaving = tuple(gone_sources(config, journal))
    if plan.texts and rate is None:
        rate = str(_measure(parts, list(recorder.missing.values())[:SAMPLE]))
    speed = float(rate) if rate else None
    a_record = bytes_a_record(getattr(config.chroma, "path", None), kept, parts.embedder.dimensions)
    return Estimate(
        plan,
        speed,
        plan.tokens / speed if speed else None if plan.tokens else 0.0,
        tuple(each for each in expected if each.decision.changes or each.another),
        rechunk.cost(plan.tokens, config.rechunk),
        plan.records["added"] * a_record,
        leaving,
    )


def _measure(parts: Parts, sample: list[str]) -> float:
    parts.embedder.embed(sample[:2])  # loads the model
    begun = time.monotonic()
    parts.embedder.embed(sample)
    return sum(parts.tokens.counts(sample)) / max(1e-6, time.monotonic() - begun)


@contextmanager
def _journal_or_blank(config: Config) -> Iterator[Journal]:
    if journal_path(config).exists():
        with journal_of(config) as journal:
            yield journal
        return
    journal = Journal.blank()
    try:
        yield journal
    finally:
        journal.close()


@dataclass(slots=True)
class Verification:
    """``unsettled``: documents that sources and journal disagree about; a sync is due, nothing is broken.

    ``unseen``: sources that could not be compared, or not whole, and why.
    """

    checked: int = 0
    missing: int = 0
    orphaned: int = 0
    stale: int = 0
    wrong_metadata: int = 0
    unreachable: int = 0
    unsettled: int = 0
    repaired: bool = False
    broken: dict[str, str] = field(default_factory=dict)
    unseen: dict[str, str] = field(default_factory=dict)
    examples: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return not (self.damaged or self.unsettled or self.unseen)

    @property
    def damaged(self) -> bool:
        """Whether ``--repair`` would help."""
        counts = (self.missing, self.orphaned, self.stale, self.wrong_metadata, self.unreachable)
        return any(counts) or bool(self.broken)


def verified(config: Config, repair: bool) -> Verification:
    """With ``repair`` what is off is written again, then all is looked at once more."""
    if not repair:
        return _verify(config)
    before = _mend(config)
    after = _verify(config)
    after.repaired = not before.clean
    return after


def _verify(config: Config) -> Verification:
    parts, report = Parts(config), Verification()
    with journal_of(config) as journal, collections_of(config, journal) as collections:
        cache = VectorCache(cache_path(config), config.cache_size)
        for edition in _live(journal):
            found = _examine(journal, collections, edition, cache)
            _count(report, edition.serves, found)
        _compare_sources(report, parts, journal)
        cache.close()
    return report


def _live(journal: Journal) -> list[Edition]:
    return [edition for edition in Editions(journal).all() if edition.role == "live"]


def _examine(
    journal: Journal, collections: Collections, edition: Edition, cache: VectorCache
) -> verify.Findings:
    try:
        index = collections.edition(edition)
        if index is None:
            records = journal.record_count(edition.name)
            return verify.Findings(
                broken=f"it does not exist, {records} records are lost" if records else None
            )
        return verify.examine(journal, index, edition.name, cache, Fingerprint(edition.embedder or ""))
    except Torn as error:
        return verify.Findings(broken=str(error))
    except Transient:
        reason = collections.revived()
        if reason is None:
            raise
        return verify.Findings(broken=f"Chroma can't read it: {reason}")


def _count(report: Verification, name: CollectionName, found: verify.Findings) -> None:
    report.checked += found.checked
    for kind in ("missing", "orphaned", "stale", "wrong_metadata", "unreachable"):
        ids = getattr(found, kind)
        setattr(report, kind, getattr(report, kind) + len(ids))
        report.examples += [f"{name}: {kind}: {id_}" for id_ in ids[:5]]
    if found.broken is not None:
        report.broken[name] = found.broken


def _compare_sources(report: Verification, parts: Parts, journal: Journal) -> None:
    for serves in parts.config.collections:
        live = Editions(journal).live(serves)
        made_by = parts.by(unpacked(live.choices) if live.choices else None) or parts
        for source in made_by.sources(serves, live.name, parts.embedder.embed):
            unsettled, trouble = planning.unsettled(journal, source)
            report.unsettled += unsettled
            if trouble is not None:
                report.unseen[source.name] = trouble


def _mend(config: Config) -> Verification:
    """Under the lock: doubt what is off, drop what nobody owns, and let one pass write it again."""
    from ingestor.daemon import Loop

    report = Verification()
    with opened(config, serve=False) as running:
        for edition in _live(running.journal):
            found = _examine(running.journal, running.collections, edition, running.cache)
            _count(report, edition.serves, found)
            if found.broken is not None:
                running.journal.doubt(edition.name)
                running.collections.delete(edition.shown)
            elif not found.clean:
                index = running.collections.edition(edition)
                assert index is not None
                verify.mend(running.journal, index, edition.name, found)
        Loop(running, Wishes(), lambda live: None).sync()
    return report
