"""The lexical index of one collection: written like an ``Index``, less vectors and metadata.

Three keys of the metadata count: the language decides how words are stemmed, the context (see
text/context.py) is indexed with the text, and the title names the document.
"""

import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from ingestor.core.fingerprint import text_digest
from ingestor.core.listings.pages import pages
from ingestor.lexical.file import LexicalFile, Uuids
from ingestor.lexical.stems import primary
from ingestor.lexical.tables import change_vocabulary
from ingestor.lexical.terms import terms
from ingestor.model import Metadata, Record, RecordId

T = TypeVar("T")

_PAGE = 500  # ids in one statement
_LISTED = 5000  # ids that are listed at a time


class Decided(NamedTuple):
    """The metadata that decides a record's words: language, context, and the terms of the title."""

    language: str
    context: str
    title: str


class Row(NamedTuple):
    """The words of a record. ``text_key``: digest of its text; ``terms``: with spaces between them."""

    text_key: bytes
    decided: Decided
    terms: str


_KEYS = frozenset({"language", "context", "title"})
_NOTHING = Decided("", "", "")


class LexicalIndex:
    """The words of a collection. Every write is a transaction.

    See LexicalFile.transaction for errors.
    """

    def __init__(self, file: LexicalFile, uuids: Uuids) -> None:
        self._file, self._uuids = file, uuids

    def upsert(self, records: Sequence[Record], *, whole: bool = False) -> None:
        """Index these texts. ``whole``: keys that the metadata leaves out have no value, else an old one."""
        given = {record.id: record for record in records}

        def write(db: sqlite3.Connection, number: int) -> None:
            known = {id_: (row, key, decided) for id_, row, key, decided in _rows(db, number, given)}
            old: list[int] = []
            new: list[tuple[RecordId, Row]] = []
            for id_, record in given.items():
                row, key, decided = known.get(id_, (None, b"", _NOTHING))
                wanted = row_of(record, _NOTHING if whole else decided)
                if row is None or (wanted.text_key, wanted.decided) != (key, decided):
                    old += [] if row is None else [row]
                    new.append((id_, wanted))
            _note_languages(db, number, {wanted.decided.language for _, wanted in new})
            _replace(db, number, old, new)

        self._in_transaction(write)

    def patch(self, metadata: Sequence[tuple[RecordId, Metadata]]) -> list[RecordId]:
        """Keep new titles. Return the records that get another language or context, which must be upserted
        with their text."""
        wanted = {id_: changes for id_, changes in metadata if not changes.keys().isdisjoint(_KEYS)}

        def write(db: sqlite3.Connection, number: int) -> list[RecordId]:
            found: list[RecordId] = []
            for id_, row, _, before in list(_rows(db, number, wanted)):
                after = _decided(wanted[id_], before)
                if (after.language, after.context) != (before.language, before.context):
                    found.append(id_)
                elif after.title != before.title:
                    db.execute(f"UPDATE records_{number} SET title = ? WHERE row = ?", (after.title, row))
            return found

        return self._in_transaction(write) if wanted else []

    def drop(self, ids: Sequence[RecordId]) -> None:
        def write(db: sqlite3.Connection, number: int) -> None:
            rows = [row for _, row, *_ in _rows(db, number, ids)]
            _replace(db, number, rows, [])

        self._in_transaction(write)

    def count(self) -> int:
        return self._in_transaction(lambda db, number: _one(db, f"SELECT COUNT(*) FROM records_{number}"))

    def ids(self) -> Iterator[RecordId]:
        """In their order, read in pages."""
        last = ""
        while page := self._in_transaction(partial(_ids_behind, last)):
            yield from page
            last = page[-1]

    def read(self, ids: Sequence[RecordId]) -> dict[RecordId, Row]:
        """The words of those of ``ids`` that exist."""
        return self._in_transaction(lambda db, number: read_rows(db, number, ids))

    def absent(self, ids: Sequence[RecordId]) -> list[RecordId]:
        """Return the ids that this index does not hold."""
        known = self._in_transaction(lambda db, number: {id_ for id_, *_ in _rows(db, number, ids)})
        return [id_ for id_ in ids if id_ not in known]

    @property
    def complete(self) -> bool:
        """Whether it holds every record of its collection; else readers do without it."""
        return bool(
            self._in_transaction(
                lambda db, n: _one(db, f"SELECT complete FROM collections WHERE number = {n}")
            )
        )

    def set_complete(self, value: bool) -> None:
        self._in_transaction(
            lambda db, number: db.execute(
                "UPDATE collections SET complete = ? WHERE number = ?", (value, number)
            )
        )

    def _in_transaction(self, work: Callable[[sqlite3.Connection, int], T]) -> T:
        number = self._file.number(self._uuids)
        with self._file.transaction() as db:
            return work(db, number)


