"""The rehearsal of a sync: its actions are carried out in a copy of the journal, without models and Chroma.

A source with many new documents gives a sample, and its figures are scaled: documents by their number,
all else by the bytes that the source lists.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from time import monotonic

import numpy as np

from ingestor.core.completeness import SkippedKinds
from ingestor.core.decisions import Scope, after_failure
from ingestor.core.entries import EditionName, Entry
from ingestor.core.error_text import describe
from ingestor.core.fingerprint import text_digest
from ingestor.core.reconcile import Hold, observations, reconcile
from ingestor.model import Chunking, Document, Fingerprint, SourceName, Sums, Vectors
from ingestor.pipeline import limits, listing
from ingestor.pipeline.actions import records_of, write_of
from ingestor.pipeline.answers import DryRunAnswers
from ingestor.pipeline.limits import until_readable
from ingestor.pipeline.listing import Source
from ingestor.pipeline.prepare import Job, Prepared, prepare
from ingestor.ports import Chunker, Embed, NeedsHuman, Transient, Unsupported
from ingestor.state.cache import VectorCache
from ingestor.state.journal import Journal
from ingestor.state.listings import LastListing
from ingestor.state.queries.backlog import predecessor
from ingestor.state.queries.reports import Unsettled
from ingestor.state.sources import SourceRows

MOVING = ("added", "changed", "rebuilt", "removed")  # kinds that change a collection's statistic
_EXAMPLES = 5  # documents of a source that ``verify`` names


class Recorder:
    """Replaces the embedder: returns cached vectors, and notes the texts that would be embedded.

    For other texts it returns the vectors of ``guess``, which must differ as the texts do: equal vectors
    would give no cuts. ``blind``: the current document got a guessed vector. ``guessed``: another text was
    requested after that, and might differ with the true vector.
    """

    def __init__(self, cache: VectorCache | None, recipe: Fingerprint, dimensions: int, guess: Embed) -> None:
        self._cache, self._recipe, self._dimensions, self._guess = cache, recipe, dimensions, guess
        self.missing: dict[str, str] = {}  # text by digest
        self.blind = self.guessed = False

    def __call__(self, texts: Sequence[str]) -> Vectors:
        if not texts:
            return np.zeros((0, self._dimensions), np.float32)
        digests = [text_digest(text) for text in texts]
        known = self._cache.get(self._recipe, digests) if self._cache is not None else {}
        missing = {str(d): text for d, text in zip(digests, texts, strict=True) if d not in known}
        self.missing.update(missing)
        self.guessed |= self.blind
        self.blind |= bool(missing)
        guesses = dict(zip(missing, self._guess(list(missing.values())), strict=True)) if missing else {}
        vectors = [known[d] if d in known else guesses[str(d)] for d in digests]
        return np.array(vectors, np.float32).reshape(-1, self._dimensions)


class WatchedChunker:
    """A chunker that records what its chunks depend on."""

    def __init__(self, chunker: Chunker, recorder: Recorder) -> None:
        self._chunker, self._recorder = chunker, recorder
        self.blind = False  # some document was cut by guessed vectors
        self.encoded = False  # the texts of some document's chunks are embedded

    def chunk(self, document: Document, embed: Embed, others: Sums | None) -> Chunking:
        self._recorder.blind = False
        made = self._chunker.chunk(document, embed, others)
        self.blind |= self._recorder.blind
        self.encoded |= made.vectors is None
        return made


@dataclass(frozen=True, slots=True)
class Sampling:
    """Bounds of a sample: ``documents`` are read of a source that has more than ``above``."""

    documents: int = 2_000
    above: int = 20_000

    def places(self, due: int) -> Collection[int]:
        """Return the places of the documents to read, the same ones at each run."""
        if due <= max(self.above, self.documents):
            return range(due)
        return frozenset(np.random.default_rng(0).choice(due, self.documents, replace=False).tolist())


@dataclass(slots=True)
class Plan:
    """Counts of a rehearsal.

    ``texts``, ``tokens``: not in the cache, so the model would embed them. ``asks``: requests to language
    models that are not in the cache; ``prompt_tokens``, ``cost``: of their prompts.

    ``cuts_known`` is False, and ``records`` an estimate, if a strategy cuts by vectors or answers that are
    not cached, or by a statistic of the collection, which every change moves. ``texts`` and ``tokens`` are
    still ``exact`` if only the texts that the strategy compares are embedded.
    """

    documents: Counter[str] = field(default_factory=Counter)
    records: Counter[str] = field(default_factory=Counter)
    texts: int = 0
    tokens: int = 0
    asks: int = 0
    prompt_tokens: int = 0
    cost: float = 0.0
    exact: bool = True
    cuts_known: bool = True
    added_text: int = 0  # bytes of the added records' texts
    added_metadata: int = 0  # and of their metadata, as JSON
    problems: list[tuple[str, str]] = field(default_factory=list)  # (document or source, reason)
    unseen: dict[str, str] = field(default_factory=dict)  # sources that could not be listed whole, and why
    sources: dict[str, Counter[str]] = field(default_factory=dict)
    skipped: SkippedKinds = field(default_factory=SkippedKinds)  # of the documents that were read
    seconds: float = 0.0  # in which documents were read and cut, one after the other
    sampled: dict[str, tuple[int, int]] = field(default_factory=dict)  # by source: documents read, and due

    def scale(self, of_documents: float, of_bytes: float) -> None:
        """Multiply the figures of a sample."""
        self.documents = Counter({kind: round(n * of_documents) for kind, n in self.documents.items()})
        self.records = Counter({kind: round(n * of_bytes) for kind, n in self.records.items()})
        for name in _SUMS:
            setattr(self, name, getattr(self, name) * of_bytes)
        for name in _WHOLE:
            setattr(self, name, round(getattr(self, name)))

    def add(self, read: "Plan") -> None:
        """Add the figures of a source."""
        self.documents.update(read.documents)
        self.records.update(read.records)
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(read, name))

    def add_writes(self, prepared: Prepared, *, building: bool) -> None:
        """Add the action that writes a prepared document."""
        action = write_of(prepared, building=building)
        self.documents[action.kind] += 1
        self.records.update(records_of(action))
        share = action.added / max(1, len(prepared.records))
        self.added_text += int(share * sum(len(record.text.encode()) for record in prepared.records))
        metadata = (len(json.dumps(dict(record.metadata))) for record in prepared.records)
        self.added_metadata += int(share * sum(metadata))

    @contextmanager
    def noting(self, source: Source) -> Iterator[None]:
        """Note an error of a source: a defect of one must not hide the others."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - see above
            self.unseen[source.name] = unlisted(error)


