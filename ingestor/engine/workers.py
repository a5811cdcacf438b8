"""Worker threads: they run what is submitted, in lanes, and post each outcome to one inbox.

The engine's thread empties the inbox. A lane that hangs leaves threads to the others. Work on collections
that readers do not see yet is behind all other work, and leaves one turn free.
"""

import traceback
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import count
from math import inf
from queue import Empty, Queue
from threading import Condition, Event, Thread, current_thread, local
from time import monotonic
from typing import Protocol

from ingestor.core.backoff import LONGEST
from ingestor.engine.flight import InFlight, Phase
from ingestor.model import Hint
from ingestor.ports import Stop

BEGUN = 4  # documents under way for each worker, those that wait included
TURN = ContextVar("turn", default=0)  # of the work that a worker does; greater for work submitted later
STUCK = 60.0  # seconds after which a listing is no longer waited for by others
FIRST_WAIT = 30.0  # seconds until a watch that ended begins anew; they double while it fails
PATIENCE = 3.0  # seconds that the end of the program waits for work under way


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
Task = Callable[[], None]


class WorkQueue:
    """``at_once``: work of all lanes that is done at the same time. Any thread."""

    def __init__(self, at_once: float = inf) -> None:
        self._at_once, self._changed, self._closed = at_once, Condition(), False
        self._waiting: dict[tuple[Hashable, bool], deque[tuple[Lane, Task]]] = {}  # by lane
        self._at_work = Counter[tuple[Hashable, bool]]()

    def put(self, work: Task, lane: Lane) -> None:
        with self._changed:
            self._waiting.setdefault(lane.key, deque()).append((lane, work))
            self._wake()

    def get(self, done: Lane | None = None) -> tuple[Lane, Task] | None:
        """Wait for the next work; None at the end. ``done``: of the work that this thread did before."""
        with self._changed:
            if done is not None:
                self._at_work[done.key] -= 1
            while not self._closed and (task := self._next()) is None:
                self._changed.wait()
            return None if self._closed else task

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

    def _next(self) -> tuple[Lane, Task] | None:
        """Take work of the lane that waited longest for a turn and may have one."""
        if self._at_work.total() >= self._at_once:
            return None
        behind = sum(number for (_, last), number in self._at_work.items() if last)
        may_start_behind = behind < max(1, self._at_once - 1)
        for key, waiting in sorted(self._waiting.items(), key=lambda lane: lane[0][1]):
            if waiting and self._at_work[key] < waiting[0][0].most and (may_start_behind or not key[1]):
                task = waiting.popleft()
                self._waiting[key] = self._waiting.pop(key)
                self._at_work[key] += 1
                return task
        return None


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """The result of the work submitted under ``tag``: a value, or an error with its traceback."""

    tag: object
    value: object = None
    error: Exception | None = None
    trace: str = ""


class Work(Protocol):
    """The part of a ``Pool`` that the engine needs."""

    def submit(
        self, tag: object, work: Callable[[], object], *, scan: bool = False, lane: Lane = ANY
    ) -> None: ...
    def behind(self) -> bool:
        """Whether the calling thread works for a collection that readers do not see yet."""
        ...

    def post(self, tag: object, value: object = None) -> None:
        """Put something into the inbox, after what is there."""
        ...

    def listen(self, tag: object, hints: Callable[[Stop], Iterator[Hint]]) -> Callable[[], None]: ...
    def next(self, timeout: float) -> Outcome | None: ...
    def resting(self) -> AbstractContextManager[None]:
        """Entered by a worker that waits for its turn elsewhere."""
        ...

    def close(self) -> None: ...


def as_exception(error: BaseException) -> Exception:
    """A panic in a Rust library is no Exception; the document that caused it fails like any other."""
    return error if isinstance(error, Exception) else RuntimeError(f"{type(error).__name__}: {error}")


class _Workers:
    """A fixed number of threads. Unlike those of an executor, they do not keep the program from ending."""

    def __init__(self, number: int, name: str, turns: WorkQueue) -> None:
        self.turns, self._name, self._closed = turns, name, False
        self._threads: list[Thread] = []
        self._since: dict[str, float] = {}  # by thread: since when it is busy, monotonic seconds
        for _ in range(number):
            self._grow()

    def relieve(self) -> None:
        """Start one more thread if work waits and every thread has been busy for STUCK seconds."""
        stuck_since = monotonic() - STUCK
        busy = list(self._since.values())
        waits = self.turns.waits() and len(busy) == len(self._threads)
        if waits and max(busy) < stuck_since and not self._closed:
            self._grow()

    def _grow(self) -> None:
        name = f"{self._name} {len(self._threads)}"
        self._threads.append(Thread(target=self._serve, name=name, daemon=True))
        self._threads[-1].start()

    def close(self) -> None:
        """Drop work that has not begun."""
        self._closed = True
        self.turns.close()

    def join(self, deadline: float) -> None:
        for thread in self._threads:
            thread.join(max(0.0, deadline - monotonic()))

    def _serve(self) -> None:
        done: Lane | None = None
        while (turn := self.turns.get(done)) is not None:
            done, work = turn
            self._since[current_thread().name] = monotonic()
            work()
            self._since.pop(current_thread().name)


