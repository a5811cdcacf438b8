"""The lexical index of one collection: written like an ``Index``, less vectors and metadata.

Of the metadata only the language counts, which decides how words are stemmed.
"""

import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from ingestor.core.fingerprint import text_digest
from ingestor.core.listings.pages import pages
from ingestor.lexical import vocabulary
from ingestor.lexical.file import LexicalFile
from ingestor.lexical.stems import primary
from ingestor.lexical.terms import terms
from ingestor.model import Metadata, Record, RecordId

T = TypeVar("T")

_PAGE = 500  # ids in one statement
_LISTED = 5000  # ids that are listed at a time
_Kept = tuple[RecordId, bytes, str, str]  # id, digest of the text, language, terms


class LexicalIndex:
    """The words of a collection, by its UUID. Every write is a transaction.

    See LexicalFile.transaction for errors.
    """

    def __init__(self, file: LexicalFile, uuid: str) -> None:
        self._file, self._uuid = file, uuid

    def upsert(self, records: Sequence[Record]) -> None:
        given = {record.id: (record, language_of(record.metadata)) for record in records}
        made = {id_: indexed(record.text, language or "") for id_, (record, language) in given.items()}

        def write(db: sqlite3.Connection, number: int) -> None:
            known = {id_: (row, key, language) for id_, row, key, language in _rows(db, number, given)}
            old: list[int] = []
            new: list[_Kept] = []
            for id_, (record, language) in given.items():
                key, whole = made[id_]
                row, key_kept, kept = known.get(id_, (None, b"", ""))
                if language is None and kept:  # metadata is merged: what is not named stays
                    language, (key, whole) = kept, indexed(record.text, kept)
                if row is None or (key, language or "") != (key_kept, kept):
                    old += [] if row is None else [row]
                    new.append((id_, key, language or "", whole))
            _note_languages(db, number, {language for _, _, language, _ in new})
            _replace(db, number, old, new)

        self._write(write)

    def other_language(self, metadata: Sequence[tuple[RecordId, Metadata]]) -> list[RecordId]:
        """Records that a patch gives another language: they must be upserted with their text."""
        wanted = {id_: changes["language"] for id_, changes in metadata if "language" in changes}
        known = self._read(lambda db, number: _languages(db, number, wanted))
        return [id_ for id_, language in known.items() if primary(_text(wanted[id_])) != language]

    def drop(self, ids: Sequence[RecordId]) -> None:
        def write(db: sqlite3.Connection, number: int) -> None:
            rows = [row for _, row, *_ in _rows(db, number, ids)]
            _replace(db, number, rows, [])

        self._write(write)

    def count(self) -> int:
        return self._read(lambda db, number: _one(db, f"SELECT COUNT(*) FROM records_{number}"))

    def ids(self) -> Iterator[RecordId]:
        """In their order, read in pages."""
        last = ""
        while page := self._read(partial(_ids_behind, last)):
            yield from page
            last = page[-1]

    def read(self, ids: Sequence[RecordId]) -> dict[RecordId, tuple[bytes, str, str]]:
        """Digest of the text, language and terms of those of ``ids`` that exist."""
        return self._read(lambda db, number: read_rows(db, number, ids))

    def absent(self, ids: Sequence[RecordId]) -> list[RecordId]:
        """Return the ids that this index does not hold."""
        known = self._read(lambda db, number: _languages(db, number, ids))
        return [id_ for id_ in ids if id_ not in known]

    @property
    def complete(self) -> bool:
        """Whether it holds every record of its collection; else readers do without it."""
        return bool(
            self._read(lambda db, n: _one(db, f"SELECT complete FROM collections WHERE number = {n}"))
        )

    def set_complete(self, value: bool) -> None:
        self._write(
            lambda db, number: db.execute(
                "UPDATE collections SET complete = ? WHERE number = ?", (value, number)
            )
        )

    def _write(self, work: Callable[[sqlite3.Connection, int], object]) -> None:
        number = self._file.number(self._uuid)
        with self._file.transaction() as db:
            work(db, number)

    def _read(self, work: Callable[[sqlite3.Connection, int], T]) -> T:
        number = self._file.number(self._uuid)
        with self._file.transaction() as db:
            return work(db, number)


def indexed(text: str, language: str) -> tuple[bytes, str]:
    """The digest of a text, and its terms with spaces between them."""
    return bytes.fromhex(text_digest(text)), " ".join(filter(None, terms(text, language)))


def language_of(metadata: Metadata) -> str | None:
    """The language that counts; empty if it has no rules here; None if the metadata does not say."""
    return primary(_text(metadata["language"])) if "language" in metadata else None


def read_rows(
    db: sqlite3.Connection, number: int, ids: Collection[RecordId]
) -> dict[RecordId, tuple[bytes, str, str]]:
    """See LexicalIndex.read."""
    query = "SELECT id, text_key, language, terms FROM records_{0} WHERE id IN ({1})"
    return {
        id_: (key, language, whole)
        for page in pages(dict.fromkeys(ids), _PAGE)
        for id_, key, language, whole in db.execute(query.format(number, ", ".join("?" * len(page))), page)
    }


def read_keys(db: sqlite3.Connection, number: int, ids: Collection[RecordId]) -> dict[RecordId, bytes]:
    """Return the digests of texts, for the ids that exist."""
    return {id_: key for id_, _, key, _ in _rows(db, number, ids)}


def _ids_behind(last: str, db: sqlite3.Connection, number: int) -> list[RecordId]:
    query = f"SELECT id FROM records_{number} WHERE id > ? ORDER BY id LIMIT {_LISTED}"
    return [id_ for (id_,) in db.execute(query, (last,))]


def _languages(db: sqlite3.Connection, number: int, ids: Collection[RecordId]) -> dict[RecordId, str]:
    query = "SELECT id, language FROM records_{0} WHERE id IN ({1})"
    return {
        id_: language
        for page in pages(dict.fromkeys(ids), _PAGE)
        for id_, language in db.execute(query.format(number, ", ".join("?" * len(page))), page)
    }


def _rows(
    db: sqlite3.Connection, number: int, ids: Collection[RecordId]
) -> Iterator[tuple[RecordId, int, bytes, str]]:
    """Id, row, digest of the text and language of those of ``ids`` that exist."""
    query = "SELECT id, row, text_key, language FROM records_{0} WHERE id IN ({1})"
    for page in pages(dict.fromkeys(ids), _PAGE):
        yield from db.execute(query.format(number, ", ".join("?" * len(page))), page)


def _note_languages(db: sqlite3.Connection, number: int, languages: Iterable[str]) -> None:
    rows = ((number, language) for language in languages)
    db.executemany("INSERT OR IGNORE INTO languages VALUES (?, ?)", rows)


def _replace(db: sqlite3.Connection, number: int, old: Sequence[int], new: Sequence[_Kept]) -> None:
    """Replace records, and update the vocabulary. ``old``: rows to delete."""
    query = f"DELETE FROM records_{number} WHERE row = ? RETURNING terms"
    gone = [terms for row in old for (terms,) in db.execute(query, (row,)).fetchall()]
    added = f"INSERT INTO records_{number} (id, text_key, language, terms) VALUES (?, ?, ?, ?)"
    db.executemany(added, new)
    vocabulary.change(db, number, gone, (terms for *_, terms in new))


def _one(db: sqlite3.Connection, query: str, values: Sequence[object] = ()) -> int:
    return int(db.execute(query, values).fetchone()[0])


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
