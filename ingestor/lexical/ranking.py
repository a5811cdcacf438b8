"""The records that hold a question's words, by BM25 [Robertson & Zaragoza 2009], as SQLite's FTS5 has it."""

import math
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate

from ingestor.lexical.terms import question_terms
from ingestor.model import RecordId

_POSTINGS = 10_000  # records looked at for one question: its rarest words come first, and tell the most
_SATURATED = 2.2  # k1 + 1 of FTS5: what a word's weight is multiplied by where it is frequent


@dataclass(frozen=True, slots=True)
class Asked:
    """The words of a question that the collection has. ``most``: the score of a record full of them."""

    match: str
    most: float


def asked(db: sqlite3.Connection, number: int, question: str) -> Asked | None:
    """What to look for; None if the collection has none of the words. ``number``: of its tables."""
    records, holding = _held(db, number, question)
    chosen = _telling(holding)
    if not chosen:
        return None
    most = sum(_weight(holding[term], records) for term in chosen) * _SATURATED
    return Asked(" OR ".join(f'"{term}"' for term in chosen), most)


def telling(db: sqlite3.Connection, number: int, question: str) -> set[str]:
    """The terms of a question that tell records apart: a quarter of the records at most hold them."""
    records, holding = _held(db, number, question)
    return {term for term, held in holding.items() if held <= max(3, records / 4)} or set(holding)


def ranked(
    db: sqlite3.Connection, number: int, wanted: Asked, limit: int, offset: int = 0
) -> list[tuple[RecordId, float]]:
    """The best records with their scores, best first: above 0, and at most about ``wanted.most``."""
    query = f"""SELECT id, -found.rank FROM (
                    SELECT rowid AS row, rank FROM terms_{number} WHERE terms_{number} MATCH ?
                    ORDER BY rank LIMIT ? OFFSET ?) AS found
                JOIN records_{number} USING (row)"""
    rows = db.execute(query, (wanted.match, limit, offset)).fetchall()
    return sorted(((RecordId(id_), score) for id_, score in rows), key=lambda row: (-row[1], row[0]))


def _held(db: sqlite3.Connection, number: int, question: str) -> tuple[int, dict[str, int]]:
    """The number of records, and how many of them hold each term of the question."""
    languages = [row[0] for row in db.execute("SELECT language FROM languages WHERE number = ?", (number,))]
    records = int(db.execute(f"SELECT COUNT(*) FROM records_{number}").fetchone()[0])
    return records, dict(_holding(db, number, question_terms(question, languages)))


def _holding(db: sqlite3.Connection, number: int, terms: list[str]) -> Iterator[tuple[str, int]]:
    """How many records hold each term, for those that any does; counted up to a little over _POSTINGS."""
    query = f"""SELECT COUNT(*) FROM (
        SELECT 1 FROM terms_{number} WHERE terms_{number} MATCH ? LIMIT {_POSTINGS + 1})"""
    for term in terms:
        holding = int(db.execute(query, (f'"{term}"',)).fetchone()[0])
        if holding:
            yield term, holding


def _telling(holding: Mapping[str, int]) -> list[str]:
    """The rarest terms, as many as can be looked for in little time; all in a small collection."""
    rarest = sorted(holding, key=lambda term: (holding[term], term))
    total = accumulate(holding[term] for term in rarest)
    return [
        term for at, (term, sum_) in enumerate(zip(rarest, total, strict=True)) if not at or sum_ <= _POSTINGS
    ]


def _weight(holding: int, records: int) -> float:
    return max(1e-6, math.log((records - holding + 0.5) / (holding + 0.5)))
