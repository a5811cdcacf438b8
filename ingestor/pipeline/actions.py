"""Actions on documents, as values, and their counts: `plan` announces actions, the writer executes them.

Both derive actions here, so that they cannot disagree on the name of a change.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from ingestor.core.errors import kind_of
from ingestor.pipeline.prepare import Prepared

MOST_REASONS = 200  # pairs of source and kind of reason; later ones are counted as "other"

BySource = Counter[tuple[str, str]]

# rebuilt: written into an edition that is built to replace another. recut: nothing of the document changed,
# but the statistic of its collection did. unchanged: its records stay, or only their metadata changes.
# withdrawn: its content cannot be read, its records are deleted. removed: its source no longer has it.
Kind = Literal["added", "changed", "moved", "rebuilt", "recut", "unchanged", "withdrawn", "removed"]


@dataclass(frozen=True, slots=True)
class WriteDocument:
    """The writes of one document; the numbers are of records."""

    kind: Kind
    added: int = 0
    replaced: int = 0
    patched: int = 0
    dropped: int = 0

    @property
    def records(self) -> Counter[str]:
        """Return how many records the action adds, replaces, patches and drops."""
        return Counter(added=self.added, replaced=self.replaced, patched=self.patched, dropped=self.dropped)


def write_of(prepared: Prepared, *, building: bool) -> WriteDocument:
    """Return the action that writes a prepared document.

    ``building``: whether the document's edition is still hidden from readers.
    """
    return WriteDocument(
        _kind(prepared, building),
        prepared.added,
        len(prepared.records) - prepared.added,
        len(prepared.patches),
        len(prepared.drops),
    )


def _kind(prepared: Prepared, building: bool) -> Kind:
    if prepared.receipt.failure is not None:
        return "withdrawn"
    if building and prepared.entry.state != "settled":
        return "rebuilt"
    if prepared.intent.predecessor is not None:
        return "moved"
    if prepared.entry.digest is None:
        return "added"
    if not prepared.intent.slots:
        return "unchanged"
    return "recut" if prepared.entry.state == "settled" else "changed"


def tally_of(action: WriteDocument) -> Counter[str]:
    """Return what an action adds to the counts since the start: documents by kind, and ``records_...``."""
    counted = Counter({f"records_{name}": number for name, number in action.records.items() if number})
    if action.kind not in ("unchanged", "withdrawn"):
        counted[action.kind] += 1
    return counted


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

    def note_write(self, source: str, kind: str, now: float) -> None:
        if kind != "unchanged":
            self.changes[source, kind] += 1
        if kind != "withdrawn":
            self.successes[source] = now

    def note_failure(self, source: str, reason: str) -> None:
        _note(self.failures, source, reason)

    def add_retry(self, source: str, reason: str) -> None:
        _note(self.retries, source, reason)


def _note(counts: BySource, source: str, reason: str) -> None:
    key = source, kind_of(reason)
    counts[key if key in counts or len(counts) < MOST_REASONS else (source, "other")] += 1