class Pool:
    """Worker threads, and the threads that listen for hints."""

    def __init__(self, workers: int) -> None:
        self._inbox: Queue[Outcome] = Queue()
        self._documents = _Workers(BEGUN * workers, "worker", WorkQueue(workers))
        self._current = local()
        self._scans = _Workers(4, "scan", WorkQueue())
        self._listeners: list[tuple[Thread, Event]] = []
        self._numbers = count(1)

    def submit(
        self, tag: object, work: Callable[[], object], *, scan: bool = False, lane: Lane = ANY
    ) -> None:
        """Run ``work`` on a worker; its outcome carries ``tag``. Scans have threads of their own."""
        turns, turn = (self._scans if scan else self._documents).turns, next(self._numbers)
        turns.put(lambda: self._run((tag, turns, lane), turn, work), lane)

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Release the calling worker's turn while it waits elsewhere.

        Only workers may call. Raises Stopped before waiting if the document was cancelled.
        """
        tag, turns, lane = self._current.work
        if isinstance(tag, InFlight):
            tag.wait()
        try:
            with turns.resting(lane):
                yield
        finally:
            if isinstance(tag, InFlight):
                tag.move(Phase.PREPARING)

    def behind(self) -> bool:
        """Whether the calling thread works for a collection that readers do not see yet."""
        known = getattr(self._current, "work", None)
        return known is not None and bool(known[2].behind)

    def post(self, tag: object, value: object = None) -> None:
        """Put something into the inbox from any thread or signal handler."""
        self._inbox.put(Outcome(tag, value))

    def listen(self, tag: object, hints: Callable[[Stop], Iterator[object]]) -> Callable[[], None]:
        """Post every hint that ``hints`` yields, with ``tag``. Returns a function that ends it.

        Watches that were ended close first: beside them the system may refuse another.
        """
        self._listeners = [(thread, stop) for thread, stop in self._listeners if thread.is_alive()]
        ending = [thread for thread, stop in self._listeners if stop.is_set()]
        stop = Event()
        known = (tag, hints, stop, ending)
        thread = Thread(target=self._listen, args=known, name=f"watch {tag}", daemon=True)
        self._listeners.append((thread, stop))
        thread.start()
        return stop.set

    def next(self, timeout: float) -> Outcome | None:
        """The next outcome, or None after ``timeout`` seconds."""
        self._scans.relieve()
        try:
            return self._inbox.get(timeout=timeout) if timeout > 0 else self._inbox.get_nowait()
        except Empty:
            return None

    def close(self) -> None:
        """Drop work that has not begun, and wait up to PATIENCE seconds for running work.

        What still runs then is abandoned: work only reads, and a server that never answers must not delay
        the end of the program.
        """
        deadline = monotonic() + PATIENCE
        for _, stop in self._listeners:
            stop.set()
        for workers in (self._documents, self._scans):
            workers.close()
        for workers in (self._documents, self._scans):
            workers.join(deadline)
        for thread, _ in self._listeners:
            thread.join(max(0.0, deadline - monotonic()))

    def _run(self, known: tuple[object, WorkQueue, Lane], turn: int, work: Callable[[], object]) -> None:
        self._current.work, tag = known, known[0]
        TURN.set(turn)
        try:
            if isinstance(tag, InFlight):
                tag.take()
            self._inbox.put(Outcome(tag, work()))
        except BaseException as error:  # noqa: BLE001 - the engine decides what an error means
            self._inbox.put(Outcome(tag, error=as_exception(error), trace=traceback.format_exc()))

    def _listen(
        self,
        tag: object,
        hints: Callable[[Stop], Iterator[object]],
        stop: Stop,
        ending: Sequence[Thread],
    ) -> None:
        wait, deadline = FIRST_WAIT, monotonic() + PATIENCE
        for thread in ending:
            thread.join(max(0.0, deadline - monotonic()))
        while not stop.is_set():
            begun, failed = monotonic(), False
            try:
                for hint in hints(stop):
                    self._inbox.put(Outcome(tag, hint))
            except Exception as error:  # noqa: BLE001 - hints only: a full scan comes in any case
                failed = True
                self._inbox.put(Outcome(tag, error=error, trace=traceback.format_exc()))
            if not failed or monotonic() - begun > LONGEST:
                wait = FIRST_WAIT
            stop.wait(wait)
            wait = min(LONGEST, 2 * wait)
