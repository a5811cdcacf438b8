"""Words of a question that no record holds: the words of the collection that were probably meant."""

import sqlite3
from collections.abc import Iterable

from ingestor.lexical.vocabulary import may_be_mistyped

_ALIKE = 100  # words with the most trigrams in common that are compared
_CORRECTIONS = 3  # of a word
_LONG = 8  # letters of a word that may have two mistakes


def corrected(db: sqlite3.Connection, number: int, forms: Iterable[str]) -> dict[str, int]:
    """The nearest words by edits, and how many records hold them. ``forms``: of one word."""
    found: list[tuple[int, int, str]] = []
    for form in filter(may_be_mistyped, forms):
        allowed = 2 if len(form) >= _LONG else 1
        found += [
            (edits, -held, term)
            for term, held in _alike(db, number, form)
            if abs(len(term) - len(form)) <= allowed and (edits := distance(form, term)) <= allowed
        ]
    nearest = sorted(each for each in set(found) if each[0] == min(found)[0])
    return {term: -held for _, held, term in nearest[:_CORRECTIONS]}


def _alike(db: sqlite3.Connection, number: int, form: str) -> list[tuple[str, int]]:
    padded = f"^{form}$"
    grams = dict.fromkeys(padded[at : at + 3] for at in range(len(padded) - 2))
    query = f"""SELECT term, held FROM (
                    SELECT rowid AS number FROM trigrams_{number} WHERE trigrams_{number} MATCH ?
                    ORDER BY rank LIMIT {_ALIKE})
                JOIN vocabulary_{number} USING (number)"""
    return db.execute(query, (" OR ".join(f'"{gram}"' for gram in grams),)).fetchall()


def distance(one: str, other: str) -> int:
    """Edits between two words: a letter put in, left out or changed, or two neighbours in the wrong order."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for at, letter in enumerate(one, 1):
        new = [at]
        for column, their in enumerate(other, 1):
            best = min(row[column] + 1, new[-1] + 1, row[column - 1] + (letter != their))
            if before and column > 1 and (letter, one[at - 2]) == (other[column - 2], their):
                best = min(best, before[column - 2] + 1)
            new.append(best)
        before, row = row, new
    return row[-1]
