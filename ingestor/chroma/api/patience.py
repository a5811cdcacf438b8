"""Requests that are sent again: to a server that throttles, is away for a moment, or cuts a connection."""

import time
from collections.abc import Callable
from itertools import count
from typing import TypeVar

from ingestor.chroma.api.values import NoConnection, Refused
from ingestor.core.backoff import ceiling

T = TypeVar("T")

THROTTLED = (429, 503)
BROKEN = 3  # more attempts when nobody answers, or the connection breaks: people wait for the reason
_CEILING = 32.0  # seconds; a quarter of it is the longest wait, unless the server asks for more


def patiently(ask: Callable[[], T], seconds: float, sleep: Callable[[float], None] = time.sleep) -> T:
    """What ``ask`` returns, with waits of ``seconds`` in all at most. What it asks for must be idempotent.

    Raises what the last attempt raised: Refused, NoConnection or NoAnswer. Waits grow. They are not drawn by
    chance, since one thread writes.
    """
    left = seconds
    for attempt in count(1):
        try:
            return ask()
        except Exception as error:
            told = _wait(error)
            if told is None or (attempt > BROKEN and not isinstance(error, Refused)):
                raise
            wait = max(told, ceiling(attempt, _CEILING) / 4)
            if wait > left:
                raise
        left -= wait
        sleep(wait)
    raise AssertionError


def _wait(error: Exception) -> float | None:
    """The least seconds until another attempt makes sense; None if none does."""
    if isinstance(error, Refused):
        return (error.wait or 0.0) if error.status in THROTTLED else None
    return 0.0 if isinstance(error, NoConnection) else None
