"""Assigns slots to new chunks, and compares them with the known records. Pure.

A slot is the ``n`` of a record id ``document_id#n``. An unchanged chunk keeps its slot, even if it moved
within the document. A changed chunk gets the slot of a vanished chunk, so that readers see the old or the new
text, never both. New slots are used only if more chunks changed than vanished. Slots are given up only
if more chunks vanished than changed. A record in doubt is always written again or deleted.
"""

from collections import defaultdict, deque
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count

from ingestor.model import Known


@dataclass(frozen=True, slots=True)
class Keys:
    """Digests of everything on which a record's text and its vector depend."""

    text: str
    vector: str


@dataclass(frozen=True, slots=True)
class Delta:
    """The writes that turn the known records of a document into the wanted ones.

    ``add``, ``replace``, ``patch`` (metadata only): positions of records in the wanted sequence. ``delete``:
    slots whose records are deleted.
    """

    add: tuple[int, ...] = ()
    replace: tuple[int, ...] = ()
    patch: tuple[int, ...] = ()
    delete: tuple[int, ...] = ()


def assign(known: Sequence[Known], wanted: Sequence[Keys]) -> list[int]:
    """Return a slot for each wanted chunk.

    A chunk gets the slot of a known record with equal text and vector. If there is none, it gets the slot of
    one with equal text, else a slot that is free.
    """
    sure = sorted((k for k in known if not k.unsure), key=lambda k: k.slot)
    slots: list[int | None] = [None] * len(wanted)
    _match(slots, ((k.slot, (k.text_key, k.vector_key)) for k in sure), [(w.text, w.vector) for w in wanted])
    taken = {slot for slot in slots if slot is not None}
    _match(slots, ((k.slot, k.text_key) for k in sure if k.slot not in taken), [w.text for w in wanted])
    return _fill(slots, sorted(k.slot for k in known))


def _match(slots: list[int | None], have: Iterable[tuple[int, Hashable]], want: Sequence[Hashable]) -> None:
    free: defaultdict[Hashable, deque[int]] = defaultdict(deque)
    for slot, key in have:
        free[key].append(slot)
    for position, key in enumerate(want):
        if slots[position] is None and free[key]:
            slots[position] = free[key].popleft()


def _fill(slots: Sequence[int | None], existing: Sequence[int]) -> list[int]:
    taken = {slot for slot in slots if slot is not None}
    vacant = deque(slot for slot in existing if slot not in taken)
    used = taken.union(existing)
    fresh = (n for n in count() if n not in used)
    return [slot if slot is not None else vacant.popleft() if vacant else next(fresh) for slot in slots]


def delta(known: Sequence[Known], wanted: Sequence[Known]) -> Delta:
    """Compare known records with wanted ones. Return which to add, replace, patch and delete.

    ``wanted``: the desired records in document order, with the slots from ``assign``.
    """
    by_slot = {k.slot: k for k in known}
    add: list[int] = []
    replace: list[int] = []
    patch: list[int] = []
    for position, new in enumerate(wanted):
        old = by_slot.pop(new.slot, None)
        if old is None:
            add.append(position)
        elif old.unsure or (old.text_key, old.vector_key) != (new.text_key, new.vector_key):
            replace.append(position)
        elif old.meta_key != new.meta_key:
            patch.append(position)
    return Delta(tuple(add), tuple(replace), tuple(patch), tuple(sorted(by_slot)))
