"""The work that a sync still has, without loading settled documents."""

from collections.abc import Callable, Iterator, Sequence

from ingestor.core.document_state import WITHOUT_RECORDS, State
from ingestor.core.entries import Entry, Feed
from ingestor.core.listings.pages import pages
from ingestor.state.columns import LIVE, STATE, marks
from ingestor.state.journal import Journal

_PAGE = 500  # keys that are looked up at once
_OF = "source = ? AND collection = ?"


class Unsettled:
    """Each method takes as much memory as what it returns. Methods raise sqlite3.Error."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def of_keys(self, feed: Feed, keys: Sequence[str]) -> list[Entry]:
        """Return the entries for these keys, skipping documents that the journal lacks."""
        return [
            entry
            for page in pages(keys, _PAGE)
            for entry in self._journal.entries(f"{_OF} AND key IN ({marks(page)})", (*feed, *page))
        ]

    def reasons(self, feed: Feed, keys: Sequence[str]) -> dict[str, str]:
        """Why documents failed, of those of these few that did."""
        query = (
            f"SELECT key, reason FROM documents WHERE {_OF} AND key IN ({marks(keys)}) AND reason IS NOT NULL"
        )
        return dict(self._journal.select(query, (*feed, *keys)))

    def leaving(self, feed: Feed) -> list[Entry]:
        """Documents of that source in live editions that vanished or are in another edition."""
        where = f"source = ? AND {LIVE} AND (wanted_version IS NULL OR collection != ?) ORDER BY key"
        return self._journal.entries(where, feed)

    def of_rows(self, rows: Sequence[int]) -> list[Entry]:
        """Return the entries for these row ids in the order of keys, skipping missing ones."""
        return self._journal.entries(f"id IN ({marks(rows)}) ORDER BY key", (*rows,))

    def outdated(
        self, feed: Feed, recipe: Callable[[str], str]
    ) -> Iterator[list[tuple[int, str, int | None]]]:
        """Row, key and size of documents that are not settled under these recipes, by key, in pages.

        ``recipe``: of a parser, "" for none.
        """
        query = f"SELECT DISTINCT coalesce(parser, '') FROM documents WHERE {_OF}"
        recipes = [(parser, recipe(parser)) for (parser,) in self._journal.select(query, feed)]
        if not recipes:
            return
        wanted = f"CASE coalesce(parser, '') {'WHEN ? THEN ? ' * len(recipes)} END"
        query = f"""SELECT id, key, size FROM documents WHERE {_OF} AND wanted_version IS NOT NULL
                    AND (done_version IS NOT wanted_version OR done_recipe IS NOT {wanted})
                    AND key > ? ORDER BY key LIMIT {_PAGE}"""
        values, last = (*feed, *(value for row in recipes for value in row)), ""
        while page := self._journal.select(query, (*values, last)):
            yield page
            last = page[-1][1]

    def set_aside(self, feed: Feed) -> list[tuple[str, State, str]]:
        """Key, state and reason of documents without records: quarantined, or unsupported."""
        query = f"""SELECT key, {STATE}, coalesce(reason, '') FROM documents
                    WHERE {_OF} AND {LIVE} AND {STATE} IN ({marks([*WITHOUT_RECORDS])})"""
        return self._journal.select(query, (*feed, *WITHOUT_RECORDS))
