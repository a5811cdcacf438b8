"""Turns of threads at a limited number of processes.

Work that readers see comes before work for a rebuild.
"""

from collections.abc import Callable
from threading import Condition

from ingestor.core.errors import Stopped


class ProcessTurns:
    """Limits how many threads use processes at the same time. Each takes a turn, works, and returns the turn.

    Work for a collection that readers do not see yet is called ``behind``. It leaves one turn free for other
    work. ``at_once``: how many threads may have a turn. ``stopped``: called every ``tick`` seconds while a
    thread waits. If it returns True, waiting threads get Stopped.
    """

    def __init__(self, at_once: int, stopped: Callable[[], bool], tick: float) -> None:
        self._at_once, self._stopped, self._tick = at_once, stopped, tick
        self._changed = Condition()
        self._taken = {True: 0, False: 0}  # by whether the work is behind
        self._ahead = 0  # threads that wait with work that is not behind

    def take_free(self, *, behind: bool) -> bool:
        """Take a turn if one is free, without waiting. Return whether it was taken.

        ``behind``: whether the work is for a collection that readers do not see yet.
        """
        with self._changed:
            may_take = self._may_take(behind)
            self._taken[behind] += may_take
            return may_take

    def take(self, *, behind: bool) -> None:
        """Wait for a turn and take it. Raises Stopped.

        ``behind``: whether the work is for a collection that readers do not see yet. Then it also waits until
        no other work waits.
        """
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
        """Return a turn. ``behind``: the value with which it was taken."""
        with self._changed:
            self._taken[behind] -= 1
            self._changed.notify_all()

    def _may_take(self, behind: bool, *, waits: bool = False) -> bool:
        """Return whether a thread may take a turn now.

        ``behind``: whether its work is for a collection that readers do not see yet. ``waits``: whether the
        thread is already waiting. A thread that has just come lets waiting threads go first.
        """
        if sum(self._taken.values()) >= self._at_once:
            return False
        if behind:
            return not self._ahead and self._taken[True] < max(1, self._at_once - 1)
        return waits or not self._ahead
