"""What of the withdrawals of a source is known later: after a restart, and after documents came back."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ingestor.core.decisions import NEVER, Failure
from ingestor.state.journal import Journal
from ingestor.state.sources import Withdrawals
from tests.state.journals import S, observe, one, settle
from tests.state.test_upgrade import OLD

DOCUMENTS = [str(number) for number in range(10)]
UNREADABLE = Failure("a null character", 1, NEVER, quarantined=True)


@pytest.fixture
def known(journal: Journal) -> Journal:
    """All ten documents have records, and have them always: who is withdrawn is back at once."""
    observe(journal, *DOCUMENTS)
    for key in DOCUMENTS:
        settle(journal, key)
    return journal


def withdrawn(journal: Journal, guard: Withdrawals, *keys: str) -> list[str]:
    return [key for key in keys if guard.passes(one(journal, key), UNREADABLE, max_loss=0.5)]


def test_documents_that_came_back_before_a_restart_are_not_two_each(known: Journal) -> None:
    assert withdrawn(known, Withdrawals(known), *DOCUMENTS[:5]) == DOCUMENTS[:5]
    assert withdrawn(known, Withdrawals(known), *DOCUMENTS[5:]) == []
    assert (Withdrawals(known).of(S).kept or "").startswith("more than 5 of 10 documents")


def test_withdrawn_documents_that_came_back_are_not_counted(known: Journal) -> None:
    guard = Withdrawals(known)
    assert withdrawn(known, guard, *DOCUMENTS[:6]) == DOCUMENTS[:5]
    entry = one(known, DOCUMENTS[5])
    assert entry.item is not None
    known.fail(entry.row, entry.item.version, Failure("it waits for a retry", 1, 0.0, quarantined=False))
    guard.settle([S])
    assert withdrawn(known, guard, *DOCUMENTS[5:]) == []
    assert withdrawn(known, guard, *DOCUMENTS[:5]) == DOCUMENTS[:5]  # half, as agreed


def test_document_that_got_the_row_of_a_withdrawn_one_counts(known: Journal) -> None:
    guard = Withdrawals(known)
    assert withdrawn(known, guard, *DOCUMENTS[-5:]) == DOCUMENTS[-5:]
    last = one(known, DOCUMENTS[-1])
    observe(known, gone=(last.key,))
    known.remove([last.row])
    observe(known, "new")
    settle(known, "new")
    assert one(known, "new").row == last.row
    assert withdrawn(known, guard, "new") == []


def test_withdrawals_of_an_older_journal_stay_counted(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "journal.sqlite3")) as db:
        db.executescript(OLD)
        source, left = db.execute(
            """SELECT source, COUNT(*) FROM documents WHERE collection = 'docs'
               AND EXISTS (SELECT 1 FROM records WHERE document = id) GROUP BY source"""
        ).fetchone()
        db.execute("INSERT INTO withdrawals (source, documents) VALUES (?, 3)", (source,))
        db.commit()
    with closing(Journal(tmp_path / "journal.sqlite3")) as journal:
        assert Withdrawals(journal).of(source)[:2] == (3, left + 3)
