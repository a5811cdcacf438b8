"""Which records hold a term, and how often: the postings of a collection, in blocks of rows.

The postings of a term in a block are an array of numbers of 32 bits, one for each row that holds the term:
its place in the block, and above that how often it holds the term. So a question reads few rows of SQLite,
and an edit writes few blocks. ``EVERY`` stands for a term of every record; it counts all terms of a record.
"""

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_BITS = 10
ROWS = 1 << _BITS  # of a block
MOST = (1 << 32 - _BITS) - 1  # a term that is more frequent in a record counts so often
EVERY = ""
TABLE = """CREATE TABLE postings_{0} (
    block INTEGER NOT NULL, term TEXT NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (block, term)) WITHOUT ROWID"""
_ENTRY = np.dtype("<u4")
_ADD = """INSERT INTO postings_{0} VALUES (?, ?, ?)
          ON CONFLICT (block, term) DO UPDATE SET body = CAST(body || excluded.body AS BLOB)"""
_PUT = "REPLACE INTO postings_{0} VALUES (?, ?, ?)"
_FORGET = "DELETE FROM postings_{0} WHERE block = ? AND term = ?"
_CHOSEN = "FROM postings_{0} WHERE block IN (SELECT value FROM json_each(?)) AND term IN ({1})"
_SIZES = f"SELECT term, SUM(LENGTH(body)) {_CHOSEN} GROUP BY term"
_BODIES = f"SELECT term, block, body {_CHOSEN}"

_PAGE = 500  # terms in one statement


@dataclass(frozen=True, slots=True, eq=False)
class Postings:
    """Of one term: rows, and how often each holds it."""

    rows: npt.NDArray[np.int64]
    counts: npt.NDArray[np.float64]


def counted(terms: str | None) -> dict[str, int]:
    """How often a record has each of its terms, which have spaces between them. None: there is no record."""
    if terms is None:
        return {}
    found = Counter(filter(None, terms.split(" ")))
    found[EVERY] = found.total()
    return {term: min(count, MOST) for term, count in found.items()}


def change(
    db: sqlite3.Connection, number: int, rows: Iterable[tuple[int, Mapping[str, int], Mapping[str, int]]]
) -> None:
    """``rows``: each with what it held, and what it holds now, as ``counted`` has it."""
    gone: dict[int, dict[str, list[int]]] = defaultdict(
        lambda: defaultdict(list)
    )  # places, by block and term
    new: dict[tuple[int, str], list[int]] = defaultdict(list)
    for row, before, after in rows:
        block, place = divmod(row, ROWS)
        for term, _ in before.items() - after.items():
            gone[block][term].append(place)
        for term, count in after.items() - before.items():
            new[block, term].append(count << _BITS | place)
    for block, places in gone.items():
        _remove(db, number, block, places)
    bodies = ((*key, np.array(entries, _ENTRY).tobytes()) for key, entries in sorted(new.items()))
    db.executemany(_ADD.format(number), bodies)


def _remove(db: sqlite3.Connection, number: int, block: int, places: Mapping[str, list[int]]) -> None:
    """``places``: by term, who no longer holds it."""
    terms = sorted(places)
    for at in range(0, len(terms), _PAGE):
        page = terms[at : at + _PAGE]
        found = db.execute(_BODIES.format(number, _marks(page)), (json.dumps([block]), *page)).fetchall()
        kept = [(block, term, _without(body, places[term])) for term, _, body in found]
        db.executemany(_PUT.format(number), (each for each in kept if each[2]))
        db.executemany(_FORGET.format(number), (each[:2] for each in kept if not each[2]))


def _without(body: bytes, places: list[int]) -> bytes:
    entries = np.frombuffer(body, _ENTRY)
    found = entries & ROWS - 1
    return entries[found != places[0] if len(places) == 1 else ~np.isin(found, places)].tobytes()


def holding(db: sqlite3.Connection, number: int, terms: Sequence[str]) -> dict[str, int]:
    """How many records hold each term; terms that none holds are left out."""
    sizes = db.execute(_SIZES.format(number, _marks(terms)), (_blocks(db, number), *terms))
    return {term: size // _ENTRY.itemsize for term, size in sizes}


def read(db: sqlite3.Connection, number: int, terms: Sequence[str]) -> dict[str, Postings]:
    """Of those terms that any record holds, all at one moment."""
    found: dict[str, tuple[list[int], list[bytes]]] = defaultdict(lambda: ([], []))
    values = (_blocks(db, number), *terms)
    for term, block, body in db.execute(_BODIES.format(number, _marks(terms)), values):
        blocks, bodies = found[term]
        blocks.append(block)
        bodies.append(body)
    return {term: _joined(*both) for term, both in found.items()}


def _joined(blocks: Sequence[int], bodies: Sequence[bytes]) -> Postings:
    entries = np.frombuffer(b"".join(bodies), _ENTRY)
    starts = np.repeat(np.array(blocks, np.int64) * ROWS, [len(each) // _ENTRY.itemsize for each in bodies])
    return Postings(starts + (entries & ROWS - 1), (entries >> _BITS).astype(np.float64))


def _blocks(db: sqlite3.Connection, number: int) -> str:
    """All that may exist, as JSON."""
    (last,) = db.execute(f"SELECT MAX(row) FROM records_{number}").fetchone()
    return json.dumps(list(range((last or 0) // ROWS + 1)))


def _marks(terms: Sequence[str]) -> str:
    return ", ".join("?" * len(terms))
