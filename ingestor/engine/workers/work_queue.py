"""Work that waits for a thread, in lanes: a lane that hangs leaves threads to the others.

Work on collections that readers do not see yet is behind all other work, and leaves one turn free.
"""

from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from threading import Condition


@dataclass(frozen=True, slots=True)
class Lane:
    """``most``: tasks of this lane done at the same time. ``behind``: begun only if no other lane waits."""

    name: Hashable = ""
    most: float = inf
    behind: bool = False

    @property
    def key(self) -> tuple[Hashable, bool]:
        return self.name, self.behind


ANY = Lane()
Work = Callable[[], None]


class WorkQueue:
    """``at_once``: work of all lanes that is done at the same time. Any thread."""

    def __init__(self, at_once: float = inf) -> None:
        self._at_once, self._changed, self._closed = at_once, Condition(), False
        self._waiting: dict[tuple[Hashable, bool], deque[tuple[Lane, Work]]] = {}  # by lane
        self._at_work = Counter[tuple[Hashable, bool]]()

    def put(self, work: Work, lane: Lane) -> None:
        with self._changed:
            self._waiting.setdefault(lane.key, deque()).append((lane, work))
            self._wake()

    def get(self, done: Lane | None = None) -> tuple[Lane, Work] | None:
        """Wait for the next work; None at the end. ``done``: of the work that this thread did before."""
        with self._changed:
            if done is not None:
                self._at_work[done.key] -= 1
            while not self._closed and (found := self._next()) is None:
                self._changed.wait()
            return None if self._closed else found

    @contextmanager
    def resting(self, lane: Lane) -> Iterator[None]:
        """Work of this lane needs no turn meanwhile, and goes on without waiting for one."""
        with self._changed:
            self._at_work[lane.key] -= 1
            self._wake()
        try:
            yield
        finally:
            with self._changed:
                self._at_work[lane.key] += 1

    def waits(self) -> bool:
        """Whether any work waits."""
        return any(list(self._waiting.values()))

    def close(self) -> None:
        """Close the queue, and drop waiting work."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _wake(self) -> None:
        """While all turns are taken, no thread is woken: one that ends its work takes the next itself."""
        if self._at_work.total() < self._at_once:
            self._changed.notify()

    def _next(self) -> tuple[Lane, Work] | None:
        """Take work of the lane that waited longest for a turn and may have one."""
        if self._at_work.total() >= self._at_once:
            return None
        behind = sum(number for (_, last), number in self._at_work.items() if last)
        may_start_behind = behind < max(1, self._at_once - 1)
        for key, waiting in sorted(self._waiting.items(), key=lambda lane: lane[0][1]):
            if waiting and self._at_work[key] < waiting[0][0].most and (may_start_behind or not key[1]):
                found = waiting.popleft()
                self._waiting[key] = self._waiting.pop(key)
                self._at_work[key] += 1
                return found
        return None
