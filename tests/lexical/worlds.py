"""Lexical indexes beside indexes in memory, for tests."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ingestor.lexical import postings
from ingestor.lexical.backend import LexicalBackend
from ingestor.lexical.file import LexicalFile
from ingestor.lexical.index import LexicalIndex, indexed, language_of
from ingestor.ports import Index

Rows = dict[tuple[int, str], int]  # by row and term


@contextmanager
def opened(path: Path) -> Iterator[LexicalFile]:
    file = LexicalFile(path, synchronous="OFF")
    try:
        yield file
    finally:
        file.close()


@dataclass
class OneCollection:
    """A store of one collection; no more than LexicalBackend asks of it here."""

    dense: Index
    uuid: str = "uuid"
    there: bool = True

    def open(self, name, model):  # type: ignore[no-untyped-def]
        return self.dense, self.uuid

    def names(self) -> dict[str, str]:
        return {self.uuid: "docs"} if self.there else {}

    def delete(self, name: str) -> None:
        self.there = False


def in_step(dense: Index, lexical: LexicalIndex) -> None:
    """Both hold the same records, and the lexical one the terms of their texts."""
    wanted = {
        record.id: (
            *indexed(record.text, language_of(record.metadata) or ""),
            language_of(record.metadata) or "",
        )
        for record in dense.read(list(dense.ids()))
    }
    found = {
        id_: (key, whole, language)
        for id_, (key, language, whole) in lexical.read(list(lexical.ids())).items()
    }
    assert found == wanted
    assert lexical.count() == dense.count()


def postings_kept(db: sqlite3.Connection, number: int) -> Rows:
    """How often each row holds each term, as the postings say."""
    terms = [term for (term,) in db.execute(f"SELECT DISTINCT term FROM postings_{number}")]
    lengths = postings.read_lengths(db, number)
    found = {
        term: body.of(lengths)
        for start in range(0, len(terms), 500)
        for term, body in postings.read(db, number, lengths, terms[start : start + 500]).items()
    }
    return {
        (row, term): int(count)
        for term, held in found.items()
        for row, count in zip(lengths.rows(held.places), held.counts.tolist(), strict=True)
    }


def lengths_kept(db: sqlite3.Connection, number: int) -> dict[int, int]:
    """How many terms each row has, as the blocks say; and they say how many records they have."""
    lengths = postings.read_lengths(db, number)
    held = [n for (n,) in db.execute(f"SELECT held FROM blocks_{number} ORDER BY block")]
    places = np.flatnonzero(lengths.values)
    assert held == np.bincount(places // postings.ROWS, minlength=len(held)).tolist()
    return dict(zip(lengths.rows(places), (lengths.values[places] - 1).tolist(), strict=True))


def lengths_wanted(db: sqlite3.Connection, number: int) -> dict[int, int]:
    """The same, as the terms of the records say."""
    rows = db.execute(f"SELECT row, terms FROM records_{number}")
    return {row: sum(postings.counted(terms).values()) for row, terms in rows}


def postings_wanted(db: sqlite3.Connection, number: int) -> Rows:
    """The same, as the terms of the records say."""
    return {
        (row, term): count
        for row, terms in db.execute(f"SELECT row, terms FROM records_{number}")
        for term, count in postings.counted(terms).items()
    }


def finish(backend: LexicalBackend, steps: int = 200) -> None:
    for _ in range(steps):
        if not backend.due():
            return
        backend.work()
    raise AssertionError("the lexical index is never complete")
