"""What the engine has to do next, by index; and which vanished documents wait for which new ones."""

from collections.abc import Callable

import pytest

from ingestor.core.decisions import NEVER, Changes, Failure
from ingestor.core.entries import EditionName, Feed
from ingestor.model import Item, SourceName
from ingestor.state.backlog import LONGEST, Backlog, predecessor
from ingestor.state.journal import Journal
from ingestor.state.reports import failures
from tests.state.journals import C, S, due, observe, of_collection, one, plan, settle, traced, untold


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
    assert due(journal, 60.0) == ["b", "a"]


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


def test_document_that_failed_in_two_editions_is_retried_as_one(journal: Journal) -> None:
    for edition in (C, EditionName("docs--2")):
        journal.observe(S, edition, Changes((Item("a", "1", "/a"),), ()), remove_at=100.0)
        (entry,) = of_collection(journal, edition)
        journal.fail(entry.row, "1", Failure("never", 1, NEVER, quarantined=True))
    assert journal.retry() == 1


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
    feeds, values = [Feed(S, C)], (0, 5, 6, 9, 10)
    found = {value: Backlog(journal).find_drifted(feeds, "mean", value, 9) for value in values}
    drifted = {value: sorted(entry.key for entry in entries) for value, entries in found.items()}
    assert drifted == {0: ["b", "c"], 5: ["c"], 6: ["a"], 9: ["a", "c"], 10: ["a", "b", "c"]}


def test_look_ups_of_every_step_use_their_indexes(journal: Journal) -> None:
    """A collection of millions must not be read through to find the few that are due."""
    backlog = Backlog(journal)
    with traced(journal) as statements:
        backlog.queue([Feed(S, C)], 1.0, 5)
        backlog.documents_gone([S], 1.0, 5)
        backlog.documents_gone([S], 1.0, 5, unknown=True)
        backlog.find_drifted([Feed(S, C)], "mean", 3, 5)
        backlog.next_retry([Feed(S, C)])
    selects = [s for s in statements if "FROM documents" in s]
    expected = ("unsettled", "gone", "gone", "low", "high", "unsettled", "gone")
    for statement, index in zip(selects, expected, strict=True):
        steps = plan(journal, statement)
        assert f"USING INDEX {index}" in steps, f"{statement}: {steps}"
        assert "SCAN documents" not in steps.replace("SCAN documents USING", "")


def test_new_documents_are_due_by_size_behind_those_that_readers_have(journal: Journal) -> None:
    sizes = {"a": 3_000_000, "b": None, "c": 100_000, "d": 10, "e": 5_000_000}
    items = [Item(key, "1", f"/{key}", size) for key, size in sizes.items()]
    journal.observe(S, C, Changes(items), remove_at=0.0)
    assert due(journal) == ["d", "b", "c", "a", "e"]
    settle(journal, "e")
    journal.observe(S, C, Changes([Item("e", "2", "/e", 6_000_000)]), remove_at=0.0)
    assert due(journal) == ["e", "d", "b", "c", "a"]


def instructions(journal: Journal, what: Callable[[], object]) -> int:
    """Return how many instructions of SQLite's machine a call takes."""
    taken: list[None] = []
    journal._db.set_progress_handler(lambda: taken.append(None), 1)
    what()
    journal._db.set_progress_handler(None, 1)
    return len(taken)


def test_backlog_of_a_paused_source_does_not_delay_others(journal: Journal) -> None:
    observe(journal, "a", "b")
    backlog, ours = Backlog(journal), [Feed(S, C)]

    def look() -> None:
        assert len(backlog.queue(ours, 1.0, 5)) == 2
        assert backlog.next_retry(ours) == 0.25

    before = instructions(journal, look)
    items = tuple(Item(f"{n:04}", "1", f"/{n}") for n in range(2000))
    journal.observe(SourceName("paused"), C, Changes(items, ()), remove_at=100.0)
    assert instructions(journal, look) < 1.2 * before


def test_documents_whose_recipe_changed_are_due_behind_those_that_were_edited(journal: Journal) -> None:
    observe(journal, "a", "b", "c.zip/!/1")
    for key in ("a", "b"):
        settle(journal, key)
    journal.want_recipe(Feed(S, C), "text", "another")
    observe(journal, "b", version="2")
    assert due(journal, 1e9) == ["b", "c.zip/!/1", "a"]


# --- vanished documents and their heirs ---------------------------------------------------------------------

NOW = 1e9


def listed(
    journal: Journal, key: str, size: int | None, source: SourceName = S, edition: EditionName = C
) -> None:
    journal.observe(source, edition, Changes([Item(key, "1", f"/{key}", size)]), remove_at=0.0)


def removed(journal: Journal, now: float = NOW) -> list[str]:
    return [entry.key for entry in Backlog(journal).documents_gone([S], now, 9)]


def vanish(journal: Journal, *keys: str, size: int | None = 7, ago: float = 0.0) -> None:
    """Documents that were indexed, and that vanished so many seconds ago."""
    for key in keys:
        listed(journal, key, size)
        settle(journal, key)
        journal.observe(S, C, Changes((), [key]), remove_at=0.0)
        with journal.transaction() as db:
            db.execute("UPDATE documents SET since = since - ? WHERE key = ?", (ago, key))


