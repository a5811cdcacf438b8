"""Worker threads: they run what is submitted, in lanes, and post each outcome to one inbox.

The engine's thread empties the inbox. A lane that hangs leaves threads to the others. Work on collections
that readers do not see yet is behind all other work, and leaves one turn free.
"""

import traceback
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import count
from math import inf
from queue import Empty, Queue
from threading import Condition, Event, Thread, current_thread
from time import monotonic

from ingestor.core.errors import LONGEST
from ingestor.engine.flight import InFlight, Phase
from ingestor.ports import Stop

BEGUN = 4  # documents under way for each worker, those that wait included
SCANS = 4  # threads that list sources
STUCK = 60.0  # seconds after which a listing is no longer waited for by others
FIRST_WAIT = 30.0  # seconds until a watch that ended begins anew; they double while it fails
PATIENCE = 3.0  # seconds that the end of the program waits for work under way


@dataclass(frozen=True, slots=True)
class Lane:
    """A lane of tasks. ``most``: tasks done at the same time; with those that rest, BEGUN times as many.

    ``behind``: tasks start only if no other lane waits.
    """

    name: Hashable = ""
    most: float = inf
    behind: bool = False

    @property
    def key(self) -> tuple[Hashable, bool]:
        return self.name, self.behind


ANY = Lane()


@dataclass(frozen=True, slots=True, eq=False)
class WorkItem:
    """Work for a thread; its outcome carries ``tag``. ``number``: in the order of submission."""

    tag: object
    work: Callable[[], object]
    lane: Lane = ANY
    scan: bool = False
    number: int = 0


CURRENT = ContextVar[WorkItem | None]("task of this thread", default=None)


class WorkQueue:
    """Queue of tasks in lanes. ``at_once``: tasks of all lanes done at the same time. Any thread."""

    def __init__(self, at_once: float = inf) -> None:
        self._at_once, self._changed, self._closed = at_once, Condition(), False
        self._waiting: dict[tuple[Hashable, bool], deque[WorkItem]] = {}  # by lane
        self._at_work, self._held = Counter[tuple[Hashable, bool]](), Counter[tuple[Hashable, bool]]()

    def put(self, task: WorkItem) -> None:
        with self._changed:
            self._waiting.setdefault(task.lane.key, deque()).append(task)
            self._wake()

    def get(self, done: WorkItem | None = None) -> WorkItem | None:
        """Wait for the next task; None at the end. ``done``: the task that this thread did before."""
        with self._changed:
            if done is not None:
                self._at_work[done.lane.key] -= 1
                self._held[done.lane.key] -= 1
            while not self._closed and (task := self._next()) is None:
                self._changed.wait()
            return None if self._closed else task

    @contextmanager
    def release_turn(self, lane: Lane) -> Iterator[None]:
        """Release a turn of this lane meanwhile; its work continues without waiting for another turn."""
        with self._changed:
            self._at_work[lane.key] -= 1
            self._wake()
        try:
            yield
        finally:
            with self._changed:
                self._at_work[lane.key] += 1

    def waits(self) -> bool:
        """Return whether any work waits."""
        return any(list(self._waiting.values()))

    def close(self) -> None:
        """Close the queue, and drop waiting work."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _wake(self) -> None:
        """Wake a thread unless all turns are taken: a thread that ends its work takes the next itself."""
        if self._at_work.total() < self._at_once:
            self._changed.notify()

    def _next(self) -> WorkItem | None:
        """Take work of the lane that waited longest for a turn and may have one."""
        if self._at_work.total() >= self._at_once:
            return None
        behind = sum(number for (_, last), number in self._at_work.items() if last)
        may_start_behind = behind < max(1, self._at_once - 1)
        for key, waiting in sorted(self._waiting.items(), key=lambda lane: lane[0][1]):
            most = waiting[0].lane.most if waiting else 0
            room = self._at_work[key] < most and self._held[key] < BEGUN * most
            if room and (may_start_behind or not key[1]):
                self._waiting[key] = self._waiting.pop(key)
                self._at_work[key] += 1
                self._held[key] += 1
                return waiting.popleft()
        return None


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """The result of the work submitted under ``tag``: a value, or an error with its traceback."""

    tag: object
    value: object = None
    error: Exception | None = None
    trace: str = ""


def as_exception(error: BaseException) -> Exception:
    """Return an Exception for a panic in a Rust library: the document fails like any other."""
    return error if isinstance(error, Exception) else RuntimeError(f"{type(error).__name__}: {error}")


class _Workers:
    """Threads that do the work of a queue. Unlike an executor's they do not keep the program from ending."""

    def __init__(self, name: str, number: int, run: Callable[[WorkItem], None], at_once: float = inf) -> None:
        self.queue, self._name, self._run = WorkQueue(at_once), name, run
        self._threads: list[Thread] = []
        self._since: dict[Thread, float] = {}  # since when a thread is busy, monotonic seconds
        for _ in range(number):
            self._grow()

    def relieve(self) -> None:
        """Start one more thread if work waits and every thread has been busy for STUCK seconds."""
        busy = list(self._since.values())
        if len(busy) == len(self._threads) and self.queue.waits() and max(busy) < monotonic() - STUCK:
            self._grow()

    def join(self, deadline: float) -> None:
        for thread in self._threads:
            thread.join(max(0.0, deadline - monotonic()))

    def _grow(self) -> None:
        name = f"{self._name} {len(self._threads)}"
        self._threads.append(Thread(target=self._serve, name=name, daemon=True))
        self._threads[-1].start()

    def _serve(self) -> None:
        task: WorkItem | None = None
        while (task := self.queue.get(task)) is not None:
            self._since[current_thread()] = monotonic()
            self._run(task)
            del self._since[current_thread()]


