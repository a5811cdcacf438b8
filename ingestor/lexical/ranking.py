"""Ranks the records that contain a question's words, by FTS5's BM25 [Robertson & Zaragoza 2009].

The score of a record on a page is the mean of its own and of the page's, which is the mean of its records'.
So the rows of a statement are found by words of the whole statement (decision 0165).
"""

import math
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate, chain

from ingestor.lexical.corrections import correct
from ingestor.lexical.tables import document_of, match_titles, read_held
from ingestor.lexical.terms import question_words
from ingestor.model import RecordId
from ingestor.ports import Gone

_POSTINGS = 20_000  # records looked at for one question: its rarest words come first, and tell the most
_SCORED = 500  # records with the best own scores; other records add nothing to their pages
_CORRECTED = 10  # words of a question that are corrected: more are no mistakes, and each costs milliseconds
_CERTAIN = 10.0  # weight of words that e^10 = 22,000 records hold once by chance, such as a name and a year
_LEAST = 0.25  # certainty with which a document is named at all
_NEARLY = 0.5  # share of the best title's weight that others must have
_SATURATED = 2.2  # k1 + 1 of FTS5: what a word's weight is multiplied by where it is frequent


@dataclass(frozen=True, slots=True)
class ByWords:
    """Answer of the lexical index.

    ``order``: the best records and their scores, best first. ``scores``: scores of these and of further
    records. ``named``: documents whose titles share words with the question, with the certainty that the
    question names the document, from 0 to 1.

    ``most``: upper bound of scores, as if every word of the question occurred very often. Words without a
    record count with the weight of the rarest word.
    """

    order: list[tuple[RecordId, float]]
    most: float
    named: Mapping[str, float] = field(default_factory=dict)
    scores: Mapping[RecordId, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question's terms and how common they are.

    ``held``: how many of the ``records`` hold each term, for terms that any record holds.

    ``trust``: what each of them counts, from 0 to 1: less than 1 for corrections of words that no record
    holds.
    ``absent``: the number of words that no record holds in any form, less those that were corrected.
    ``terms``: all forms of all words as they were asked.
    """

    records: int
    held: Mapping[str, int]
    trust: Mapping[str, float]
    absent: int
    terms: Sequence[str]

    def weight(self, term: str) -> float:
        """Return the weight of a term that a record holds."""
        return _weight(self.held[term], self.records) * self.trust[term]


def rank_by_words(db: sqlite3.Connection, number: int, question: str, limit: int) -> ByWords:
    """Return the best records, with scores above 0. ``number``: number of the collection's tables.

    Raises Gone if the collection was dropped meanwhile.
    """
    match = f"SELECT rowid AS row, rank * ? AS rank FROM words_{number} WHERE words_{number} MATCH ?"
    with _one_moment(db):
        asked = _parse_question(db, number, question)
        groups: defaultdict[float, list[str]] = defaultdict(list)
        for term in (wanted := _rarest(asked.held)):
            groups[asked.trust[term]].append(f'"{term}"')
        query = f"""SELECT id, -score, {document_of("id")}, page, (
                        SELECT COUNT(*) FROM records_{number} AS other
                        WHERE {document_of("other.id")} = {document_of("one.id")} AND other.page = one.page)
                    FROM (
                        SELECT row, sum(rank) AS score FROM ({" UNION ALL ".join([match] * len(groups))})
                        GROUP BY row ORDER BY score LIMIT ?)
                    JOIN records_{number} AS one USING (row)"""
        terms = chain.from_iterable((trust, " OR ".join(group)) for trust, group in groups.items())
        rows = db.execute(query, (*terms, max(limit, _SCORED))).fetchall() if wanted else []
        named = _match_named(db, number, asked)
    most = (sum(map(asked.weight, wanted)) + asked.absent * _weight(1, asked.records)) * _SATURATED
    pages: defaultdict[tuple[str, int], float] = defaultdict(float)
    for _, score, document, page, count in rows:
        if page is not None:
            pages[document, page] += score / count
    scores = {
        RecordId(id_): score if page is None else (score + pages[document, page]) / 2
        for id_, score, document, page, _ in rows
    }
    order = sorted(scores.items(), key=lambda one: (-one[1], one[0]))[:limit]
    return ByWords(order, most, named, scores)


def _match_named(db: sqlite3.Connection, number: int, asked: _Asked) -> dict[str, float]:
    """Return the documents that a question names by their titles: the titles with nearly the greatest weight.

    A word has the same weight as in texts; a word in no text has the weight of the rarest word. The certainty
    is the weight of a title's words as a share of ``_CERTAIN``, whatever the size of the collection. In a
    small one any ordinary word is among the rarest.
    """
    rarest = _weight(1, asked.records)
    weights = {**dict.fromkeys(asked.terms, rarest), **{term: asked.weight(term) for term in asked.held}}
    matches = match_titles(db, number, weights)
    best = max(matches.values(), default=0.0)
    certain = max(best, _CERTAIN)
    least = max(best * _NEARLY, certain * _LEAST)
    return {document: weight / certain for document, weight in matches.items() if weight > least}


def distinctive_terms(db: sqlite3.Connection, number: int, question: str) -> set[str]:
    """Return the terms of a question that distinguish records: at most a quarter of the records have them."""
    with _one_moment(db):
        asked = _parse_question(db, number, question)
    most = max(3, asked.records / 4)
    return {term for term, held in asked.held.items() if held <= most} or set(asked.held)


def _parse_question(db: sqlite3.Connection, number: int, question: str) -> _Asked:
    languages = [row[0] for row in db.execute("SELECT language FROM languages WHERE number = ?", (number,))]
    matches = db.execute("SELECT records FROM collections WHERE number = ?", (number,)).fetchone()
    if matches is None:
        raise Gone("the collection was replaced during the search")
    records = int(matches[0])
    words = question_words(question, languages)
    terms = list(dict.fromkeys(chain.from_iterable(words)))
    held = read_held(db, number, terms)
    absent = [forms for forms in words if held.keys().isdisjoint(forms)]
    corrections = [correct(db, number, forms, languages) for forms in absent[:_CORRECTED]]
    trust = dict.fromkeys(held, 1.0)
    for each in corrections:
        held = {**each.held, **held}
        trust = {**dict.fromkeys(each.held, each.trust), **trust}
    return _Asked(records, held, trust, len(absent) - sum(bool(each.held) for each in corrections), terms)


def _rarest(held: Mapping[str, int]) -> Sequence[str]:
    """Return as many of the rarest terms as can be searched quickly; all terms in a small collection."""
    rarest = sorted(held, key=lambda term: (held[term], term))
    total = accumulate(held[term] for term in rarest)
    return [
        term for at, (term, sum_) in enumerate(zip(rarest, total, strict=True)) if not at or sum_ <= _POSTINGS
    ]


@contextmanager
def _one_moment(db: sqlite3.Connection) -> Iterator[None]:
    """Read one consistent snapshot in this context."""
    if db.in_transaction:
        yield
        return
    db.execute("BEGIN")
    try:
        yield
    finally:
        db.execute("ROLLBACK")


def _weight(holding: int, records: int) -> float:
    """Return the weight of a word, computed as in FTS5.

    A word in more than half of the records weighs next to nothing.
    """
    return max(1e-6, math.log((max(records, holding) - holding + 0.5) / (holding + 0.5)))
