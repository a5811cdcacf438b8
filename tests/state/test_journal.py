"""The journal alone: what it keeps, what it finds, and that it finds it by index."""

import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from ingestor.core.decisions import NEVER, Changes, Failure, Scope
from ingestor.core.entries import CollectionRow, Entry, Feed, Intent, Receipt, SourceRow
from ingestor.core.listings.comparison import ListingChanges, ListingComparison, VersionTable
from ingestor.model import CollectionName, Item, Known, SourceName
from ingestor.state.columns import pack, unpack
from ingestor.state.journal import Journal, opened
from ingestor.state.listings import last_listing
from ingestor.state.queries import kept_records, reports
from ingestor.state.queries.backlog import Backlog
from ingestor.state.queries.reports import Reports
from ingestor.state.schema import NewerJournal
from ingestor.state.sources import SourceRows

S, C = SourceName("s"), CollectionName("docs")


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    journal = Journal(tmp_path / "journal.sqlite3")
    yield journal
    journal.close()


def observe(journal: Journal, *keys: str, version: str = "1", gone: tuple[str, ...] = ()) -> None:
    items = tuple(Item(key, version, f"/{key}", 3, 5.0, (("author", "me"),)) for key in keys)
    journal.observe(S, C, Changes(items, gone), remove_at=100.0)


def one(journal: Journal, key: str) -> Entry:
    return next(entry for entry in journal.of_source(S) if entry.key == key)


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
    journal.settle([receipt], ["r"])


def due(journal: Journal, now: float = 10.0) -> list[str]:
    return [entry.key for entry in Backlog(journal).due([Feed(S, C)], now, 100)]


def test_a_document_is_due_until_it_is_settled_and_again_when_it_changes(journal: Journal) -> None:
    observe(journal, "a", "b")
    assert due(journal) == ["a", "b"]
    settle(journal, "a")
    assert due(journal) == ["b"]
    observe(journal, "a", version="2")
    assert sorted(due(journal)) == ["a", "b"]


def test_an_entry_comes_back_as_it_was_given(journal: Journal) -> None:
    observe(journal, "a")
    settle(journal, "a", sums=[1, 2], interval=(3, 4))
    entry = one(journal, "a")
    assert entry.item == Item("a", "1", "/a", 3, 5.0, (("author", "me"),))
    assert (entry.done_version, entry.done_recipe, entry.parser, entry.interval) == ("1", "r", "text", (3, 4))
    assert [known.slot for known in entry.known] == [0, 1]
    assert entry.sums is not None
    assert entry.sums.tolist() == [1, 2]


def test_an_intent_makes_slots_unsure_and_voids_the_receipt(journal: Journal) -> None:
    observe(journal, "a")
    settle(journal, "a")
    journal.intend([Intent(one(journal, "a").row, (1, 7))])
    assert [(k.slot, k.unsure) for k in one(journal, "a").known] == [(0, False), (1, True), (7, True)]
    assert due(journal) == ["a"]


def test_a_vanished_document_waits_to_be_found_under_another_name(journal: Journal) -> None:
    observe(journal, "a")
    settle(journal, "a", digest="same")
    before = one(journal, "a")
    observe(journal, "b", gone=("a",))
    assert Backlog(journal).gone([S], now=99.0, limit=5) == []
    assert [entry.key for entry in Backlog(journal).gone([S], now=100.0, limit=5)] == ["a"]
    found = journal.predecessor(C, "same")
    assert found is not None
    assert found.row == before.row
    journal.intend([Intent(one(journal, "b").row, (), found.row)])
    assert [entry.key for entry in journal.of_source(S)] == ["b"]
    after = one(journal, "b")
    assert (after.document_id, after.known) == (before.document_id, before.known)
    assert due(journal) == ["b"]


def test_a_journal_opens_while_another_process_writes(tmp_path: Path) -> None:
    with opened(tmp_path / "j") as writing, writing.transaction():
        begun = time.monotonic()
        with opened(tmp_path / "j") as looking:
            assert looking.owner == writing.owner
        assert time.monotonic() - begun < 10, "sqlite3 waits 30 s for a lock"


