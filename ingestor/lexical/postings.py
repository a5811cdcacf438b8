"""Which records hold a term, and how often: the postings of a collection, in blocks of rows.

A record that changes gets a new row, at the end: so a change costs as much as a new record, however frequent
its terms are. Its old row is struck: the block's lengths say 0 for it, and what postings say of it counts no
longer. A row is used again only when its block was removed.

The lengths of a block are one array of numbers of 32 bits: for each row that was ever used, how many terms
its record has, plus 1. The postings of a term in a block are such an array, too: for each row that held the
term its place in the block, and above that how often it held the term.
"""

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_BITS = 13
ROWS = 1 << _BITS  # of a block
MOST = (1 << 32 - _BITS) - 1  # a term that is more frequent in a record counts so often
_SPARSE = ROWS // 4  # a block with fewer records is emptied
_NUMBER = np.dtype("<u4")
_ADD = """INSERT INTO postings_{0} VALUES (?, ?, ?)
          ON CONFLICT (block, term) DO UPDATE SET body = CAST(body || excluded.body AS BLOB)"""
_BODIES = """SELECT term, block, body FROM postings_{0}
             WHERE block IN (SELECT value FROM json_each(?)) AND term IN ({1})"""

Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Lengths:
    """Of all rows, block after block: how many terms the record has, plus 1; 0 where there is none."""

    blocks: list[int]
    values: npt.NDArray[np.uint32]

    def rows(self, places: Places) -> list[int]:
        """``places``: in ``values``."""
        return [self.blocks[place // ROWS] * ROWS + place % ROWS for place in places.tolist()]


@dataclass(frozen=True, slots=True, eq=False)
class Postings:
    """Of one term: places in ``Lengths.values``, and how often each holds it."""

    places: Places
    counts: npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Bodies:
    """The postings of one term as they are stored. ``starts``: of their blocks, in ``Lengths.values``."""

    starts: list[int]
    bodies: list[bytes]

    @property
    def most(self) -> int:
        """Records that hold the term, and rows that did."""
        return sum(map(len, self.bodies)) // _NUMBER.itemsize

    def of(self, lengths: Lengths) -> Postings:
        """Of the records that there are."""
        entries = np.frombuffer(b"".join(self.bodies), _NUMBER)
        sizes = [len(body) // _NUMBER.itemsize for body in self.bodies]
        places = np.repeat(np.array(self.starts, np.int64), sizes) + (entries & ROWS - 1)
        there = lengths.values[places] > 0
        if not there.all():
            places, entries = places[there], entries[there]
        return Postings(places, (entries >> _BITS).astype(np.float64))


def counted(terms: str) -> dict[str, int]:
    """How often a record has each of its terms, which have spaces between them."""
    return Counter(filter(None, terms.split(" ")))


# --- writing


def append(db: sqlite3.Connection, number: int, records: Iterable[Mapping[str, int]]) -> range:
    """Add records, each as ``counted`` has it. Returns their rows."""
    start = row = _end(db, number)
    lengths: dict[int, int] = {}
    new: dict[tuple[int, str], list[int]] = defaultdict(list)
    for row, terms in enumerate(records, start):
        block, place = divmod(row, ROWS)
        lengths[row] = 1 + sum(terms.values())
        for term, count in terms.items():
            new[block, term].append(min(count, MOST) << _BITS | place)
    bodies = ((*key, np.array(entries, _NUMBER).tobytes()) for key, entries in sorted(new.items()))
    db.executemany(_ADD.format(number), bodies)
    _set_lengths(db, number, lengths)
    return range(start, start + len(lengths))


def strike(db: sqlite3.Connection, number: int, rows: Iterable[int]) -> None:
    """These rows have no records any more. Blocks without any are removed."""
    _set_lengths(db, number, dict.fromkeys(rows, 0))
    for (block,) in db.execute(f"SELECT block FROM blocks_{number} WHERE held = 0").fetchall():
        for table in ("postings", "blocks"):
            db.execute(f"DELETE FROM {table}_{number} WHERE block = ?", (block,))


def rows_to_move(db: sqlite3.Connection, number: int, most: int) -> list[int]:
    """Up to ``most`` rows of a block that has few records left: they should move to the end."""
    query = f"""SELECT block, lengths FROM blocks_{number} WHERE held < ? AND LENGTH(lengths) = ?
                ORDER BY held LIMIT 1"""
    for block, lengths in db.execute(query, (_SPARSE, ROWS * _NUMBER.itemsize)):
        places = np.flatnonzero(np.frombuffer(lengths, _NUMBER))[:most]
        return [block * ROWS + place for place in places.tolist()]
    return []


def _end(db: sqlite3.Connection, number: int) -> int:
    """The first row that was never used."""
    last = f"SELECT block, LENGTH(lengths) FROM blocks_{number} ORDER BY block DESC LIMIT 1"
    return sum(block * ROWS + size // _NUMBER.itemsize for block, size in db.execute(last))


def _set_lengths(db: sqlite3.Connection, number: int, lengths: Mapping[int, int]) -> None:
    """``lengths``: by row."""
    blocks: dict[int, list[int]] = defaultdict(list)
    for row in lengths:
        blocks[row // ROWS].append(row)
    for block, rows in blocks.items():
        query = f"SELECT lengths FROM blocks_{number} WHERE block = ?"
        (before,) = db.execute(query, (block,)).fetchone() or (b"",)
        places = np.array(rows) - block * ROWS
        after = np.zeros(max(len(before) // _NUMBER.itemsize, places.max() + 1), _NUMBER)
        after[: len(before) // _NUMBER.itemsize] = np.frombuffer(before, _NUMBER)
        after[places] = [lengths[row] for row in rows]
        held = int(np.count_nonzero(after))
        db.execute(f"REPLACE INTO blocks_{number} VALUES (?, ?, ?)", (block, held, after.tobytes()))


# --- reading


def read_lengths(db: sqlite3.Connection, number: int) -> Lengths:
    rows = db.execute(f"SELECT block, lengths FROM blocks_{number} ORDER BY block").fetchall()
    return Lengths([block for block, _ in rows], np.frombuffer(b"".join(body for _, body in rows), _NUMBER))


def read(db: sqlite3.Connection, number: int, lengths: Lengths, terms: Sequence[str]) -> dict[str, Bodies]:
    """Of those terms that any row held. ``lengths``: read in the same transaction."""
    query, values = _BODIES.format(number, ", ".join("?" * len(terms))), (json.dumps(lengths.blocks), *terms)
    start = {block: at * ROWS for at, block in enumerate(lengths.blocks)}
    found: dict[str, Bodies] = defaultdict(lambda: Bodies([], []))
    for term, block, body in db.execute(query, values):
        found[term].starts.append(start[block])
        found[term].bodies.append(body)
    return found
