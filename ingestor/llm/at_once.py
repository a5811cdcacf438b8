"""Runs several requests at the same time, in threads.

The threads are daemon threads: when the program ends, it does not wait for a server's answer.
"""

from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TypeVar

from ingestor.core.errors import Stopped
from ingestor.ports import Stop

T = TypeVar("T")
R = TypeVar("R")

_TICK = 0.1  # seconds between two checks of ``stop``


def in_parallel(
    work: Callable[[T], R],
    parts: Sequence[T],
    lanes: int,
    stop: Stop,
    on_error: Callable[[], None] = lambda: None,
) -> list[R]:
    """Run ``work`` on each part in at most ``lanes`` threads; return the results in order of the parts.

    Raises the first error of ``work``, or Stopped soon after ``stop`` is set, even while ``work`` is running.
    After that no further part is begun. After an error, ``on_error`` is called so that running parts end
    soon, and this function waits for them.
    """
    over = Stop()
    waiting: SimpleQueue[int] = SimpleQueue()
    done: SimpleQueue[tuple[int, R | BaseException]] = SimpleQueue()
    for number in range(len(parts)):
        waiting.put(number)

    def serve() -> None:
        while not (stop.is_set() or over.is_set()):
            try:
                number = waiting.get_nowait()
            except Empty:
                return
            try:
                done.put((number, work(parts[number])))
            except BaseException as error:  # noqa: BLE001 - it is raised where the result is awaited
                done.put((number, error))

    threads = [
        Thread(target=serve, name=f"request {lane}", daemon=True) for lane in range(min(lanes, len(parts)))
    ]
    for thread in threads:
        thread.start()
    try:
        results = dict(_next(done, stop) for _ in parts)
    except BaseException:
        over.set()
        on_error()
        for thread in threads:
            while thread.is_alive() and not stop.is_set():
                thread.join(_TICK)
        raise
    return [results[number] for number in range(len(parts))]


def _next(done: "SimpleQueue[tuple[int, R | BaseException]]", stop: Stop) -> tuple[int, R]:
    """Wait for the next part that is done, and return its number and result. Raises its error, or Stopped."""
    while True:
        if stop.is_set():
            raise Stopped
        try:
            number, result = done.get(timeout=_TICK)
        except Empty:
            continue
        if isinstance(result, BaseException):
            raise result
        return number, result