def test_members_of_archives_are_due_behind_other_documents_and_in_turn(journal: Journal) -> None:
    observe(journal, "a.zip/!/1", "a.zip/!/2", "a.zip/!/3", "b.zip/!/1", "b.zip/!/b.zip/!/2", "c")
    observe(journal, "d")
    assert due(journal) == ["c", "d", "a.zip/!/1", "b.zip/!/1", "a.zip/!/2", "b.zip/!/b.zip/!/2", "a.zip/!/3"]


def test_nothing_waits_for_a_time_that_a_wrong_clock_made_up(journal: Journal) -> None:
    observe(journal, "a", "b", "c")
    for key, retry_at, quarantined in (("a", 9e9, False), ("b", 5.0, False), ("c", NEVER, True)):
        failure = Failure("later", 1, retry_at, quarantined=quarantined)
        journal.fail(one(journal, key).row, "1", failure)
    journal.wait_until(60.0)
    assert Backlog(journal).next_retry([Feed(S, C)]) == 5.0
    journal.retry([one(journal, "b").row])
    assert due(journal) == ["b"]
    assert [entry.key for entry in Backlog(journal).due([Feed(S, C)], 60.0, 5)] == ["b", "a"]


def test_failures_wait_quarantine_and_are_forgotten_with_the_version(journal: Journal) -> None:
    observe(journal, "a", "b")
    journal.fail(one(journal, "a").row, "1", Failure("later", 1, 50.0, quarantined=False))
    journal.fail(one(journal, "b").row, "1", Failure("never", 1, NEVER, quarantined=True, detail="trace"))
    assert due(journal, 49.0) == []
    assert due(journal, 50.0) == ["a"]
    assert Backlog(journal).next_retry([Feed(S, C)]) == 50.0
    assert [(f[1], f[5]) for f in Reports(journal).failures()] == [("a", False), ("b", True)]
    observe(journal, "b", version="2")
    assert due(journal, 49.0) == ["b"]
    assert journal.retry() == 1
    assert sorted(due(journal, 49.0)) == ["a", "b"]


def test_what_waits_can_be_hastened_and_what_is_quarantined_can_not(journal: Journal) -> None:
    observe(journal, "a", "b")
    journal.fail(one(journal, "a").row, "1", Failure("later", 3, 50.0, quarantined=False))
    journal.fail(one(journal, "b").row, "1", Failure("never", 1, NEVER, quarantined=True))
    journal.hasten()
    assert due(journal, 0.0) == ["a"]
    assert one(journal, "a").attempts == 3


def test_a_late_failure_of_an_older_version_is_not_noted(journal: Journal) -> None:
    observe(journal, "a", version="2")
    journal.fail(one(journal, "a").row, "1", Failure("old", 1, NEVER, quarantined=True))
    assert due(journal) == ["a"]


def test_a_late_refusal_of_an_older_version_holds_for_that_version(journal: Journal) -> None:
    observe(journal, "a", version="half")
    row = one(journal, "a").row
    refused = Failure("broken off", 1, NEVER, quarantined=True)
    observe(journal, "a", version="whole")
    journal.settle([Receipt(row, "half", "r", "", "", "text", failure=refused)], ["r"])
    assert due(journal) == ["a"]
    assert Reports(journal).failures() == []


def test_a_document_that_vanished_meanwhile_still_waits_to_be_found_again(journal: Journal) -> None:
    observe(journal, "a")
    row = one(journal, "a").row
    observe(journal, gone=("a",))
    journal.settle([Receipt(row, "1", "r", "f", "same", "text", (Known(0, "t", "v", "m"),))], ["r"])
    assert Backlog(journal).gone([S], now=99.0, limit=5) == []
    assert journal.predecessor(C, "same") is not None


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


