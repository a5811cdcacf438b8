"""Work that waits for a thread, in lanes: a lane that hangs leaves threads to the others."""

from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from threading import Condition


@dataclass(frozen=True, slots=True)
class Lane:
    """``most``: of its work that is done at the same time."""

    name: Hashable = ""
    most: float = inf


ANY = Lane()
Work = Callable[[], None]


class WorkQueue:
    """``at_once``: work of all lanes that is done at the same time. Any thread."""

    def __init__(self, at_once: float = inf) -> None:
        self._at_once, self._changed, self._closed = at_once, Condition(), False
        self._waiting: dict[Hashable, deque[tuple[Lane, Work]]] = {}
        self._at_work = Counter[Hashable]()

    def put(self, work: Work, lane: Lane) -> None:
        with self._changed:
            self._waiting.setdefault(lane.name, deque()).append((lane, work))
            self._wake()

    def get(self, done: Lane | None = None) -> tuple[Lane, Work] | None:
        """Wait for the next work; None at the end. ``done``: of the work that this thread did before."""
        with self._changed:
            if done is not None:
                self._at_work[done.name] -= 1
            while not self._closed and (found := self._next()) is None:
                self._changed.wait()
            return None if self._closed else found

    @contextmanager
    def resting(self, lane: Lane) -> Iterator[None]:
        """Work of this lane needs no turn meanwhile, and goes on without waiting for one."""
        with self._changed:
            self._at_work[lane.name] -= 1
            self._wake()
        try:
            yield
        finally:
            with self._changed:
                self._at_work[lane.name] += 1

    def waits(self) -> bool:
        """Whether any work waits."""
        return any(list(self._waiting.values()))

    def close(self) -> None:
        """What waits is dropped."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _wake(self) -> None:
        """While all turns are taken, no thread is woken: one that ends its work takes the next itself."""
        if self._at_work.total() < self._at_once:
            self._changed.notify()

    def _next(self) -> tuple[Lane, Work] | None:
        """Of the lane that waits the longest for a turn and may have one."""
        if self._at_work.total() >= self._at_once:
            return None
        for name, waiting in self._waiting.items():
            if waiting and self._at_work[name] < waiting[0][0].most:
                found = waiting.popleft()
                self._waiting[name] = self._waiting.pop(name)
                self._at_work[name] += 1
                return found
        return None
