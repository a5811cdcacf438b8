"""Worker threads: they run submitted tasks, and post each outcome to one inbox, which the engine empties.

Tasks queue in lanes, one for each source, so that a source whose server hangs leaves threads for the others.
A task holds a permit while it works. A task that waits for a server or for vectors releases its permit.
Background tasks are work for collections that readers do not see yet. They start after all other tasks, and
leave one permit free.
"""

import traceback
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
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

BEGUN = 4  # documents begun for each worker, including those that wait for vectors or a server
SCANS = 4  # threads that list sources
STUCK = 60.0  # seconds after which a hanging listing gets a further thread beside it
FIRST_WAIT = 30.0  # seconds until a watch that ended begins again; doubled while it fails
PATIENCE = 3.0  # seconds for which the end of the program waits for running work


@dataclass(frozen=True, slots=True)
class Lane:
    """A queue of tasks that share limits, such as the documents of one source.

    ``most``: how many of its tasks may work at the same time. BEGUN times as many may be begun, including
    those that wait for a server or for vectors.

    ``background``: whether its tasks start only if no task of another lane can.
    """

    name: Hashable = ""
    most: float = inf
    background: bool = False

    @property
    def key(self) -> tuple[Hashable, bool]:
        return self.name, self.background


ANY = Lane()
Hints = Callable[[Stop], Iterator[object]]  # yields hints until its argument is set


@dataclass(frozen=True, slots=True, eq=False)
class WorkItem:
    """A task for a thread. Its outcome carries ``tag``. ``number``: position in the order of submission."""

    tag: object
    work: Callable[[], object]
    lane: Lane = ANY
    scan: bool = False
    number: int = 0


CURRENT = ContextVar[WorkItem | None]("task of this thread", default=None)