def test_only_documents_whose_interval_was_left_are_drifted(journal: Journal) -> None:
    for key, interval in (("a", (0, 5)), ("b", (5, 9)), ("c", (6, 6))):
        observe(journal, key)
        settle(journal, key, sums=[1], interval=interval)
    found = {value: Backlog(journal).drifted([S], C, "mean", value, 9) for value in (0, 5, 6, 9, 10)}
    drifted = {value: sorted(entry.key for entry in entries) for value, entries in found.items()}
    assert drifted == {0: ["b", "c"], 5: ["c"], 6: ["a"], 9: ["a", "c"], 10: ["a", "b", "c"]}


def test_the_look_ups_of_every_step_use_their_indexes(journal: Journal) -> None:
    """A collection of millions must not be read through to find the few that are due."""
    statements: list[str] = []
    journal._db.set_trace_callback(statements.append)
    Backlog(journal).due([Feed(S, C)], 1.0, 5)
    Backlog(journal).gone([S], 1.0, 5)
    Backlog(journal).drifted([S], C, "mean", 3, 5)
    Backlog(journal).next_retry([Feed(S, C)])
    journal._db.set_trace_callback(None)
    selects = [s for s in statements if "FROM documents" in s]
    expected = ("unsettled", "unsettled", "gone", "low", "high", "unsettled", "gone")
    for statement, index in zip(selects, expected, strict=True):
        plan = " ".join(row[3] for row in journal._db.execute(f"EXPLAIN QUERY PLAN {statement}"))
        assert f"USING INDEX {index}" in plan, f"{statement}: {plan}"
        assert "SCAN documents" not in plan.replace("SCAN documents USING", "")


def test_what_is_read_ahead_is_what_is_due(journal: Journal) -> None:
    """Rows are kept between two writes; neither the clock nor a document that landed may be missed."""
    observe(journal, "a", "b", "c")
    later, failed = one(journal, "c"), Failure("away", 1, 50.0, quarantined=False)
    journal.fail(later.row, later.item.version if later.item else None, failed)
    backlog, row = Backlog(journal), one(journal, "a").row

    def due(now: float, *but: int) -> list[str]:
        return [entry.key for entry in backlog.due([Feed(S, C)], now, 9, but)]

    assert due(1.0, row) == ["b"]
    assert due(1.0) == ["a", "b"]
    assert due(50.0) == ["a", "b", "c"]
    assert due(1.0) == ["a", "b"]
    observe(journal, gone=("a",))
    assert due(1.0) == ["b"]


def steps(journal: Journal, what: Callable[[], object]) -> int:
    """Instructions of SQLite's machine that it takes."""
    taken: list[None] = []
    journal._db.set_progress_handler(lambda: taken.append(None), 1)
    what()
    journal._db.set_progress_handler(None, 1)
    return len(taken)


def test_the_sum_of_a_collection_is_written_once_for_all_documents_of_a_batch(journal: Journal) -> None:
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
    assert (journal.summed(C, "mean"), None if total is None else total.tolist()) == (5, [5, 10])
    assert sum("INTO statistics" in statement for statement in statements) == 1
    assert sum("UPDATE documents" in statement for statement in statements) == 5


def test_the_backlog_of_a_paused_source_costs_others_nothing(journal: Journal) -> None:
    observe(journal, "a", "b")
    backlog, ours = Backlog(journal), [Feed(S, C)]

    def look() -> None:
        assert len(backlog.due(ours, 1.0, 5)) == 2
        assert backlog.next_retry(ours) == 0.0

    before = steps(journal, look)
    items = tuple(Item(f"{n:04}", "1", f"/{n}") for n in range(2000))
    journal.observe(SourceName("paused"), C, Changes(items, ()), remove_at=100.0)
    assert steps(journal, look) < 1.2 * before


