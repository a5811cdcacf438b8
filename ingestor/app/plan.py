"""The plan of a sync: every step is taken but embedding and writing.

A source with many new documents gives a sample, and its figures are scaled: documents by their number,
all else by the bytes that the source lists.
"""

import json
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Container, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from time import monotonic

import numpy as np

from ingestor.core.completeness import SkippedKinds
from ingestor.core.decisions import Scope, after_failure, sudden_loss
from ingestor.core.document_state import State
from ingestor.core.entries import EditionName, Entry
from ingestor.core.error_text import describe
from ingestor.core.fingerprint import text_digest
from ingestor.core.listings.key_set import KeySet
from ingestor.core.listings.pages import pages
from ingestor.model import Chunking, Document, DocumentId, Fingerprint, Item, SourceName, Sums, Vectors
from ingestor.pipeline import limits, listing
from ingestor.pipeline.actions import WriteDocument, records_of, removal_of, write_of
from ingestor.pipeline.answers import DryRunAnswers
from ingestor.pipeline.limits import until_readable
from ingestor.pipeline.listing import Listing, Source
from ingestor.pipeline.prepare import Job, Prepared, Tools, prepare
from ingestor.ports import BadDocument, Chunker, Embed, NeedsHuman, Transient, Unsupported
from ingestor.state.cache import VectorCache
from ingestor.state.journal import Journal
from ingestor.state.listings import LastListing
from ingestor.state.queries.reports import Unsettled
from ingestor.state.sources import SourceRows

MOVING = ("added", "changed", "rebuilt", "removed")  # kinds that change a collection's statistic
_PAGE = 500  # entries that are read at once
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
        found = self._cache.get(self._recipe, digests) if self._cache is not None else {}
        missing = {str(d): text for d, text in zip(digests, texts, strict=True) if d not in found}
        self.missing.update(missing)
        self.guessed |= self.blind
        self.blind |= bool(missing)
        guesses = dict(zip(missing, self._guess(list(missing.values())), strict=True)) if missing else {}
        vectors = [found[d] if d in found else guesses[str(d)] for d in digests]
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


