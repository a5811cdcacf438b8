"""The plan of a sync: every step is taken but embedding and writing."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from time import monotonic

from ingestor.app.planning.due import DueDocuments
from ingestor.app.planning.recorder import Recorder, WatchedChunker
from ingestor.app.planning.sample import Figures, Sampling, drawn_of
from ingestor.app.planning.values import INDEXED, OTHERWISE, Plan, extrapolate
from ingestor.core.decisions import Scope, after_failure, sudden_loss
from ingestor.core.entries import EditionName, Entry
from ingestor.core.error_text import describe
from ingestor.model import SourceName
from ingestor.pipeline import listing, patience
from ingestor.pipeline.actions import WriteDocument, records_of, removal_of, write_of
from ingestor.pipeline.answers import DryRunAnswers
from ingestor.pipeline.listing import Listing, Source
from ingestor.pipeline.patience import until_readable
from ingestor.pipeline.prepare import Job, Predecessor, Prepared, prepare
from ingestor.ports import BadDocument, NeedsHuman, Transient, Unsupported
from ingestor.state.journal import Journal
from ingestor.state.listings.last_listing import LastListing
from ingestor.state.queries.unsettled import Unsettled
from ingestor.state.sources import SourceRows

MOVING = ("added", "changed", "rebuilt", "removed")  # kinds that change a collection's statistic
_EXAMPLES = 5  # documents of a source that ``verify`` names


def silently(what: str) -> None:
    """Say nothing of how far a plan is."""
    del what


def make(
    journal: Journal,
    sources: Sequence[Source],
    recorder: Recorder,
    dry_run: DryRunAnswers,
    count_tokens: Callable[[Sequence[str]], list[int]],
    rebuilt: Container[EditionName] = (),
    sample: Sampling | None = None,
    say: Callable[[str], None] = silently,
) -> Plan:
    """Plan all sources. Reads only.

    ``sources`` must embed through ``recorder`` and ask through ``dry_run``. ``rebuilt``: editions in
    building. ``sample``: some documents of large sources are read, and stand for the others; None: all.
    ``say`` is told before each listing and each document how far the plan is.
    """
    plan = Plan()
    until = monotonic() + patience.SECONDS
    doing = _Doing(plan, journal, recorder, dry_run, count_tokens, until, sample, say)
    for source in sources:
        if SourceRows(journal).of(source.name).paused is not None:
            plan.problems.append((source.name, "it is paused"))
            continue
        watched = WatchedChunker(source.tools.chunker, recorder)
        looked_at = replace(source, tools=replace(source.tools, chunker=watched))
        try:
            counts = _plan_source(doing, looked_at, source.collection in rebuilt)
        except Exception as error:  # noqa: BLE001 - a defect of one source must not hide the others
            plan.unseen[source.name] = _unlisted(error)
            continue
        moved = source.tools.statistic is not None and any(counts[kind] for kind in MOVING)
        plan.cuts_known &= not (watched.blind or moved)
        plan.exact &= not (moved and watched.encoded)
    plan.texts = len(recorder.missing)
    plan.tokens = sum(count_tokens(list(recorder.missing.values())))
    plan.asks, plan.prompt_tokens, plan.cost = dry_run.calls, dry_run.prompt_tokens, dry_run.cost
    plan.cuts_known &= not (plan.asks or plan.sampled)
    plan.exact &= not (plan.asks or plan.sampled or recorder.guessed)
    for sampled in plan.sampled:
        extrapolate(plan, sampled)
    return plan


@dataclass(frozen=True, slots=True)
class _Doing:
    """A plan that is being made. ``until``: when no longer to wait for files that are being written."""

    plan: Plan
    journal: Journal
    recorder: Recorder
    dry_run: DryRunAnswers
    count_tokens: Callable[[Sequence[str]], list[int]]
    until: float
    sample: Sampling | None
    say: Callable[[str], None]

    def figures(self, counts: Counter[str]) -> Figures:
        """All figures so far; ``counts``: of the documents."""
        found = Figures({f"documents.{kind}": number for kind, number in counts.items()})
        found.update({f"records.{kind}": number for kind, number in self.plan.records.items()})
        found["documents"] = sum(counts[kind] for kind in INDEXED)
        found["texts"], found["text"] = len(self.recorder.missing), self.plan.added_text
        found["metadata"] = self.plan.added_metadata
        found["asks"], found["prompt_tokens"] = self.dry_run.calls, self.dry_run.prompt_tokens
        return found

    def added(self, before: Figures, counts: Counter[str], seconds: float) -> Figures:
        """The figures of one document, which took so many seconds."""
        found = self.figures(counts) - before
        texts = islice(reversed(self.recorder.missing.values()), found["texts"])
        found["tokens"], found["milliseconds"] = sum(self.count_tokens(list(texts))), round(seconds * 1000)
        return found


def _plan_source(doing: _Doing, source: Source, rebuilt: bool) -> Counter[str]:
    plan, journal = doing.plan, doing.journal
    doing.say(f"{source.name}: listing")
    found = listing.take(source, Scope(), [LastListing(journal, source.feed)])
    if found.trouble is not None:
        plan.unseen[source.name] = found.trouble
    if (loss := _sudden_loss(journal, source, found)) is not None:
        plan.unseen[source.name] = f"{loss}: a sync would remove nothing, and ask"
        return Counter()
    vanished = {} if rebuilt else {entry.key: entry for entry in _leaving(journal, source, found)}
    counts: Counter[str] = Counter()
    adopted: set[int] = set()

    alike: defaultdict[tuple[str, str | None], list[Entry]] = defaultdict(list)
    for gone_entry in vanished.values():
        alike[gone_entry.collection, gone_entry.digest].append(gone_entry)

    def predecessor(new: Entry, digest: str) -> Entry | None:
        return next((e for e in alike[new.collection, digest] if e.row not in adopted), None)

    due = DueDocuments(journal, source, found)
    counts += _set_aside(doing, source, vanished, due)
    sampled = drawn_of(source.name, due.population, due.at, doing.sample)
    read = due if sampled is None else sampled.drawn
    for number, job in enumerate(read):
        doing.say(f"{source.name}: {number:,} of {len(read):,} read")
        so_far, begun = doing.figures(counts), monotonic()
        prepared = _prepared(doing, source, job, predecessor, counts)
        if prepared is not None:
            adopted.add(prepared.receipt.row)
            action = write_of(prepared, building=rebuilt)
            counts[action.kind] += 1
            _add(plan, prepared, action)
        passed = monotonic() - begun
        plan.seconds += passed
        if sampled is not None:
            sampled.figures.append(doing.added(so_far, counts, passed))
    plan.sampled += [] if sampled is None else [sampled]
    gone = [entry for entry in vanished.values() if entry.row not in adopted]
    counts["removed"] += len(gone)
    _add_removals(plan, gone)
    counts["unchanged"] += found.changes[0].listed - sum(counts[kind] for kind in OTHERWISE)
    plan.sources[source.name] = counts
    plan.documents += counts
    return counts


def _prepared(
    doing: _Doing, source: Source, entry: Entry, predecessor: Predecessor, counts: Counter[str]
) -> Prepared | None:
    """Return the writes of a document; None, and a count, if a sync would write nothing."""
    try:
        return until_readable(partial(prepare, Job(entry), source.tools, predecessor), doing.until)
    except Unsupported as error:
        counts["unsupported"] += 1
        doing.plan.skipped.add(source.name, entry.key, str(error))
    except BadDocument as error:
        counts["quarantined"] += 1
        doing.plan.problems.append((entry.key, str(error)))
    except NeedsHuman:
        raise
    except Exception as error:  # noqa: BLE001 - a sync would try this document again
        counts["failed"] += 1
        doing.plan.problems.append((entry.key, after_failure(error, 0, 0.0, 0.0, "").reason))
    return None


def _sudden_loss(journal: Journal, source: Source, found: Listing) -> str | None:
    """Why a sync would hold the source after this listing, or None."""
    row = SourceRows(journal).of(source.name)
    moved_root = row.identity not in (None, found.identity)
    vanished, appeared = len(found.changes[0].vanished), found.changes[0].appeared
    reason = sudden_loss(vanished, appeared, found.known, row.documents, source.max_loss, moved_root)
    return None if row.may_lose(found.identity) else reason


def _set_aside(doing: _Doing, source: Source, vanished: Container[str], due: DueDocuments) -> Counter[str]:
    """Counts of documents that stay quarantined or unsupported, without those that are due again."""
    found = Unsettled(doing.journal).set_aside(source.feed)
    others = due.others([key for key, _, _ in found])
    staying = [one for one in found if one[0] in others and one[0] not in vanished]
    for key, state, reason in staying:
        if state == "unsupported":
            doing.plan.skipped.add(source.name, key, reason)
    return Counter(state for _, state, _ in staying)


def add_leaving(plan: Plan, journal: Journal, name: SourceName) -> None:
    """Add the removal of all documents of a source that left the config."""
    gone = journal.of_source(name)
    plan.sources[name] = Counter(removed=len(gone))
    plan.documents["removed"] += len(gone)
    _add_removals(plan, gone)


def _add_removals(plan: Plan, gone: Iterable[Entry]) -> None:
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
    keys = [entry.key for entry in islice(chain(gone, due), _EXAMPLES)]
    reasons = Unsettled(journal).reasons(source.feed, keys)
    examples = tuple(f"{key}: {reasons[key]}" if key in reasons else key for key in keys)
    return SourceDifference(len(gone) + len(due), examples, found.trouble)


def _leaving(journal: Journal, source: Source, found: Listing) -> list[Entry]:
    """Entries of live editions that have no document in this edition after the listing is taken over."""
    unsettled = Unsettled(journal)
    return unsettled.leaving(source.feed) + unsettled.of_keys(source.feed, found.changes[0].vanished)


def _add(plan: Plan, prepared: Prepared, action: WriteDocument) -> None:
    text = sum(len(record.text.encode()) for record in prepared.records)
    metadata = sum(len(json.dumps(dict(record.metadata))) for record in prepared.records)
    plan.added_text += text * action.added // max(1, len(prepared.records))
    plan.added_metadata += metadata * action.added // max(1, len(prepared.records))
    plan.records.update(records_of(action))