_WHOLE = ("texts", "tokens", "asks", "prompt_tokens", "added_text", "added_metadata")
_SUMS = (*_WHOLE, "cost", "seconds")


def silently(what: str) -> None:
    """Report nothing of how far a plan is."""
    del what


@dataclass(slots=True)
class Rehearsal:
    """A sync of all sources, without models and Chroma.

    ``journal``: a copy, which is written. Sources must embed through ``recorder``, and ask through
    ``dry_run``. ``replaced``: live editions by the ones in building. ``sample``: None to read all documents.
    ``say``: called before each listing and document with a progress.
    """

    journal: Journal
    recorder: Recorder
    dry_run: DryRunAnswers
    count_tokens: Callable[[Sequence[str]], list[int]]
    replaced: Mapping[EditionName, EditionName] = field(default_factory=dict)
    sample: Sampling | None = None
    say: Callable[[str], None] = silently
    until: float = field(default_factory=lambda: monotonic() + limits.PATIENCE)  # for files being written

    def plan(self, sources: Sequence[Source], leaving: Sequence[SourceName] = ()) -> Plan:
        """Plan a sync. ``leaving``: sources whose documents are removed."""
        plan, listed = Plan(), list[tuple[Source, int, WatchedChunker]]()
        beside = [
            replace(source, collection=self.replaced[source.collection], only_loses=True)
            for source in sources
            if source.collection in self.replaced
        ]
        listing.want(self.journal, [*sources, *beside], leaving)
        for source in sources:
            row = SourceRows(self.journal).of(source.name)
            if row.paused is not None:
                plan.problems.append((source.name, "paused"))
                continue
            with plan.noting(source):
                self.say(f"{source.name}: listing")
                found = listing.take(source, Scope(), [LastListing(self.journal, source.feed)])
                actions = reconcile(found, row, row, source.max_loss)
                if found.trouble is not None:
                    plan.unseen[source.name] = found.trouble
                if isinstance(actions[0], Hold):
                    plan.unseen[source.name] = f"{actions[0].reason}: a sync would remove nothing, and ask"
                    continue
                listing.observe(self.journal, source, actions)
                watched = WatchedChunker(source.tools.chunker, self.recorder)
                listed.append((source, found.changes[0].listed, watched))
        for source, number, watched in listed:
            with plan.noting(source):
                self._read(plan, source, number, watched)
        for source, _, watched in listed:
            if (counts := plan.sources.get(source.name)) is None:
                continue
            if source.collection not in self.replaced:
                self._remove(plan, source.name)
            moved = source.tools.statistic is not None and any(counts[kind] for kind in MOVING)
            plan.cuts_known &= not (watched.blind or moved)
            plan.exact &= not (moved and watched.encoded)
        for name in leaving:
            self._remove(plan, name)
        plan.cuts_known &= not (plan.asks or plan.sampled)
        plan.exact &= not (plan.asks or plan.sampled or self.recorder.guessed)
        return plan

    def _read(self, plan: Plan, source: Source, listed: int, watched: WatchedChunker) -> None:
        """Prepare the due documents of a source, or a sample, and add its figures to the plan."""
        unsettled, read, size = Unsettled(self.journal), Plan(), 0
        due, due_bytes = unsettled.due(source.feed)
        places = range(due) if self.sample is None else self.sample.places(due)
        find = partial(predecessor, self.journal, source.is_moved)
        tools = replace(source.tools, chunker=watched)
        asked, begun = self.dry_run, monotonic()
        before = len(self.recorder.missing), asked.calls, asked.prompt_tokens, asked.cost
        for number, entry in enumerate(unsettled.due_at(source.feed, places)):
            self.say(f"{source.name}: {number:,} of {len(places):,} read")
            size += (entry.item.size or 0) if entry.item is not None else 0
            job = Job(entry, _others(self.journal, entry, source.tools.statistic))
            try:
                prepared = until_readable(partial(prepare, job, tools, find), self.until)
            except NeedsHuman:
                raise
            except Exception as error:  # noqa: BLE001 - what the engine makes of it decides
                failure = after_failure(error, 0, 0.0, 0.0, "")
                if isinstance(error, Unsupported):
                    read.documents["unsupported"] += 1
                    plan.skipped.add(source.name, entry.key, failure.reason)
                else:
                    read.documents["quarantined" if failure.quarantined else "failed"] += 1
                    plan.problems.append((entry.key, failure.reason))
                continue
            if prepared.intent.predecessor is not None:  # no other document may take its records over
                self.journal.intend([prepared.intent])
                self.journal.settle([prepared.receipt], [prepared.receipt.recipe])
            read.add_writes(prepared, building=source.collection in self.replaced)
        read.seconds = monotonic() - begun
        texts = len(self.recorder.missing) - before[0]
        read.asks = asked.calls - before[1]
        read.prompt_tokens, read.cost = asked.prompt_tokens - before[2], asked.cost - before[3]
        new_texts = [*islice(reversed(self.recorder.missing.values()), texts)]
        read.texts, read.tokens = len(new_texts), sum(self.count_tokens(new_texts))
        if len(places) < due:
            plan.sampled[source.name] = len(places), due
            of_documents = due / len(places)
            read.scale(of_documents, due_bytes / size if size else of_documents)
        for key, state, reason in unsettled.set_aside(source.feed):
            read.documents[state] += 1
            if state == "unsupported":
                plan.skipped.add(source.name, key, reason)
        read.documents["unchanged"] = listed - sum(
            number for kind, number in read.documents.items() if kind != "unchanged"
        )
        plan.sources[source.name] = read.documents
        plan.add(read)

    def _remove(self, plan: Plan, name: SourceName) -> None:
        """Add the removal of the documents that no new one was found to be."""
        documents, records = Unsettled(self.journal).gone(name)
        plan.sources.setdefault(name, Counter())["removed"] = documents
        plan.documents["removed"] += documents
        plan.records["dropped"] += records


