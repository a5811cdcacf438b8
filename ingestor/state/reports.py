"""Reports from the journal: counts, failures, documents in pages, and the history of changes.

Queries about documents that are not settled use an index. So they take no longer if there are a million
settled ones. Triggers of the journal (tables.py) write a row of history in the transaction of each change,
and keep the last 20,000 rows.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ingestor.core.completeness import Skipped, SkippedKinds
from ingestor.core.document_state import WITHOUT_RECORDS, State, visible_state
from ingestor.core.entries import Choices, EditionName, Entry, Feed
from ingestor.model import DocumentId, Known, SourceName
from ingestor.state.journal import Journal, Selecting, Values
from ingestor.state.tables import GONE, IN_FORCE, LIVE, PENDING, SETTLED, STATE, UNSUPPORTED, marks

Which = Literal["any", "settled", "due", "waiting", "quarantined", "unsupported", "short", "failed"]
Count = tuple[str, str, State, int]  # source, edition, state, and how many documents are in it
Place = tuple[str, str, str]  # source, edition and key, by which documents are ordered

_FAILED = f"reason IS NOT NULL AND NOT {UNSUPPORTED}"
_WITH_REASON = "id IN (SELECT id FROM documents WHERE reason IS NOT NULL)"
# The inner queries choose few documents by an index; the outer condition alone would read all of them.
_CONDITIONS: Mapping[Which, str] = {
    "any": "",
    "settled": f"AND {STATE} = 'settled'",
    "due": f"""AND id IN (SELECT id FROM documents WHERE {PENDING} UNION ALL
                   SELECT id FROM documents WHERE {GONE}) AND {STATE} IN ('due', 'gone')""",
    "waiting": f"AND id IN (SELECT id FROM documents WHERE {PENDING}) AND {STATE} = 'waiting'",
    "quarantined": f"AND {_WITH_REASON} AND {STATE} = 'quarantined'",
    "unsupported": f"AND {_WITH_REASON} AND {STATE} = 'unsupported'",
    "short": f"AND shortfall IS NOT NULL AND {STATE} = 'settled'",
    "failed": f"AND id IN (SELECT id FROM documents WHERE {_FAILED})",
}
_BY_ID = "collection IN (SELECT name FROM collections WHERE role = 'live') AND document_id"
_COLUMNS = f"""source, collection, key, document_id, {STATE}, size, uri,
    (SELECT COUNT(*) FROM records WHERE document = id), reason, attempts, retry_at, shortfall,
    shortfall_reason, modified"""


@dataclass(frozen=True, slots=True)
class DocumentRow:
    """A document as a page of the list shows it. Times are POSIX seconds."""

    source: str
    collection: str  # name of its edition
    key: str
    document_id: str
    state: State
    size: int | None  # bytes
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
    """The conditions for a page of documents.

    ``match``: a part of the key; upper and lower case are equal. ``after``: the last document of the page
    before this one. ``before``: the first document of the page after this one. At most one of ``after`` and
    ``before`` is set.
    """

    source: str | None = None
    edition: str | None = None
    match: str = ""
    which: Which = "any"
    after: Place | None = None
    before: Place | None = None


def find_named(journal: Journal, wanted: str) -> list[Entry]:
    """Return the documents of live editions whose key, URI or id is ``wanted``."""
    return journal.entries(f"(key = ? OR uri = ? OR document_id = ?) AND {LIVE}", (wanted, wanted, wanted))


def all_keys(journal: Selecting) -> list[str]:
    """Return the keys of all documents in live editions, without repetition."""
    return [key for (key,) in journal.select(f"SELECT DISTINCT key FROM documents WHERE {LIVE} ORDER BY 1")]


def parsers_of(journal: Selecting, feed: Feed) -> list[str]:
    """Return the kinds of the parsers that read documents of a feed."""
    query = "SELECT DISTINCT parser FROM documents WHERE source = ? AND collection = ? AND parser NOTNULL"
    return [parser for (parser,) in journal.select(query, feed)]


def source_of(journal: Selecting, row: int) -> SourceName | None:
    """Return the source of the document with this row of the journal; None if the document is gone.

    If the source was renamed, its new name is returned.
    """
    rows = journal.select("SELECT source FROM documents WHERE id = ?", (row,))
    return SourceName(rows[0][0]) if rows else None


def page_of(
    journal: Selecting, wanted: DocumentQuery, most: int, *, naturally: bool = True
) -> list[DocumentRow]:
    """Return a page of at most ``most`` documents in live editions, ordered by source, edition and key.

    The page ends right before ``wanted.before`` if that is set. Otherwise it begins right after
    ``wanted.after``. ``naturally``: whether numbers in keys are ordered by value. Then all matching documents
    are sorted for each page, since no index has this order.
    """
    back = wanted.before is not None
    place = wanted.before or wanted.after
    by = ("source", "collection", *(["natural_key(key)"] if naturally else []), "key")
    at = (":a", ":b", *(["natural_key(:c)"] if naturally else []), ":c")
    order = ", ".join(f"{name} {'DESC' if back else 'ASC'}" for name in by)
    where = f"""instr(lower(key), lower(:match))
            {"AND source = :source" if wanted.source is not None else ""}
            {"AND collection = :edition" if wanted.edition is not None else ""}
            {f"AND ({', '.join(by)}) {'<' if back else '>'} ({', '.join(at)})" if place else ""}
            AND {LIVE} {_CONDITIONS[wanted.which]} ORDER BY {order} LIMIT :most"""
    if naturally:  # the sorter must not hold whole rows
        where = f"id IN (SELECT id FROM documents WHERE {where}) ORDER BY {order}"
    values = {"match": wanted.match, "source": wanted.source, "edition": wanted.edition, "most": most}
    rows = _rows(journal, where, {**values, **dict(zip("abc", place or ("", "", ""), strict=True))})
    return rows[::-1] if back else rows


def _rows(journal: Selecting, where: str, values: Values) -> list[DocumentRow]:
    query = f"SELECT {_COLUMNS} FROM documents WHERE {where}"
    return [DocumentRow(*row) for row in journal.select(query, values)]


def one_of(journal: Selecting, document_id: str, edition: str | None = None) -> DocumentRow | None:
    """Return the document with this id in a live edition, or None.

    ``edition``: the only edition to search; None for all.
    """
    where = f"{_BY_ID} = ?1 AND coalesce(?2, collection) = collection"
    return next(iter(_rows(journal, where, (document_id, edition))), None)


def failures(journal: Selecting, most: int = -1) -> list[DocumentRow]:
    """Return the first ``most`` failed documents in live editions, ordered by source and key; all if
    negative."""
    return _rows(journal, f"{_FAILED} AND {LIVE} ORDER BY source, key LIMIT ?", (most,))


def reasons(journal: Selecting, which: Which = "failed") -> list[tuple[str, str, int]]:
    """Count failed documents in live editions. Return source, reason and number, ordered by source.

    ``which``: whether failed or quarantined documents are counted.
    """
    query = f"SELECT source, reason, COUNT(*) FROM documents WHERE {LIVE} {_CONDITIONS[which]} GROUP BY 1, 2"
    return journal.select(f"{query} ORDER BY 1, 2")


def rows_of_failed(journal: Selecting, source: str) -> list[tuple[int, str]]:
    """Return row and reason of each failed document of a source.

    A row identifies a document in the journal.
    """
    query = f"SELECT id, reason FROM documents WHERE {_FAILED} AND {LIVE} AND source = ?"
    return journal.select(query, (source,))


def first_slots(journal: Selecting, edition: str, ids: Sequence[str]) -> dict[str, int]:
    """Return the smallest slot that each of these documents uses in an edition, by document id.

    Documents without records are left out.
    """
    query = f"""SELECT document_id, MIN(slot) FROM documents JOIN records ON document = id
                WHERE collection = ? AND document_id IN ({marks(ids)}) GROUP BY document_id"""
    return dict(journal.select(query, (edition, *ids)))


def rows_of(journal: Selecting, ids: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return source and key of each of these documents in live editions, by document id."""
    query = f"SELECT document_id, source, key FROM documents WHERE {_BY_ID} IN ({marks(ids)})"
    return {id_: (source, key) for id_, source, key in journal.select(query, list(ids))}


