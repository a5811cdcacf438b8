"""Items in pages."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def pages(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """The items in lists of ``size``; the last may be shorter. Never an empty one."""
    left = iter(items)
    while page := list(islice(left, size)):
        yield page
