"""Tables beside the records of a collection: the vocabulary, for corrections, and the titles.

The vocabulary has the number of records with each term; FTS5 would count them again for each question.
Trigrams of its words find corrections of a mistyped word. A question can name documents by their titles.
Triggers maintain titles: a title counts its records, and is deleted with the last of them. All records of a
document have one title, except for the moment in which the title changes.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ingestor.core.listings import pages

SHORTEST = 4  # letters of a word that is corrected
_PAGE = 500  # terms in one statement
_MATCHED = 200  # titles that are looked at for one question
TOKENIZER = "ascii tokenchars '_.:@/\\+&-,#>'"  # keeps punctuation that terms.py leaves inside of terms

TABLES = {
    "vocabulary": """CREATE TABLE vocabulary_{0} (
        number INTEGER PRIMARY KEY, term TEXT NOT NULL UNIQUE, held INTEGER NOT NULL,
        alike INTEGER NOT NULL)""",
    "trigrams": """CREATE VIRTUAL TABLE trigrams_{0} USING fts5(
        word, content='', tokenize='trigram case_sensitive 1', columnsize=0)""",
    "titles": """CREATE TABLE titles_{0} (
        row INTEGER PRIMARY KEY, document TEXT NOT NULL, terms TEXT NOT NULL, records INTEGER NOT NULL,
        UNIQUE (document, terms))""",
    "named": f"""CREATE VIRTUAL TABLE named_{{0}} USING fts5(
        terms, content='titles_{{0}}', content_rowid='row', tokenize="{TOKENIZER}")""",
}


def document_of(id_: str) -> str:
    """Return the SQL expression for the document of a record, with the # before the record's number."""
    return f"rtrim({id_}, '0123456789')"


_ADD = f"""INSERT INTO titles_{{0}} (document, terms, records)
            VALUES ({document_of("new.id")}, new.title, 1)
            ON CONFLICT (document, terms) DO UPDATE SET records = records + 1;"""
_REMOVE = f"""UPDATE titles_{{0}} SET records = records - 1
            WHERE document = {document_of("old.id")} AND terms = old.title;
        DELETE FROM titles_{{0}}
            WHERE document = {document_of("old.id")} AND terms = old.title AND records <= 0;"""
TRIGGERS = (
    """CREATE TRIGGER vocabulary_{0}_new AFTER INSERT ON vocabulary_{0} WHEN new.alike BEGIN
        INSERT INTO trigrams_{0} (rowid, word) VALUES (new.number, '^' || new.term || '$'); END""",
    """CREATE TRIGGER vocabulary_{0}_gone AFTER DELETE ON vocabulary_{0} WHEN old.alike BEGIN
        INSERT INTO trigrams_{0} (trigrams_{0}, rowid, word)
        VALUES ('delete', old.number, '^' || old.term || '$'); END""",
    f"""CREATE TRIGGER titles_{{0}}_new AFTER INSERT ON records_{{0}} WHEN new.title != '' BEGIN
        {_ADD} END""",
    f"""CREATE TRIGGER titles_{{0}}_gone AFTER DELETE ON records_{{0}} WHEN old.title != '' BEGIN
        {_REMOVE} END""",
    f"""CREATE TRIGGER titles_{{0}}_before AFTER UPDATE OF title ON records_{{0}} WHEN old.title != '' BEGIN
        {_REMOVE} END""",
    f"""CREATE TRIGGER titles_{{0}}_after AFTER UPDATE OF title ON records_{{0}} WHEN new.title != '' BEGIN
        {_ADD} END""",
    """CREATE TRIGGER named_{0}_new AFTER INSERT ON titles_{0} BEGIN
        INSERT INTO named_{0} (rowid, terms) VALUES (new.row, new.terms); END""",
    """CREATE TRIGGER named_{0}_gone AFTER DELETE ON titles_{0} BEGIN
        INSERT INTO named_{0} (named_{0}, rowid, terms) VALUES ('delete', old.row, old.terms); END""",
)


def change_vocabulary(db: sqlite3.Connection, number: int, old: Iterable[str], new: Iterable[str]) -> None:
    """Update the counts for deleted and new records. ``old``, ``new``: terms of each record, with spaces."""
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
    """Return the number of records with each term; omit terms without records."""
    query = f"SELECT term, held FROM vocabulary_{number} WHERE term IN ({{}})"
    return {
        term: held
        for page in pages(dict.fromkeys(terms), _PAGE)
        for term, held in db.execute(query.format(", ".join("?" * len(page))), page)
    }


def may_be_mistyped(term: str) -> bool:
    """Return whether a term may be mistyped: numbers and names of several parts are taken literally."""
    return len(term) >= SHORTEST and term.isalpha()


def match_titles(db: sqlite3.Connection, number: int, weights: Mapping[str, float]) -> dict[str, float]:
    """Return documents whose titles hold terms of a question, with the sum of these terms' weights."""
    match = " OR ".join(f'"{term}"' for term in weights)
    query = f"""SELECT document, terms FROM (
                    SELECT rowid AS row FROM named_{number} WHERE named_{number} MATCH ?
                    ORDER BY rank LIMIT {_MATCHED})
                JOIN titles_{number} USING (row)"""
    rows = db.execute(query, (match,)).fetchall() if weights else []
    best: dict[str, float] = {}
    for document, held in rows:
        weight = sum(weights[term] for term in held.split() if term in weights)
        best[document[:-1]] = max(weight, best.get(document[:-1], 0.0))
    return best
