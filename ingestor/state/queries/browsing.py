"""Documents of the journal in pages: no query reads more of them than it must."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ingestor.core.document_state import State
from ingestor.state.columns import GONE, LIVE, PENDING, STATE, UNSUPPORTED
from ingestor.state.queries.reports import Selecting

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
    """``edition``: of a collection. ``match``: a part of the key. ``after``, ``before``: an end of a page."""

    source: str | None = None
    edition: str | None = None
    match: str = ""
    which: Which = "any"
    after: Place | None = None
    before: Place | None = None


def page_of(journal: Selecting, wanted: DocumentQuery, most: int) -> list[DocumentRow]:
    """The first documents in live editions, in the order of source, edition and key; ``before``: the last."""
    back = wanted.before is not None
    place = wanted.before or wanted.after
    order = ", ".join(f"{name} {'DESC' if back else 'ASC'}" for name in ("source", "collection", "key"))
    query = f"""SELECT {_COLUMNS} FROM documents
        WHERE instr(lower(key), lower(:match))
            {"AND source = :source" if wanted.source is not None else ""}
            {"AND collection = :edition" if wanted.edition is not None else ""}
            {f"AND (source, collection, key) {'<' if back else '>'} (:a, :b, :c)" if place else ""}
            AND {LIVE} {_CONDITIONS[wanted.which]}
        ORDER BY {order} LIMIT :most"""
    a, b, c = place or ("", "", "")
    values = {"match": wanted.match, "source": wanted.source, "edition": wanted.edition, "most": most}
    rows = [DocumentRow(*row) for row in journal.select(query, {**values, "a": a, "b": b, "c": c})]
    return rows[::-1] if back else rows


def one_of(journal: Selecting, document_id: str) -> DocumentRow | None:
    """A document by its id."""
    query = f"SELECT {_COLUMNS} FROM documents WHERE {_BY_ID} = ?"
    return next((DocumentRow(*row) for row in journal.select(query, (document_id,))), None)


def failures(journal: Selecting, most: int) -> list[DocumentRow]:
    """The first documents that failed, by source and key."""
    query = f"SELECT {_COLUMNS} FROM documents WHERE {_FAILED} AND {LIVE} ORDER BY source, key LIMIT ?"
    return [DocumentRow(*row) for row in journal.select(query, (most,))]


def rows_of(journal: Selecting, ids: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Source and key of documents by their id."""
    marks = ", ".join("?" * len(ids))
    query = f"SELECT document_id, source, key FROM documents WHERE {_BY_ID} IN ({marks})"
    return {id_: (source, key) for id_, source, key in journal.select(query, list(ids))}
