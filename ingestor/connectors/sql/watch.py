"""Find new and changed rows by polling for the newest ones."""

import logging
from collections.abc import Callable, Iterator

from ingestor.connectors.shared.common_ancestors import cover
from ingestor.connectors.sql.mark import Mark, Rows, changed_keys, mark_of
from ingestor.model import Hint
from ingestor.ports import NeedsHuman, Stop, Transient

HINTS = 500  # at once; more are merged
Newest = Callable[[Mark], Rows]
_log = logging.getLogger(__name__)


def poll(newest: Newest, every: float, stop: Stop) -> Iterator[Hint]:
    """Yield hints of changed rows. ``every``: seconds between two looks.

    The first hint comes even without a database, another when the database can be read.
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
    """The new mark, and the keys to list."""
    rows = newest(before or Mark())
    if before is None:
        return mark_of(rows), {""}
    if rows:
        return mark_of(rows), changed_keys(before, rows)
    if before.keys and not newest(Mark()):
        return Mark(), {""}  # the table is empty, and the column may restart
    return Mark(before.value, crowded=before.crowded), set(before.keys)
