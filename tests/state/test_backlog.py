"""What the engine has to do next, and that the journal finds it by index."""

from collections.abc import Callable

from ingestor.core.decisions import NEVER, Changes, Failure
from ingestor.core.entries import Feed
from ingestor.model import Item, SourceName
from ingestor.state.backlog import Backlog
from ingestor.state.journal import Journal
from ingestor.state.reports import failures
from tests.state.journals import C, S, due, observe, one, settle


def test_members_of_archives_are_due_behind_other_documents_and_in_turn(journal: Journal) -> None:
    observe(journal, "a.zip/!/1", "a.zip/!/2", "a.zip/!/3", "b.zip/!/1", "b.zip/!/b.zip/!/2", "c")
    observe(journal, "d")
    assert due(journal) == ["c", "d", "a.zip/!/1", "b.zip/!/1", "a.zip/!/2", "b.zip/!/b.zip/!/2", "a.zip/!/3"]


def test_retries_are_not_delayed_by_a_corrected_clock(journal: Journal) -> None:
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
    assert [(row.key, row.state) for row in failures(journal)] == [("a", "waiting"), ("b", "quarantined")]
    observe(journal, "b", version="2")
    assert due(journal, 49.0) == ["b"]
    assert journal.retry() == 1
    assert sorted(due(journal, 49.0)) == ["a", "b"]


def test_quarantined_document_of_a_left_collection_is_removed(journal: Journal) -> None:
    observe(journal, "a")
    journal.fail(one(journal, "a").row, "1", Failure("never", 1, NEVER, quarantined=True))
    assert Backlog(journal).next_retry([Feed(S, C)]) == NEVER
    journal.relocate(S, [])
    assert Backlog(journal).next_retry([Feed(S, C)]) == 0.0
    assert failures(journal) == []


def test_hasten_makes_waiting_documents_due_and_no_quarantined_ones(journal: Journal) -> None:
    observe(journal, "a", "b")
    journal.fail(one(journal, "a").row, "1", Failure("later", 3, 50.0, quarantined=False))
    journal.fail(one(journal, "b").row, "1", Failure("never", 1, NEVER, quarantined=True))
    journal.hasten()
    assert due(journal, 0.0) == ["a"]
    assert one(journal, "a").attempts == 3


def test_only_documents_whose_interval_was_left_are_drifted(journal: Journal) -> None:
    for key, interval in (("a", (0, 5)), ("b", (5, 9)), ("c", (6, 6))):
        observe(journal, key)
        settle(journal, key, sums=[1], interval=interval)
    found = {value: Backlog(journal).find_drifted([S], C, "mean", value, 9) for value in (0, 5, 6, 9, 10)}
    drifted = {value: sorted(entry.key for entry in entries) for value, entries in found.items()}
    assert drifted == {0: ["b", "c"], 5: ["c"], 6: ["a"], 9: ["a", "c"], 10: ["a", "b", "c"]}


def test_look_ups_of_every_step_use_their_indexes(journal: Journal) -> None:
    """A collection of millions must not be read through to find the few that are due."""
    statements: list[str] = []
    journal._db.set_trace_callback(statements.append)
    Backlog(journal).due([Feed(S, C)], 1.0, 5)
    Backlog(journal).documents_gone([S], 1.0, 5)
    Backlog(journal).documents_gone([S], 1.0, 5, unknown=True)
    Backlog(journal).find_drifted([S], C, "mean", 3, 5)
    Backlog(journal).next_retry([Feed(S, C)])
    journal._db.set_trace_callback(None)
    selects = [s for s in statements if "FROM documents" in s]
    expected = ("unsettled", "gone", "gone", "low", "high", "unsettled", "gone")
    for statement, index in zip(selects, expected, strict=True):
        plan = " ".join(row[3] for row in journal._db.execute(f"EXPLAIN QUERY PLAN {statement}"))
        assert f"USING INDEX {index}" in plan, f"{statement}: {plan}"
        assert "SCAN documents" not in plan.replace("SCAN documents USING", "")


def test_new_documents_are_due_by_size_behind_those_that_readers_have(journal: Journal) -> None:
    sizes = {"a": 3_000_000, "b": None, "c": 100_000, "d": 10, "e": 5_000_000}
    items = [Item(key, "1", f"/{key}", size) for key, size in sizes.items()]
    journal.observe(S, C, Changes(items), remove_at=0.0)
    assert due(journal) == ["d", "b", "c", "a", "e"]
    settle(journal, "e")
    journal.observe(S, C, Changes([Item("e", "2", "/e", 6_000_000)]), remove_at=0.0)
    assert due(journal) == ["e", "d", "b", "c", "a"]


def steps(journal: Journal, what: Callable[[], object]) -> int:
    """Instructions of SQLite's machine that it takes."""
    taken: list[None] = []
    journal._db.set_progress_handler(lambda: taken.append(None), 1)
    what()
    journal._db.set_progress_handler(None, 1)
    return len(taken)


def test_backlog_of_a_paused_source_does_not_delay_others(journal: Journal) -> None:
    observe(journal, "a", "b")
    backlog, ours = Backlog(journal), [Feed(S, C)]

    def look() -> None:
        assert len(backlog.due(ours, 1.0, 5)) == 2
        assert backlog.next_retry(ours) == 0.25

    before = steps(journal, look)
    items = tuple(Item(f"{n:04}", "1", f"/{n}") for n in range(2000))
    journal.observe(SourceName("paused"), C, Changes(items, ()), remove_at=100.0)
    assert steps(journal, look) < 1.2 * before


def test_documents_whose_recipe_changed_are_due_behind_those_that_were_edited(journal: Journal) -> None:
    observe(journal, "a", "b", "c.zip/!/1")
    for key in ("a", "b"):
        settle(journal, key)
    journal.want_recipe(Feed(S, C), "text", "another")
    observe(journal, "b", version="2")
    found = Backlog(journal).due([Feed(S, C)], 1e9, 5)
    assert [entry.key for entry in found] == ["b", "c.zip/!/1", "a"]
