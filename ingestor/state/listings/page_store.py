"""The changed items of a listing of millions, compressed in an unnamed temporary file."""

import os
import pickle
import zlib
from tempfile import TemporaryFile
from typing import IO
from weakref import finalize

from ingestor.core.listings.comparison import Differing
from ingestor.model import Item


class PageStore:
    """DifferingPages on disk. A page is added by one thread, and read by any.

    Nobody else can write the file, so its pickles are trusted; it goes with the last reference. Methods raise
    OSError when the disk is full.
    """

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None  # most listings need none
        self._ends = [0]  # of the pages, in bytes

    def append(self, page: list[Differing]) -> None:
        packed = memoryview(zlib.compress(pickle.dumps([*map(_row, page)]), 1))
        end = self._ends[-1]  # a page that did not fit on the disk may be there in part
        while packed:
            written = os.pwrite(self._opened().fileno(), packed, end)
            packed, end = packed[written:], end + written
        self._ends.append(end)

    def _opened(self) -> IO[bytes]:
        if self._file is None:
            self._file = TemporaryFile(buffering=0)  # noqa: SIM115 - as long as this
            finalize(self, self._file.close)
        return self._file

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, number: int) -> list[Differing]:
        if not 0 <= number < len(self):
            raise IndexError(number)
        start, end = self._ends[number : number + 2]
        packed = os.pread(self._opened().fileno(), end - start, start)
        rows = pickle.loads(zlib.decompress(packed))  # noqa: S301 - it is ours
        return [Differing(Item(*values), at, new) for at, new, *values in rows]


def _row(one: Differing) -> tuple[object, ...]:
    """Plain values: a pickle of them takes a fifth of the time."""
    item = one.item
    return one.at, one.new, item.key, item.version, item.uri, item.size, item.modified, item.extra
