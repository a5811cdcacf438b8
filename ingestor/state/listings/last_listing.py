"""The last listing of a source in one edition, looked up while the next listing is read."""

from collections.abc import Iterator, Mapping, Sequence

from ingestor.core.entries import Feed
from ingestor.state.columns import marks
from ingestor.state.journal import Journal

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
