"""How far a watch has read a column that grows whenever a row is written. Pure.

Rows come with the newest first, no more than ``LIMIT`` of them, as pairs of key and value. A row may be
written with the value that was the highest when they were read last; so rows that have it are read again,
and known by their keys.
"""

from collections.abc import Sequence
from dataclasses import dataclass

LIMIT = 1000  # rows read at once; where there are as many, there may be more
Rows = Sequence[tuple[str, object]]


@dataclass(frozen=True, slots=True)
class Mark:
    """``value``: the highest there was, None if no row had one; ``keys``: of the rows that had it.

    ``crowded``: too many had it to be read again and again, so ``keys`` is empty and only higher ones count.
    """

    value: object = None
    keys: frozenset[str] = frozenset()
    crowded: bool = False


def marked(rows: Rows) -> Mark:
    if not rows:
        return Mark()
    newest = rows[0][1]
    if len(rows) >= LIMIT and rows[-1][1] == newest:
        return Mark(newest, crowded=True)
    return Mark(newest, frozenset(key for key, value in rows if value == newest))


def changed(before: Mark, rows: Rows) -> set[str]:
    """Keys of rows written since, and of those that had the highest value and are gone; "" is all."""
    if len(rows) >= LIMIT:
        return {""}
    written = {key for key, value in rows if value != before.value or key not in before.keys}
    return written | (before.keys - {key for key, _ in rows})
