"""The report of a sync."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ingestor.app.handover import sources_not_in_config
from ingestor.core.entries import SourceRow
from ingestor.model import SourceName
from ingestor.state.editions import Editions, Notices
from ingestor.state.reports import Reports, Short
from ingestor.state.sources import SourceRows, Withdrawals
from ingestor.units import quantity

if TYPE_CHECKING:
    from ingestor.app.wiring import Running


@dataclass(frozen=True, slots=True)
class DocumentCounts:
    """Documents by what happens to them in a pass. ``due``: left over, in the report of a sync."""

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
    """Records by what happens to them. ``patched``: only their metadata changes."""

    added: int = 0
    replaced: int = 0
    patched: int = 0
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class EmbeddedTexts:
    """Texts and tokens that the model embedded, without cached ones. ``cost``: by the config's price."""

    texts: int = 0
    tokens: int = 0
    cost: float = 0.0


@dataclass(frozen=True, slots=True)
class Asked:
    """Requests to language models that the cache did not answer, with the tokens that servers count."""

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
    """Report of a sync. The fields are the keys of ``ingestor sync --json``: see docs/commands.md."""

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
        """Return whether nothing failed or is left to do; quarantined documents are no failure."""
        left = self.documents.failed or self.documents.due
        return not (self.held or self.unseen or self.unusable or left or self.interrupted)


def documents_not_in_config(running: Running) -> dict[SourceName, int]:
    """Return the number of documents of each source that left the config."""
    gone = sources_not_in_config(running.parts.config, running.journal)
    counts = {name: Reports(running.journal).number(name) for name in gone}
    return {name: number for name, number in counts.items() if number}


def report_sync(
    running: Running, seconds: float, before: Mapping[SourceName, int], *, interrupted: bool = False
) -> SyncReport:
    """Report what a sync did. ``before``: what was ``documents_not_in_config`` then."""
    tally, journal, embedded = running.engine.writer.tally, running.journal, running.embedding.counts()
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
        problems=tuple(DocumentProblem(failed[0], failed[1], failed[2]) for failed in reports.failures()),
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
    """Count documents by state: settled in the live edition; else in it, or in its replacement."""
    states, editions, reports = Counter[str](), Editions(running.journal).all(), Reports(running.journal)
    replacing = {each.serves: each.name for each in editions if each.role == "staging"}
    replaced = {
        each.name: replacing[each.serves]
        for each in editions
        if each.role == "live" and each.serves in replacing
    }
    counted = [
        (source, state, documents)
        for source, edition, state, documents in reports.counts()
        if edition not in (replacing.values() if state == "settled" else replaced)
    ]
    for live, staging in replaced.items():
        counted += [each for each in reports.count_unsettled_alone(live, staging) if each[1] != "settled"]
    for source, state, documents in counted:
        if source in rows or source in running.engine.leaving:
            states[state] += documents
    return states


def _unseen(running: Running, rows: Mapping[SourceName, SourceRow]) -> dict[str, str]:
    """Return sources that were not listed whole, with the reason."""
    scanner = running.engine.scanner
    unlisted = dict.fromkeys(scanner.sources_not_listed(), "the listing did not complete")
    unfinished = {
        name: f"the listing stopped after {quantity(listing.seen, 'document')}"
        for name, listing in scanner.under_way().items()
    }
    troubled = {name: row.trouble for name, row in rows.items() if row.trouble is not None}
    reasons = {**unlisted, **unfinished, **troubled}
    return {
        name: why
        for name, why in reasons.items()
        if name in rows and (name in troubled or not rows[name].held)
    }