@dataclass(slots=True)
class Plan:
    """Counts of a dry run.

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


_WHOLE = ("texts", "tokens", "asks", "prompt_tokens", "added_text", "added_metadata")
_SUMS = (*_WHOLE, "cost", "seconds")


def silently(what: str) -> None:
    """Report nothing of how far a plan is."""
    del what


@dataclass(slots=True)
class DryRun:
    """A plan of all sources. Reads only.

    Sources must embed through ``recorder`` and ask through ``dry_run``. ``rebuilt``: editions in building.
    ``sample``: None to read all documents. ``say``: called before each listing and document with a progress.
    """

    journal: Journal
    recorder: Recorder
    dry_run: DryRunAnswers
    count_tokens: Callable[[Sequence[str]], list[int]]
    rebuilt: Container[EditionName] = ()
    sample: Sampling | None = None
    say: Callable[[str], None] = silently
    until: float = field(default_factory=lambda: monotonic() + limits.PATIENCE)  # for files being written

    def plan(self, sources: Sequence[Source]) -> Plan:
        plan = Plan()
        for source in sources:
            if SourceRows(self.journal).of(source.name).paused is not None:
                plan.problems.append((source.name, "paused"))
                continue
            watched = WatchedChunker(source.tools.chunker, self.recorder)
            try:
                counts = self._plan_source(plan, source, replace(source.tools, chunker=watched))
            except Exception as error:  # noqa: BLE001 - a defect of one source must not hide the others
                plan.unseen[source.name] = _unlisted(error)
                continue
            moved = source.tools.statistic is not None and any(counts[kind] for kind in MOVING)
            plan.cuts_known &= not (watched.blind or moved)
            plan.exact &= not (moved and watched.encoded)
        plan.cuts_known &= not (plan.asks or plan.sampled)
        plan.exact &= not (plan.asks or plan.sampled or self.recorder.guessed)
        return plan

    def _plan_source(self, plan: Plan, source: Source, tools: Tools) -> Counter[str]:
        """Add a source to the plan. Return its documents by kind."""
        journal, rebuilt = self.journal, source.collection in self.rebuilt
        self.say(f"{source.name}: listing")
        found = listing.take(source, Scope(), [LastListing(journal, source.feed)])
        if found.trouble is not None:
            plan.unseen[source.name] = found.trouble
        if (loss := _sudden_loss(journal, source, found)) is not None:
            plan.unseen[source.name] = f"{loss}: a sync would remove nothing, and ask"
            return Counter()
        vanished = {} if rebuilt else {entry.key: entry for entry in _leaving(journal, source, found)}
        adopted: set[int] = set()
        alike: defaultdict[tuple[str, str | None], list[Entry]] = defaultdict(list)
        for entry in vanished.values():
            alike[entry.collection, entry.digest].append(entry)

        def predecessor(new: Entry, digest: str) -> Entry | None:
            return next((e for e in alike[new.collection, digest] if e.row not in adopted), None)

        due, read, size = DueDocuments(journal, source, found), Plan(), 0
        places = _places(len(due), self.sample)
        preparing = partial(prepare, tools=tools, predecessor=predecessor)
        texts, asked = len(self.recorder.missing), (self.dry_run.calls, self.dry_run.prompt_tokens)
        cost = self.dry_run.cost
        begun = monotonic()
        for number, entry in enumerate(due.at(places)):
            self.say(f"{source.name}: {number:,} of {len(places):,} read")
            size += entry.item.size or 0 if entry.item is not None else 0
            prepared = self._prepared(plan, read, source, entry, preparing)
            if prepared is not None:
                adopted.add(prepared.receipt.row)
                _add_writes(read, prepared, write_of(prepared, building=rebuilt))
        read.seconds = monotonic() - begun
        new_texts = [*islice(reversed(self.recorder.missing.values()), len(self.recorder.missing) - texts)]
        read.texts, read.tokens = len(new_texts), sum(self.count_tokens(new_texts))
        read.asks, read.prompt_tokens = self.dry_run.calls - asked[0], self.dry_run.prompt_tokens - asked[1]
        read.cost = self.dry_run.cost - cost
        if len(places) < len(due):
            plan.sampled[source.name] = len(places), len(due)
            of_documents = len(due) / len(places)
            read.scale(of_documents, due.size / size if size else of_documents)

        for key, state, reason in due.staying(vanished):
            read.documents[state] += 1
            if state == "unsupported":
                plan.skipped.add(source.name, key, reason)
        changed = sum(read.documents.values())
        gone = [entry for entry in vanished.values() if entry.row not in adopted]
        _add_removals(read, gone)
        read.documents["unchanged"] = found.changes[0].listed - changed
        plan.sources[source.name] = read.documents
        plan.add(read)
        return read.documents

    def _prepared(
        self, plan: Plan, read: Plan, source: Source, entry: Entry, preparing: Callable[[Job], Prepared]
    ) -> Prepared | None:
        """Return the writes of a document; None, and a count, if a sync would write nothing."""
        job = Job(entry, _others(self.journal, entry, source.tools.statistic))
        try:
            return until_readable(partial(preparing, job), self.until)
        except Unsupported as error:
            read.documents["unsupported"] += 1
            plan.skipped.add(source.name, entry.key, str(error))
        except BadDocument as error:
            read.documents["quarantined"] += 1
            plan.problems.append((entry.key, str(error)))
        except NeedsHuman:
            raise
        except Exception as error:  # noqa: BLE001 - a sync would try this document again
            read.documents["failed"] += 1
            plan.problems.append((entry.key, after_failure(error, 0, 0.0, 0.0, "").reason))
        return None


def _places(due: int, sample: Sampling | None) -> Collection[int]:
    """Return the places of the documents to read, the same ones at each run."""
    if sample is None or due <= max(sample.above, sample.documents):
        return range(due)
    return frozenset(np.random.default_rng(0).choice(due, sample.documents, replace=False).tolist())


def _others(journal: Journal, entry: Entry, statistic: str | None) -> Sums | None:
    """Return the collection's sums without this document, as the engine gives them to the chunker."""
    total = None if statistic is None else journal.total(entry.collection, statistic)
    if total is None or entry.sums is None or entry.statistic != statistic:
        return total
    return total - entry.sums


def _sudden_loss(journal: Journal, source: Source, found: Listing) -> str | None:
    """Why a sync would hold the source after this listing, or None."""
    row = SourceRows(journal).of(source.name)
    moved_root = row.identity not in (None, found.identity)
    vanished, known = found.loss()
    appeared = found.changes[0].appeared
    reason = sudden_loss(vanished, appeared, known, row.documents, source.max_loss, moved_root)
    return None if row.may_lose(found.identity) else reason


def add_leaving(plan: Plan, journal: Journal, name: SourceName) -> None:
    """Add the removal of all documents of a source that left the config."""
    gone = journal.of_source(name)
    plan.sources[name] = Counter(removed=len(gone))
    _add_removals(plan, gone)


