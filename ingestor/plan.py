"""What a sync would do, found out by doing all of it but the embedding and the writing."""

from collections import Counter
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ingestor import listing
from ingestor.answers import Reckoned
from ingestor.cache import VectorCache
from ingestor.decide import Scope
from ingestor.fingerprint import text_digest
from ingestor.journal import Journal
from ingestor.listing import Listing, Source
from ingestor.model import (
    Chunking,
    CollectionName,
    Document,
    DocumentId,
    Fingerprint,
    Item,
    SourceName,
    Sums,
    Vectors,
)
from ingestor.ports import BadDocument, Chunker, Embed, NeedsHuman, Transient
from ingestor.prepare import Job, Prepared, prepare
from ingestor.rows import Entry
from ingestor.source_rows import SourceRows

MOVING = ("added", "changed", "rebuilt", "removed")  # what moves a number of the collection


@dataclass(slots=True)
class Plan:
    """Counts; ``texts`` and ``tokens`` are those that the model would have to embed, after the cache.

    ``asks`` counts the questions to language models that are not answered yet, ``prompt_tokens`` what they
    would read, and ``cost`` what that would cost.

    Where a strategy cuts by vectors or answers that are not there yet, or by a number of the collection,
    which every change moves, the counts of ``records`` are an estimate: ``cuts_known`` is False. ``texts``
    and ``tokens`` are ``exact`` all the same where all that is embedded is what the strategy compares.
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
    problems: list[tuple[str, str]] = field(default_factory=list)  # (document or source, reason)
    sources: dict[str, Counter[str]] = field(default_factory=dict)


class Recorder:
    """Stands in for the embedder: answers from the cache, and notes what it would have to embed.

    ``blind``: the document at hand was given a vector that is none. ``guessed``: a text was asked for after
    that, which another vector might have made another one.
    """

    def __init__(self, cache: VectorCache | None, recipe: Fingerprint, dimensions: int) -> None:
        self._cache, self._recipe, self._dimensions = cache, recipe, dimensions
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
        unknown = np.zeros(self._dimensions, np.float32)
        unknown[0] = 1.0
        return np.array([found.get(d, unknown) for d in digests], np.float32).reshape(-1, self._dimensions)


class Watched:
    """A chunker of which is known, when it is done, what its chunks rest upon."""

    def __init__(self, chunker: Chunker, recorder: Recorder) -> None:
        self._chunker, self._recorder = chunker, recorder
        self.blind = False  # some document was cut by vectors that are none
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
    reckoned: Reckoned,
    count_tokens: Callable[[Sequence[str]], list[int]],
    rebuilt: Container[CollectionName] = (),
    progress: Callable[[str], None] = lambda key: None,
) -> Plan:
    """``sources`` must embed through ``recorder`` and ask through ``reckoned``. Touches nothing.

    ``rebuilt``: editions that will take another one's place.
    """
    plan = Plan()
    for source in sources:
        if SourceRows(journal).of(source.name).paused is not None:
            plan.problems.append((source.name, "it is paused: nothing is done for it"))
            continue
        watched = Watched(source.tools.chunker, recorder)
        looked_at = replace(source, tools=replace(source.tools, chunker=watched))
        try:
            counts = _plan_source(plan, journal, looked_at, source.collection in rebuilt, progress)
        except (NeedsHuman, Transient, OSError) as error:
            plan.problems.append((source.name, str(error)))
            continue
        moved = source.tools.statistic is not None and any(counts[kind] for kind in MOVING)
        plan.cuts_known &= not (watched.blind or moved)
        plan.exact &= not (moved and watched.encoded)
    plan.texts = len(recorder.missing)
    plan.tokens = sum(count_tokens(list(recorder.missing.values())))
    plan.asks, plan.prompt_tokens, plan.cost = reckoned.calls, reckoned.prompt_tokens, reckoned.cost
    plan.cuts_known &= not plan.asks
    plan.exact &= not (plan.asks or recorder.guessed)
    return plan


def _plan_source(
    plan: Plan, journal: Journal, source: Source, rebuilt: bool, progress: Callable[[str], None]
) -> Counter[str]:
    known = journal.wanted_versions(source.name, source.collection)
    found = listing.take(source, Scope(), known)
    if found.trouble is not None:
        plan.problems.append((source.name, found.trouble))
    before = [] if rebuilt else journal.of_source(source.name)
    vanished = {e.key: e for e in before if _leaves(e, source, found)}
    counts: Counter[str] = Counter()
    adopted: set[int] = set()

    def predecessor(collection: str, digest: str) -> Entry | None:
        same = (e for e in vanished.values() if (e.collection, e.digest) == (collection, digest))
        return next((e for e in same if e.row not in adopted), None)

    for entry in _due(journal, source, found):
        progress(entry.key)
        try:
            prepared = prepare(Job(entry), source.tools, predecessor)
        except BadDocument as error:
            counts["quarantined"] += 1
            plan.problems.append((entry.key, str(error)))
            continue
        except Transient as error:
            plan.problems.append((entry.key, str(error)))
            continue
        adopted.add(prepared.receipt.row)
        counts["rebuilt" if rebuilt else _kind(entry, prepared)] += 1
        _add(plan.records, prepared)
    gone = [entry for entry in vanished.values() if entry.row not in adopted]
    counts["removed"] += len(gone)
    plan.records["dropped"] += sum(len(entry.known) for entry in gone)
    counts["unchanged"] += found.changes.listed - sum(
        counts[k] for k in ("added", "changed", "moved", "rebuilt", "quarantined")
    )
    plan.sources[source.name] = counts
    plan.documents += counts
    return counts


def add_leaving(plan: Plan, journal: Journal, name: SourceName) -> None:
    """Its documents go: it is configured no more."""
    gone = journal.of_source(name)
    plan.sources[name] = Counter(removed=len(gone))
    plan.documents["removed"] += len(gone)
    plan.records["dropped"] += sum(len(entry.known) for entry in gone)


def unsettled(journal: Journal, source: Source) -> tuple[int, str | None]:
    """How many documents the source and the journal disagree about, and why not all could be seen."""
    known = journal.wanted_versions(source.name, source.collection)
    try:
        found = listing.take(source, Scope(), known)
    except (NeedsHuman, Transient, OSError) as error:
        return 0, str(error)
    gone = sum(_leaves(entry, source, found) for entry in journal.of_source(source.name))
    return gone + len(_due(journal, source, found)), found.trouble


def _leaves(entry: Entry, source: Source, found: Listing) -> bool:
    return entry.item is None or entry.collection != source.collection or entry.key in found.changes.vanished


def _due(journal: Journal, source: Source, found: Listing) -> list[Entry]:
    """Entries as they will be once the listing is taken over, of those that would be worked on."""
    rows = {entry.key: entry for entry in journal.of_feed(source.feed)}
    changed = {item.key: item for item in found.changes.changed}
    gone = set(found.changes.vanished)
    due = [
        replace(entry, item=changed.get(key, entry.item))
        for key, entry in rows.items()
        if key not in gone and (key in changed or _unsettled(entry, source))
    ]
    return due + [_new(source, item) for key, item in changed.items() if key not in rows]


def _unsettled(entry: Entry, source: Source) -> bool:
    if entry.item is None:
        return False
    recipe = source.tools.recipe(entry.parser or "")
    return entry.done_version != entry.item.version or entry.done_recipe != recipe


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


def _kind(entry: Entry, prepared: Prepared) -> str:
    if prepared.intent.predecessor is not None:
        return "moved"
    if entry.digest is None:
        return "added"
    return "changed" if prepared.intent.slots else "unchanged"


def _add(records: Counter[str], prepared: Prepared) -> None:
    records["added"] += prepared.added
    records["replaced"] += len(prepared.records) - prepared.added
    records["patched"] += len(prepared.patches)
    records["dropped"] += len(prepared.drops)
