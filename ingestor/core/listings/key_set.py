"""A set of keys in eight bytes each, for listings of millions of documents.

It holds Python's hashes of 64 bits, which are others in each process. That two of a million keys share one
has a chance of one in 40 million; one change of a listing is then overlooked until the process ends.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from ingestor.core.listings.pages import pages

_PAGE = 4096  # keys that are looked up at once

Hashes = npt.NDArray[np.int64]  # shape (n,)


class KeySet:
    """Keys are added first and looked up afterwards."""

    def __init__(self) -> None:
        self._hashes = array("q")  # in the order in which they were added
        self._different: Hashes | None = None  # the same sorted, each once
        self._first: npt.NDArray[np.intp] | None = None  # for each of these how many had been added before

    def add(self, key: str) -> None:
        self._hashes.append(hash(key))
        self._different = self._first = None

    def update(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.add(key)

    def __len__(self) -> int:
        """Number of different keys."""
        return len(self._sort())

    def absent(self, keys: Iterable[str]) -> Iterator[str]:
        """Yield the keys that were not added, in the given order."""
        added = self._sort()
        for page in pages(keys, _PAGE):
            yield from (key for key, there in zip(page, _within(added, page), strict=True) if not there)

    def first(self, keys: Sequence[str]) -> list[int]:
        """Return how many keys had been added before each of ``keys`` was first added. Each was added."""
        if self._first is None:
            self._different, self._first = np.unique(np.array(self._hashes, np.int64), return_index=True)
        return [int(at) for at in self._first[np.searchsorted(self._sort(), _hashes(keys))]]

    def _sort(self) -> Hashes:
        if self._different is None:
            hashes = np.array(self._hashes, np.int64)
            hashes.sort()  # in place: np.unique takes twice the memory
            again = hashes[1:] == hashes[:-1]
            self._different = hashes[np.append(True, ~again)] if again.any() else hashes
        return self._different


def _within(added: Hashes, keys: Sequence[str]) -> npt.NDArray[np.bool_]:
    if not len(added):
        return np.zeros(len(keys), np.bool_)
    wanted = _hashes(keys)
    at = np.minimum(np.searchsorted(added, wanted), len(added) - 1)
    same: npt.NDArray[np.bool_] = added[at] == wanted
    return same


def _hashes(keys: Sequence[str]) -> Hashes:
    return np.array([hash(key) for key in keys], np.int64)
