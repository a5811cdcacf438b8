"""Rows that were written, found by asking again and again for what is newest."""

import logging
from collections.abc import Callable, Iterator

from ingestor.connectors.shared.common_ancestors import cover
from ingestor.connectors.sql.mark import Mark, Rows, changed, marked
from ingestor.model import Hint
from ingestor.ports import NeedsHuman, Stop, Transient

HINTS = 500  # at once; more are drawn together
Newest = Callable[[Mark], Rows]
_log = logging.getLogger(__name__)


def polled(newest: Newest, every: float, stop: Stop) -> Iterator[Hint]:
    """``every``: seconds. The first hint comes even if nothing can be asked, another when it can."""
    mark: Mark | None = None
    under = {""}
    while not stop.is_set():
        try:
            mark, under = _looked(newest, mark)
        except (NeedsHuman, Transient) as error:
            _log.debug("%s", error)  # the next listing says it where people look
        yield from map(Hint, cover(under, HINTS))
        under = set()
        stop.wait(every)


def _looked(newest: Newest, before: Mark | None) -> tuple[Mark, set[str]]:
    """How far it read, and what is to be listed."""
    rows = newest(before or Mark())
    if before is None:
        return marked(rows), {""}
    if rows:
        return marked(rows), changed(before, rows)
    if before.keys and not newest(Mark()):
        return Mark(), {""}  # nothing is left, and the column may start over
    return Mark(before.value, crowded=before.crowded), set(before.keys)