def row_of(record: Record, before: Decided = _NOTHING) -> Row:
    """The words that a record of Chroma gives. ``before``: for keys that its metadata leaves out."""
    decided = _decided(record.metadata, before)
    found = (*terms(decided.context, decided.language), *terms(record.text, decided.language))
    return Row(bytes.fromhex(text_digest(record.text)), decided, " ".join(filter(None, found)))


def _decided(metadata: Metadata, before: Decided) -> Decided:
    language = primary(_text(metadata["language"])) if "language" in metadata else before.language
    context = _text(metadata["context"]) if "context" in metadata else before.context
    title = before.title
    if "title" in metadata:
        title = " ".join(dict.fromkeys(terms(_text(metadata["title"]) or "", language)))
    return Decided(language, context or "", title)


def read_rows(db: sqlite3.Connection, number: int, ids: Collection[RecordId]) -> dict[RecordId, Row]:
    """See LexicalIndex.read."""
    query = "SELECT id, text_key, language, context, title, terms FROM records_{0} WHERE id IN ({1})"
    return {
        id_: Row(key, Decided(language, context, title), whole)
        for page in pages(dict.fromkeys(ids), _PAGE)
        for id_, key, language, context, title, whole in db.execute(
            query.format(number, ", ".join("?" * len(page))), page
        )
    }


def read_keys(db: sqlite3.Connection, number: int, ids: Collection[RecordId]) -> dict[RecordId, bytes]:
    """Return the digests of texts, for the ids that exist."""
    return {id_: key for id_, _, key, _ in _rows(db, number, ids)}


def _ids_behind(last: str, db: sqlite3.Connection, number: int) -> list[RecordId]:
    query = f"SELECT id FROM records_{number} WHERE id > ? ORDER BY id LIMIT {_LISTED}"
    return [id_ for (id_,) in db.execute(query, (last,))]


def _rows(
    db: sqlite3.Connection, number: int, ids: Collection[RecordId]
) -> Iterator[tuple[RecordId, int, bytes, Decided]]:
    """Id, row, digest of the text and the rest of those of ``ids`` that exist."""
    query = "SELECT id, row, text_key, language, context, title FROM records_{0} WHERE id IN ({1})"
    for page in pages(dict.fromkeys(ids), _PAGE):
        for id_, row, key, *decided in db.execute(query.format(number, ", ".join("?" * len(page))), page):
            yield id_, row, key, Decided(*decided)


def _note_languages(db: sqlite3.Connection, number: int, languages: Iterable[str]) -> None:
    rows = ((number, language) for language in languages)
    db.executemany("INSERT OR IGNORE INTO languages VALUES (?, ?)", rows)


def _replace(
    db: sqlite3.Connection, number: int, old: Sequence[int], new: Sequence[tuple[RecordId, Row]]
) -> None:
    """Replace records, and update the vocabulary. ``old``: rows to delete."""
    query = f"DELETE FROM records_{number} WHERE row = ? RETURNING terms"
    gone = [terms for row in old for (terms,) in db.execute(query, (row,)).fetchall()]
    added = f"""INSERT INTO records_{number} (id, text_key, language, context, title, terms)
        VALUES (?, ?, ?, ?, ?, ?)"""
    db.executemany(added, ((id_, row.text_key, *row.decided, row.terms) for id_, row in new))
    change_vocabulary(db, number, gone, (row.terms for _, row in new))


def _one(db: sqlite3.Connection, query: str, values: Sequence[object] = ()) -> int:
    return int(db.execute(query, values).fetchone()[0])


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