@pytest.mark.parametrize(
    ("size", "heir", "source", "edition", "waits"),
    [
        (7, 7, S, C, True),
        (7, 7, "other", C, True),  # a source that is divided into two
        (7, 7, S, "docs--2", False),
        (7, 8, S, C, False),
        (None, None, S, C, True),
        (7, None, S, C, False),
    ],
)
def test_new_document_of_the_same_size_may_be_the_same(
    journal: Journal, size: int | None, heir: int | None, source: str, edition: str, waits: bool
) -> None:
    vanish(journal, "old", size=size)
    listed(journal, "new", heir, SourceName(source), EditionName(edition))
    assert removed(journal) == ([] if waits else ["old"])


def test_document_that_was_read_is_no_heir(journal: Journal) -> None:
    vanish(journal, "old")
    listed(journal, "new", 7)
    listed(journal, "unreadable", 7)
    assert removed(journal) == []
    settle(journal, "new")
    journal.fail(one(journal, "unreadable").row, "1", Failure("no text", 1, 9e9, quarantined=True))
    assert removed(journal) == ["old"]


def test_retried_heir_is_still_awaited(journal: Journal) -> None:
    vanish(journal, "old")
    listed(journal, "new", 7)
    journal.fail(one(journal, "new").row, "1", Failure("away", 1, NOW + 99, quarantined=False))
    assert removed(journal) == []


def test_document_that_vanished_long_ago_is_removed(journal: Journal) -> None:
    vanish(journal, "long ago", ago=LONGEST + 1)
    vanish(journal, "lately", ago=LONGEST - 100)
    listed(journal, "new", 7)
    assert removed(journal) == ["long ago"]


@pytest.mark.parametrize("how", ["vanished", "its source left"])
def test_document_due_for_long_waits_from_when_it_vanished(journal: Journal, how: str) -> None:
    listed(journal, "old", 7)
    settle(journal, "old")
    journal.want_recipe(Feed(S, C), "text", "another recipe")
    with journal.transaction() as db:
        db.execute("UPDATE documents SET since = since - ?", (LONGEST + 1,))
    if how == "vanished":
        journal.observe(S, C, Changes((), ["old"]), remove_at=0.0)
    else:
        journal.relocate(S, [])
    listed(journal, "new", 7, SourceName("other"))
    assert removed(journal) == []


def test_heirs_are_looked_for_by_index_and_once_between_two_writes(journal: Journal) -> None:
    """A backlog of millions must not be read through for each document that vanished."""
    vanish(journal, "old")
    listed(journal, "new", 7)
    backlog = Backlog(journal)
    with traced(journal) as statements:
        for _ in range(3):
            assert backlog.documents_gone([S], NOW, 9) == []
    [query] = [one for one in statements if "AS heir" in one]
    assert "SEARCH heir USING INDEX unread (collection=? AND size=?)" in plan(journal, query)


@pytest.mark.parametrize(("size", "goes"), [(7, False), (8, True), (None, True)])
def test_heir_of_a_retried_document_waits_with_nothing_due(
    journal: Journal, size: int | None, goes: bool
) -> None:
    """Of unknown sizes any could be any: a page that can never be read would hold up whatever is removed."""
    backlog = Backlog(journal)
    vanish(journal, "old", size=size)
    listed(journal, "new", None if size is None else 7)
    journal.fail(one(journal, "new").row, "1", Failure("away", 1, NOW + 99, quarantined=False))
    assert [entry.key for entry in backlog.documents_gone([S], NOW, 9, unknown=True)] == ["old"] * goes
    assert goes or backlog.next_retry([Feed(S, C)]) == NOW + 99, "it wakes nobody"
    settle(journal, "new")
    assert [entry.key for entry in backlog.documents_gone([S], NOW, 9, unknown=True)] == ["old"]


def test_moved_document_keeps_its_records_also_beside_one_of_equal_content(journal: Journal) -> None:
    for key, version in (("copied", "file2"), ("moved", "file1 later")):
        journal.observe(S, C, Changes([Item(key, version, f"/{key}", 7)]), remove_at=0.0)
    for key, version in (("old", "file9"), ("also", "file1")):
        journal.observe(S, C, Changes([Item(key, version, f"/{key}", 7)]), remove_at=0.0)
        settle(journal, key, digest="same")
    old = one(journal, "old").row
    journal.observe(S, C, Changes((), ["old", "also"]), remove_at=0.0)

    def heir(key: str, digest: str, moved: Callable[[str, str], bool] = by_file) -> int | None:
        found = predecessor(journal, moved, one(journal, key), digest)
        return None if found is None else found.row

    also = one(journal, "also").row
    assert heir("moved", "same") == also, "the version names it"
    assert heir("moved", "same", untold) == old, "the first"
    assert heir("copied", "same") == old, "content is enough"
    assert heir("copied", "other") is None


def by_file(version: str, other: str) -> bool:
    return version.split()[0] == other.split()[0]
