"""The lexical index of one collection, written like an ``Index``, but without vectors.

It uses four keys of the metadata. The language decides how words are stemmed. The context (see
text/context.py) is indexed with the text. The title names the document. Records of one page share their
scores (see ranking.py).
"""

import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from ingestor.core.fingerprint import text_digest
from ingestor.core.listings import pages
from ingestor.lexical.file import LexicalFile, Uuids
from ingestor.lexical.tables import change_vocabulary
from ingestor.lexical.terms import primary, terms
from ingestor.model import Metadata, Record, RecordId

_PAGE = 500  # ids in one statement
_LISTED = 5000  # ids that are listed at a time


class Decided(NamedTuple):
    """The metadata that decides how words find a record. ``title``: terms. ``page``: from 0, if any."""

    language: str
    context: str
    title: str
    page: int | None


class Row(NamedTuple):
    """The words of a record. ``text_key``: digest of its text; ``terms``: with spaces between them."""

    text_key: bytes
    decided: Decided
    terms: str


_KEYS = frozenset(Decided.__annotations__)
_NOTHING = Decided("", "", "", None)


class LexicalIndex:
    """Lexical index of a collection. Every write is a transaction.

    See LexicalFile.transaction for errors.
    """

    def __init__(self, file: LexicalFile, uuids: Uuids) -> None:
        self._file, self._uuids = file, uuids

    def upsert(self, records: Sequence[Record], *, whole: bool = False) -> None:
        """Index these texts.

        ``whole``: keys missing in the metadata have no value, rather than their old one.
        """
        given = {record.id: record for record in records}
        old, new = list[int](), list[tuple[RecordId, Row]]()
        with self._tables() as (db, number):
            known = {id_: (row, key, decided) for id_, row, key, decided in _rows(db, number, given)}
            for id_, record in given.items():
                row, key, decided = known.get(id_, (None, b"", _NOTHING))
                wanted = row_of(record, _NOTHING if whole else decided)
                if row is None or (wanted.text_key, wanted.decided) != (key, decided):
                    old += [] if row is None else [row]
                    new.append((id_, wanted))
            languages = {(number, wanted.decided.language) for _, wanted in new}
            db.executemany("INSERT OR IGNORE INTO languages VALUES (?, ?)", languages)
            _replace(db, number, old, new)

    def patch(self, metadata: Sequence[tuple[RecordId, Metadata]]) -> list[RecordId]:
        """Store new titles and pages.

        Return the records whose language or context changed: upsert them with their text.
        """
        wanted = {id_: changes for id_, changes in metadata if not changes.keys().isdisjoint(_KEYS)}
        changed: list[RecordId] = []
        if not wanted:
            return changed
        with self._tables() as (db, number):
            for id_, row, _, before in list(_rows(db, number, wanted)):
                after = _decide(wanted[id_], before)
                if (after.language, after.context) != (before.language, before.context):
                    changed.append(id_)
                elif after != before:
                    query = f"UPDATE records_{number} SET title = ?, page = ? WHERE row = ?"
                    db.execute(query, (after.title, after.page, row))
        return changed

    def drop(self, ids: Sequence[RecordId]) -> None:
        with self._tables() as (db, number):
            _replace(db, number, [row for _, row, *_ in _rows(db, number, ids)], [])

    def count(self) -> int:
        with self._tables() as (db, number):
            return int(db.execute(f"SELECT COUNT(*) FROM records_{number}").fetchone()[0])

    def ids(self) -> Iterator[RecordId]:
        """Yield the ids in their order, read in pages."""
        page = [RecordId("")]
        while page:
            with self._tables() as (db, number):
                query = f"SELECT id FROM records_{number} WHERE id > ? ORDER BY id LIMIT {_LISTED}"
                page = [id_ for (id_,) in db.execute(query, (page[-1],))]
            yield from page

    def read(self, ids: Sequence[RecordId]) -> dict[RecordId, Row]:
        """Return the words of records that exist."""
        with self._tables() as (db, number):
            return read_rows(db, number, ids)

    def absent(self, ids: Sequence[RecordId]) -> list[RecordId]:
        """Return the ids that this index does not hold."""
        with self._tables() as (db, number):
            known = read_keys(db, number, ids)
        return [id_ for id_ in ids if id_ not in known]

    @property
    def complete(self) -> bool:
        """Return whether every record of the collection is indexed; readers ignore an incomplete index."""
        with self._tables() as (db, number):
            query = "SELECT complete FROM collections WHERE number = ?"
            return bool(db.execute(query, (number,)).fetchone()[0])

    def set_complete(self, value: bool) -> None:
        with self._tables() as (db, number):
            db.execute("UPDATE collections SET complete = ? WHERE number = ?", (value, number))

    @contextmanager
    def _tables(self) -> Iterator[tuple[sqlite3.Connection, int]]:
        """Run a transaction; yield its connection and the number of the collection's tables."""
        number = self._file.number(self._uuids)
        with self._file.transaction() as db:
            yield db, number


