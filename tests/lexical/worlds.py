"""Lexical indexes beside indexes in memory, for tests."""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from ingestor.engine.edition_store import EditionIndex
from ingestor.lexical.file import LexicalFile
from ingestor.lexical.filling import Upkeep
from ingestor.lexical.index import LexicalIndex, row_of
from ingestor.lexical.tables import may_be_mistyped
from ingestor.model import Record
from ingestor.ports import Index
from tests.chroma.laws import record

Kept = tuple[
    Counter[tuple[int, str]], dict[str, int], Counter[tuple[int, str]], int, Counter[tuple[str, str]]
]


@contextmanager
def opened(path: Path) -> Iterator[LexicalFile]:
    file = LexicalFile(path, synchronous="OFF")
    try:
        yield file
    finally:
        file.close()


@contextmanager
def indexed(folder: Path, records: Sequence[Record]) -> Iterator[sqlite3.Connection]:
    """Yield a connection to an index of these records, whose number is 1."""
    with opened(folder / "lexical.sqlite3") as file:
        LexicalIndex(file, ("uuid",)).upsert(records)
        with file.transaction() as db:
            yield db


def numbered(texts: Iterable[str]) -> list[Record]:
    """Return a record of each text: ``0#0``, ``1#0`` and so on."""
    return [record(f"{number}#0", text, number) for number, text in enumerate(texts)]


def in_languages(texts: Iterable[tuple[str, str]]) -> list[Record]:
    """Return a record of each language and text."""
    languages, plain = zip(*texts, strict=True)
    return [
        replace(each, metadata={"language": language})
        for each, language in zip(numbered(plain), languages, strict=True)
    ]


@dataclass
class OneCollection:
    """A collection that may be deleted."""

    dense: Index
    uuids: tuple[str, ...] = ("uuid",)
    there: bool = True

    def upkeep(self, file: LexicalFile) -> Upkeep:
        ticks = count()
        return Upkeep(file, lambda: set(self.uuids) if self.there else set(), lambda: float(next(ticks)))

    def open(self, upkeep: Upkeep) -> EditionIndex:
        return EditionIndex([self.dense], upkeep.open(self.dense, self.uuids))


def upkeep_in(folder: Path) -> Upkeep:
    """Words in a folder, of collections that are never deleted."""
    return Upkeep(LexicalFile(folder / "lexical.sqlite3", synchronous="OFF"), set, lambda: 0.0)


def in_step(dense: Index, lexical: LexicalIndex) -> None:
    """Both hold the same records, and the lexical one the terms of their texts."""
    wanted = {record.id: row_of(record) for record in dense.read(list(dense.ids()))}
    assert lexical.read(list(lexical.ids())) == wanted
    assert lexical.count() == dense.count()


def kept(db: sqlite3.Connection, number: int) -> Kept:
    """What FTS5, the vocabulary, the trigrams and the titles hold."""
    db.execute(f"CREATE VIRTUAL TABLE temp.kept USING fts5vocab(main, words_{number}, instance)")
    db.execute(f"CREATE VIRTUAL TABLE temp.grams USING fts5vocab(main, trigrams_{number}, instance)")
    try:
        postings = Counter((row, term) for term, row in db.execute("SELECT term, doc FROM temp.kept"))
        trigrams = Counter(db.execute("SELECT doc, term FROM temp.grams").fetchall())
        (records,) = db.execute("SELECT records FROM collections WHERE number = ?", (number,)).fetchone()
    finally:
        db.execute("DROP TABLE temp.kept")
        db.execute("DROP TABLE temp.grams")
    held = dict(db.execute(f"SELECT term, held FROM vocabulary_{number}").fetchall())
    return postings, held, trigrams, records, _titles(db, number)


def _titles(db: sqlite3.Connection, number: int) -> Counter[tuple[str, str]]:
    """Documents with their titles, each as often as records have it; FTS5 finds each by all its terms."""
    rows = db.execute(f"SELECT row, document, terms, records FROM titles_{number}").fetchall()
    find = f"SELECT rowid FROM named_{number} WHERE named_{number} MATCH ?"
    for row, _, terms, _ in rows:
        assert (row,) in db.execute(find, (" AND ".join(f'"{term}"' for term in terms.split()),)).fetchall()
    assert db.execute(f"SELECT COUNT(*) FROM named_{number}_docsize").fetchone() == (len(rows),)
    return Counter({(document[:-1], terms): records for _, document, terms, records in rows})


def wanted(db: sqlite3.Connection, number: int) -> Kept:
    """The same, as the terms of the records say."""
    records = db.execute(f"SELECT row, terms, id, title FROM records_{number}").fetchall()
    titles = Counter((id_.rpartition("#")[0], title) for _, _, id_, title in records if title)
    postings = Counter((row, term) for row, terms, *_ in records for term in terms.split())
    held = Counter(term for _, term in postings)
    numbers = dict(db.execute(f"SELECT term, number FROM vocabulary_{number}").fetchall())
    padded = ((numbers.get(term, -1), f"^{term}$") for term in held if may_be_mistyped(term))
    trigrams = Counter((at, word[n : n + 3]) for at, word in padded for n in range(len(word) - 2))
    return postings, dict(held), trigrams, len(records), titles


def finish(upkeep: Upkeep, steps: int = 200) -> None:
    for _ in range(steps):
        if not upkeep.due():
            return
        upkeep.work()
    raise AssertionError("the lexical index is never complete")
