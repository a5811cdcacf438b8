"""The high-water mark of a column that grows with every write. Pure.

Rows come as pairs of key and value, the newest first, at most ``LIMIT`` of them. A later row may have the
same value as the mark; so rows with that value are read again, and recognised by their keys.
"""

from collections.abc import Sequence
from dataclasses import dataclass

LIMIT = 1000  # rows read at once; if there are so many, there may be more
Rows = Sequence[tuple[str, object]]


@dataclass(frozen=True, slots=True)
class Mark:
    """``value``: the highest so far, None if no row had one; ``keys``: of the rows with that value.

    ``crowded``: too many rows have that value, so ``keys`` is empty and only higher values count.
    """

    value: object = None
    keys: frozenset[str] = frozenset()
    crowded: bool = False


def mark_of(rows: Rows) -> Mark:
    if not rows:
        return Mark()
    newest = rows[0][1]
    if len(rows) >= LIMIT and rows[-1][1] == newest:
        return Mark(newest, crowded=True)
    return Mark(newest, frozenset(key for key, value in rows if value == newest))


def changed_keys(before: Mark, rows: Rows) -> set[str]:
    """Keys of rows written since, and of removed rows that had the highest value; "" means all."""
    if len(rows) >= LIMIT:
        return {""}
    written = {key for key, value in rows if value != before.value or key not in before.keys}
    return written | (before.keys - {key for key, _ in rows})
