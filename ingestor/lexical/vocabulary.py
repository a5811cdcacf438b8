"""The vocabulary of a collection: how many records hold each term, and the trigrams of words.

FTS5 would count the records of a term anew for each question. Trigrams find words that are alike (typos.py).
"""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence

from ingestor.core.listings.pages import pages

SHORTEST = 4  # letters of a word that is corrected
_PAGE = 500  # terms in one statement

TABLES = {
    "vocabulary": """CREATE TABLE vocabulary_{0} (
        number INTEGER PRIMARY KEY, term TEXT NOT NULL UNIQUE, held INTEGER NOT NULL,
        alike INTEGER NOT NULL)""",
    "trigrams": """CREATE VIRTUAL TABLE trigrams_{0} USING fts5(
        word, content='', tokenize='trigram case_sensitive 1', columnsize=0)""",
}
TRIGGERS = (
    """CREATE TRIGGER vocabulary_{0}_new AFTER INSERT ON vocabulary_{0} WHEN new.alike BEGIN
        INSERT INTO trigrams_{0} (rowid, word) VALUES (new.number, '^' || new.term || '$'); END""",
    """CREATE TRIGGER vocabulary_{0}_gone AFTER DELETE ON vocabulary_{0} WHEN old.alike BEGIN
        INSERT INTO trigrams_{0} (trigrams_{0}, rowid, word)
        VALUES ('delete', old.number, '^' || old.term || '$'); END""",
)


def change(db: sqlite3.Connection, number: int, old: Iterable[str], new: Iterable[str]) -> None:
    """Count records that go and that come. Each record: its terms with spaces between them."""
    counts = Counter(term for terms in new for term in set(terms.split()))
    counts.subtract(term for terms in old for term in set(terms.split()))
    added = [(term, count, may_be_mistyped(term)) for term, count in counts.items() if count > 0]
    db.executemany(
        f"""INSERT INTO vocabulary_{number} (term, held, alike) VALUES (?, ?, ?)
            ON CONFLICT (term) DO UPDATE SET held = held + excluded.held""",
        added,
    )
    removed = [(-count, term) for term, count in counts.items() if count < 0]
    db.executemany(f"UPDATE vocabulary_{number} SET held = held - ? WHERE term = ?", removed)
    gone = f"DELETE FROM vocabulary_{number} WHERE term = ? AND held <= 0"
    db.executemany(gone, ((term,) for _, term in removed))


def read_held(db: sqlite3.Connection, number: int, terms: Sequence[str]) -> dict[str, int]:
    """How many records hold each term, for terms that any record holds."""
    query = f"SELECT term, held FROM vocabulary_{number} WHERE term IN ({{}})"
    return {
        term: held
        for page in pages(dict.fromkeys(terms), _PAGE)
        for term, held in db.execute(query.format(", ".join("?" * len(page))), page)
    }


def may_be_mistyped(term: str) -> bool:
    """Numbers and names of several parts are meant as they are written."""
    return len(term) >= SHORTEST and term.isalpha()
