"""Several questions to a server at the same time."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")


def at_once(do: Callable[[A], B], items: Sequence[A], threads: int, stop: Callable[[], None]) -> list[B]:
    """``do`` of each item, in their order. Raises the first item's error; what did not begin is left out.

    ``stop`` is called before that, and ends what waits for another try. Answers to requests under way are
    awaited.
    """
    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(do, item) for item in items]
        try:
            return [future.result() for future in futures]
        except BaseException:
            for future in futures:
                future.cancel()
            stop()
            raise
