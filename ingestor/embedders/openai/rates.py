"""When a request may be sent, so that no minute has more requests or tokens than allowed. Pure.

Every minute is meant, whenever it begins, not only those of the clock.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

MINUTE = 60.0  # seconds


@dataclass(frozen=True, slots=True)
class RateLimits:
    """Limits of a minute."""

    requests: float = inf
    tokens: float = inf


@dataclass(frozen=True, slots=True)
class Sent:
    at: float  # seconds
    tokens: int


def earliest(sent: Sequence[Sent], limits: RateLimits, now: float, tokens: int) -> float:
    """The time from which a request of so many tokens may be sent, ``now`` or later.

    ``sent``: earlier ones in their order, those that still wait for their time included; none overtakes
    another. A request of more tokens than a minute may have waits until it has a minute for itself.
    """
    begin = max([now, *(one.at for one in sent[-1:])])
    times = [begin, *(one.at + MINUTE for one in sent if one.at + MINUTE > begin)]
    return next(time for time in times if _fits(recent(sent, time), limits, tokens))


def recent(sent: Sequence[Sent], now: float) -> list[Sent]:
    """Return the requests that count in the minute that ends ``now``."""
    return [one for one in sent if one.at + MINUTE > now]


def _fits(others: Sequence[Sent], limits: RateLimits, tokens: int) -> bool:
    total = tokens + sum(one.tokens for one in others)
    return not others or (len(others) < limits.requests and total <= limits.tokens)
