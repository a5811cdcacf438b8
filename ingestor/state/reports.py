"""Reports from the journal: counts, failures, documents in pages, and the history of changes.

No query reads more documents than it must. Triggers of the journal (schema.py) write a row of history in the
transaction of each change, and keep the last 20,000.
"""

import json
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from ingestor.core.completeness import Skipped, SkippedKinds
from ingestor.core.document_state import WITHOUT_RECORDS, State, visible_state
from ingestor.core.entries import Choices, EditionName, Entry, Feed
from ingestor.model import DocumentId, Known, SourceName
from ingestor.state.journal import Journal, Selecting
from ingestor.state.tables import GONE, IN_FORCE, LIVE, PENDING, SETTLED, STATE, UNSUPPORTED, marks

Which = Literal["any", "settled", "due", "waiting", "quarantined", "unsupported", "short", "failed"]
Place = tuple[str, str, str]  # source, edition and key: the order of documents

_FAILED = f"reason IS NOT NULL AND NOT {UNSUPPORTED}"
_CONDITIONS: Mapping[Which, str] = {  # documents that are not settled are few, and have indexes
    "any": "",
    "settled": f"AND {STATE} = 'settled'",
    "due": f"""AND id IN (SELECT id FROM documents WHERE {PENDING} UNION ALL
                   SELECT id FROM documents WHERE {GONE}) AND {STATE} IN ('due', 'gone')""",
    "waiting": f"AND id IN (SELECT id FROM documents WHERE {PENDING}) AND {STATE} = 'waiting'",
    "quarantined": f"""AND id IN (SELECT id FROM documents WHERE reason IS NOT NULL)
                       AND {STATE} = 'quarantined'""",
    "unsupported": f"""AND id IN (SELECT id FROM documents WHERE reason IS NOT NULL)
                       AND {STATE} = 'unsupported'""",
    "short": f"AND shortfall IS NOT NULL AND {STATE} = 'settled'",
    "failed": f"AND id IN (SELECT id FROM documents WHERE {_FAILED})",
}
_BY_ID = "collection IN (SELECT name FROM collections WHERE role = 'live') AND document_id"
_COLUMNS = f"""source, collection, key, document_id, {STATE}, size, uri,
    (SELECT COUNT(*) FROM records WHERE document = id), reason, attempts, retry_at, shortfall,
    shortfall_reason, modified"""


@dataclass(frozen=True, slots=True)
class DocumentRow:
    """A document. ``collection``: its edition. ``size``: bytes. Times are POSIX seconds."""

    source: str
    collection: str
    key: str
    document_id: str
    state: State
    size: int | None
    uri: str | None
    records: int
    reason: str | None
    attempts: int
    retry_at: float
    shortfall: str | None
    shortfall_reason: str | None
    modified: float | None

    @property
    def place(self) -> Place:
        return self.source, self.collection, self.key

    @property
    def has_failed(self) -> bool:
        return self.state in ("waiting", "quarantined") and self.reason is not None


@dataclass(frozen=True, slots=True)
class DocumentQuery:
    """A choice of documents. ``match``: a part of the key. ``after``, ``before``: an end of a page."""

    source: str | None = None
    edition: str | None = None
    match: str = ""
    which: Which = "any"
    after: Place | None = None
    before: Place | None = None


def find_named(journal: Journal, wanted: str) -> list[Entry]:
    """Return documents in live editions, by key, URI or id."""
    return journal.entries(f"(key = ? OR uri = ? OR document_id = ?) AND {LIVE}", (wanted, wanted, wanted))


def all_keys(journal: Selecting) -> list[str]:
    """Return the keys of all documents in live editions, each once."""
    return [key for (key,) in journal.select(f"SELECT DISTINCT key FROM documents WHERE {LIVE} ORDER BY 1")]


def parsers_of(journal: Selecting, feed: Feed) -> list[str]:
    """Return the parser kinds that the settled documents of a feed were read with."""
    query = "SELECT DISTINCT parser FROM documents WHERE source = ? AND collection = ? AND parser NOTNULL"
    return [parser for (parser,) in journal.select(query, feed)]


def source_of(journal: Selecting, row: int) -> SourceName | None:
    """Return the source of a document, which may have another name since; None if it is gone."""
    rows = journal.select("SELECT source FROM documents WHERE id = ?", (row,))
    return SourceName(rows[0][0]) if rows else None


