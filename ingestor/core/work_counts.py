"""Outcomes of documents since the start, by source and by reason or kind. Pure."""

import re
from collections import Counter
from dataclasses import dataclass, field

MOST_REASONS = 200  # pairs of source and kind of reason; later ones are counted as "other"
_PARTICULAR = re.compile(r"[\"'`(\[].*|(?<!\S)\S*[/\\]\S*|[\d.,]+")

BySource = Counter[tuple[str, str]]


@dataclass(slots=True)
class WorkCounts:
    """Counts of the engine's thread; other threads copy them.

    ``changes``: by kind. ``failures``: documents that were quarantined, by kind of reason. ``retries``:
    attempts that failed and come again. ``successes``: last write of a document, POSIX seconds.
    """

    changes: BySource = field(default_factory=Counter)
    failures: BySource = field(default_factory=Counter)
    retries: BySource = field(default_factory=Counter)
    successes: dict[str, float] = field(default_factory=dict)

    def written(self, source: str, kind: str, now: float) -> None:
        if kind != "unchanged":
            self.changes[source, kind] += 1
        if kind != "withdrawn":
            self.successes[source] = now

    def failed(self, source: str, reason: str) -> None:
        _note(self.failures, source, reason)

    def add_retry(self, source: str, reason: str) -> None:
        _note(self.retries, source, reason)


def kind_of(reason: str | None) -> str:
    """The reason without names and numbers."""
    words = _PARTICULAR.sub("", (reason or "").partition(":")[0])
    return " ".join(words.split())[:60] or "other"


def _note(counts: BySource, source: str, reason: str) -> None:
    key = source, kind_of(reason)
    counts[key if key in counts or len(counts) < MOST_REASONS else (source, "other")] += 1
