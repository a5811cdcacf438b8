"""The records that hold a question's words, by BM25 [Robertson & Zaragoza 2009].

Scores are those of SQLite's FTS5 to the last bit: the same constants, and sums in the same order.
"""

import math
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, chain

import numpy as np
import numpy.typing as npt

from ingestor.lexical import postings
from ingestor.lexical.postings import Bodies, Lengths, Places, Postings
from ingestor.lexical.terms import question_words
from ingestor.model import RecordId

_POSTINGS = 10_000  # records looked at for one question: its rarest words come first, and tell the most
_K, _B = 1.2, 0.75  # how soon a frequent word is enough; how much long records pay
_SATURATED = _K + 1  # what a word's weight is multiplied by where it is frequent

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ByWords:
    """``order``: records and their scores, best first. ``texts``: digests of the records' texts.

    ``most``: the score that no record reaches, however often it holds every word of the question. Words that
    no record holds count in it with the weight of the rarest.
    """

    order: list[tuple[RecordId, float]]
    most: float
    texts: Mapping[RecordId, bytes]


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """The terms of a question that may matter. ``records``: how many there are in all.

    ``absent``: words that no record holds in any form.
    """

    lengths: Lengths
    records: int
    held: Mapping[str, Postings]
    absent: Sequence[tuple[str, ...]]


def ranked(db: sqlite3.Connection, number: int, question: str, limit: int) -> ByWords:
    """The best records, with scores above 0. ``number``: of the collection's tables."""
    with _one_moment(db):
        asked = _asked(db, number, question, _POSTINGS)
        weights = {term: _weight(len(asked.held[term].places), asked.records) for term in _rarest(asked.held)}
        scores = _scores(asked, weights)
        best = _best(scores, limit)
        rows = asked.lengths.rows(best)
        records = _records(db, number, rows)
    order = [(records[row][0], score) for row, score in zip(rows, scores[best].tolist(), strict=True)]
    most = (sum(weights.values()) + len(asked.absent) * _weight(1, max(1, asked.records))) * _SATURATED
    return ByWords(sorted(order, key=lambda one: (-one[1], one[0])), most, dict(records.values()))


def telling(db: sqlite3.Connection, number: int, question: str) -> set[str]:
    """The terms of a question that tell records apart: a quarter of the records at most hold them."""
    with _one_moment(db):
        asked = _asked(db, number, question)
    most = max(3, asked.records / 4)
    return {term for term, held in asked.held.items() if len(held.places) <= most} or set(asked.held)


def _asked(db: sqlite3.Connection, number: int, question: str, most: int | None = None) -> _Asked:
    """``most``: terms in more records may be left out, unless all are: to read them takes most time."""
    languages = [row[0] for row in db.execute("SELECT language FROM languages WHERE number = ?", (number,))]
    words = question_words(question, languages)
    terms = list(dict.fromkeys(chain.from_iterable(words)))
    lengths = postings.read_lengths(db, number)
    records = int(np.count_nonzero(lengths.values))
    found = postings.read(db, number, lengths, terms)
    struck = len(lengths.values) - records
    some = [term for term in found if most is None or found[term].most - struck <= most]
    held = _there(lengths, found, some)
    known = held.keys() | (found.keys() - set(some))
    absent = [forms for forms in words if known.isdisjoint(forms)]
    if most is not None and all(len(each.places) > most for each in held.values()):
        held = _there(lengths, found, list(found))
    return _Asked(lengths, records, held, absent)


def _there(lengths: Lengths, found: Mapping[str, Bodies], terms: Sequence[str]) -> dict[str, Postings]:
    """Of those terms that any record holds."""
    held = {term: found[term].of(lengths) for term in terms}
    return {term: each for term, each in held.items() if len(each.places)}


def _rarest(held: Mapping[str, Postings]) -> list[str]:
    """The rarest terms, as many as can be looked for in little time; all in a small collection."""
    holding = {term: len(each.places) for term, each in held.items()}
    rarest = sorted(holding, key=lambda term: (holding[term], term))
    total = accumulate(holding[term] for term in rarest)
    return [
        term for at, (term, sum_) in enumerate(zip(rarest, total, strict=True)) if not at or sum_ <= _POSTINGS
    ]


def _scores(asked: _Asked, weights: Mapping[str, float]) -> Numbers:
    """Of every row. ``weights``: the rarest first."""
    lengths = asked.lengths.values
    scores = np.zeros(len(lengths))
    if weights:
        mean = float(lengths.sum(dtype=np.int64) - asked.records) / asked.records
    for term, weight in weights.items():
        held = asked.held[term]
        share = 1 - _B + _B * (lengths[held.places] - 1.0) / mean
        scores[held.places] += weight * (held.counts * (_K + 1.0) / (held.counts + _K * share))
    return scores


def _best(scores: Numbers, count: int) -> Places:
    """The places with the greatest scores above 0, the greatest first; of equals the first."""
    found = np.flatnonzero(scores)
    if count < len(found):
        least = np.partition(scores[found], -count)[-count]
        found = found[scores[found] >= least]
    return found[np.argsort(-scores[found], kind="stable")][:count]


def _records(db: sqlite3.Connection, number: int, rows: list[int]) -> dict[int, tuple[RecordId, bytes]]:
    """By row the record, and the digest of its text."""
    query = f"SELECT row, id, text_key FROM records_{number} WHERE row IN ({', '.join('?' * len(rows))})"
    return {row: (RecordId(id_), digest) for row, id_, digest in db.execute(query, rows)}


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


def _weight(holding: int, records: int) -> float:
    weight = math.log((records - holding + 0.5) / (holding + 0.5))
    return weight if weight > 0 else 1e-6
