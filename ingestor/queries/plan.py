"""The command ``plan``: finds out what a sync would do, and estimates its time, cost and disk space.

The steps of a sync are carried out on a copy of the journal, without models and without Chroma. If a source
has many new documents, only a sample of them is read, and the results are scaled up. Numbers of documents are
scaled by the number of documents, all other figures by listed bytes.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import TypeVar

import numpy as np

from ingestor.app.handover import rehearse, source_renames, sources_not_in_config, sources_to_remove
from ingestor.app.parts import Parts, embedder_recipes_of
from ingestor.config.models import Config
from ingestor.config.servers import Prices
from ingestor.core.completeness import Skipped, SkippedKinds
from ingestor.core.decisions import Scope, after_failure
from ingestor.core.entries import EditionName, Feed
from ingestor.core.errors import describe
from ingestor.core.fingerprint import text_digest
from ingestor.core.listings import Hold, Observe, reconcile
from ingestor.engine.flight import Flight, InFlight
from ingestor.engine.outcomes import action_of, count_records
from ingestor.llm.answers import DryRunAnswers
from ingestor.model import Chunking, Document, Fingerprint, SourceName, Sums, Vectors
from ingestor.pipeline import limits, listing
from ingestor.pipeline.limits import until_readable
from ingestor.pipeline.listing import Source
from ingestor.pipeline.prepare import Job, prepare
from ingestor.ports import Chunker, Embed, NeedsHuman, Remote, Unsupported
from ingestor.queries import needs
from ingestor.queries.access import is_running, journal_of
from ingestor.queries.changes import CollectionChange, outlook
from ingestor.queries.inventory import unusable
from ingestor.queries.needs import Needs
from ingestor.queries.status import DocumentCounts, RecordCounts
from ingestor.rechunk import policy
from ingestor.registry import find
from ingestor.state.backlog import predecessor
from ingestor.state.cache import Parses, VectorCache
from ingestor.state.editions import Editions
from ingestor.state.files import cache_path
from ingestor.state.journal import Journal, fact
from ingestor.state.reports import count_records_of, list_due, list_without_records, measure_gone
from ingestor.state.sources import LastListing, SourceRows

T = TypeVar("T")

# Texts that are embedded to measure the rate if none is known. With fewer, the start weighs too much.
MEASURED = 64
MOVING = ("added", "changed", "rebuilt", "removed")  # kinds of actions that change a collection's statistic


@dataclass(frozen=True, slots=True)
class EmbeddingPlan:
    """The texts and tokens that a sync would embed, without those in the cache.

    ``exact``: False for an estimate.
    """

    texts: int
    tokens: int
    exact: bool


@dataclass(frozen=True, slots=True)
class AskingPlan:
    """An estimate of the requests to language models, without cached answers.

    ``cost``: the price of the prompts.
    """

    calls: int
    prompt_tokens: int
    cost: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncPlan:
    """The effects, time, cost and disk space of a sync. The fields are keys of ``ingestor plan --json``."""

    documents: DocumentCounts
    records: RecordCounts
    cuts_known: bool  # False: the counts of records are estimates
    embed: EmbeddingPlan
    ask: AskingPlan
    sources: Mapping[str, DocumentCounts]  # by source that could be listed
    changes: tuple[CollectionChange, ...]
    leaving: tuple[str, ...]  # sources that left the config and whose documents stay
    renamed: Mapping[str, str]  # new names of sources by old ones
    cost: float  # price of embedding, if the config has one
    needs: Needs  # estimated needs of the new records
    sampled: Mapping[str, tuple[int, int]]  # by source: documents read, and due
    tokens_per_second: float | None
    seconds: float | None  # duration of embedding; None if no rate is known
    problems: tuple[tuple[str, str], ...]  # document or source, with the reason
    skipped: tuple[Skipped, ...]
    unseen: Mapping[str, str]  # sources without a complete listing, and why
    unusable: Mapping[str, str]  # collections that cannot be written, and why
    running: bool  # whether a daemon or a sync runs
    follows: str | None = None  # config file of the running program, if it is another one
    restart: tuple[str, ...] = ()  # changed keys that need a restart, before which no key takes effect

    @property
    def complete(self) -> bool:
        """Return whether the plan is complete: all sources and collections were examined, and no document
        failed."""
        return not (self.unseen or self.unusable or self.documents.failed)


class Recorder:
    """A stand-in for the embedder: it returns cached vectors, and records which texts would be embedded.

    For a text without a cached vector it returns a vector by ``guess``. The guess must depend on the text,
    because a semantic chunker never cuts between equal vectors. ``blind``: whether the current document got a
    guessed vector. ``guessed``: whether a document requested further texts after a guessed vector. With the
    true vector it might request others.
    """

    def __init__(self, cache: VectorCache | None, recipe: Fingerprint, dimensions: int, guess: Embed) -> None:
        self._cache, self._recipe, self._dimensions, self._guess = cache, recipe, dimensions, guess
        self.missing: dict[str, str] = {}  # text by digest
        self.blind = self.guessed = False

    def __call__(self, texts: Sequence[str]) -> Vectors:
        digests = [text_digest(text) for text in texts]
        known = self._cache.get(self._recipe, digests) if self._cache is not None else {}
        missing = {str(d): text for d, text in zip(digests, texts, strict=True) if d not in known}
        self.missing.update(missing)
        self.guessed |= self.blind and bool(texts)
        self.blind |= bool(missing)
        guesses = dict(zip(missing, self._guess(list(missing.values())), strict=True)) if missing else {}
        vectors = [known[d] if d in known else guesses[str(d)] for d in digests]
        return np.array(vectors, np.float32).reshape(-1, self._dimensions)


class WatchedChunker:
    """A chunker that notes whether its chunks depend on guessed vectors.

    ``blind``: whether they do for any document so far. ``encoded``: whether the texts of chunks are embedded
    afterwards. They are not if the chunker itself returns the chunks' vectors.
    """

    def __init__(self, chunker: Chunker, recorder: Recorder) -> None:
        self._chunker, self._recorder = chunker, recorder
        self.blind = self.encoded = False

    def chunk(self, document: Document, embed: Embed, others: Sums | None) -> Chunking:
        self._recorder.blind = False
        made = self._chunker.chunk(document, embed, others)
        self.blind |= self._recorder.blind
        self.encoded |= made.vectors is None
        return made


@dataclass(frozen=True, slots=True)
class Sampling:
    """Number of documents that a plan reads of a source.

    It reads ``documents`` of a source that has more than ``above`` due ones, and all of any other source.
    """

    documents: int = 2_000
    above: int = 20_000

    def places(self, due: int) -> Sequence[int]:
        """Return the positions in the queue of the documents to read. They are the same at each run.

        ``due``: how many documents are due.
        """
        if due <= max(self.above, self.documents):
            return range(due)
        return sorted(np.random.default_rng(0).choice(due, self.documents, replace=False).tolist())


@dataclass(slots=True)
class Figures:
    """Numbers of documents and records by kind of action, with amounts of work.

    ``texts``, ``tokens``: to embed. ``calls``, ``prompt_tokens``, ``cost``: requests to language models.
    ``text``, ``metadata``: bytes of the added records. ``seconds``: time to read and chunk the documents, one
    after the other.
    """

    documents: Counter[str] = field(default_factory=Counter)
    records: Counter[str] = field(default_factory=Counter)
    texts: float = 0
    tokens: float = 0
    calls: float = 0
    prompt_tokens: float = 0
    cost: float = 0
    text: float = 0
    metadata: float = 0
    seconds: float = 0

    def add(self, other: "Figures", of_documents: float = 1.0, of_bytes: float = 1.0) -> None:
        """Add other figures to these. If they are those of a sample, factors scale them up.

        ``of_documents``: factor for numbers of documents. ``of_bytes``: factor for everything else.
        """
        self.documents.update({kind: round(n * of_documents) for kind, n in other.documents.items()})
        self.records.update({kind: round(n * of_bytes) for kind, n in other.records.items()})
        for name in ("texts", "tokens", "calls", "prompt_tokens", "cost", "text", "metadata", "seconds"):
            setattr(self, name, getattr(self, name) + getattr(other, name) * of_bytes)


@dataclass(slots=True)
class Rehearsal:
    """A sync of all sources on a copy of the journal, without models and Chroma.

    ``run`` computes the fields after ``reduced``. ``journal``: the copy, which is changed. Sources must embed
    by ``recorder``, and ask language models by ``dry_run``. ``replaced``: by live edition, the edition that
    is built to replace it. ``note``: called with the progress in words. ``reduced``: live editions from which
    documents are only removed.

    ``cuts_known``: False if chunks depend on vectors or answers that are not cached, or on a statistic of the
    collection, which every change moves. ``exact``: whether the texts to embed are known exactly. It may be
    True even then, because these texts may be pieces of documents and not chunks.
    """

    journal: Journal
    recorder: Recorder
    dry_run: DryRunAnswers
    count_tokens: Callable[[Sequence[str]], list[int]]
    replaced: Mapping[EditionName, EditionName] = field(default_factory=dict)
    sample: Sampling = Sampling()
    note: Callable[[str], None] = lambda progress: None
    reduced: Collection[EditionName] = ()

    by_source: dict[str, Figures] = field(default_factory=dict)
    total: Figures = field(default_factory=Figures)
    cuts_known: bool = True
    exact: bool = True
    problems: list[tuple[str, str]] = field(default_factory=list)  # (document or source, reason)
    unseen: dict[str, str] = field(default_factory=dict)  # sources that could not be listed whole, and why
    skipped: SkippedKinds = field(default_factory=SkippedKinds)
    sampled: dict[str, tuple[int, int]] = field(default_factory=dict)  # by source: documents read, and due
    until: float = 0.0  # monotonic seconds until which reading of files that are being written is retried

    def run(self, sources: Sequence[Source], going: Sequence[SourceName] = ()) -> None:
        """Carry out the steps of a sync on the copy. ``going``: sources whose documents are to be removed."""
        self.until = time.monotonic() + limits.PATIENCE
        beside = [
            replace(source, edition=self.replaced[source.edition], only_loses=True)
            for source in sources
            if source.edition in self.replaced
        ]
        listing.store_feeds(self.journal, [*sources, *beside], going)
        # All are listed before one is read, and all are read before removals are counted: a document that
        # moved to another source is neither new nor gone.
        listed = [(source, n) for source in sources if (n := self._try(self._list, source)) is not None]
        read = [(source, chunker) for source, n in listed if (chunker := self._try(self._read, source, n))]
        for source, chunker in read:
            if source.edition not in self.replaced:
                self._remove(source.name)
            documents = self.by_source[source.name].documents
            moved = source.tools.statistic is not None and any(documents[kind] for kind in MOVING)
            self.cuts_known &= not (chunker.blind or moved)
            self.exact &= not (moved and chunker.encoded)
        for name in going:
            self._remove(name)
        for figures in self.by_source.values():
            self.total.add(figures)
        self.cuts_known &= not (self.total.calls or self.sampled)
        self.exact &= not (self.total.calls or self.sampled or self.recorder.guessed)

    def _try(self, step: Callable[..., T], source: Source, *more: int) -> T | None:
        """Take a step, and return its result.

        Store an error in ``unseen`` and return None, so that the other sources are still planned.
        """
        try:
            return step(source, *more)
        except Exception as error:  # noqa: BLE001 - also a defect of a connector
            self.unseen[source.name] = describe(error)
            return None

    def _list(self, source: Source) -> int | None:
        """List a source and apply the listing to the copy of the journal.

        Return the number of its documents. Return None if a sync would not apply the listing.
        """
        row = SourceRows(self.journal).of(source.name)
        if row.paused is not None:
            self.problems.append((source.name, "paused"))
            return None
        self.note(f"{source.name}: listing")
        old = self.replaced.get(source.edition)
        feeds = [source.feed] if old is None else [Feed(source.name, old), source.feed]
        scan = listing.take(source, Scope(), [LastListing(self.journal, feed) for feed in feeds])
        losing, own = [feed.edition in self.reduced for feed in feeds], len(feeds) - 1
        actions = reconcile(scan, row, row, source.max_loss, losing)
        if scan.trouble is not None:
            self.unseen[source.name] = scan.trouble
        if isinstance(actions[0], Hold):
            reason = f"{actions[0].reason}: a sync would remove nothing until `ingestor accept {source.name}`"
            self.unseen[source.name] = reason
            return None
        mine = [each for each in actions if isinstance(each, Observe) and each.edition == own]
        listing.observe(self.journal, source, mine)
        return scan.changes[own].listed

    def _read(self, source: Source, listed: int) -> WatchedChunker:
        """Prepare the due documents of a source, or a sample of them. ``listed``: number of its documents.

        Return its chunker, which knows on which vectors the chunks depend.
        """
        chunker = WatchedChunker(source.tools.chunker, self.recorder)
        tools = replace(source.tools, chunker=chunker)
        read, size, asked, rows = Figures(), 0, self.dry_run, list_due(self.journal, source.feed)
        due, due_bytes = len(rows), sum(listed_bytes for _, listed_bytes in rows)
        places = self.sample.places(due)
        begun, known = time.monotonic(), len(self.recorder.missing)
        before = asked.calls, asked.prompt_tokens, asked.cost
        for number, place in enumerate(places):
            [entry] = self.journal.of_rows([rows[place][0]])
            self.note(f"{source.name}: {number:,} of {len(places):,} read")
            size += entry.size
            statistic = source.tools.statistic
            document = InFlight(entry, statistic=statistic)
            others = None if statistic is None else Flight().sums_of_others(self.journal, document)
            job, find_former = Job(entry, others), partial(predecessor, self.journal, source.is_moved)
            try:
                prepared = until_readable(partial(prepare, job, tools, find_former), self.until)
            except NeedsHuman:
                raise
            except Exception as error:  # noqa: BLE001 - the engine's rule decides what it means
                failure = after_failure(error, 0, 0.0, 0.0, "")
                if isinstance(error, Unsupported):
                    read.documents["unsupported"] += 1
                    self.skipped.add(source.name, entry.key, failure.reason)
                else:
                    read.documents["quarantined" if failure.quarantined else "failed"] += 1
                    self.problems.append((entry.key, failure.reason))
                continue
            if prepared.intent.renamed is not None:  # so that no other document reuses these records, too
                self.journal.intend([prepared.intent])
                self.journal.settle([prepared.receipt])
            read.documents[action_of(prepared, building=source.edition in self.replaced)] += 1
            read.records.update(count_records(prepared))
            share = prepared.added / max(1, len(prepared.records))
            read.text += share * sum(len(one.text.encode()) for one in prepared.records)
            read.metadata += share * sum(len(json.dumps(dict(one.metadata))) for one in prepared.records)
        read.seconds = time.monotonic() - begun
        texts = [*islice(self.recorder.missing.values(), known, None)]
        read.texts, read.tokens = len(texts), sum(self.count_tokens(texts))
        read.calls, read.prompt_tokens = asked.calls - before[0], asked.prompt_tokens - before[1]
        read.cost = asked.cost - before[2]
        whole, scale = Figures(), 1.0
        if len(places) < due:
            self.sampled[source.name] = len(places), due
            scale = due / len(places)
        whole.add(read, scale, due_bytes / size if scale > 1 and size else scale)
        for key, state, reason in list_without_records(self.journal, source.feed):
            whole.documents[state] += 1
            if state == "unsupported":
                self.skipped.add(source.name, key, reason)
        del whole.documents["unchanged"]  # of those that were read
        whole.documents["unchanged"] = listed - whole.documents.total()
        self.by_source[source.name] = whole
        return chunker

    def _remove(self, name: SourceName) -> None:
        """Count the documents of a source that vanished and were not recognised under another name."""
        figures = self.by_source.setdefault(name, Figures())
        figures.documents["removed"], dropped = measure_gone(self.journal, name)
        figures.records["dropped"] += dropped


def make_plan(config: Config, sample: Sampling, note: Callable[[str], None]) -> SyncPlan:
    """Find out what a sync would do. Only reads sources, journal and Chroma; not even a journal is created.

    ``note``: called with the progress in words.
    """
    cache = VectorCache(cache_path(config), config.cache_size) if cache_path(config).exists() else None
    opened = closing(cache) if cache is not None else nullcontext()
    with opened, journal_of(config, or_blank=True) as now, rehearse(config, now) as journal:
        parts = Parts(config, embedder_recipes_of(now))
        width, server = parts.embedder.dimensions, isinstance(parts.embedder, Remote) and parts.embedder
        count = server.count if server else parts.tokens.counts
        recorder = Recorder(cache, parts.embedder_recipe, width, look_alikes(width))
        dry_run = DryRunAnswers(cache, parts.tokens.counts)
        memory = None if cache is None else Parses(cache, learns=False)
        expected, live = outlook(parts, journal), Editions(journal).live
        sources = [
            source
            for edition, change in expected.items()
            for source in parts.sources(change.collection, edition, recorder, answers=dry_run, memory=memory)
        ]
        before = {edition: live(change.collection) for edition, change in expected.items() if change.swap}
        replaced = {name: each.name for name, each in before.items()}
        reduced = {each.name for each in before.values() if parts.by(each.choices) is None}
        records = sum(count_records_of(journal, name) for name in expected)  # in the editions to be written
        # in live editions, which stay loaded
        beside = sum(count_records_of(journal, name) for name in replaced.values())
        sick, going = unusable(config, journal), sources_to_remove(config, journal)
        rehearsal = Rehearsal(journal, recorder, dry_run, count, replaced, sample, note, reduced)
        rehearsal.run(sources, going)
        staying = tuple(name for name in sources_not_in_config(config, journal) if name not in going)
        renames, rate = source_renames(config, now), fact(journal, "tokens_per_second")
    total, tokens = rehearsal.total, round(rehearsal.total.tokens)
    # The rate of an embedding server is not measured, since that may cost money.
    if rate is None and not server and total.texts >= MEASURED:
        measured = list(recorder.missing.values())[:MEASURED]
        parts.embedder.embed(measured[:2])  # loads the model
        begun = time.monotonic()
        parts.embedder.embed(measured)
        rate = str(sum(parts.tokens.counts(measured)) / max(1e-6, time.monotonic() - begun))
    speed = float(rate) if rate else None
    seconds = tokens / speed if speed else None if tokens else 0.0
    added, text = total.records["added"], round(total.text)
    prices = getattr(config.chroma, "prices", Prices())
    gibibytes = (text + total.metadata + 4 * width * added) / 2**30  # of the new records, as they are sent
    return SyncPlan(
        documents=DocumentCounts(**total.documents),
        records=RecordCounts(**total.records),
        cuts_known=rehearsal.cuts_known,
        embed=EmbeddingPlan(round(total.texts), tokens, rehearsal.exact),
        ask=AskingPlan(round(total.calls), round(total.prompt_tokens), round(total.cost, 6)),
        sources={name: DocumentCounts(**each.documents) for name, each in rehearsal.by_source.items()},
        changes=tuple(one for one in expected.values() if one.changes or one.swap or one.metadata),
        leaving=staying,
        renamed={str(old): str(new) for old, new in renames.items()},
        cost=policy.cost(tokens, config.rechunk),
        needs=Needs(
            disk=needs.disk(added, text, round(total.texts), width),
            memory=needs.memory(beside + max(0, records + added - total.records["dropped"]), width),
            read_seconds=total.seconds,
            write_seconds=needs.write_seconds(added, records),
            written=gibibytes * prices.written,
            stored=gibibytes * prices.stored,
        ),
        sampled=rehearsal.sampled,
        tokens_per_second=speed,
        seconds=seconds,
        problems=tuple(rehearsal.problems),
        skipped=tuple(rehearsal.skipped.by_frequency()),
        unseen=rehearsal.unseen,
        unusable=sick,
        running=is_running(config),
    )


def look_alikes(dimensions: int) -> Embed:
    """Return a function that embeds texts by hashing their words, in place of a model.

    Texts with common words get similar vectors. So semantic chunkers make about as many chunks as with the
    model: docs/commands.md has the figures for all-MiniLM-L6-v2.
    """
    plugin = find("embedders", "hashing")
    # A model may have more dimensions than the option allows.
    embed: Embed = plugin.build(plugin.options.model_construct(dimensions=dimensions)).embed
    return embed