class WorkQueue:
    """A queue of tasks in lanes. Any thread may call.

    ``at_once``: number of permits, which the tasks of all lanes share.
    """

    def __init__(self, at_once: float = inf) -> None:
        self._at_once, self._changed, self._closed = at_once, Condition(), False
        self._waiting: dict[tuple[Hashable, bool], deque[WorkItem]] = {}  # by lane, next lane first
        # by lane: tasks with a permit, and tasks on a thread, with a permit or not
        self._at_work, self._begun = Counter[tuple[Hashable, bool]](), Counter[tuple[Hashable, bool]]()

    def put(self, task: WorkItem) -> None:
        with self._changed:
            self._waiting.setdefault(task.lane.key, deque()).append(task)
            self._wake()

    def get(self, done: WorkItem | None = None) -> WorkItem | None:
        """Wait for the next task, and return it; None when the queue is closed.

        ``done``: the task that the calling thread has just finished.
        """
        with self._changed:
            if done is not None:
                self._at_work[done.lane.key] -= 1
                self._begun[done.lane.key] -= 1
            while not self._closed and (task := self._next()) is None:
                self._changed.wait()
            return None if self._closed else task

    @contextmanager
    def release_permit(self, lane: Lane) -> Iterator[None]:
        """Release a permit of this lane while the context runs.

        After the context the task continues without a wait.
        """
        with self._changed:
            self._at_work[lane.key] -= 1
            self._wake()
        try:
            yield
        finally:
            with self._changed:
                self._at_work[lane.key] += 1

    def waits(self) -> bool:
        """Return whether any task waits for a thread."""
        return any(list(self._waiting.values()))

    def close(self) -> None:
        """Close the queue, and discard waiting tasks."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _wake(self) -> None:
        """Wake a waiting thread if a permit is free.

        Otherwise a thread that finishes its task takes the next task.
        """
        if self._at_work.total() < self._at_once:
            self._changed.notify()

    def _next(self) -> WorkItem | None:
        """Remove the next task from the queue and return it; None if no task may start now.

        Of the lanes that may start a task, the one that waited longest is served.
        """
        if self._at_work.total() >= self._at_once:
            return None
        in_background = sum(number for (_, background), number in self._at_work.items() if background)
        may_start_background = in_background < max(1, self._at_once - 1)
        for key, waiting in sorted(self._waiting.items(), key=lambda lane: lane[0][1]):
            most = waiting[0].lane.most if waiting else 0
            room = self._at_work[key] < most and self._begun[key] < BEGUN * most
            if room and (may_start_background or not key[1]):
                self._waiting[key] = self._waiting.pop(key)  # to the end: its next task follows other lanes
                self._at_work[key] += 1
                self._begun[key] += 1
                return waiting.popleft()
        return None


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """The result of the task submitted with ``tag``: a value, or an error with its traceback."""

    tag: object
    value: object = None
    error: Exception | None = None
    trace: str = ""


def as_exception(error: BaseException) -> Exception:
    """Return an error as an ``Exception``, so that a panic in a Rust library fails one document like any
    error."""
    return error if isinstance(error, Exception) else RuntimeError(f"{type(error).__name__}: {error}")


class _Workers:
    """Threads that run the tasks of a queue.

    They are daemon threads, unlike the threads of an executor. So a task that hangs does not keep the program
    from ending.
    """

    def __init__(self, name: str, number: int, run: Callable[[WorkItem], None], at_once: float = inf) -> None:
        self.queue, self._name, self._run = WorkQueue(at_once), name, run
        self.threads: list[Thread] = []
        self._since: dict[Thread, float] = {}  # since when a thread is busy, monotonic seconds
        for _ in range(number):
            self._grow()

    def relieve(self) -> None:
        """Start one more thread if a task waits and every thread has been busy for STUCK seconds."""
        busy = list(self._since.values())
        if len(busy) == len(self.threads) and self.queue.waits() and max(busy) < monotonic() - STUCK:
            self._grow()

    def _grow(self) -> None:
        name = f"{self._name} {len(self.threads)}"
        self.threads.append(Thread(target=self._serve, name=name, daemon=True))
        self.threads[-1].start()

    def _serve(self) -> None:
        task: WorkItem | None = None
        while (task := self.queue.get(task)) is not None:
            self._since[current_thread()] = monotonic()
            self._run(task)
            del self._since[current_thread()]


class Pool:
    """Threads that prepare documents, threads that list sources, and a thread for each connector that reports
    changes."""

    def __init__(self, workers: int) -> None:
        self._inbox: Queue[Outcome] = Queue()
        self._documents = _Workers("worker", BEGUN * workers, self._run, at_once=workers)
        self._scans = _Workers("scan", SCANS, self._run)
        self._listeners: list[tuple[Thread, Event]] = []
        self._numbers = count(1)

    def submit(
        self, tag: object, work: Callable[[], object], *, scan: bool = False, lane: Lane = ANY
    ) -> None:
        """Run ``work`` on a worker thread, and post its outcome with ``tag``.

        ``scan``: whether to use the threads that list sources.
        """
        workers = self._scans if scan else self._documents
        workers.queue.put(WorkItem(tag, work, lane, scan, next(self._numbers)))

    @contextmanager
    def release_permit(self) -> Iterator[None]:
        """Release the calling worker's permit while the worker waits for a server or for vectors.

        Only worker threads may call. Raises Stopped before the wait if work on the document was cancelled.
        """
        task = CURRENT.get()
        assert task is not None
        document = task.tag if isinstance(task.tag, InFlight) else None
        if document is not None:
            document.move_at_work(Phase.WAITING)
        try:
            with (self._scans if task.scan else self._documents).queue.release_permit(task.lane):
                yield
        finally:
            if document is not None:
                document.move(Phase.PREPARING)

    def is_background(self) -> bool:
        """Return whether the calling thread works for a collection that readers do not see yet."""
        task = CURRENT.get()
        return task is not None and task.lane.background

    def post(self, tag: object) -> None:
        """Put an outcome without a value at the end of the inbox, so that the engine continues work on
        ``tag`` later."""
        self._inbox.put(Outcome(tag))

    def listen(self, tag: object, hints: Hints) -> Callable[[], None]:
        """Run ``hints`` in a thread, and post each hint that it yields, with ``tag``.

        Return a function that ends the thread.
        """
        self._listeners = [(thread, stop) for thread, stop in self._listeners if thread.is_alive()]
        ending = [thread for thread, stop in self._listeners if stop.is_set()]
        stop = Event()
        known = (self._inbox.put, tag, hints, stop, ending)
        thread = Thread(target=follow, args=known, name=f"watch {tag}", daemon=True)
        self._listeners.append((thread, stop))
        thread.start()
        return stop.set

    def next(self, timeout: float) -> Outcome | None:
        """Return the next outcome; None if none arrives within ``timeout`` seconds."""
        self._scans.relieve()
        try:
            return self._inbox.get(timeout=timeout) if timeout > 0 else self._inbox.get_nowait()
        except Empty:
            return None

    def close(self) -> None:
        """Discard tasks that have not begun, and wait up to PATIENCE seconds for the running ones.

        Tasks that still run then are abandoned. That is safe, because tasks only read. A server that never
        answers must not delay the end of the program.
        """
        deadline = monotonic() + PATIENCE
        for _, stop in self._listeners:
            stop.set()
        for workers in (self._documents, self._scans):
            workers.queue.close()
        listeners = (thread for thread, _ in self._listeners)
        _join((*self._documents.threads, *self._scans.threads, *listeners), deadline)

    def _run(self, task: WorkItem) -> None:
        CURRENT.set(task)
        try:
            if isinstance(task.tag, InFlight):
                task.tag.move_at_work(Phase.PREPARING)
            self._inbox.put(Outcome(task.tag, task.work()))
        except BaseException as error:  # noqa: BLE001 - the engine decides what follows from an error
            self._inbox.put(Outcome(task.tag, error=as_exception(error), trace=traceback.format_exc()))


def _join(threads: Iterable[Thread], deadline: float) -> None:
    """Wait until these threads have ended, but no longer than a deadline, by ``monotonic``."""
    for thread in threads:
        thread.join(max(0.0, deadline - monotonic()))


def follow(
    post: Callable[[Outcome], None], tag: object, hints: Hints, stop: Stop, ending: Sequence[Thread] = ()
) -> None:
    """Post the hints of a connector until ``stop`` is set. If its watch ends, begin it again after a wait.

    ``ending``: threads of earlier watches. They must end before this watch begins, since the system may
    refuse two watches at once.
    """
    wait = FIRST_WAIT
    _join(ending, monotonic() + PATIENCE)
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
