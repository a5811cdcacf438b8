"""The journal alone: what it keeps of documents, sources and collections."""

from dataclasses import replace

import numpy as np
import pytest

from ingestor.core.decisions import NEVER, Failure
from ingestor.core.entries import Intent, Receipt, SourceRow
from ingestor.model import Item, Known
from ingestor.state.backlog import Backlog, predecessor
from ingestor.state.editions import Editions
from ingestor.state.journal import Journal
from ingestor.state.reports import failures
from ingestor.state.sources import SourceRows
from ingestor.state.tables import pack, unpack
from tests.state.journals import C, S, due, observe, of_source, one, settle, untold


def test_document_is_due_until_it_is_settled_and_again_when_it_changes(journal: Journal) -> None:
    observe(journal, "a", "b")
    assert due(journal) == ["a", "b"]
    settle(journal, "a")
    assert due(journal) == ["b"]
    observe(journal, "a", version="2")
    assert sorted(due(journal)) == ["a", "b"]


def test_entry_comes_back_as_it_was_given(journal: Journal) -> None:
    observe(journal, "a")
    settle(journal, "a", sums=[1, 2], interval=(3, 4))
    entry = one(journal, "a")
    assert entry.item == Item("a", "1", "/a", 3, 5.0, (("author", "me"),))
    assert (entry.done_version, entry.done_recipe, entry.parser, entry.interval) == ("1", "r", "text", (3, 4))
    assert [known.slot for known in entry.known] == [0, 1]
    assert entry.sums is not None
    assert entry.sums.tolist() == [1, 2]


def test_intent_makes_slots_unsure_and_voids_the_receipt(journal: Journal) -> None:
    observe(journal, "a")
    settle(journal, "a")
    journal.intend([Intent(one(journal, "a").row, (1, 7))])
    assert [(k.slot, k.unsure) for k in one(journal, "a").known] == [(0, False), (1, True), (7, True)]
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
    journal.intend([Intent(one(journal, "b").row, (), found.row)])
    assert [entry.key for entry in of_source(journal, S)] == ["b"]
    after = one(journal, "b")
    assert (after.document_id, after.known) == (before.document_id, before.known)
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
    journal.settle([Receipt(row, "half", "r", "", "", "text", failure=refused)], ["r"])
    assert due(journal) == ["a"]
    assert failures(journal) == []


def test_document_that_vanished_meanwhile_still_waits_to_be_found_again(journal: Journal) -> None:
    observe(journal, "a")
    row = one(journal, "a").row
    observe(journal, gone=("a",))
    journal.settle([Receipt(row, "1", "r", "f", "same", "text", (Known(0, "t", "v", "m"),))], ["r"])
    assert Backlog(journal).documents_gone([S], now=99.0, limit=5) == []
    observe(journal, "b")
    assert predecessor(journal, untold, one(journal, "b"), "same") is not None


def test_sums_are_added_replaced_and_taken_back_exactly(journal: Journal) -> None:
    observe(journal, "a", "b")
    settle(journal, "a", sums=[1, 10], interval=(0, 5))
    settle(journal, "b", sums=[2, 2**40], interval=(6, 9))
    total = journal.total(C, "mean")
    assert total is not None
    assert total.tolist() == [3, 10 + 2**40]
    settle(journal, "a", sums=[5, 5], interval=(0, 5))
    observe(journal, gone=("b",))
    journal.remove([one(journal, "b").row])
    total = journal.total(C, "mean")
    assert total is not None
    assert total.tolist() == [5, 5]
    observe(journal, gone=("a",))
    journal.remove([one(journal, "a").row])
    assert journal.total(C, "mean") is None


def test_sum_of_a_collection_is_written_once_for_all_documents_of_a_batch(journal: Journal) -> None:
    keys, statements = [f"{number}" for number in range(5)], list[str]()
    observe(journal, *keys)
    receipts = [
        Receipt(one(journal, key).row, "1", "r", "f", "d", "text", (), "mean", np.array([1, 2]), (0, 5))
        for key in keys
    ]
    journal._db.set_trace_callback(statements.append)
    journal.settle(receipts, ["r"] * 5)
    journal._db.set_trace_callback(None)
    total = journal.total(C, "mean")
    assert total is not None
    assert total.tolist() == [5, 10]
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
    assert all(known.unsure for entry in of_source(journal, S) for known in entry.known)


def test_hold_is_lifted_by_the_next_good_scan(journal: Journal) -> None:
    assert not SourceRows(journal).accept(S)
    SourceRows(journal).hold(S, "too many", loss=True)
    assert SourceRows(journal).of(S).held == "too many"
    assert SourceRows(journal).accept(S)
    assert SourceRows(journal).of(S).accepted
    SourceRows(journal).note_listing(S, 7.0, "disk", 3)
    assert SourceRows(journal).of(S) == SourceRow(7.0, "disk", held=None, accepted=False, documents=3)


def test_accept_refuses_a_source_held_for_another_reason(journal: Journal) -> None:
    SourceRows(journal).hold(S, "too many", loss=True)
    SourceRows(journal).hold(S, "the folder is missing")
    assert not SourceRows(journal).accept(S)


def test_listing_that_missed_something_is_remembered_until_one_misses_nothing(journal: Journal) -> None:
    SourceRows(journal).note_listing(S, 7.0, "disk", 3, "a/b can't be read")
    assert SourceRows(journal).of(S) == SourceRow(7.0, "disk", trouble="a/b can't be read", documents=3)
    SourceRows(journal).note_listing(S, 8.0, "disk", 2)
    assert SourceRows(journal).of(S).trouble is None
    SourceRows(journal).note_trouble(S, "no answer")
    assert SourceRows(journal).of(S) == SourceRow(8.0, "disk", trouble="no answer", documents=3)


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
