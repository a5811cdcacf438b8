"""Finds new and changed rows by polling for rows above the high-water mark of a column.

Rows come as pairs of key and value, the newest first, at most ``LIMIT`` of them. A later row may have the
same value as the mark. So rows with that value are read again, and recognised by their keys.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ingestor.connectors.shared.keys import cover
from ingestor.model import Hint
from ingestor.ports import NeedsHuman, Stop, Transient

LIMIT = 1000  # rows of one poll; a full page means that there may be more
Rows = Sequence[tuple[str, object]]


@dataclass(frozen=True, slots=True)
class Mark:
    """Place that polling has reached.

    ``value``: the highest value so far; None if no row had one. ``keys``: keys of the rows with that value.
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


def keys_of_changes(before: Mark, rows: Rows) -> set[str]:
    """Return keys of rows written since, and of removed rows that had the highest value; "" means all."""
    if len(rows) >= LIMIT:
        return {""}
    written = {key for key, value in rows if value != before.value or key not in before.keys}
    return written | (before.keys - {key for key, _ in rows})


HINTS = 500  # at once; more are merged
Newest = Callable[[Mark], Rows]
_log = logging.getLogger(__name__)


def poll(newest: Newest, every: float, stop: Stop) -> Iterator[Hint]:
    """Yield hints of changed rows. ``every``: seconds between two polls.

    The first hint comes at once, another one when the database can be read.
    """
    mark: Mark | None = None
    under = {""}
    while not stop.is_set():
        try:
            mark, under = _poll_once(newest, mark)
        except (NeedsHuman, Transient) as error:
            _log.debug("polling failed, will retry: %s", error)  # the next listing reports it
        yield from map(Hint, cover(under, HINTS))
        under = set()
        stop.wait(every)


def _poll_once(newest: Newest, before: Mark | None) -> tuple[Mark, set[str]]:
    """Return the new mark, and the keys to list."""
    rows = newest(before or Mark())
    if before is None:
        return mark_of(rows), {""}
    if rows:
        return mark_of(rows), keys_of_changes(before, rows)
    if before.keys and not newest(Mark()):
        return Mark(), {""}  # the table is empty, and the column may restart
    return Mark(before.value, crowded=before.crowded), set(before.keys)
