"""Waits before retries. Pure.

Exponential with full jitter (M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015): the
wait is drawn evenly from the range below the ceiling. So many failures of one cause are not retried at once.
"""

import re
from email.utils import parsedate_to_datetime

BASE = 1.0  # seconds: the ceiling after the first failure
CAP = 300.0  # seconds: the highest ceiling where the cause is expected to pass
LONGEST = 3600.0  # seconds: the highest ceiling where the cause is unknown
_DOUBLINGS = 12  # 2**12 seconds are already beyond the longest wait


def ceiling(attempt: int, cap: float = CAP) -> float:
    """The longest wait, in seconds, after that many failures in a row (1 is the first)."""
    return min(cap, BASE * 2.0 ** min(max(attempt - 1, 0), _DOUBLINGS))


def delay(attempt: int, random: float, cap: float = CAP) -> float:
    """Seconds to wait after failure number ``attempt``; ``random`` is drawn evenly from [0, 1)."""
    return ceiling(attempt, cap) * random


def has_passed(since: float, seconds: float, now: float) -> bool:
    """Whether so many seconds passed, or the clock was put back meanwhile: then nobody knows."""
    return not since <= now < since + seconds


def retry_after(header: str | None, now: float) -> float | None:
    """Return the seconds that a header asks for, as a number or as a date; None without a value.

    ``now``: POSIX seconds.
    """
    if not header:
        return None
    if re.fullmatch(r"\d{1,9}(\.\d*)?", header.strip()):
        return float(header)
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - now)
    except (ValueError, OverflowError):
        return None
