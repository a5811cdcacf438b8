"""Documents of the journal in pages: no query reads more of them than it must."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ingestor.core.document_state import State
from ingestor.core.entries import Entry, Feed
from ingestor.model import SourceName
from ingestor.state.journal import Journal, Selecting
from ingestor.state.rows import GONE, LIVE, PENDING, STATE, UNSUPPORTED, marks

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
    def failed(self) -> bool:
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


def named(journal: Journal, wanted: str) -> list[Entry]:
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
    """The first documents in live editions, by source, edition and key; ``before``: the last ones.

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
    """The first documents that failed, by source and key."""
    query = f"SELECT {_COLUMNS} FROM documents WHERE {_FAILED} AND {LIVE} ORDER BY source, key LIMIT ?"
    return [DocumentRow(*row) for row in journal.select(query, (most,))]


def reasons(journal: Selecting) -> list[tuple[str, str, int]]:
    """Count failed documents by source and reason."""
    query = f"SELECT source, reason, COUNT(*) FROM documents WHERE {_FAILED} AND {LIVE} GROUP BY 1, 2"
    return journal.select(f"{query} ORDER BY 1, 2")


def failed_rows(journal: Selecting, source: str) -> list[tuple[int, str]]:
    """Return the rows of a source's failed documents, with their reasons."""
    query = f"SELECT id, reason FROM documents WHERE {_FAILED} AND {LIVE} AND source = ?"
    return journal.select(query, (source,))


def first_slots(journal: Selecting, edition: str, ids: Sequence[str]) -> dict[str, int]:
    """The least slot of each document that has records, by its id."""
    query = f"""SELECT document_id, MIN(slot) FROM documents JOIN records ON document = id
                WHERE collection = ? AND document_id IN ({marks(ids)}) GROUP BY document_id"""
    return dict(journal.select(query, (edition, *ids)))


def rows_of(journal: Selecting, ids: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Source and key of documents by their id."""
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