def row_of(record: Record, before: Decided = _NOTHING) -> Row:
    """Return the row for a record of Chroma. ``before``: values for keys that its metadata lacks."""
    decided = _decide(record.metadata, before)
    changed = (*terms(decided.context, decided.language), *terms(record.text, decided.language))
    return Row(bytes.fromhex(text_digest(record.text)), decided, " ".join(filter(None, changed)))


def _decide(metadata: Metadata, before: Decided) -> Decided:
    language = primary(_text(metadata["language"])) if "language" in metadata else before.language
    context = _text(metadata["context"]) if "context" in metadata else before.context
    title = before.title
    if "title" in metadata:
        title = " ".join(dict.fromkeys(terms(_text(metadata["title"]) or "", language)))
    page = metadata.get("page", before.page)
    return Decided(language, context or "", title, page if isinstance(page, int) else None)


def read_rows(db: sqlite3.Connection, number: int, ids: Collection[RecordId]) -> dict[RecordId, Row]:
    """Return the words of records that exist."""
    query = "SELECT id, text_key, language, context, title, page, terms FROM records_{0} WHERE id IN ({1})"
    return {
        id_: Row(key, Decided(*decided), whole)
        for page in pages(dict.fromkeys(ids), _PAGE)
        for id_, key, *decided, whole in db.execute(query.format(number, ", ".join("?" * len(page))), page)
    }


def read_keys(db: sqlite3.Connection, number: int, ids: Collection[RecordId]) -> dict[RecordId, bytes]:
    """Return the digests of texts, for the ids that exist."""
    return {id_: key for id_, _, key, _ in _rows(db, number, ids)}


def _rows(
    db: sqlite3.Connection, number: int, ids: Collection[RecordId]
) -> Iterator[tuple[RecordId, int, bytes, Decided]]:
    """Yield id, row number, text digest and deciding metadata of the ``ids`` that exist."""
    query = "SELECT id, row, text_key, language, context, title, page FROM records_{0} WHERE id IN ({1})"
    for page in pages(dict.fromkeys(ids), _PAGE):
        for id_, row, key, *decided in db.execute(query.format(number, ", ".join("?" * len(page))), page):
            yield id_, row, key, Decided(*decided)


def _replace(
    db: sqlite3.Connection, number: int, old: Sequence[int], new: Sequence[tuple[RecordId, Row]]
) -> None:
    """Replace records, and update the vocabulary. ``old``: rows to delete."""
    query = f"DELETE FROM records_{number} WHERE row = ? RETURNING terms"
    gone = [terms for row in old for (terms,) in db.execute(query, (row,)).fetchall()]
    added = f"""INSERT INTO records_{number} (id, text_key, language, context, title, page, terms)
        VALUES (?, ?, ?, ?, ?, ?, ?)"""
    db.executemany(added, ((id_, row.text_key, *row.decided, row.terms) for id_, row in new))
    change_vocabulary(db, number, gone, (row.terms for _, row in new))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
