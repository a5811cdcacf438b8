"""What a sync would do: all of it is done but embedding and writing."""

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from time import monotonic

import numpy as np

from ingestor.core.decisions import Scope, after_failure, sudden_loss
from ingestor.core.document_state import WITHOUT_RECORDS, is_settled
from ingestor.core.entries import EditionName, Entry
from ingestor.core.error_text import describe
from ingestor.core.fingerprint import text_digest
from ingestor.model import (
    Chunking,
    Document,
    DocumentId,
    Fingerprint,
    Item,
    SourceName,
    Sums,
    Vectors,
)
from ingestor.pipeline import listing, patience
from ingestor.pipeline.actions import WriteDocument, records_of, removal_of, write_of
from ingestor.pipeline.answers import DryRunAnswers
from ingestor.pipeline.listing import Listing, Source
from ingestor.pipeline.patience import until_readable
from ingestor.pipeline.prepare import Job, Prepared, prepare
from ingestor.ports import BadDocument, Chunker, Embed, NeedsHuman, Transient, Unsupported
from ingestor.state.cache.store import VectorCache
from ingestor.state.journal import Journal
from ingestor.state.queries.reports import Reports
from ingestor.state.sources import SourceRows

OTHERWISE = ("added", "changed", "moved", "rebuilt", "quarantined", "unsupported", "failed")
MOVING = ("added", "changed", "rebuilt", "removed")  # kinds that change a collection's statistic


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
    problems: list[tuple[str, str]] = field(default_factory=list)  # (document or source, reason)
    unseen: dict[str, str] = field(default_factory=dict)  # sources that could not be listed whole, and why
    sources: dict[str, Counter[str]] = field(default_factory=dict)


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


class Watched:
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


def make(
    journal: Journal,
    sources: Sequence[Source],
    recorder: Recorder,
    dry_run: DryRunAnswers,
    count_tokens: Callable[[Sequence[str]], list[int]],
    rebuilt: Container[EditionName] = (),
    progress: Callable[[str], None] = lambda key: None,
) -> Plan:
    """Plan all sources. Reads only.

    ``sources`` must embed through ``recorder`` and ask through ``dry_run``. ``rebuilt``: editions in
    building. ``progress``: called with the key of each document.
    """
    plan = Plan()
    until = monotonic() + patience.SECONDS
    for source in sources:
        if SourceRows(journal).of(source.name).paused is not None:
            plan.problems.append((source.name, "it is paused"))
            continue
        watched = Watched(source.tools.chunker, recorder)
        looked_at = replace(source, tools=replace(source.tools, chunker=watched))
        try:
            counts = _plan_source(plan, journal, looked_at, source.collection in rebuilt, progress, until)
        except (NeedsHuman, Transient, OSError) as error:
            plan.unseen[source.name] = describe(error)
            continue
        moved = source.tools.statistic is not None and any(counts[kind] for kind in MOVING)
        plan.cuts_known &= not (watched.blind or moved)
        plan.exact &= not (moved and watched.encoded)
    plan.texts = len(recorder.missing)
    plan.tokens = sum(count_tokens(list(recorder.missing.values())))
    plan.asks, plan.prompt_tokens, plan.cost = dry_run.calls, dry_run.prompt_tokens, dry_run.cost
    plan.cuts_known &= not plan.asks
    plan.exact &= not (plan.asks or recorder.guessed)
    return plan


