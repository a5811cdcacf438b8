"""The pace of all requests to one server: its limits a minute, and the pauses that it asks for."""

import time
from collections.abc import Callable
from threading import Lock

from ingestor.embedders.openai.rates import RateLimits, Sent, earliest, recent


class Pace:
    """Threads share it. ``clock``: seconds that never run backwards."""

    def __init__(self, limits: RateLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits, self._clock = limits, clock
        self._lock = Lock()
        self._sent: list[Sent] = []
        self._resumes = 0.0

    def take(self, tokens: int) -> float:
        """Reserve a request of so many tokens. Returns the seconds to wait before it is sent."""
        with self._lock:
            now = self._clock()
            begin = max(now, self._resumes)
            self._sent = recent(self._sent, now)
            at = earliest(self._sent, self._limits, begin, tokens)
            self._sent.append(Sent(at, tokens))
            return at - now

    def pause(self, seconds: float) -> None:
        """Reserve none before so many seconds have passed."""
        with self._lock:
            self._resumes = max(self._resumes, self._clock() + seconds)
