"""Counts of a plan. Pure."""

from collections import Counter
from dataclasses import dataclass, field

from ingestor.app.planning.sample import SampledSource, interval
from ingestor.app.planning.strata import EstimateInterval
from ingestor.core.completeness import SkippedKinds

OTHERWISE = ("added", "changed", "moved", "rebuilt", "quarantined", "unsupported", "failed")
INDEXED = ("added", "changed", "moved", "rebuilt")


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
    sampled: list[SampledSource] = field(default_factory=list)  # by source, where not all documents were read

    def interval(self, name: str, known: float) -> EstimateInterval | None:
        """Bounds of one of its figures, see sample/figures.py; None if all documents were read."""
        return interval(self.sampled, name, known) if self.sampled else None


def extrapolate(plan: Plan, sampled: SampledSource) -> None:
    """Add what the documents that were not read would add, by those that were."""
    counts = plan.sources[sampled.source]
    for kind in OTHERWISE:
        others = round(sampled.missing(f"documents.{kind}"))
        for each in (counts, plan.documents):
            each[kind] += others
            each["unchanged"] -= others
    for kind in ("added", "replaced", "patched", "dropped"):
        plan.records[kind] += round(sampled.missing(f"records.{kind}"))
    plan.texts += round(sampled.missing("texts"))
    plan.tokens += round(sampled.missing("tokens"))
    plan.added_text += round(sampled.missing("text"))
    plan.added_metadata += round(sampled.missing("metadata"))
    calls = sampled.missing("asks")
    plan.cost *= 1 + calls / plan.asks if plan.asks else 1
    plan.asks += round(calls)
    plan.prompt_tokens += round(sampled.missing("prompt_tokens"))
    plan.seconds += sampled.missing("milliseconds") / 1000