def _add_removals(plan: Plan, gone: Collection[Entry]) -> None:
    plan.documents["removed"] += len(gone)
    for entry in gone:
        plan.records.update(records_of(removal_of(entry)))


def _unlisted(error: Exception) -> str:
    """Why a source could not be listed; the type of an error of no known kind says more than its text."""
    known = isinstance(error, (NeedsHuman, Transient, OSError))
    return describe(error) if known else f"{type(error).__name__}: {error}"


@dataclass(frozen=True, slots=True)
class SourceDifference:
    """Differences between a source and the journal. ``trouble``: why the listing is incomplete, if so."""

    documents: int = 0
    examples: tuple[str, ...] = ()  # the first documents, with the reason of those that failed
    trouble: str | None = None


def difference(journal: Journal, source: Source) -> SourceDifference:
    """Return the documents that a sync would change or retry."""
    try:
        found = listing.take(source, Scope(), [LastListing(journal, source.feed)])
    except Exception as error:  # noqa: BLE001 - as in ``make``
        return SourceDifference(trouble=_unlisted(error))
    gone, due = _leaving(journal, source, found), DueDocuments(journal, source, found)
    keys = [entry.key for entry in islice(chain(gone, due.at(range(len(due)))), _EXAMPLES)]
    reasons = Unsettled(journal).reasons(source.feed, keys)
    examples = tuple(f"{key}: {reasons[key]}" if key in reasons else key for key in keys)
    return SourceDifference(len(gone) + len(due), examples, found.trouble)


def _leaving(journal: Journal, source: Source, found: Listing) -> list[Entry]:
    """Entries of live editions that have no document in this edition after the listing is taken over."""
    unsettled = Unsettled(journal)
    return unsettled.leaving(source.feed) + unsettled.of_keys(source.feed, found.changes[0].vanished)


def _add_writes(read: Plan, prepared: Prepared, action: WriteDocument) -> None:
    read.documents[action.kind] += 1
    text = sum(len(record.text.encode()) for record in prepared.records)
    metadata = sum(len(json.dumps(dict(record.metadata))) for record in prepared.records)
    read.added_text += text * action.added // max(1, len(prepared.records))
    read.added_metadata += metadata * action.added // max(1, len(prepared.records))
    read.records.update(records_of(action))


class DueDocuments:
    """The documents that a sync would read after a listing.

    First those that are new or changed, in the order of the listing; then the others, by key. In memory are
    some dozen bytes for each. Entries are read when they are asked for: documents that a daemon removed
    meanwhile are skipped. ``size``: bytes of all.
    """

    def __init__(self, journal: Journal, source: Source, found: Listing) -> None:
        self._unsettled, self._source, self._changes = Unsettled(journal), source, found.changes[0]
        self._rows, self.size = array("q"), 0
        self._first, self._then = KeySet(), KeySet()
        for item in self._changes.changed():
            self._first.add(item.key)
            self.size += item.size or 0
        self._listed = len(self._first)
        self._first.update(self._changes.vanished)
        for page in self._unsettled.outdated(source.feed, source.tools.recipe):
            others = {*self._first.absent([key for _, key, _ in page])}
            for row, key, size in page:
                if key in others:
                    self._rows.append(row)
                    self._then.add(key)
                    self.size += size or 0

    def __len__(self) -> int:
        return self._listed + len(self._rows)

    def at(self, places: Container[int]) -> Iterator[Entry]:
        items = (item for place, item in enumerate(self._changes.changed()) if place in places)
        rows = (row for place, row in enumerate(self._rows, self._listed) if place in places)
        for page in pages(items, _PAGE):
            known = {
                e.key: e for e in self._unsettled.of_keys(self._source.feed, [item.key for item in page])
            }
            yield from (replace(known.get(item.key) or _new(self._source, item), item=item) for item in page)
        for some in pages(rows, _PAGE):
            yield from self._unsettled.of_rows(some)

    def staying(self, vanished: Container[str]) -> list[tuple[str, State, str]]:
        """Return key, state and reason of quarantined and unsupported documents that are not due."""
        aside = self._unsettled.set_aside(self._source.feed)
        keys = {*self._then.absent(self._first.absent([key for key, _, _ in aside]))}
        return [one for one in aside if one[0] in keys and one[0] not in vanished]


def _new(source: Source, item: Item) -> Entry:
    return Entry(
        row=-1,
        document_id=DocumentId(f"new document {item.key}"),
        source=source.name,
        collection=source.collection,
        key=item.key,
        item=item,
        done_version=None,
        done_recipe=None,
        facts=None,
        digest=None,
        parser=None,
        attempts=0,
    )