class Pool:
    """Worker threads, and the threads that listen for hints."""

    def __init__(self, workers: int) -> None:
        self._inbox: Queue[Outcome] = Queue()
        self._documents = _Workers("worker", BEGUN * workers, self._run, at_once=workers)
        self._scans = _Workers("scan", SCANS, self._run)
        self._listeners: list[tuple[Thread, Event]] = []
        self._numbers = count(1)

    def submit(
        self, tag: object, work: Callable[[], object], *, scan: bool = False, lane: Lane = ANY
    ) -> None:
        """Run ``work`` on a worker; its outcome carries ``tag``. Scans have threads of their own."""
        workers = self._scans if scan else self._documents
        workers.queue.put(WorkItem(tag, work, lane, scan, next(self._numbers)))

    @contextmanager
    def release_turn(self) -> Iterator[None]:
        """Release the calling worker's turn while it waits elsewhere.

        Only workers may call. Raises Stopped before waiting if the document was cancelled.
        """
        task = CURRENT.get()
        assert task is not None
        document = task.tag if isinstance(task.tag, InFlight) else None
        if document is not None:
            document.wait()
        try:
            with (self._scans if task.scan else self._documents).queue.release_turn(task.lane):
                yield
        finally:
            if document is not None:
                document.move(Phase.PREPARING)

    def behind(self) -> bool:
        """Return whether the calling thread works for a collection that readers do not see yet."""
        task = CURRENT.get()
        return task is not None and task.lane.behind

    def post(self, tag: object, value: object = None) -> None:
        """Put an outcome at the end of the inbox."""
        self._inbox.put(Outcome(tag, value))

    def listen(self, tag: object, hints: Callable[[Stop], Iterator[object]]) -> Callable[[], None]:
        """Post every hint that ``hints`` yields, with ``tag``. Return a function that ends it."""
        self._listeners = [(thread, stop) for thread, stop in self._listeners if thread.is_alive()]
        ending = [thread for thread, stop in self._listeners if stop.is_set()]
        stop = Event()
        known = (self._inbox.put, tag, hints, stop, ending)
        thread = Thread(target=follow, args=known, name=f"watch {tag}", daemon=True)
        self._listeners.append((thread, stop))
        thread.start()
        return stop.set

    def next(self, timeout: float) -> Outcome | None:
        """Return the next outcome, or None after ``timeout`` seconds."""
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
            workers.queue.close()
        for workers in (self._documents, self._scans):
            workers.join(deadline)
        for thread, _ in self._listeners:
            thread.join(max(0.0, deadline - monotonic()))

    def _run(self, task: WorkItem) -> None:
        CURRENT.set(task)
        try:
            if isinstance(task.tag, InFlight):
                task.tag.take()
            self._inbox.put(Outcome(task.tag, task.work()))
        except BaseException as error:  # noqa: BLE001 - the engine decides what an error means
            self._inbox.put(Outcome(task.tag, error=as_exception(error), trace=traceback.format_exc()))


def follow(
    post: Callable[[Outcome], None],
    tag: object,
    hints: Callable[[Stop], Iterator[object]],
    stop: Stop,
    ending: Sequence[Thread] = (),
) -> None:
    """Post the hints of a watch until it is stopped; a watch that ends begins anew after a wait.

    ``ending``: threads of watches that close first, since the system may refuse another one beside them.
    """
    wait, deadline = FIRST_WAIT, monotonic() + PATIENCE
    for thread in ending:
        thread.join(max(0.0, deadline - monotonic()))
    while not stop.is_set():
        begun, failed = monotonic(), False
        try:
            for hint in hints(stop):
                post(Outcome(tag, hint))
        except Exception as error:  # noqa: BLE001 - hints only: a full scan comes in any case
            failed = True
            post(Outcome(tag, error=error, trace=traceback.format_exc()))
        if not failed or monotonic() - begun > LONGEST:
            wait = FIRST_WAIT
        stop.wait(wait)
        wait = min(LONGEST, 2 * wait)
