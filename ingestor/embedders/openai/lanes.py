"""Several requests at the same time.

The threads are daemons: the program does not wait for a server that does not answer.
"""

from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TypeVar

from ingestor.core.interruptions import Stopped
from ingestor.ports import Stop

T = TypeVar("T")
R = TypeVar("R")

_LOOK = 0.1  # seconds between two looks at the flag


def in_parallel(work: Callable[[T], R], parts: Sequence[T], lanes: int, stop: Stop) -> list[R]:
    """Run ``work`` on each part in at most ``lanes`` threads; return the results in order of the parts.

    Raises the errors of ``work``, and Stopped soon after ``stop`` is set, even if work is under way.
    """
    waiting: SimpleQueue[int] = SimpleQueue()
    done: SimpleQueue[tuple[int, R | BaseException]] = SimpleQueue()
    for number in range(len(parts)):
        waiting.put(number)

    def serve() -> None:
        while not stop.is_set():
            try:
                number = waiting.get_nowait()
            except Empty:
                return
            try:
                done.put((number, work(parts[number])))
            except BaseException as error:  # noqa: BLE001 - it is raised where the result is awaited
                done.put((number, error))

    for lane in range(min(lanes, len(parts))):
        Thread(target=serve, name=f"request {lane}", daemon=True).start()
    found: dict[int, R] = {}
    while len(found) < len(parts):
        number, result = _next(done, stop)
        if isinstance(result, BaseException):
            raise result
        found[number] = result
    return [found[number] for number in range(len(parts))]


def _next(done: "SimpleQueue[tuple[int, R | BaseException]]", stop: Stop) -> tuple[int, R | BaseException]:
    while True:
        if stop.is_set():
            raise Stopped
        try:
            return done.get(timeout=_LOOK)
        except Empty:
            continue
