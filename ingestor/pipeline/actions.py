"""The actions that a sync carries out on documents, and the counts of these actions.

The writer counts what it did to each document, and `plan` announces what a sync would do. Both find the kind
of an action by the functions of this file, so that they cannot disagree.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from ingestor.core.errors import kind_of
from ingestor.pipeline.prepare import Prepared

MOST_REASONS = 200  # pairs of source and kind of reason; later pairs are counted as "other"

BySource = Counter[tuple[str, str]]  # by source, and by kind of action or reason

# moved: the document adopts the records of a vanished one. rebuilt: written into an edition that is built to
# replace another. recut: the document did not change, but the statistic of its collection did. unchanged: no
# record changes. withdrawn: the content cannot be read, the records are deleted. removed: the
# source no longer has the document.
Kind = Literal["added", "changed", "moved", "rebuilt", "recut", "unchanged", "withdrawn", "removed"]


@dataclass(frozen=True, slots=True)
class WriteDocument:
    """The action that writes a document: its kind, and how many records it changes.

    Counted are the records that it adds, replaces, patches (changes in metadata only) and drops.
    """

    kind: Kind
    added: int = 0
    replaced: int = 0
    patched: int = 0
    dropped: int = 0

    @property
    def records(self) -> Counter[str]:
        """Return a ``Counter`` of the records, with the keys added, replaced, patched and dropped."""
        return Counter(added=self.added, replaced=self.replaced, patched=self.patched, dropped=self.dropped)


def write_of(prepared: Prepared, *, building: bool) -> WriteDocument:
    """Return the action that writes a prepared document.

    ``building``: whether the document's edition is still being built, and not yet seen by readers.
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


@dataclass(slots=True)
class WorkCounts:
    """Counts since the program started, by source. The engine's thread writes them; other threads copy them.

    ``changes``: documents by kind of action. ``failures``: quarantined documents by kind of reason.
    ``retries``: failed attempts that will be repeated, by kind of reason. ``successes``: POSIX seconds of a
    source's last written document. ``records``: records of all sources by what was done to them.
    """

    changes: BySource = field(default_factory=Counter)
    failures: BySource = field(default_factory=Counter)
    retries: BySource = field(default_factory=Counter)
    successes: dict[str, float] = field(default_factory=dict)
    records: Counter[str] = field(default_factory=Counter)

    def note_write(self, source: str, kind: str, now: float) -> None:
        """Count a written document of a source. ``kind``: kind of its action. ``now``: POSIX seconds."""
        if kind != "unchanged":
            self.changes[source, kind] += 1
        if kind != "withdrawn":
            self.successes[source] = now

    def tally(self) -> Counter[str]:
        """Return the counts of all sources together: documents by kind of action, and records by change.

        The keys for records are ``records_added`` and so on. Withdrawn documents are not counted here,
        because they count as failures.
        """
        counted = Counter({f"records_{deed}": number for deed, number in self.records.items() if number})
        for (_, kind), number in self.changes.items():
            counted[kind] += number
        del counted["withdrawn"]
        return counted

    def note_failure(self, source: str, reason: str) -> None:
        _note(self.failures, source, reason)

    def add_retry(self, source: str, reason: str) -> None:
        _note(self.retries, source, reason)


def _note(counts: BySource, source: str, reason: str) -> None:
    key = source, kind_of(reason)
    counts[key if key in counts or len(counts) < MOST_REASONS else (source, "other")] += 1
