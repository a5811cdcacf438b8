"""The workers: threads that run what is submitted, and post the outcome to one inbox.

The engine's thread empties the inbox.
"""

import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from queue import Empty, Queue
from threading import Event, Thread, current_thread, local
from time import monotonic

from ingestor.core.backoff import LONGEST
from ingestor.core.interruptions import Stopped
from ingestor.engine.workers.outcomes import BEGUN, TURN, Outcome, as_exception
from ingestor.engine.workers.work_queue import ANY, Lane, WorkQueue
from ingestor.ports import Stop

STUCK = 60.0  # seconds after which a listing is no longer waited for by others
FIRST_WAIT = 30.0  # seconds until a watch that ended begins anew; they double while it fails
PATIENCE = 3.0  # seconds that the end of the program waits for work under way


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
        self._current, self._idle, self._revoked = local(), set[object](), set[object]()
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
        """Mark the calling worker's work as idle while it waits for its turn elsewhere: see ``idle``.

        Only workers may call. Raises Stopped before waiting if the outcome was revoked.
        """
        tag, turns, lane = self._current.work
        self._require(tag)
        self._idle.add(tag)
        try:
            with turns.resting(lane):
                yield
        finally:
            self._idle.discard(tag)

    def behind(self) -> bool:
        """Whether the calling thread works for a collection that readers do not see yet."""
        known = getattr(self._current, "work", None)
        return known is not None and bool(known[2].behind)

    def idle(self) -> Collection[object]:
        """Tags of work that waits for its turn elsewhere and needs no worker meanwhile."""
        return list(self._idle)

    def revoke(self, tag: object) -> None:
        """See ``Work``. Work ends before it begins, or where it rests."""
        self._revoked.add(tag)

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
            outcome = self._inbox.get(timeout=timeout) if timeout > 0 else self._inbox.get_nowait()
        except Empty:
            return None
        self._revoked.discard(outcome.tag)
        return outcome

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
            self._require(tag)
            self._inbox.put(Outcome(tag, work()))
        except BaseException as error:  # noqa: BLE001 - the engine decides what an error means
            self._inbox.put(Outcome(tag, error=as_exception(error), trace=traceback.format_exc()))

    def _require(self, tag: object) -> None:
        if tag in self._revoked:
            raise Stopped

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
