"""Comparison of the lexical index of a collection with Chroma's records. Reads only.

``status`` needs only whether a collection is complete, so modules that search words are imported at first
use.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from ingestor.core.entries import join
from ingestor.lexical.file import Unusable, Uuids, require_sound
from ingestor.model import Record, RecordId
from ingestor.units import quantity

if TYPE_CHECKING:
    from ingestor.core.listings import KeySet

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Words:
    """The lexical index of a collection.

    ``number``: of its tables; None without tables: every record differs.
    """

    db: sqlite3.Connection | None = None
    number: int | None = None

    def unready(self) -> str | None:
        """Return why there is no keyword search in this collection yet, or None."""
        try:
            if self.db is not None and self.number is not None:
                complete = "SELECT complete FROM collections WHERE number = ?"
                stored = self.db.execute(complete, (self.number,)).fetchone()
                if stored is None:
                    return "the lexical index does not exist yet"
                if stored[0]:
                    return None
                (count,) = self.db.execute(f"SELECT COUNT(*) FROM records_{self.number}").fetchone()
                return f"the lexical index is being built: {quantity(count, 'record')} so far"
        except sqlite3.DatabaseError as error:
            return f"the lexical index cannot be read: {error}"
        return "the lexical index is not built yet"

    def sound(self) -> Words:
        """Return this index, or an empty one if any page of the file is damaged."""
        try:
            if self.db is not None:
                require_sound(self.db)
        except (Unusable, sqlite3.DatabaseError):
            return Words()
        return self

    def moment(self) -> int | None:
        """Return a number that every write to the lexical file changes; None if the file cannot be read."""
        try:
            return None if self.db is None else int(self.db.execute("PRAGMA data_version").fetchone()[0])
        except sqlite3.DatabaseError:
            return None

    def agree(self, texts: Mapping[RecordId, str | None]) -> bool:
        """Return whether all these records are indexed, with the given text if not None. True if unready."""
        from ingestor.core.fingerprint import text_digest
        from ingestor.lexical.index import read_keys

        if self.unready() is not None:
            return True
        kept = self._read(lambda db, number: read_keys(db, number, texts), None)
        return kept is None or (
            kept.keys() == texts.keys()
            and all(text is None or kept[id_].hex() == text_digest(text) for id_, text in texts.items())
        )

    def find_differing(self, records: Sequence[Record]) -> list[RecordId]:
        """Return the records whose indexed words differ from the words of their context and text."""
        from ingestor.lexical.index import read_rows, row_of

        ids = [record.id for record in records]
        stored = self._read(lambda db, number: read_rows(db, number, ids), None) or {}
        return [record.id for record in records if stored.get(record.id) != row_of(record)]

    def surplus(self, present: Sequence[KeySet]) -> list[RecordId]:
        """Return ids in the lexical index that are in none of ``present``."""

        def list_surplus(db: sqlite3.Connection, number: int) -> list[RecordId]:
            ids: Iterator[str] = (id_ for (id_,) in db.execute(f"SELECT id FROM records_{number}"))
            for keys in present:
                ids = keys.absent(ids)
            return sorted(map(RecordId, ids))

        return self._read(list_surplus, [])

    def _read(self, read: Callable[[sqlite3.Connection, int], T], otherwise: T) -> T:
        """Return the result of ``read``; ``otherwise`` without tables, or if the file cannot be read."""
        if self.db is None or self.number is None:
            return otherwise
        try:
            return read(self.db, self.number)
        except sqlite3.DatabaseError:
            return otherwise


@contextmanager
def words_of(file: AbstractContextManager[sqlite3.Connection], uuids: Uuids) -> Iterator[Words]:
    """Yield the lexical index of a collection; empty if the file cannot be read.

    ``file``: context that opens the file for reading.
    """
    with ExitStack() as stack:
        try:
            db = stack.enter_context(file)
            stored = db.execute("SELECT number FROM collections WHERE uuid = ?", (join(uuids),)).fetchone()
        except (Unusable, sqlite3.DatabaseError):
            yield Words()
            return
        yield Words(db, None if stored is None else int(stored[0]))
