"""Words of the collection that a mistyped word probably meant.

Every word at one edit from the mistyped one is stemmed, and looked up in the vocabulary. So mistakes in
endings, which stems lack, are corrected too. A long word may have two mistakes: then the terms that share
most trigrams with it are compared.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ingestor.lexical.tables import may_be_mistyped, read_held
from ingestor.lexical.terms import all_stems

_ALIKE = 100  # terms with the most trigrams in common that are compared
_MOST = 3  # words that correct a mistyped one
_LONG = 8  # letters of a word that may have two mistakes
_SHORTEST = 3  # letters of a stem: wrong words too often have a shorter one


@dataclass(frozen=True, slots=True)
class Correction:
    """Terms that probably correct a word. ``held``: number of records that hold each.

    ``trust``: weight of these terms, from 0 to 1; lower for short words, whose mistakes are less certain.
    """

    held: Mapping[str, int] = field(default_factory=dict)
    trust: float = 0.0


def correct(
    db: sqlite3.Connection, number: int, forms: Sequence[str], languages: Sequence[str]
) -> Correction:
    """Return the nearest words. ``forms``: of one word, the first as it was typed."""
    word = forms[0]
    if not may_be_mistyped(word):
        return Correction()
    alike = _alike(db, number, word)
    near = [each for each in _edits(word, {*word}.union(*alike)) if may_be_mistyped(each)]
    if held := _best(db, number, near, languages):
        return Correction(held, 1 - 2 / len(word))
    close = [
        term
        for form in forms if len(form) >= _LONG
        for term in (alike if form == word else _alike(db, number, form))
        if abs(len(term) - len(form)) <= 2 and distance(form, term) <= 2
    ]  # fmt: skip
    return Correction(_best(db, number, close, languages), 1 - 4 / len(word))


def _best(
    db: sqlite3.Connection, number: int, words: Sequence[str], languages: Sequence[str]
) -> dict[str, int]:
    """Return the terms of the most frequent words, with their numbers of records."""
    forms = all_stems(words, languages)
    terms = (term for each in forms.values() for term in each if len(term) >= _SHORTEST)
    held = read_held(db, number, list(terms))
    counts = {word: max(held.get(term, 0) for term in each) for word, each in forms.items()}
    best = sorted(filter(counts.get, counts), key=lambda word: (-counts[word], word))[:_MOST]
    return {term: held[term] for word in best for term in forms[word] if term in held}


def _alike(db: sqlite3.Connection, number: int, form: str) -> list[str]:
    padded = f"^{form}$"
    grams = dict.fromkeys(padded[at : at + 3] for at in range(len(padded) - 2))
    query = f"""SELECT term FROM (
                    SELECT rowid AS number FROM trigrams_{number} WHERE trigrams_{number} MATCH ?
                    ORDER BY rank LIMIT {_ALIKE})
                JOIN vocabulary_{number} USING (number)"""
    return [term for (term,) in db.execute(query, (" OR ".join(f'"{gram}"' for gram in grams),))]


def _edits(word: str, letters: Iterable[str]) -> Iterator[str]:
    """Yield the words at one edit, of which ``distance`` is 1, with repetitions."""
    for at in range(len(word) + 1):
        head, tail = word[:at], word[at:]
        yield from (head + letter + tail for letter in letters)
        if tail:
            yield head + tail[1:]
            yield from (head + letter + tail[1:] for letter in letters)
        if len(tail) > 1:
            yield head + tail[1] + tail[0] + tail[2:]


def distance(one: str, other: str) -> int:
    """Count the edits between two words: a letter inserted, omitted or changed, or two neighbours swapped."""
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
