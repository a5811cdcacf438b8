"""A set of keys in sixteen bytes each, for listings of millions of documents.

It holds digests of 128 bits: that two of a billion keys share one has a chance of one in 10**20.
"""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from ingestor.core.listings.pages import pages

_SIZE = 16  # bytes
_PAGE = 4096  # keys that are looked up at once

Digests = npt.NDArray[np.bytes_]  # shape (n,), of _SIZE bytes each


class KeySet:
    """Keys are added first and looked up afterwards."""

    def __init__(self) -> None:
        self._digests = bytearray()  # in the order in which they were added
        self._different: Digests | None = None  # the same sorted, each once
        self._first: npt.NDArray[np.intp] | None = None  # for each of these how many had been added before

    def add(self, key: str) -> None:
        self._digests += _digest(key)
        self._different = self._first = None

    def update(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.add(key)

    def __len__(self) -> int:
        """Number of different keys."""
        return len(self._sorted())

    def absent(self, keys: Iterable[str]) -> Iterator[str]:
        """Of these keys those that were not added, in their order."""
        added = self._sorted()
        for page in pages(keys, _PAGE):
            yield from (key for key, there in zip(page, _within(added, page), strict=True) if not there)

    def first(self, keys: Sequence[str]) -> list[int]:
        """How many keys had been added before each of these was for the first time. All were added."""
        if self._first is None:
            self._different, self._first = np.unique(_array(self._digests), return_index=True)
        return [int(at) for at in self._first[np.searchsorted(self._sorted(), _digests(keys))]]

    def _sorted(self) -> Digests:
        if self._different is None:
            found = np.sort(_array(self._digests))  # np.unique takes twice the memory
            again = found[1:] == found[:-1]
            self._different = found[np.append(True, ~again)] if again.any() else found
        return self._different


def _within(added: Digests, keys: Sequence[str]) -> npt.NDArray[np.bool_]:
    if not len(added):
        return np.zeros(len(keys), np.bool_)
    wanted = _digests(keys)
    at = np.minimum(np.searchsorted(added, wanted), len(added) - 1)
    same: npt.NDArray[np.bool_] = added[at] == wanted
    return same


def _digests(keys: Sequence[str]) -> Digests:
    return _array(b"".join(map(_digest, keys)))


def _array(digests: bytes | bytearray) -> Digests:
    return np.frombuffer(digests, f"S{_SIZE}")


def _digest(key: str) -> bytes:
    return blake2b(key.encode(), digest_size=_SIZE).digest()
