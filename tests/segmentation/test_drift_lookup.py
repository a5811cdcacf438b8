"""Whom a moved statistic disturbs is looked up, however large the collection is."""

from pathlib import Path

import pytest

from ingestor.core.entries import EditionName, Feed
from ingestor.model import CollectionName, SourceName
from ingestor.state.backlog import Backlog
from ingestor.state.journal import Journal

DOCS = CollectionName("docs")
MIDDLE, CROSSED = 1_000_000, 5


def filled(path: Path, documents: int) -> Journal:
    """All intervals hold the middle; ``CROSSED`` of them end just above it, as many begin just below it."""
    journal = Journal(path, synchronous="OFF")
    reach = [1 if number < CROSSED else 10 + number for number in range(documents // 2)]
    intervals = [
        *((0, MIDDLE + width) for width in reach),
        *((MIDDLE - width, 2 * MIDDLE) for width in reach),
    ]
    with journal.transaction() as db:
        db.executemany(
            """INSERT INTO documents (document_id, source, collection, key, uri, extra,
                   wanted_version, done_version, statistic, lo, hi)
               VALUES (?1, 's', 'docs', ?1, ?1, '[]', '1', '1', 'mean', ?2, ?3)""",
            ((f"{number}", low, high) for number, (low, high) in enumerate(intervals)),
        )
    return journal


def steps(journal: Journal, value: int, found: int) -> int:
    """Instructions of SQLite's machine that it takes to find those due at this value."""
    taken: list[None] = []
    journal._db.set_progress_handler(lambda: taken.append(None), 1)
    due = Backlog(journal).find_drifted([Feed(SourceName("s"), EditionName(DOCS))], "mean", value, 100)
    journal._db.set_progress_handler(None, 1)
    assert len(due) == found
    return len(taken)


@pytest.mark.parametrize(("index", "bound"), [("low", "lo"), ("high", "hi")])
def test_each_bound_has_its_index_and_is_slow_without(tmp_path: Path, index: str, bound: str) -> None:
    journal = filled(tmp_path / "journal", 1_000)
    statements: list[str] = []
    assert steps(journal, MIDDLE + 2, CROSSED) < 100 * CROSSED > steps(journal, MIDDLE - 2, CROSSED)
    journal._db.set_trace_callback(statements.append)
    fast = steps(journal, MIDDLE, 0)
    journal._db.set_trace_callback(None)
    (statement,) = (found for found in statements if f"{bound} " in found.partition("WHERE")[2])
    plan = " ".join(row[3] for row in journal._db.execute(f"EXPLAIN QUERY PLAN {statement}"))
    assert f"USING INDEX {index} (collection=? AND statistic=? AND {bound}" in plan
    journal._db.execute(f"DROP INDEX {index}")
    assert steps(journal, MIDDLE, 0) > 100 * fast
    journal.close()
