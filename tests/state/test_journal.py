"""The journal alone: what it keeps of documents, sources and collections."""

import sqlite3
import subprocess
import sys
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ingestor.core.decisions import NEVER, Failure
from ingestor.core.entries import Intent, Receipt
from ingestor.model import Item, Known
from ingestor.ports import NeedsHuman
from ingestor.state.backlog import Backlog, predecessor
from ingestor.state.editions import Editions
from ingestor.state.journal import Journal, open_journal
from ingestor.state.reports import failures
from ingestor.state.tables import pack, unpack
from tests.state.journals import C, S, due, observe, of_source, one, settle, traced, untold


def test_entry_comes_back_as_it_was_given(journal: Journal) -> None:
    observe(journal, "a")
    settle(journal, "a", sums=[1, 2], interval=(3, 4))
    entry = one(journal, "a")
    assert entry.item == Item("a", "1", "/a", 3, 5.0, (("author", "me"),))
    assert (entry.done_version, entry.done_recipe, entry.parser, entry.interval) == ("1", "r", "text", (3, 4))
    assert [known.slot for known in entry.records] == [0, 1]
    assert entry.sums is not None
    assert entry.sums.tolist() == [1, 2]


def test_intent_makes_slots_unsure_and_voids_the_receipt(journal: Journal) -> None:
    observe(journal, "a")
    settle(journal, "a")
    journal.intend([Intent(one(journal, "a").row, (1, 7))])
    assert [(k.slot, k.unsure) for k in one(journal, "a").records] == [(0, False), (1, True), (7, True)]
    assert due(journal) == ["a"]


def test_vanished_document_waits_to_be_found_under_another_name(journal: Journal) -> None:
    observe(journal, "a")
    settle(journal, "a", digest="same")
    before = one(journal, "a")
    observe(journal, gone=("a",))
    assert Backlog(journal).documents_gone([S], now=99.0, limit=5) == []
    assert [entry.key for entry in Backlog(journal).documents_gone([S], now=100.0, limit=5)] == ["a"]
    observe(journal, "b")
    assert Backlog(journal).documents_gone([S], now=100.0, limit=5) == []
    found = predecessor(journal, untold, one(journal, "b"), "same")
    assert found is not None
    assert found.row == before.row
    journal.intend([Intent(found.row, (), one(journal, "b").row)])
    assert [entry.key for entry in of_source(journal, S)] == ["b"]
    after = one(journal, "b")
    assert (after.document_id, after.records) == (before.document_id, before.records)
    assert due(journal) == ["b"]


def test_late_failure_of_an_older_version_is_not_noted(journal: Journal) -> None:
    observe(journal, "a", version="2")
    journal.fail(one(journal, "a").row, "1", Failure("old", 1, NEVER, quarantined=True))
    assert due(journal) == ["a"]


def test_late_refusal_of_an_older_version_holds_for_that_version(journal: Journal) -> None:
    observe(journal, "a", version="half")
    row = one(journal, "a").row
    refused = Failure("broken off", 1, NEVER, quarantined=True)
    observe(journal, "a", version="whole")
    journal.settle([Receipt(row, "half", "r", "", "", "text", failure=refused)])
    assert due(journal) == ["a"]
    assert failures(journal) == []


def test_document_that_vanished_meanwhile_still_waits_to_be_found_again(journal: Journal) -> None:
    observe(journal, "a")
    row = one(journal, "a").row
    observe(journal, gone=("a",))
    journal.settle([Receipt(row, "1", "r", "f", "same", "text", (Known(0, "t", "v", "m"),))])
    assert Backlog(journal).documents_gone([S], now=99.0, limit=5) == []
    observe(journal, "b")
    assert predecessor(journal, untold, one(journal, "b"), "same") is not None


def total(journal: Journal) -> list[int] | None:
    found = journal.total(C, "mean")
    return None if found is None else found.tolist()


