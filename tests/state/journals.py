"""A source and a collection of the journal, and what the scanner and the writer do to it."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from ingestor.core.decisions import Changes
from ingestor.core.entries import EditionName, Entry, Feed, Intent, Receipt
from ingestor.model import CollectionName, Item, Known, SourceName
from ingestor.state.backlog import Backlog
from ingestor.state.journal import Journal
from ingestor.state.tables import LIVE

S, C = SourceName("s"), CollectionName("docs")


def observe(journal: Journal, *keys: str, version: str = "1", gone: tuple[str, ...] = ()) -> None:
    items = tuple(Item(key, version, f"/{key}", 3, 5.0, (("author", "me"),)) for key in keys)
    journal.observe(S, C, Changes(items, gone), remove_at=100.0)


def of_source(journal: Journal, source: SourceName) -> list[Entry]:
    """Every document of a source in live editions, vanished ones included."""
    return journal.entries(f"source = ? AND {LIVE} ORDER BY key", (source,))


def of_collection(journal: Journal, edition: EditionName) -> list[Entry]:
    return journal.entries("collection = ? ORDER BY id", (edition,))


def one(journal: Journal, key: str) -> Entry:
    return next(entry for entry in of_source(journal, S) if entry.key == key)


def settle(
    journal: Journal,
    key: str,
    *,
    sums: list[int] | None = None,
    interval: tuple[int, int] | None = None,
    digest: str = "d",
) -> None:
    entry = one(journal, key)
    assert entry.item is not None
    known = (Known(0, "t", "v", "m"), Known(1, "t2", "v2", "m2"))
    statistic = None if sums is None else "mean"
    packed = None if sums is None else np.array(sums, np.int64)
    done = (entry.item.version, "r", "f", digest, "text")
    receipt = Receipt(entry.row, *done, known, statistic, packed, interval)
    journal.intend([Intent(entry.row, (0, 1))])
    journal.settle([receipt])


def untold(version: str, other: str) -> bool:
    """Stand for a connector that does not know what was moved."""
    del version, other
    return False


def due(journal: Journal, now: float = 10.0) -> list[str]:
    queue = Backlog(journal).queue([Feed(S, C)], now, 100)
    return [entry.key for entry in journal.of_rows([each.row for each in queue])]


@contextmanager
def traced(journal: Journal) -> Iterator[list[str]]:
    """Yield a list to which SQLite adds every statement that it runs for the journal."""
    statements: list[str] = []
    journal._db.set_trace_callback(statements.append)
    yield statements
    journal._db.set_trace_callback(None)


def plan(journal: Journal, statement: str) -> str:
    rows = journal._db.execute(f"EXPLAIN QUERY PLAN {statement}")
    return " ".join(row[3] for row in rows)
