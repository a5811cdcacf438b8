"""The records that hold a question's words, by BM25 [Robertson & Zaragoza 2009].

Scores are those of SQLite's FTS5 to the last bit: the same constants, and sums in the same order.
"""

import math
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from ingestor.lexical import postings
from ingestor.lexical.postings import EVERY, Postings
from ingestor.lexical.terms import question_terms
from ingestor.model import RecordId

_POSTINGS = 10_000  # records looked at for one question: its rarest words come first, and tell the most
_K, _B = 1.2, 0.75  # how soon a frequent word is enough; how much long records pay
_SATURATED = _K + 1  # what a word's weight is multiplied by where it is frequent

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Asked:
    """The words of a question that the collection has, the rarest first, and what each weighs.

    ``most``: the score of a record full of them.
    """

    weights: Mapping[str, float]
    most: float


def asked(db: sqlite3.Connection, number: int, question: str) -> Asked | None:
    """What to look for; None if the collection has none of the words. ``number``: of its tables."""
    records, holding = held(db, number, question)
    return weighed(records, holding)


def weighed(records: int, holding: Mapping[str, int]) -> Asked | None:
    """``holding``: how many of the ``records`` hold each term, of one collection or of several together."""
    weights = {term: _weight(holding[term], records) for term in _telling(holding)}
    return Asked(weights, sum(weights.values()) * _SATURATED) if weights else None


def telling(db: sqlite3.Connection, number: int, question: str) -> set[str]:
    """The terms of a question that tell records apart: a quarter of the records at most hold them."""
    records, holding = held(db, number, question)
    return {term for term, held in holding.items() if held <= max(3, records / 4)} or set(holding)


def held(db: sqlite3.Connection, number: int, question: str) -> tuple[int, dict[str, int]]:
    """The number of records, and how many of them hold each term of the question that any does."""
    languages = [row[0] for row in db.execute("SELECT language FROM languages WHERE number = ?", (number,))]
    terms = [term for term in question_terms(question, languages) if term]
    found = postings.holding(db, number, [EVERY, *terms])
    return found.get(EVERY, 0), {term: found[term] for term in terms if term in found}


def ranked(
    db: sqlite3.Connection,
    number: int,
    wanted: Asked,
    limit: int,
    offset: int = 0,
    average: float | None = None,
) -> list[tuple[RecordId, float]]:
    """The best records with their scores, best first: above 0, and at most about ``wanted.most``.

    ``average``: terms of a record; those of this collection if it is not given.
    """
    with _one_moment(db):
        scores = _scores(postings.read(db, number, [EVERY, *wanted.weights]), wanted, average)
        best = _best(scores, offset + limit)[offset:]
        names = _names(db, number, [row for row, _ in best])
    known = ((names[row], score) for row, score in best if row in names)
    return sorted(known, key=lambda row: (-row[1], row[0]))


def _scores(found: dict[str, Postings], wanted: Asked, average: float | None) -> Numbers:
    """Of every row."""
    every = found.pop(EVERY, None)
    if every is None:
        return np.zeros(0)
    lengths = np.zeros(1 + max(int(each.rows.max()) for each in (every, *found.values())))
    lengths[every.rows] = every.counts
    mean = float(every.counts.sum()) / len(every.rows) if average is None else average
    scores = np.zeros_like(lengths)
    for term, weight in wanted.weights.items():
        if term in found:
            held = found[term]
            scores[held.rows] += weight * _saturated(held, lengths, mean)
    return scores


def _saturated(held: Postings, lengths: Numbers, mean: float) -> Numbers:
    share = 1 - _B + _B * lengths[held.rows] / mean
    return held.counts * (_K + 1.0) / (held.counts + _K * share)


def _best(scores: Numbers, count: int) -> list[tuple[int, float]]:
    """Rows with the greatest scores above 0; of equals the first."""
    rows = np.flatnonzero(scores)
    if count < len(rows):
        least = np.partition(scores[rows], -count)[-count]
        rows = rows[scores[rows] >= least]
    rows = rows[np.argsort(-scores[rows], kind="stable")][:count]
    return list(zip(rows.tolist(), scores[rows].tolist(), strict=True))


def _names(db: sqlite3.Connection, number: int, rows: list[int]) -> dict[int, RecordId]:
    query = f"SELECT row, id FROM records_{number} WHERE row IN ({', '.join('?' * len(rows))})"
    return {row: RecordId(id_) for row, id_ in db.execute(query, rows)}


@contextmanager
def _one_moment(db: sqlite3.Connection) -> Iterator[None]:
    """Everything is read as it was at the first query."""
    if db.in_transaction:
        yield
        return
    db.execute("BEGIN")
    try:
        yield
    finally:
        db.execute("ROLLBACK")


def _telling(holding: Mapping[str, int]) -> list[str]:
    """The rarest terms, as many as can be looked for in little time; all in a small collection."""
    rarest = sorted(holding, key=lambda term: (holding[term], term))
    total = accumulate(holding[term] for term in rarest)
    return [
        term for at, (term, sum_) in enumerate(zip(rarest, total, strict=True)) if not at or sum_ <= _POSTINGS
    ]


def _weight(holding: int, records: int) -> float:
    weight = math.log((records - holding + 0.5) / (holding + 0.5))
    return weight if weight > 0 else 1e-6