def page_of(
    journal: Selecting, wanted: DocumentQuery, most: int, *, naturally: bool = True
) -> list[DocumentRow]:
    """Return the first documents in live editions, by source, edition and key; ``before``: the last ones.

    ``naturally``: numbers in keys by their value; all documents are sorted for that.
    """
    back = wanted.before is not None
    place = wanted.before or wanted.after
    by = ("source", "collection", *(["natural_key(key)"] if naturally else []), "key")
    at = (":a", ":b", *(["natural_key(:c)"] if naturally else []), ":c")
    order = ", ".join(f"{name} {'DESC' if back else 'ASC'}" for name in by)
    rest = f"""FROM documents
        WHERE instr(lower(key), lower(:match))
            {"AND source = :source" if wanted.source is not None else ""}
            {"AND collection = :edition" if wanted.edition is not None else ""}
            {f"AND ({', '.join(by)}) {'<' if back else '>'} ({', '.join(at)})" if place else ""}
            AND {LIVE} {_CONDITIONS[wanted.which]}
        ORDER BY {order} LIMIT :most"""
    query = f"SELECT {_COLUMNS} {rest}"
    if naturally:  # the sorter must not hold whole rows
        query = f"SELECT {_COLUMNS} FROM documents WHERE id IN (SELECT id {rest}) ORDER BY {order}"
    a, b, c = place or ("", "", "")
    values = {"match": wanted.match, "source": wanted.source, "edition": wanted.edition, "most": most}
    rows = [DocumentRow(*row) for row in journal.select(query, {**values, "a": a, "b": b, "c": c})]
    return rows[::-1] if back else rows


def row_of(journal: Selecting, row: int) -> DocumentRow:
    """Return the document of a row of the journal."""
    return DocumentRow(*journal.select(f"SELECT {_COLUMNS} FROM documents WHERE id = ?", (row,))[0])


def one_of(journal: Selecting, document_id: str, edition: str | None = None) -> DocumentRow | None:
    """Return a document by its id, in any live edition or in this one."""
    query = f"SELECT {_COLUMNS} FROM documents WHERE {_BY_ID} = ?1 AND coalesce(?2, collection) = collection"
    return next((DocumentRow(*row) for row in journal.select(query, (document_id, edition))), None)


def failures(journal: Selecting, most: int) -> list[DocumentRow]:
    """Return the first documents that failed, by source and key."""
    query = f"SELECT {_COLUMNS} FROM documents WHERE {_FAILED} AND {LIVE} ORDER BY source, key LIMIT ?"
    return [DocumentRow(*row) for row in journal.select(query, (most,))]


def reasons(journal: Selecting) -> list[tuple[str, str, int]]:
    """Count failed documents by source and reason."""
    query = f"SELECT source, reason, COUNT(*) FROM documents WHERE {_FAILED} AND {LIVE} GROUP BY 1, 2"
    return journal.select(f"{query} ORDER BY 1, 2")


def rows_of_failed(journal: Selecting, source: str) -> list[tuple[int, str]]:
    """Return the rows of a source's failed documents, with their reasons."""
    query = f"SELECT id, reason FROM documents WHERE {_FAILED} AND {LIVE} AND source = ?"
    return journal.select(query, (source,))


def first_slots(journal: Selecting, edition: str, ids: Sequence[str]) -> dict[str, int]:
    """Return the least slot of each document that has records, by its id."""
    query = f"""SELECT document_id, MIN(slot) FROM documents JOIN records ON document = id
                WHERE collection = ? AND document_id IN ({marks(ids)}) GROUP BY document_id"""
    return dict(journal.select(query, (edition, *ids)))


