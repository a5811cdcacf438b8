"""The last listing of a source, and the pages of the next one, which is compared with it."""

import os
import pickle
import zlib
from collections.abc import Iterator, Mapping, Sequence
from tempfile import TemporaryFile
from typing import IO
from weakref import finalize

from ingestor.core.entries import Feed
from ingestor.core.listings.comparison import Differing
from ingestor.model import Item
from ingestor.state.journal import Journal
from ingestor.state.rows import marks

_PAGE = 1000  # keys that are read at once
_OF = "FROM documents WHERE source = ? AND collection = ? AND wanted_version IS NOT NULL"
_BELOW = "key > ? || '/' AND key < ? || '0'"  # in the order of the index; 0 follows / in UTF-8


class LastListing:
    """KnownVersions of the journal. Any thread.

    No query stays open: it would keep the journal's log from being shortened.
    """

    def __init__(self, journal: Journal, feed: Feed) -> None:
        self._read, self._feed = journal.read, feed

    def of(self, keys: Sequence[str]) -> Mapping[str, str]:
        query = f"SELECT key, wanted_version {_OF} AND key IN ({marks(keys)})"
        return dict(self._read(query, (*self._feed, *keys)))

    def below(self, under: str) -> Mapping[str, str]:
        if under == "":
            return dict(self._read(f"SELECT key, wanted_version {_OF}", self._feed))
        query = f"SELECT key, wanted_version {_OF} AND (key = ? OR {_BELOW})"
        return dict(self._read(query, (*self._feed, under, under, under)))

    def keys(self, under: Sequence[str]) -> Iterator[str]:
        for top in under:
            yield from self.of([top])
            yield from self._pages(*(("", ()) if top == "" else (f"AND {_BELOW}", (top, top))))

    def count(self) -> int:
        return int(self._read(f"SELECT COUNT(*) {_OF}", self._feed)[0][0])

    def _pages(self, condition: str, values: Sequence[str]) -> Iterator[str]:
        query = f"SELECT key {_OF} {condition} AND key > ? ORDER BY key LIMIT {_PAGE}"
        last = ""
        while page := self._read(query, (*self._feed, *values, last)):
            yield from (key for (key,) in page)
            last = page[-1][0]


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
            written = os.pwrite(self._open().fileno(), packed, end)
            packed, end = packed[written:], end + written
        self._ends.append(end)

    def _open(self) -> IO[bytes]:
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
        packed = os.pread(self._open().fileno(), end - start, start)
        rows = pickle.loads(zlib.decompress(packed))  # noqa: S301 - it is ours
        return [Differing(Item(*values), at, new) for at, new, *values in rows]


def _row(one: Differing) -> tuple[object, ...]:
    """Plain values: a pickle of them takes a fifth of the time."""
    item = one.item
    return one.at, one.new, item.key, item.version, item.uri, item.size, item.modified, item.extra
