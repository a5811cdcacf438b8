"""Commands that look once wait a moment for a file that was written to only just now."""

from collections.abc import Callable
from time import monotonic, sleep
from typing import TypeVar

from ingestor.ports import Stale, Transient

SECONDS = 5.0  # of all documents of one command together
_PAUSE = 0.2  # seconds

T = TypeVar("T")


def until_readable(read: Callable[[], T], until: float) -> T:
    """Call ``read`` and return its result; retry after Transient, until a time of ``monotonic``.

    Raises what ``read`` raises last. Stale is raised at once: only another listing helps against it.
    """
    while True:
        try:
            return read()
        except Stale:
            raise
        except Transient:
            if monotonic() > until:
                raise
            sleep(_PAUSE)