def _others(journal: Journal, entry: Entry, statistic: str | None) -> Sums | None:
    """Return the collection's sums without this document, as the engine gives them to the chunker."""
    total = None if statistic is None else journal.total(entry.collection, statistic)
    if total is None or entry.sums is None or entry.statistic != statistic:
        return total
    return total - entry.sums


def unlisted(error: Exception) -> str:
    """Return why a source could not be listed, with the type of an unexpected error."""
    expected = isinstance(error, (NeedsHuman, Transient, OSError))
    return describe(error) if expected else f"{type(error).__name__}: {error}"


@dataclass(frozen=True, slots=True)
class SourceDifference:
    """Differences between a source and the journal. ``trouble``: why the listing is incomplete, if so."""

    documents: int = 0
    examples: tuple[str, ...] = ()  # the first documents, with the reason of those that failed
    trouble: str | None = None


def difference(journal: Journal, source: Source) -> SourceDifference:
    """Return the documents that a sync would change or retry. ``journal``: a copy, which is written."""
    try:
        found = listing.take(source, Scope(), [LastListing(journal, source.feed)])
    except Exception as error:  # noqa: BLE001 - a defect of one source must not hide the others
        return SourceDifference(trouble=unlisted(error))
    listing.want(journal, [source])
    listing.observe(journal, source, observations(found))
    unsettled = Unsettled(journal)
    (due, _), (gone, _) = unsettled.due(source.feed), unsettled.gone(source.name)
    return SourceDifference(due + gone, tuple(unsettled.examples(source.feed, _EXAMPLES)), found.trouble)
