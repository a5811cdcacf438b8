"""Turns of threads at a limited number of processes. Work that readers see goes before work for a rebuild."""

from collections.abc import Callable
from threading import Condition

from ingestor.core.errors import Stopped


class ProcessTurns:
    """Turns of threads: each thread takes a turn, works, and gives the turn back.

    Work for a collection that readers do not see yet is ``behind``: it leaves one turn to other work.
    ``at_once``: number of turns at the same time. ``stopped``: called every ``tick`` seconds; when it returns
    True, waiting threads get Stopped.
    """

    def __init__(self, at_once: int, stopped: Callable[[], bool], tick: float) -> None:
        self._at_once, self._stopped, self._tick = at_once, stopped, tick
        self._changed = Condition()
        self._taken = {True: 0, False: 0}  # by whether the work is behind
        self._ahead = 0  # threads that wait with work that is not behind

    def take_free(self, *, behind: bool) -> bool:
        """Take a turn without waiting. Return False if none is free."""
        with self._changed:
            may_take = self._may_take(behind)
            self._taken[behind] += may_take
            return may_take

    def take(self, *, behind: bool) -> None:
        """Wait for a turn and take it.

        Work that is behind waits until no other work waits. Raises Stopped.
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
        """Return a turn. ``behind``: as when it was taken."""
        with self._changed:
            self._taken[behind] -= 1
            self._changed.notify_all()

    def _may_take(self, behind: bool, *, waits: bool = False) -> bool:
        """Return whether a turn is free for such work.

        ``waits``: whether the thread is one of those that wait, for which others must not be served first.
        """
        if sum(self._taken.values()) >= self._at_once:
            return False
        if behind:
            return not self._ahead and self._taken[True] < max(1, self._at_once - 1)
        return waits or not self._ahead