def test_versions_at_and_below_some_keys(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the form of keys next to ``a`` in the order of the index."""
    monkeypatch.setattr(last_listing, "_PAGE", 2)
    near = ("a", "a/b", "a/b/c", "a/!/m", "a.", "a0", "ab", "a-", "A", "b/a", "aé/x", "a/é")
    observe(journal, *near, gone=())
    observe(journal, gone=("a/b/c",))
    known = last_listing.LastListing(journal, Feed(S, C))
    in_memory = VersionTable({key: "1" for key in near if key != "a/b/c"})
    assert known.count() == in_memory.count() == len(near) - 1
    assert known.of([*near, "x"]) == in_memory.of([*near, "x"]) == known.below("") == in_memory.below("")
    expected = {
        ("a",): {"a", "a/b", "a/!/m", "a/é"},
        ("a", "b"): {"a", "a/b", "a/!/m", "a/é", "b/a"},
        ("aé", "a/b"): {"aé/x", "a/b"},
        ("x",): set(),
        ("",): {*near} - {"a/b/c"},
    }
    for under, keys in expected.items():
        assert sorted(known.keys(under)) == sorted(in_memory.keys(under)) == sorted(keys)
        below = [key for top in under for key in known.below(top)]
        assert sorted(below) == sorted(key for top in under for key in in_memory.below(top)) == sorted(keys)


def test_a_document_that_is_renamed_while_it_is_listed_has_not_vanished(journal: Journal) -> None:
    """The new document takes over the row of the one that it was, so rows say nothing of what was listed."""
    observe(journal, "old", "other")
    settle(journal, "old")
    observe(journal, "new", gone=("old",))
    before = one(journal, "new").row
    comparison = ListingComparison(last_listing.LastListing(journal, Feed(S, C)), [])
    comparison.add([Item("new", "1", "/new")])
    journal.intend([Intent(before, (0,), predecessor=one(journal, "old").row)])
    comparison.add([Item("other", "1", "/other")])
    assert one(journal, "new").row != before
    assert comparison.changes(Scope()) == ListingChanges([], (), 0, 2)


def test_documents_are_listed_in_pages(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "_PAGE", 2)
    observe(journal, *"edcba")
    settle(journal, "c")
    other = SourceName("other")
    journal.observe(other, C, Changes(tuple(Item(key, "1", f"/{key}") for key in "fa")), remove_at=0.0)
    found = [(each.source, each.document, each.records, each.state) for each in Reports(journal).documents()]
    ours = [(S, key, 2 if key == "c" else 0, "settled" if key == "c" else "due") for key in "abcde"]
    assert found == [(other, "a", 0, "due"), (other, "f", 0, "due"), *ours]
    assert [each.document for each in Reports(journal).documents(S)] == [*"abcde"]
    assert [*Reports(journal).documents("nothing")] == []


def test_kept_records_are_read_in_pages(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_records, "_PAGE", 2)
    observe(journal, "a", "b", "c")
    other = CollectionName("other")
    journal.observe(S, other, Changes((Item("a", "1", "/a"),)), remove_at=0.0)
    rows = {entry.key: entry for entry in journal.of_source(S) if entry.collection == C}
    [elsewhere] = journal.of_collection(other)
    journal.intend([Intent(rows[key].row, (1, 2, 3)) for key in "ac"] + [Intent(elsewhere.row, (5,))])
    found = [(kept.document_id, kept.known.slot) for kept in kept_records.kept_records(journal, C)]
    assert sorted(found) == sorted((rows[key].document_id, slot) for key in "ac" for slot in (1, 2, 3))
    assert [kept.known.slot for kept in kept_records.kept_records(journal, other)] == [5]


def test_the_mark_moves_with_whatever_is_written_by_any_process(journal: Journal, tmp_path: Path) -> None:
    before = journal.mark()
    due(journal)
    assert journal.mark() == before
    observe(journal, "a")
    own = journal.mark()
    assert own != before
    with opened(tmp_path / "journal.sqlite3") as other:
        observe(other, "b")
    assert journal.mark() != own


def test_doubt_makes_everything_due_again(journal: Journal) -> None:
    observe(journal, "a", "b")
    settle(journal, "a")
    settle(journal, "b")
    journal.doubt(C, [one(journal, "a").row])
    assert due(journal) == ["a"]
    journal.doubt(C)
    assert sorted(due(journal)) == ["a", "b"]
    assert all(known.unsure for entry in journal.of_source(S) for known in entry.known)


def test_a_hold_is_lifted_by_the_next_good_scan(journal: Journal) -> None:
    assert not SourceRows(journal).accept(S)
    SourceRows(journal).hold(S, "too many", loss=True)
    assert SourceRows(journal).of(S).held == "too many"
    assert SourceRows(journal).accept(S)
    assert SourceRows(journal).of(S).accepted
    SourceRows(journal).scanned(S, 7.0, "disk", 3)
    assert SourceRows(journal).of(S) == SourceRow(7.0, "disk", held=None, accepted=False, documents=3)


def test_only_a_loss_can_be_accepted(journal: Journal) -> None:
    SourceRows(journal).hold(S, "too many", loss=True)
    SourceRows(journal).hold(S, "the folder is missing")
    assert not SourceRows(journal).accept(S)


def test_a_listing_that_missed_something_is_remembered_until_one_misses_nothing(journal: Journal) -> None:
    SourceRows(journal).scanned(S, 7.0, "disk", 3, "a/b can't be read")
    assert SourceRows(journal).of(S) == SourceRow(7.0, "disk", trouble="a/b can't be read", documents=3)
    SourceRows(journal).scanned(S, 8.0, "disk", 2)
    assert SourceRows(journal).of(S).trouble is None
    SourceRows(journal).troubled(S, "no answer")
    assert SourceRows(journal).of(S) == SourceRow(8.0, "disk", trouble="no answer", documents=2)


def test_collections_are_remembered(journal: Journal) -> None:
    assert journal.collection(C) == CollectionRow()
    row = CollectionRow("uuid", "embedder", frozenset({"author"}))
    journal.note_collection(C, row)
    assert journal.collection(C) == row


def test_another_process_may_look_while_we_write(journal: Journal, tmp_path: Path) -> None:
    observe(journal, "a")
    other = Journal(tmp_path / "journal.sqlite3")
    assert other.owner == journal.owner
    observe(journal, "b")
    assert len(other.of_source(S)) == 2
    other.close()


def test_a_newer_journal_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite3"
    Journal(path).close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(NewerJournal, match="newer ingestor"):
        Journal(path)


@pytest.mark.parametrize(
    "values", [[], [1], [0] * 500, [2**40] * 99, [-(2**31), 2**31 - 1], [2**31], [-(2**62), 2**62]]
)
def test_sums_survive_packing(values: list[int]) -> None:
    assert unpack(pack(np.array(values, np.int64))).tolist() == values


def test_processes_that_open_a_new_journal_at_once_agree(tmp_path: Path) -> None:
    """As a daemon and a ``status`` do at the first start."""
    program = "import sys, pathlib, ingestor.state.journal as j; j.Journal(pathlib.Path(sys.argv[1]))"
    command = [sys.executable, "-W", "ignore", "-c", program, str(tmp_path / "journal.sqlite3")]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(6)]
    errors = [process.communicate()[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * 6, errors


def test_the_oldest_change_is_known_until_it_is_applied(journal: Journal) -> None:
    def oldest() -> float | None:
        return Reports(journal).oldest().get(S)

    before = time.time() - 0.01  # SQLite's clock has milliseconds
    observe(journal, "a", "b")
    first = oldest()
    assert first is not None
    assert before <= first <= time.time() + 0.01
    observe(journal, "a", version="2")
    assert oldest() == first, "it waits since its first change"
    settle(journal, "a")
    settle(journal, "b")
    assert oldest() is None
    with journal.transaction() as db:
        db.execute("UPDATE documents SET since = 5")
    observe(journal, gone=("b",))
    assert (oldest() or 0) >= before, "what was settled is due since now"
    journal.fail(one(journal, "a").row, "2", Failure("broken", 1, NEVER, quarantined=True))
    assert Reports(journal).reasons() == [(S, "broken", 1)]
