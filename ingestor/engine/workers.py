"""Worker threads: they run submitted tasks, and post each outcome to one inbox, which the engine empties.

Tasks queue in lanes, one for each source, so that a source whose server hangs leaves threads for the others.
A task holds a permit while it works. A task that waits for a server or for vectors releases its permit.
Background tasks are work for collections that readers do not see yet. They start after all other tasks, and
leave one permit free.
"""

import traceback
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from math import inf
from queue import Empty, Queue
from threading import Condition, Event, Thread
from time import monotonic

from ingestor.core.errors import LONGEST
from ingestor.engine.flight import InFlight
from ingestor.ports import Stop, Transient

BEGUN = 4  # documents begun for each worker, including those that wait for vectors or a server
SCANS = 4  # listings that run at the same time
STUCK = 60.0  # seconds after which a listing may hang, and no longer counts: another one begins
FIRST_WAIT = 30.0  # seconds until a watch that ended begins again; doubled while it fails
PATIENCE = 3.0  # seconds for which the end of the program waits for running work


@dataclass(frozen=True, slots=True)
class Lane:
    """A queue of tasks that share limits, such as the documents of one source.

    ``most``: how many of its tasks may work at the same time. BEGUN times as many may be begun, including
    those that wait for a server or for vectors. ``background``: whether its tasks start only if no task of
    another lane can.
    """

    name: Hashable = ""
    most: float = field(default=inf, compare=False)
    background: bool = False


ANY = Lane()
Hints = Callable[[Stop], Iterator[object]]  # yields hints until its argument is set


@dataclass(slots=True, eq=False)
class WorkItem:
    """A task for a thread. Its outcome carries ``tag``. ``number``: position in the order of submission."""

    tag: object
    work: Callable[[], object]
    lane: Lane = ANY
    number: int = 0


NO_TASK = WorkItem(None, lambda: None)
CURRENT = ContextVar("document's task of this thread", default=NO_TASK)


