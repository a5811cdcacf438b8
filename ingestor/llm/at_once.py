"""Several questions to a server at the same time."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")


def at_once(do: Callable[[A], B], items: Sequence[A], threads: int, stop: Callable[[], None]) -> list[B]:
    """Run ``do`` on each item in so many threads; return the results in order of the items.

    The first failed item's error is raised, after items that did not begin are cancelled.
    ``stop`` is called before the error is raised, and ends waits for retries. Requests under way are awaited.
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