def test_sums_are_added_replaced_and_taken_back_exactly(journal: Journal) -> None:
    observe(journal, "a", "b")
    settle(journal, "a", sums=[1, 10], interval=(0, 5))
    settle(journal, "b", sums=[2, 2**40], interval=(6, 9))
    assert total(journal) == [3, 10 + 2**40]
    settle(journal, "a", sums=[5, 5], interval=(0, 5))
    observe(journal, gone=("b",))
    journal.remove([one(journal, "b").row])
    assert total(journal) == [5, 5]
    observe(journal, gone=("a",))
    journal.remove([one(journal, "a").row])
    assert total(journal) is None


def test_sum_of_a_collection_is_written_once_for_all_documents_of_a_batch(journal: Journal) -> None:
    keys = [f"{number}" for number in range(5)]
    observe(journal, *keys)
    receipts = [
        Receipt(one(journal, key).row, "1", "r", "f", "d", "text", (), "mean", np.array([1, 2]), (0, 5))
        for key in keys
    ]
    with traced(journal) as statements:
        journal.settle(receipts)
    assert total(journal) == [5, 10]
    assert journal.select("SELECT documents FROM statistics") == [(5,)]
    assert sum("INTO statistics" in statement for statement in statements) == 1
    # A statement is traced again for each trigger that it fires.
    assert sum(statement.startswith("UPDATE documents") for statement in set(statements)) == 5


def test_doubt_makes_everything_due_again(journal: Journal) -> None:
    observe(journal, "a", "b")
    settle(journal, "a")
    settle(journal, "b")
    journal.doubt(C, [one(journal, "a").row])
    assert due(journal) == ["a"]
    journal.doubt(C)
    assert sorted(due(journal)) == ["a", "b"]
    assert all(known.unsure for entry in of_source(journal, S) for known in entry.records)


def test_collections_are_remembered(journal: Journal) -> None:
    blank = Editions(journal).of_name(C)
    assert (blank.uuids, blank.embedder, blank.extra_keys) == ((), None, frozenset())
    known = replace(blank, uuids=("uuid", "other"), embedder="embedder", extra_keys=frozenset({"author"}))
    Editions(journal).note(known)
    assert Editions(journal).of_name(C) == known


@pytest.mark.parametrize(
    "values", [[], [1], [0] * 500, [2**40] * 99, [-(2**31), 2**31 - 1], [2**31], [-(2**62), 2**62]]
)
def test_sums_survive_packing(values: list[int]) -> None:
    assert unpack(pack(np.array(values, np.int64))).tolist() == values


def test_sums_that_earlier_versions_packed_are_read() -> None:
    narrow, wide = np.array([1, -2], np.int32), np.array([2**40, -2], np.int64)
    assert unpack(b"4" + narrow.tobytes()).tolist() == [1, -2]
    assert unpack(b"8" + wide.tobytes()).tolist() == [2**40, -2]
    assert unpack(b"z" + zlib.compress(b"4" + narrow.tobytes())).tolist() == [1, -2]


def test_journal_is_opened_and_read_while_another_process_writes(journal: Journal, tmp_path: Path) -> None:
    observe(journal, "a")
    with journal.transaction(), open_journal(tmp_path / "journal.sqlite3") as other:
        assert other.owner == journal.owner
        assert [entry.key for entry in of_source(other, S)] == ["a"]


def test_mark_moves_with_whatever_is_written_by_any_process(journal: Journal, tmp_path: Path) -> None:
    before = journal.mark()
    due(journal)
    assert journal.mark() == before
    observe(journal, "a")
    own = journal.mark()
    assert own != before
    with open_journal(tmp_path / "journal.sqlite3") as other:
        observe(other, "b")
    assert journal.mark() != own


def test_newer_journal_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite3"
    Journal(path).close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(NeedsHuman, match="newer ingestor"):
        Journal(path)


def test_processes_that_open_a_new_journal_at_once_agree(tmp_path: Path) -> None:
    """As a daemon and a ``status`` do at the first start."""
    program = "import sys, pathlib, ingestor.state.journal as j; j.Journal(pathlib.Path(sys.argv[1]))"
    command = [sys.executable, "-W", "ignore", "-c", program, str(tmp_path / "journal.sqlite3")]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(3)]
    errors = [process.communicate()[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * 3, errors