def _plan_source(
    plan: Plan,
    journal: Journal,
    source: Source,
    rebuilt: bool,
    progress: Callable[[str], None],
    until: float,
) -> Counter[str]:
    known = journal.wanted_versions(source.feed)
    found = listing.take(source, Scope(), [known])
    if found.trouble is not None:
        plan.unseen[source.name] = found.trouble
    if (loss := _sudden_loss(journal, source, found)) is not None:
        plan.unseen[source.name] = f"{loss}: a sync would remove nothing, and ask"
        return Counter()
    before = [] if rebuilt else journal.of_source(source.name)
    vanished = {e.key: e for e in before if _leaves(e, source, found)}
    counts: Counter[str] = Counter()
    adopted: set[int] = set()

    alike: defaultdict[tuple[str, str | None], list[Entry]] = defaultdict(list)
    for gone_entry in vanished.values():
        alike[gone_entry.collection, gone_entry.digest].append(gone_entry)

    def predecessor(collection: str, digest: str) -> Entry | None:
        return next((e for e in alike[collection, digest] if e.row not in adopted), None)

    due = _due(journal, source, found)
    counts += _set_aside(journal, source, {*vanished, *(entry.key for entry in due)})
    for entry in due:
        progress(entry.key)
        try:
            prepared = until_readable(partial(prepare, Job(entry), source.tools, predecessor), until)
        except Unsupported:
            counts["unsupported"] += 1
            continue
        except BadDocument as error:
            counts["quarantined"] += 1
            plan.problems.append((entry.key, str(error)))
            continue
        except NeedsHuman:
            raise
        except Exception as error:  # noqa: BLE001 - a sync would try this document again
            counts["failed"] += 1
            plan.problems.append((entry.key, after_failure(error, 0, 0.0, 0.0, "").reason))
            continue
        adopted.add(prepared.receipt.row)
        action = write_of(prepared, building=rebuilt)
        counts[action.kind] += 1
        _add(plan, prepared, action)
    gone = [entry for entry in vanished.values() if entry.row not in adopted]
    counts["removed"] += len(gone)
    _add_removals(plan, gone)
    counts["unchanged"] += found.changes[0].listed - sum(counts[kind] for kind in OTHERWISE)
    plan.sources[source.name] = counts
    plan.documents += counts
    return counts


def _sudden_loss(journal: Journal, source: Source, found: Listing) -> str | None:
    """Why a sync would hold the source after this listing, or None."""
    row = SourceRows(journal).of(source.name)
    moved_root = row.identity not in (None, found.identity)
    reason = sudden_loss(found.changes[0], found.known, row.documents, source.max_loss, moved_root)
    return None if row.accepted else reason


def _set_aside(journal: Journal, source: Source, but: Container[str]) -> Counter[str]:
    """Counts of documents that stay quarantined or unsupported, without those that are due again."""
    kept = (each for each in Reports(journal).documents(source.name) if each.collection == source.collection)
    return Counter(each.state for each in kept if each.state in WITHOUT_RECORDS and each.document not in but)


def add_leaving(plan: Plan, journal: Journal, name: SourceName) -> None:
    """Add the removal of all documents of a source that left the config."""
    gone = journal.of_source(name)
    plan.sources[name] = Counter(removed=len(gone))
    plan.documents["removed"] += len(gone)
    _add_removals(plan, gone)


def _add_removals(plan: Plan, gone: Iterable[Entry]) -> None:
    for entry in gone:
        plan.records.update(records_of(removal_of(entry)))


def unsettled(journal: Journal, source: Source) -> tuple[int, str | None]:
    """How many documents differ between source and journal, and why the listing is incomplete, if so."""
    known = journal.wanted_versions(source.feed)
    try:
        found = listing.take(source, Scope(), [known])
    except (NeedsHuman, Transient, OSError) as error:
        return 0, describe(error)
    gone = sum(_leaves(entry, source, found) for entry in journal.of_source(source.name))
    return gone + len(_due(journal, source, found)), found.trouble


def _leaves(entry: Entry, source: Source, found: Listing) -> bool:
    vanished = entry.key in found.changes[0].vanished
    return entry.item is None or entry.collection != source.collection or vanished


def _due(journal: Journal, source: Source, found: Listing) -> list[Entry]:
    """The due entries after the listing is taken over."""
    rows = {entry.key: entry for entry in journal.of_feed(source.feed)}
    changed = {item.key: item for item in found.changes[0].changed}
    gone = set(found.changes[0].vanished)
    due = [
        replace(entry, item=changed.get(key, entry.item))
        for key, entry in rows.items()
        if key not in gone and (key in changed or _unsettled(entry, source))
    ]
    return due + [_new(source, item) for key, item in changed.items() if key not in rows]


def _unsettled(entry: Entry, source: Source) -> bool:
    if entry.item is None:
        return False
    wanted = entry.item.version, source.tools.recipe(entry.parser or "")
    return not is_settled(wanted, (entry.done_version, entry.done_recipe))


def _new(source: Source, item: Item) -> Entry:
    nobody = DocumentId(f"new document {item.key}")
    return Entry(
        row=-1,
        document_id=nobody,
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


def _add(plan: Plan, prepared: Prepared, action: WriteDocument) -> None:
    text = sum(len(record.text.encode()) for record in prepared.records)
    plan.added_text += text * action.added // max(1, len(prepared.records))
    plan.records.update(records_of(action))
