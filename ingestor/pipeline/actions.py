"""Actions on documents, as values: `plan` announces actions, the writer executes and counts them.

Both derive actions here, so that they cannot disagree on the name of a change.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from ingestor.pipeline.prepare import Prepared

# rebuilt: written into an edition that is built to replace another. recut: nothing of the document changed,
# but the statistic of its collection did. unchanged: its records stay, or only their metadata changes.
# withdrawn: its content cannot be read, its records are deleted.
Kind = Literal["added", "changed", "moved", "rebuilt", "recut", "unchanged", "withdrawn"]


@dataclass(frozen=True, slots=True)
class WriteDocument:
    """The writes of one document; the numbers are of records."""

    kind: Kind
    added: int = 0
    replaced: int = 0
    patched: int = 0
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class RemoveDocument:
    """All records of a document are deleted: its source no longer has it."""

    dropped: int


Action = WriteDocument | RemoveDocument


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
    if building:
        return "rebuilt"
    if prepared.intent.predecessor is not None:
        return "moved"
    if prepared.entry.digest is None:
        return "added"
    if not prepared.intent.slots:
        return "unchanged"
    return "recut" if prepared.entry.state == "settled" else "changed"


def records_of(action: Action) -> Counter[str]:
    """How many records the action adds, replaces, patches and drops."""
    if isinstance(action, RemoveDocument):
        return Counter(dropped=action.dropped)
    return Counter(
        added=action.added, replaced=action.replaced, patched=action.patched, dropped=action.dropped
    )


@dataclass(slots=True)
class Tally:
    """Counts since the start; ``sync`` prints them."""

    added: int = 0
    changed: int = 0
    moved: int = 0
    rebuilt: int = 0  # written into a collection that is being built
    recut: int = 0  # cut again, since the statistic of the collection moved
    removed: int = 0
    records_added: int = 0
    records_replaced: int = 0
    records_patched: int = 0
    records_dropped: int = 0

    def count(self, action: Action) -> None:
        kind = "removed" if isinstance(action, RemoveDocument) else action.kind
        if kind not in ("unchanged", "withdrawn"):
            setattr(self, kind, getattr(self, kind) + 1)
        for name, number in records_of(action).items():
            if number:
                setattr(self, f"records_{name}", getattr(self, f"records_{name}") + number)