def rows_of(journal: Selecting, ids: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return source and key of documents by their id."""
    query = f"SELECT document_id, source, key FROM documents WHERE {_BY_ID} IN ({marks(ids)})"
    return {id_: (source, key) for id_, source, key in journal.select(query, list(ids))}


def documents_in(
    journal: Selecting, edition: str, after: str, match: str, most: int
) -> list[dict[str, object]]:
    """Return the first documents of an edition that have records, by id.

    ``after``: an id. ``match``: a part of the key.
    """
    names = ("document_id", "source", "key", "address", "bytes", "records")
    rows = journal.select(
        """SELECT document_id, source, key, uri, size, (SELECT COUNT(*) FROM records WHERE document = id)
           FROM documents
           WHERE collection = ? AND document_id > ? AND instr(lower(key), lower(?))
               AND EXISTS (SELECT 1 FROM records WHERE document = id)
           ORDER BY document_id LIMIT ?""",
        (edition, after, match, most),
    )
    return [dict(zip(names, row, strict=True)) for row in rows]


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


def _to_listed(row: DocumentRow) -> Listed:
    settled = row.state == "settled"
    state = (row.shortfall or row.state) if settled else visible_state(row.state)
    reason = row.shortfall_reason if settled else row.reason
    return Listed(
        row.source, row.key, row.document_id, row.collection, row.records, settled, state,
        None if state == "due" else reason,
    )  # fmt: skip


class Reports:
    """Each method is one query, or one for each page."""

    def __init__(self, journal: Selecting) -> None:
        self._journal = journal

    def counts(self) -> list[tuple[str, str, State, int]]:
        """Count documents by source, collection and state; see core/document_state.py.

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

    def count_unsettled_alone(self, edition: str, other: str) -> list[tuple[str, State, int]]:
        """Count by source and state what is to be done or set aside in one edition and not in the other."""
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
        """Yield documents in live editions, of one source or all, by source, edition and key, in pages."""
        wanted = DocumentQuery(source=source)
        while page := page_of(self._journal, wanted, _PAGE, naturally=False):
            yield from map(_to_listed, page)
            wanted = replace(wanted, after=page[-1].place)

    def document(self, row: int) -> Listed:
        """Return the document of this row of the journal."""
        return _to_listed(row_of(self._journal, row))

    def short(self) -> list[Short]:
        """Return empty and incomplete documents in live editions."""
        query = f"""SELECT source, key, shortfall, shortfall_reason FROM documents
                    WHERE {LIVE} AND shortfall IS NOT NULL AND {STATE} = 'settled' ORDER BY source, key"""
        return [Short(*row) for row in self._journal.select(query)]

    def number(self, source: str) -> int:
        """Count the documents of a source in live editions, including documents still to be removed."""
        query = f"SELECT COUNT(*) FROM documents WHERE source = ? AND {LIVE}"
        return int(self._journal.select(query, (source,))[0][0])

    def count_skipped(self) -> list[Skipped]:
        """Count unsupported documents by source and kind, the most frequent first."""
        query = f"""SELECT source, key, reason FROM documents WHERE {LIVE} AND {UNSUPPORTED}
                    AND wanted_version IS NOT NULL"""
        kinds = SkippedKinds()
        for row in self._journal.select(query):
            kinds.add(*row)
        return kinds.by_frequency()

    def failures(self) -> list[tuple[str, str, str, int, float, bool, str | None]]:
        """Return source, key, reason, attempts, retry_at, quarantined and detail of failed documents."""
        query = f"""SELECT source, key, reason, attempts, retry_at, quarantined, detail FROM documents
                    WHERE reason IS NOT NULL AND NOT {UNSUPPORTED} AND {LIVE} ORDER BY source, key"""
        return [(*row[:5], bool(row[5]), row[6]) for row in self._journal.select(query)]

    def oldest(self) -> dict[str, float]:
        """Return, by source, the POSIX seconds of its oldest change that readers do not see yet."""
        query = f"""SELECT source, MIN(since) FROM (
                        SELECT source, collection, since FROM documents WHERE {PENDING} AND NOT quarantined
                        UNION ALL
                        SELECT source, collection, since FROM documents WHERE {GONE} AND NOT quarantined)
                    WHERE {LIVE} GROUP BY source"""
        return {source: since for source, since in self._journal.select(query) if since is not None}

    def reasons(self) -> list[tuple[str, str, int]]:
        """Count quarantined documents in live editions by source and reason."""
        query = f"""SELECT source, reason, COUNT(*) FROM documents
                    WHERE reason IS NOT NULL AND quarantined AND NOT {UNSUPPORTED} AND {LIVE}
                    GROUP BY source, reason"""
        return self._journal.select(query)

    def due(self) -> int:
        """Count the documents that are not settled, without quarantined ones."""
        query = f"""SELECT (SELECT COUNT(*) FROM documents
                            WHERE {PENDING} AND {IN_FORCE})
                         + (SELECT COUNT(*) FROM documents WHERE {GONE} AND {IN_FORCE})"""
        return int(self._journal.select(query)[0][0])

    def due_bytes(self) -> int:
        """Sum the listed bytes of the documents to index, without quarantined ones."""
        query = f"SELECT coalesce(SUM(size), 0) FROM documents WHERE {PENDING} AND {IN_FORCE}"
        return int(self._journal.select(query)[0][0])

    def records(self, collection: EditionName) -> int:
        query = "SELECT COUNT(*) FROM records JOIN documents ON id = document WHERE collection = ?"
        return int(self._journal.select(query, (collection,))[0][0])

    def sure(self, collection: EditionName) -> int:
        """Count the records that are known to be in Chroma, without those in doubt."""
        query = """SELECT COUNT(*) FROM records JOIN documents ON id = document
                   WHERE collection = ? AND NOT unsure"""
        return int(self._journal.select(query, (collection,))[0][0])


_OF = "source = ? AND collection = ?"


class Unsettled:
    """Differences between the wanted and the applied state of a source. Methods raise sqlite3.Error."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def due(self, feed: Feed) -> tuple[int, int]:
        """Return the number of documents to prepare, and their listed bytes."""
        query = f"SELECT COUNT(*), coalesce(SUM(size), 0) FROM documents WHERE {_OF} AND {PENDING}"
        [(documents, size)] = self._journal.select(query, feed)
        return documents, size

    def due_at(self, feed: Feed, places: Container[int]) -> Iterator[Entry]:
        """Yield the documents to prepare that have these places in the queue, read in pages."""
        queue = f"SELECT retry_at, id FROM documents INDEXED BY unsettled WHERE {_OF} AND {PENDING}"
        query = f"""{queue} AND retry_at = ? AND id > ? UNION ALL {queue} AND retry_at > ?
                    ORDER BY retry_at, id LIMIT {_PAGE}"""
        last, before = (-1.0, -1), 0
        while page := self._journal.select(query, (*feed, *last, *feed, last[0])):
            rows = [row for place, (_, row) in enumerate(page, before) if place in places]
            entries = self._journal.of_rows(rows)
            yield from (entries[row] for row in rows if row in entries)
            last, before = page[-1], before + len(page)

    def count_gone(self, source: SourceName) -> tuple[int, int]:
        """Return the numbers of documents to remove in live editions, and of their records."""
        query = f"""SELECT COUNT(*), coalesce(SUM((SELECT COUNT(*) FROM records WHERE document = id)), 0)
                    FROM documents WHERE source = ? AND {LIVE} AND {GONE}"""
        [(documents, records)] = self._journal.select(query, (source,))
        return documents, records

    def examples(self, feed: Feed, number: int) -> list[str]:
        """Return the first documents to remove or to prepare, with the reasons of failed ones."""
        query = f"""SELECT key, reason FROM documents
                    WHERE source = ? AND (({GONE} AND {LIVE}) OR (collection = ? AND {PENDING}))
                    ORDER BY NOT {GONE}, retry_at, key LIMIT ?"""
        rows = self._journal.select(query, (*feed, number))
        return [key if reason is None else f"{key}: {reason}" for key, reason in rows]

    def set_aside(self, feed: Feed) -> list[tuple[str, State, str]]:
        """Return key, state and reason of documents without records: quarantined, or unsupported."""
        query = f"""SELECT key, {STATE}, coalesce(reason, '') FROM documents
                    WHERE {_OF} AND {LIVE} AND {STATE} IN ({marks([*WITHOUT_RECORDS])})"""
        return self._journal.select(query, (*feed, *WITHOUT_RECORDS))


class KeptRecord(NamedTuple):
    """A record as the journal knows it. ``row``: row of its document."""

    row: int
    document_id: DocumentId
    known: Known


def journal_records(journal: Journal, collection: EditionName) -> Iterator[KeptRecord]:
    """Yield the records of an edition by document. No query stays open. Raises sqlite3.Error.

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


What = Literal[
    "added", "changed", "rewritten", "moved", "removed", "failed", "quarantined",
    "held", "released", "config", "switched", "refused",
]  # fmt: skip
FEW = 50


@dataclass(frozen=True, slots=True)
class Event:
    """A change. ``at``: POSIX seconds.

    ``rewritten``: the content of the document is the same. ``config``: the records of a collection follow
    another config in place; ``switched``: readers see another collection; ``refused``: a config file was.
    ``before``, ``after``: choices of a collection, see rechunk/recipes.py.
    """

    at: float
    what: What
    source: str | None = None
    document: str | None = None
    document_id: str | None = None
    collection: str | None = None
    why: str | None = None
    before: Choices | None = None
    after: Choices | None = None


def last_events(
    journal: Selecting, source: str | None = None, document_id: str | None = None, n: int = FEW
) -> list[Event]:
    """Return the last events, newest first, of a source or of a document, or all."""
    wanted = {"source": source, "document_id": document_id}
    where = " AND ".join(f"history.{key} = ?" for key, value in wanted.items() if value is not None) or "1"
    rows = journal.select(
        f"""SELECT at, what, source, document, document_id, coalesce(serves, collection), why
            FROM history LEFT JOIN collections ON name = collection
            WHERE {where} ORDER BY history.id DESC LIMIT ?""",
        (*filter(None, wanted.values()), n),
    )
    return [_event(*row) for row in rows]


def _event(at: float, what: What, *facts: str | None) -> Event:
    source, document, document_id, collection, why = facts
    if what not in ("config", "switched"):
        return Event(at, what, source, document, document_id, collection, why)
    before, after, *rebuilt = json.loads(why or "[null, null]")
    old, new = (each and json.loads(each) for each in (before, after))
    return Event(at, what, collection=collection, why=next(iter(rebuilt), None), before=old, after=new)


def id_of(journal: Selecting, document: str) -> str | None:
    """Return the id of the document that last had this key or has this id; None if nothing happened to it."""
    query = "SELECT document_id FROM history WHERE document = ?1 OR document_id = ?1 ORDER BY id DESC LIMIT 1"
    return next((id_ for (id_,) in journal.select(query, (document,))), None)


def note_refused(journal: Journal, why: str) -> None:
    """Note that a changed config file was refused."""
    journal.write("INSERT INTO history (what, why) VALUES ('refused', ?)", (why,))
