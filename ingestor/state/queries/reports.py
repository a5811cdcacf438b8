"""Reports from the journal: counts, failures, documents."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from ingestor.core.completeness import Skipped, SkippedKinds
from ingestor.core.document_state import WITHOUT_RECORDS, State, shown
from ingestor.core.entries import EditionName, Entry, Feed
from ingestor.core.listings.pages import pages
from ingestor.model import DocumentId, Known
from ingestor.state.columns import GONE, IN_FORCE, LIVE, PENDING, SETTLED, STATE, UNSUPPORTED, marks
from ingestor.state.journal import Journal

_PAGE = 1000  # documents or records that are read at once


@dataclass(frozen=True, slots=True)
class Listed:
    """A document.

    ``state``: settled, due, waiting (for a retry), quarantined or unsupported; a settled document that was
    not read whole is empty or incomplete. ``reason``: None where it is settled and whole, or due.
    """

    source: str
    document: str
    document_id: str
    collection: str
    records: int
    settled: bool
    state: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Short:
    """A settled document that was not read whole. ``state``: empty or incomplete."""

    source: str
    document: str
    state: str
    reason: str


_LISTED = f"""SELECT source, key, document_id, collection,
                  (SELECT COUNT(*) FROM records WHERE document = id),
                  {STATE}, shortfall, shortfall_reason, reason
              FROM documents"""


def _listed(row: tuple[Any, ...]) -> Listed:
    """Build a listed document from a row of the query above."""
    source, key, id_, edition, records, state, short, why_short, why_failed = row
    settled = state == "settled"
    told = (short or state) if settled else shown(state)
    reason = why_short if settled else why_failed
    return Listed(source, key, id_, edition, records, settled, told, None if told == "due" else reason)


class Selecting(Protocol):
    """A journal, or a connection that only reads it."""

    def select(
        self, query: str, values: Sequence[object] | dict[str, object] = ()
    ) -> list[tuple[Any, ...]]: ...


class Reports:
    """Each method is one query, or one for each page."""

    def __init__(self, journal: Selecting) -> None:
        self._journal = journal

    def counts(self) -> list[tuple[str, str, State, int]]:
        """(source, collection, state, documents), see core/document_state.py.

        Documents that are not settled are few, and have indexes; the settled ones are all the others.
        """
        query = f"""
            WITH others AS (
                SELECT source, collection, {STATE} AS state FROM documents WHERE {PENDING}
                UNION ALL SELECT source, collection, {STATE} FROM documents WHERE {GONE}
                UNION ALL SELECT source, collection, {STATE} FROM documents
                    WHERE reason IS NOT NULL AND quarantined AND {SETTLED} AND NOT {GONE}),
            counted AS (SELECT source, collection, state, COUNT(*) AS number FROM others GROUP BY 1, 2, 3)
            SELECT source, collection, state, number FROM counted WHERE {IN_FORCE}
            UNION ALL
            SELECT source, collection, 'settled', COUNT(*) - coalesce((
                SELECT SUM(number) FROM counted AS c
                WHERE c.source = documents.source AND c.collection = documents.collection), 0) AS n
            FROM documents WHERE {IN_FORCE} GROUP BY source, collection HAVING n > 0"""
        return self._journal.select(query)

    def unsettled_alone(self, edition: str, other: str) -> list[tuple[str, State, int]]:
        """(source, state, documents) of what is to be done or set aside in one and not in the other."""
        unsettled = f"({PENDING} OR {GONE} OR quarantined)"
        query = f"""
            SELECT source, {STATE}, COUNT(*) FROM documents
            WHERE collection = ? AND {unsettled} AND NOT EXISTS (
                SELECT 1 FROM documents AS twin  -- whose columns the conditions mean here
                WHERE twin.collection = ? AND twin.source = documents.source AND twin.key = documents.key
                    AND {unsettled} AND twin.quarantined = documents.quarantined)
            GROUP BY 1, 2"""
        return self._journal.select(query, (edition, other))

    def documents(self, source: str | None = None) -> Iterator[Listed]:
        """Documents in live editions, of one source or of all, by source, edition and key; read in pages."""
        if source is None:
            for (name,) in self._journal.select("SELECT DISTINCT source FROM documents ORDER BY 1"):
                yield from self.documents(name)
            return
        query = f"""{_LISTED} WHERE source = ? AND (collection, key) > (?, ?) AND {LIVE}
                    ORDER BY collection, key LIMIT {_PAGE}"""
        place: tuple[str, str] = ("", "")
        while page := self._journal.select(query, (source, *place)):
            yield from map(_listed, page)
            place = page[-1][3], page[-1][1]

    def document(self, row: int) -> Listed:
        """The document of this row of the journal."""
        return _listed(self._journal.select(f"{_LISTED} WHERE id = ?", (row,))[0])

    def short(self) -> list[Short]:
        """Empty and incomplete documents in live editions."""
        query = f"""SELECT source, key, shortfall, shortfall_reason FROM documents
                    WHERE {LIVE} AND shortfall IS NOT NULL AND {STATE} = 'settled' ORDER BY source, key"""
        return [Short(*row) for row in self._journal.select(query)]

    def number(self, source: str) -> int:
        """Count the documents of a source in live editions, including documents still to be removed."""
        query = f"SELECT COUNT(*) FROM documents WHERE source = ? AND {LIVE}"
        return int(self._journal.select(query, (source,))[0][0])

    def skipped(self) -> list[Skipped]:
        """Unsupported documents by source and kind, the most frequent first."""
        query = f"""SELECT source, key, reason FROM documents WHERE {LIVE} AND {UNSUPPORTED}
                    AND wanted_version IS NOT NULL"""
        kinds = SkippedKinds()
        for row in self._journal.select(query):
            kinds.add(*row)
        return kinds.found()

    def failures(self) -> list[tuple[str, str, str, int, float, bool, str | None]]:
        """(source, key, reason, attempts, retry_at, quarantined, detail) of failed documents."""
        query = f"""SELECT source, key, reason, attempts, retry_at, quarantined, detail FROM documents
                    WHERE reason IS NOT NULL AND NOT {UNSUPPORTED} AND {LIVE} ORDER BY source, key"""
        return [(*row[:5], bool(row[5]), row[6]) for row in self._journal.select(query)]

    def oldest(self) -> dict[str, float]:
        """By source: POSIX seconds of its oldest change that readers do not see yet."""
        query = f"""SELECT source, MIN(since) FROM (
                        SELECT source, collection, since FROM documents WHERE {PENDING} AND NOT quarantined
                        UNION ALL
                        SELECT source, collection, since FROM documents WHERE {GONE} AND NOT quarantined)
                    WHERE {LIVE} GROUP BY source"""
        return {source: since for source, since in self._journal.select(query) if since is not None}

    def reasons(self) -> list[tuple[str, str, int]]:
        """(source, reason, documents) of quarantined documents in live editions."""
        query = f"""SELECT source, reason, COUNT(*) FROM documents
                    WHERE reason IS NOT NULL AND quarantined AND NOT {UNSUPPORTED} AND {LIVE}
                    GROUP BY source, reason"""
        return self._journal.select(query)

    def due(self) -> int:
        """Number of documents that are not settled, without quarantined ones."""
        query = f"""SELECT (SELECT COUNT(*) FROM documents
                            WHERE {PENDING} AND {IN_FORCE})
                         + (SELECT COUNT(*) FROM documents WHERE {GONE} AND {IN_FORCE})"""
        return int(self._journal.select(query)[0][0])

    def records(self, collection: EditionName) -> int:
        query = "SELECT COUNT(*) FROM records JOIN documents ON id = document WHERE collection = ?"
        return int(self._journal.select(query, (collection,))[0][0])

    def sure(self, collection: EditionName) -> int:
        """Number of records that are known to be in Chroma, without those in doubt."""
        query = """SELECT COUNT(*) FROM records JOIN documents ON id = document
                   WHERE collection = ? AND NOT unsure"""
        return int(self._journal.select(query, (collection,))[0][0])


_KEYS = 500  # that are looked up at once
_OF = "source = ? AND collection = ?"


class Unsettled:
    """Each method takes as much memory as what it returns. Methods raise sqlite3.Error."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def of_keys(self, feed: Feed, keys: Sequence[str]) -> list[Entry]:
        """Return the entries for these keys, skipping documents that the journal lacks."""
        return [
            entry
            for page in pages(keys, _KEYS)
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


class KeptRecord(NamedTuple):
    """``row``: of its document."""

    row: int
    document_id: DocumentId
    known: Known


def kept_records(journal: Journal, collection: EditionName) -> Iterator[KeptRecord]:
    """By document. No query stays open. Raises sqlite3.Error.

    CROSS JOIN keeps the order of the tables, in which a page begins where the last one ended.
    """
    query = f"""SELECT id, document_id, slot, text_key, vector_key, meta_key, unsure, vector_digest
                FROM records CROSS JOIN documents ON id = document
                WHERE (document, slot) > (?, ?) AND collection = ? ORDER BY document, slot LIMIT {_PAGE}"""
    last = -1, -1
    while page := journal.select(query, (*last, collection)):
        for row, document_id, slot, text, vector, meta, unsure, digest in page:
            yield KeptRecord(row, document_id, Known(slot, text, vector, meta, bool(unsure), digest))
        last = page[-1][0], page[-1][2]
