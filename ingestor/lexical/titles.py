"""The titles of a collection's documents, by which a question names documents.

Triggers keep them: a title counts the records that have it, and goes with the last of them. (The records of a
document have one title, but for the moment in which it changes.)
"""

import sqlite3
from collections.abc import Mapping

_MATCHED = 200  # titles that are looked at for one question
TOKENIZER = "ascii tokenchars '_.:@/\\+&-,#>'"  # keeps punctuation that terms.py leaves inside of terms

TABLES = {
    "titles": """CREATE TABLE titles_{0} (
        row INTEGER PRIMARY KEY, document TEXT NOT NULL, terms TEXT NOT NULL, records INTEGER NOT NULL,
        UNIQUE (document, terms))""",
    "named": f"""CREATE VIRTUAL TABLE named_{{0}} USING fts5(
        terms, content='titles_{{0}}', content_rowid='row', tokenize="{TOKENIZER}")""",
}
_DOCUMENT = "rtrim({0}.id, '0123456789')"  # with the # before a record's number
_ADD = f"""INSERT INTO titles_{{0}} (document, terms, records)
            VALUES ({_DOCUMENT.format("new")}, new.title, 1)
            ON CONFLICT (document, terms) DO UPDATE SET records = records + 1;"""
_REMOVE = f"""UPDATE titles_{{0}} SET records = records - 1
            WHERE document = {_DOCUMENT.format("old")} AND terms = old.title;
        DELETE FROM titles_{{0}}
            WHERE document = {_DOCUMENT.format("old")} AND terms = old.title AND records <= 0;"""
TRIGGERS = (
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


def named(db: sqlite3.Connection, number: int, weights: Mapping[str, float]) -> dict[str, float]:
    """The documents whose titles hold terms of a question, with the sum of the terms' weights each."""
    match = " OR ".join(f'"{term}"' for term in weights)
    query = f"""SELECT document, terms FROM (
                    SELECT rowid AS row FROM named_{number} WHERE named_{number} MATCH ?
                    ORDER BY rank LIMIT {_MATCHED})
                JOIN titles_{number} USING (row)"""
    rows = db.execute(query, (match,)).fetchall() if weights else []
    found: dict[str, float] = {}
    for document, held in rows:
        weight = sum(weights[term] for term in held.split() if term in weights)
        found[document[:-1]] = max(weight, found.get(document[:-1], 0.0))
    return found
