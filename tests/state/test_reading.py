"""What is read of the journal page by page, or while others write."""

import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ingestor.core.decisions import NEVER, Changes, Failure, Scope
from ingestor.core.entries import Feed, Intent
from ingestor.core.listings import ListingChanges, ListingComparison, VersionTable
from ingestor.model import CollectionName, Item, SourceName
from ingestor.state import reports, sources
from ingestor.state.journal import Journal, open_journal
from ingestor.state.reports import Reports, reasons
from ingestor.state.tables import NewerJournal
from tests.state.journals import C, S, due, observe, of_collection, of_source, one, settle


def test_journal_opens_while_another_process_writes(tmp_path: Path) -> None:
    with (
        open_journal(tmp_path / "j") as writing,
        writing.transaction(),
        open_journal(tmp_path / "j") as looking,
    ):
        assert looking.owner == writing.owner


def test_versions_below_keys_are_returned(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the form of keys next to ``a`` in the order of the index."""
    monkeypatch.setattr(sources, "_PAGE", 2)
    near = ("a", "a/b", "a/b/c", "a/!/m", "a.", "a0", "ab", "a-", "A", "b/a", "aé/x", "a/é")
    observe(journal, *near, gone=())
    observe(journal, gone=("a/b/c",))
    known = sources.LastListing(journal, Feed(S, C))
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


def test_document_that_is_renamed_while_it_is_listed_has_not_vanished(journal: Journal) -> None:
    """The new document takes over the row of the one that it was, so rows say nothing of what was listed."""
    observe(journal, "old", "other")
    settle(journal, "old")
    observe(journal, "new", gone=("old",))
    before = one(journal, "new").row
    comparison = ListingComparison(sources.LastListing(journal, Feed(S, C)), [])
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
    monkeypatch.setattr(reports, "_PAGE", 2)
    observe(journal, "a", "b", "c")
    other = CollectionName("other")
    journal.observe(S, other, Changes((Item("a", "1", "/a"),)), remove_at=0.0)
    rows = {entry.key: entry for entry in of_source(journal, S) if entry.collection == C}
    [elsewhere] = of_collection(journal, other)
    journal.intend([Intent(rows[key].row, (1, 2, 3)) for key in "ac"] + [Intent(elsewhere.row, (5,))])
    found = [(kept.document_id, kept.known.slot) for kept in reports.journal_records(journal, C)]
    assert sorted(found) == sorted((rows[key].document_id, slot) for key in "ac" for slot in (1, 2, 3))
    assert [kept.known.slot for kept in reports.journal_records(journal, other)] == [5]


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


def test_other_process_may_read_during_a_write(journal: Journal, tmp_path: Path) -> None:
    observe(journal, "a")
    other = Journal(tmp_path / "journal.sqlite3")
    assert other.owner == journal.owner
    observe(journal, "b")
    assert len(of_source(other, S)) == 2
    other.close()


def test_newer_journal_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite3"
    Journal(path).close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(NewerJournal, match="newer ingestor"):
        Journal(path)


def test_processes_that_open_a_new_journal_at_once_agree(tmp_path: Path) -> None:
    """As a daemon and a ``status`` do at the first start."""
    program = "import sys, pathlib, ingestor.state.journal as j; j.Journal(pathlib.Path(sys.argv[1]))"
    command = [sys.executable, "-W", "ignore", "-c", program, str(tmp_path / "journal.sqlite3")]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(6)]
    errors = [process.communicate()[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * 6, errors


def test_oldest_change_is_known_until_it_is_applied(journal: Journal) -> None:
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
    assert reasons(journal, "quarantined") == [(S, "broken", 1)]