def documents_in(
    journal: Selecting, edition: str, after: str, match: str, most: int
) -> list[dict[str, object]]:
    """Return the first ``most`` documents of an edition that have records, ordered by id.

    ``after``: the id of the last document on the page before, or "". ``match``: a part of the key; upper and
    lower case are equal.
    """
    names = ("document_id", "source", "key", "address", "bytes", "records")
    query = """SELECT document_id, source, key, uri, size, (SELECT COUNT(*) FROM records WHERE document = id)
               FROM documents WHERE collection = ? AND document_id > ? AND instr(lower(key), lower(?))
                   AND EXISTS (SELECT 1 FROM records WHERE document = id) ORDER BY document_id LIMIT ?"""
    rows = journal.select(query, (edition, after, match, most))
    return [dict(zip(names, row, strict=True)) for row in rows]


_PAGE = 1000  # documents or records that one query reads


@dataclass(frozen=True, slots=True)
class Listed:
    """A document as ``ingestor ls`` prints it.

    ``state``: settled, due, waiting (for a retry), quarantined or unsupported. A settled document that the
    parser could not read completely is ``empty`` or ``incomplete`` instead. ``reason``: why the document is
    in this state; None if it is due, or settled and complete.
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
    """A settled document that the parser could not read completely. ``state``: empty or incomplete."""

    source: str
    document: str
    state: str
    reason: str


def _to_listed(row: DocumentRow) -> Listed:
    settled = row.state == "settled"
    state = (row.shortfall or row.state) if settled else visible_state(row.state)
    reason = row.shortfall_reason if settled else row.reason
    why = None if state == "due" else reason
    return Listed(row.source, row.key, row.document_id, row.collection, row.records, settled, state, why)


def count_documents(journal: Selecting) -> list[Count]:
    """Count the documents of each source and edition by state (see core/document_state.py).

    Indexes find the documents that are not settled. The number of settled documents is computed as the
    rest, since reading the state of a million documents would take seconds.
    """
    query = f"""WITH others AS (
            SELECT source, collection, {STATE} AS state FROM documents WHERE {PENDING}
            UNION ALL SELECT source, collection, {STATE} FROM documents WHERE {GONE}
            UNION ALL SELECT source, collection, {STATE} FROM documents
                WHERE reason IS NOT NULL AND quarantined AND {SETTLED} AND NOT {GONE}),
        counted AS (SELECT source, collection, state, COUNT(*) AS number FROM others GROUP BY 1, 2, 3)
        SELECT source, collection, state, number FROM counted WHERE {IN_FORCE}
        UNION ALL SELECT source, collection, 'settled', COUNT(*) - coalesce((
            SELECT SUM(number) FROM counted AS c
            WHERE c.source = documents.source AND c.collection = documents.collection), 0) AS n
        FROM documents WHERE {IN_FORCE} GROUP BY source, collection HAVING n > 0"""
    return journal.select(query)


def list_documents(journal: Selecting, source: str | None = None) -> Iterator[Listed]:
    """Yield the documents of live editions, ordered by source, edition and key.

    ``source``: the only source whose documents are yielded; None for all.
    """
    wanted = DocumentQuery(source=source)
    while page := page_of(journal, wanted, _PAGE, naturally=False):
        yield from map(_to_listed, page)
        wanted = replace(wanted, after=page[-1].place)


def describe_document(journal: Selecting, row: int) -> Listed:
    """Return the document with this row of the journal."""
    return _to_listed(_rows(journal, "id = ?", (row,))[0])


def list_short(journal: Selecting) -> list[Short]:
    """Return the documents in live editions that the parser could not read completely."""
    query = f"""SELECT source, key, shortfall, shortfall_reason FROM documents
                WHERE {LIVE} {_CONDITIONS["short"]} ORDER BY source, key"""
    return [Short(*row) for row in journal.select(query)]


def count_documents_of(journal: Selecting, source: str) -> int:
    """Count the documents of a source in live editions.

    Documents that are still to be removed count, too.
    """
    query = f"SELECT COUNT(*) FROM documents WHERE source = ? AND {LIVE}"
    return int(journal.select(query, (source,))[0][0])


def count_skipped(journal: Selecting) -> list[Skipped]:
    """Count unsupported documents by source and extension, the largest count first."""
    query = f"""SELECT source, key, reason FROM documents WHERE {LIVE} AND {UNSUPPORTED}
                AND wanted_version IS NOT NULL"""
    kinds = SkippedKinds()
    for row in journal.select(query):
        kinds.add(*row)
    return kinds.by_frequency()


def find_oldest_changes(journal: Selecting) -> dict[str, float]:
    """Return for each source when the oldest change was listed that readers do not see yet, in POSIX
    seconds."""
    query = f"""SELECT source, MIN(since) FROM (
            SELECT source, collection, since FROM documents WHERE {PENDING} AND NOT quarantined UNION ALL
            SELECT source, collection, since FROM documents WHERE {GONE} AND NOT quarantined)
        WHERE {LIVE} GROUP BY source"""
    return {source: since for source, since in journal.select(query) if since is not None}


def measure_unsettled(journal: Selecting) -> tuple[int, int]:
    """Return how many documents are to be indexed or removed, and the listed bytes of those to be
    indexed."""
    query = f"""SELECT COUNT(*) + (SELECT COUNT(*) FROM documents WHERE {GONE} AND {IN_FORCE}),
                    coalesce(SUM(size), 0)
                FROM documents WHERE {PENDING} AND {IN_FORCE}"""
    [(documents, size)] = journal.select(query)
    return documents, size


def count_records_of(journal: Selecting, edition: EditionName, *, sure: bool = False) -> int:
    """Count the records of an edition. ``sure``: whether records in doubt are left out."""
    query = f"""SELECT COUNT(*) FROM records JOIN documents ON id = document
                WHERE collection = ? {"AND NOT unsure" if sure else ""}"""
    return int(journal.select(query, (edition,))[0][0])


def progress(counts: Iterable[Count], edition: str) -> tuple[int, int]:
    """Return how many documents of an edition under construction are done, and how many it has in all.

    Documents that cannot be read are done, too.
    """
    states = [(state, documents) for _, name, state, documents in counts if name == edition]
    done = sum(documents for state, documents in states if state in ("settled", *WITHOUT_RECORDS))
    return done, sum(documents for _, documents in states)


_OF = "source = ? AND collection = ?"


def list_due(journal: Selecting, feed: Feed) -> list[tuple[int, int]]:
    """Return row and listed bytes of the documents of a feed that must be indexed, in the order of the
    queue."""
    where = f"{_OF} AND {PENDING} ORDER BY retry_at, id"
    return journal.select(f"SELECT id, coalesce(size, 0) FROM documents WHERE {where}", feed)


def measure_gone(journal: Selecting, source: SourceName) -> tuple[int, int]:
    """Return how many documents of a source are to be removed from live editions, and how many records they
    have."""
    query = f"""SELECT COUNT(*), coalesce(SUM((SELECT COUNT(*) FROM records WHERE document = id)), 0)
                FROM documents WHERE source = ? AND {LIVE} AND {GONE}"""
    [(documents, records)] = journal.select(query, (source,))
    return documents, records


def list_unsettled(journal: Selecting, feed: Feed, number: int) -> list[str]:
    """Return the keys of the first ``number`` documents of a feed that are to be removed or indexed.

    If an attempt at the document failed, its key is followed by the reason.
    """
    query = f"""SELECT key, reason FROM documents
                WHERE source = ? AND (({GONE} AND {LIVE}) OR (collection = ? AND {PENDING}))
                ORDER BY NOT {GONE}, retry_at, key LIMIT ?"""
    rows = journal.select(query, (*feed, number))
    return [key if reason is None else f"{key}: {reason}" for key, reason in rows]


def list_without_records(journal: Selecting, feed: Feed) -> list[tuple[str, State, str]]:
    """Return key, state and reason of the documents of a feed that are quarantined or unsupported."""
    query = f"""SELECT key, {STATE}, coalesce(reason, '') FROM documents
                WHERE {_OF} AND {LIVE} AND {STATE} IN ({marks([*WITHOUT_RECORDS])})"""
    return journal.select(query, (*feed, *WITHOUT_RECORDS))


def journal_records(journal: Journal, edition: EditionName) -> Iterator[tuple[int, DocumentId, Known]]:
    """Yield the records that an edition has by the journal, ordered by document and slot.

    Each record follows the row and the id of its document. Raises sqlite3.Error. The records are read in
    pages, since a query that stays open would keep SQLite from shortening its log. CROSS JOIN makes SQLite
    read them in their order, so that a page begins where the last one ended.
    """
    query = f"""SELECT id, document_id, slot, text_key, vector_key, meta_key, unsure, vector_digest
                FROM records CROSS JOIN documents ON id = document
                WHERE (document, slot) > (?, ?) AND collection = ? ORDER BY document, slot LIMIT {_PAGE}"""
    last = -1, -1
    while page := journal.select(query, (*last, edition)):
        for row, document_id, slot, text, vector, meta, unsure, digest in page:
            yield row, document_id, Known(slot, text, vector, meta, bool(unsure), digest)
        last = page[-1][0], page[-1][2]


What = Literal[
    "added", "changed", "rewritten", "moved", "removed", "failed", "quarantined",
    "held", "released", "config", "switched", "refused",
]  # fmt: skip
FEW = 50  # events that are returned by default


@dataclass(frozen=True, slots=True)
class Event:
    """An event in the history of documents and collections. ``at``: POSIX seconds.

    ``what`` is the kind of event. ``rewritten`` means that the records of a document were written again
    although its content stayed the same. ``config`` means that a collection's records are changed in place
    for another config. ``switched`` means that readers see another edition, and ``refused`` that a changed
    config file has an error. ``before``, ``after``: choices of a collection (see rechunk/policy.py).
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
    """Return the last ``n`` events of the history, newest first.

    ``source``, ``document_id``: the only source or document whose events are returned; None for all.
    """
    wanted = {"source": source, "document_id": document_id}
    where = " AND ".join(f"history.{key} = ?" for key, value in wanted.items() if value is not None) or "1"
    query = f"""SELECT at, what, source, document, document_id, coalesce(serves, collection), why
                FROM history LEFT JOIN collections ON name = collection
                WHERE {where} ORDER BY history.id DESC LIMIT ?"""
    return [_event(*row) for row in journal.select(query, (*filter(None, wanted.values()), n))]


def _event(at: float, what: What, *facts: str | None) -> Event:
    source, document, document_id, collection, why = facts
    if what not in ("config", "switched"):
        return Event(at, what, source, document, document_id, collection, why)
    before, after, *rebuilt = json.loads(why or "[null, null]")
    old, new = (each and json.loads(each) for each in (before, after))
    return Event(at, what, collection=collection, why=next(iter(rebuilt), None), before=old, after=new)


def id_of(journal: Selecting, document: str) -> str | None:
    """Return the id of the document that last had this key or id in the history; None if there is none."""
    query = "SELECT document_id FROM history WHERE document = ?1 OR document_id = ?1 ORDER BY id DESC LIMIT 1"
    return next((id_ for (id_,) in journal.select(query, (document,))), None)


def note_refused(journal: Journal, why: str) -> None:
    """Store in the history that a changed config file was refused, with the reason."""
    journal.write("INSERT INTO history (what, why) VALUES ('refused', ?)", (why,))