class WorkQueue:
    """A queue of tasks in lanes. Any thread may call.

    ``at_once``: number of permits, which the tasks of all lanes share.
    """

    def __init__(self, at_once: float = inf) -> None:
        self._at_once, self._changed, self._closed = at_once, Condition(), False
        self._waiting: dict[Lane, deque[WorkItem]] = {}  # next lane first
        # tasks with a permit, and tasks on a thread, with a permit or not
        self._at_work, self._begun = Counter[Lane](), Counter[Lane]()

    def put(self, task: WorkItem) -> None:
        with self._changed:
            self._waiting.setdefault(task.lane, deque()).append(task)
            self._wake()

    def get(self, done: WorkItem | None = None) -> WorkItem | None:
        """Wait for the next task, and return it; None when the queue is closed.

        ``done``: the task that the calling thread has just finished.
        """
        with self._changed:
            if done is not None:
                self._at_work[done.lane] -= 1
                self._begun[done.lane] -= 1
            while not self._closed and (task := self._next()) is None:
                self._changed.wait()
            return None if self._closed else task

    @contextmanager
    def release_permit(self, lane: Lane) -> Iterator[None]:
        """Release a permit of this lane while the context runs.

        After the context the task continues without a wait.
        """
        with self._changed:
            self._at_work[lane] -= 1
            self._wake()
        try:
            yield
        finally:
            with self._changed:
                self._at_work[lane] += 1

    def close(self) -> None:
        """Close the queue, and discard waiting tasks."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _wake(self) -> None:
        """Wake a thread, unless all permits are taken: a thread that ends its task takes the next itself."""
        if self._at_work.total() < self._at_once:
            self._changed.notify()

    def _next(self) -> WorkItem | None:
        """Remove the next task from the queue and return it; None if no task may start now.

        Of the lanes that may start a task, the one that waited longest is served.
        """
        if self._at_work.total() >= self._at_once:
            return None
        in_background = sum(number for lane, number in self._at_work.items() if lane.background)
        may_start_background = in_background < max(1, self._at_once - 1)
        for lane, waiting in sorted(self._waiting.items(), key=lambda each: each[0].background):
            most = waiting[0].lane.most if waiting else 0
            room = self._at_work[lane] < most and self._begun[lane] < BEGUN * most
            if room and (may_start_background or not lane.background):
                self._waiting[lane] = self._waiting.pop(lane)  # to the end: its next task follows other lanes
                self._at_work[lane] += 1
                self._begun[lane] += 1
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


class Pool:
    """Threads that prepare documents, a thread for each listing, and one for each connector that reports
    changes.

    They are daemon threads, unlike the threads of an executor. So a task that hangs does not keep the program
    from ending.
    """

    def __init__(self, workers: int) -> None:
        self._inbox, self._queue, self._numbers = Queue[Outcome](), WorkQueue(workers), count(1)
        self._threads, self._closing = list[Thread](), Event()
        self._listings = list[float]()  # by running listing, the monotonic seconds at which it began
        self._listing_ended = Condition()
        self._watches: list[Event] = []  # each ends a connector's watch
        for number in range(BEGUN * workers):
            self._start(f"worker {number}", self._serve)

    def submit(
        self, tag: object, work: Callable[[], object], *, scan: bool = False, lane: Lane = ANY
    ) -> None:
        """Run ``work`` on another thread, and post its outcome with ``tag``.

        ``scan``: whether it lists a source. Then a thread is started for it. If that fails, the outcome is
        Transient.
        """
        if not scan:
            self._queue.put(WorkItem(tag, work, lane, next(self._numbers)))
            return
        try:
            self._start("scan", partial(self._list, tag, work))
        except RuntimeError as error:
            full = Transient(f"no thread can list the source ({error}): raise the limit of tasks or memory")
            self._inbox.put(Outcome(tag, error=full))

    @contextmanager
    def release_permit(self) -> Iterator[None]:
        """Release the calling worker's permit while it waits for a server or for vectors.

        Do nothing in other threads. Raises Stopped before the wait if work on the document was cancelled.
        """
        if (task := CURRENT.get()) is NO_TASK:
            yield
            return
        if isinstance(task.tag, InFlight):
            task.tag.require_wanted()
        with self._queue.release_permit(task.lane):
            yield

    def is_background(self) -> bool:
        """Return whether the calling thread works for a collection that readers do not see yet."""
        return CURRENT.get().lane.background

    def post(self, tag: object) -> None:
        """Put an outcome without a value at the end of the inbox, so that the engine continues work on
        ``tag`` later."""
        self._inbox.put(Outcome(tag))

    def listen(self, tag: object, hints: Hints) -> Callable[[], None]:
        """Run ``hints`` in a thread, and post each hint that it yields, with ``tag``.

        Return a function that ends the thread.
        """
        self._watches.append(stop := Event())
        self._start(f"watch {tag}", partial(follow, self._inbox.put, tag, hints, stop))
        return stop.set

    def next(self, timeout: float) -> Outcome | None:
        """Return the next outcome; None if none arrives within ``timeout`` seconds."""
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
        for stop in (*self._watches, self._closing):
            stop.set()
        self._queue.close()
        with self._listing_ended:
            self._listing_ended.notify_all()
        for thread in self._threads:
            thread.join(max(0.0, deadline - monotonic()))

    def _start(self, name: str, run: Callable[[], None]) -> None:
        thread = Thread(target=run, name=name, daemon=True)
        thread.start()
        self._threads = [*filter(Thread.is_alive, self._threads), thread]

    def _serve(self) -> None:
        task: WorkItem | None = None
        while (task := self._queue.get(task)) is not None:
            CURRENT.set(task)
            self._run(task.tag, task.work)
            task.work = NO_TASK.work  # it refers to a model, which an idle thread would keep in memory

    def _list(self, tag: object, work: Callable[[], object]) -> None:
        with self._listing_ended:
            while not self._closing.is_set() and self._count_listings() >= SCANS:
                self._listing_ended.wait(STUCK / 4)
            self._listings.append(begun := monotonic())
        if not self._closing.is_set():
            self._run(tag, work)
        with self._listing_ended:
            self._listings.remove(begun)
            self._listing_ended.notify()

    def _count_listings(self) -> int:
        return sum(monotonic() - begun < STUCK for begun in self._listings)

    def _run(self, tag: object, work: Callable[[], object]) -> None:
        try:
            if isinstance(tag, InFlight):
                tag.require_wanted()
            self._inbox.put(Outcome(tag, work()))
        except BaseException as error:  # noqa: BLE001 - the engine decides what follows from an error
            self._inbox.put(Outcome(tag, error=as_exception(error), trace=traceback.format_exc()))


def follow(post: Callable[[Outcome], None], tag: object, hints: Hints, stop: Stop) -> None:
    """Post the hints of a connector until ``stop`` is set. If its watch ends, begin it again after a wait."""
    wait = FIRST_WAIT
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
