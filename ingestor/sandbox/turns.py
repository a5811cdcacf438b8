"""Turns of threads at a bounded number of processes; work for readers goes before work for a rebuild."""

from collections.abc import Callable
from threading import Condition

from ingestor.core.errors import Stopped


class ProcessTurns:
    """Turns of threads. ``at_once``: number of simultaneous turns. Work that is behind leaves one of them
    free.

    ``stopped``: called every ``tick`` seconds; waiting threads get Stopped once it returns True.
    """

    def __init__(self, at_once: int, stopped: Callable[[], bool], tick: float) -> None:
        self._at_once, self._stopped, self._tick = at_once, stopped, tick
        self._changed = Condition()
        self._taken = {True: 0, False: 0}  # by whether the work is behind
        self._ahead = 0  # threads that wait with other work

    def take_free(self, *, behind: bool) -> bool:
        """Take a turn if one is free now. Return whether a turn was taken."""
        with self._changed:
            may_take = self._may_take(behind)
            self._taken[behind] += may_take
            return may_take

    def take(self, *, behind: bool) -> None:
        """Wait for a turn; work that is behind waits until no other work waits. Raises Stopped."""
        with self._changed:
            self._ahead += not behind
            try:
                while not self._may_take(behind, waits=not behind):
                    if self._stopped():
                        raise Stopped
                    self._changed.wait(self._tick)
                self._taken[behind] += 1
            finally:
                self._ahead -= not behind
                self._changed.notify_all()

    def give_back(self, *, behind: bool) -> None:
        with self._changed:
            self._taken[behind] -= 1
            self._changed.notify_all()

    def _may_take(self, behind: bool, *, waits: bool = False) -> bool:
        """Return whether a turn is free for such work. ``waits``: whether the thread already waits."""
        if sum(self._taken.values()) >= self._at_once:
            return False
        if behind:
            return not self._ahead and self._taken[True] < max(1, self._at_once - 1)
        return waits or not self._ahead
