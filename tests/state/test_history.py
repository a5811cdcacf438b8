"""The history keeps its bound, and events of readers' collections alone."""

from pathlib import Path

from ingestor.core.entries import EditionName
from ingestor.model import CollectionName
from ingestor.queries.reading import explain
from ingestor.state.editions import Editions, Requests
from ingestor.state.journal import Journal
from ingestor.state.reports import id_of, last_events, note_refused
from tests.state.journals import C, observe


def opened(folder: Path) -> Journal:
    journal = Journal(folder / "journal.sqlite3", synchronous="OFF")
    with journal.transaction() as db:
        db.execute("INSERT INTO collections (name, serves) VALUES (?, ?)", (C, C))
    return journal


def test_only_the_last_events_are_kept(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    with journal.transaction() as db:
        db.executemany("INSERT INTO history (what, why) VALUES ('refused', ?)", ((n,) for n in range(20_010)))
    assert journal.select("SELECT COUNT(*), MIN(why) + 0 FROM history") == [(20_000, 10)]
    note_refused(journal, "line 3")
    assert [one.why for one in last_events(journal, n=2)] == ["line 3", "20009"]


def test_hidden_collection_leaves_no_events(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    observe(journal, "a")
    for role, digest in (("staging", "first"), ("live", "second")):
        with journal.transaction() as db:
            db.execute("UPDATE collections SET role = ?", (role,))
            db.execute("UPDATE documents SET digest = ?", (digest,))
    assert [one.what for one in last_events(journal)] == ["changed", "switched"]
    assert id_of(journal, "a") == last_events(journal)[0].document_id
    assert id_of(journal, "b") is None


def test_switch_after_a_rebuild_gives_its_reason(tmp_path: Path) -> None:
    journal, reason = opened(tmp_path), "search does not find 2 of 110 records by their own vectors"
    Requests(journal).put("rebuilding", CollectionName(C), reason)
    with journal.transaction() as db:
        db.execute("INSERT INTO collections (name, serves, role) VALUES ('docs--2', ?, 'staging')", (C,))
    roles = ((C, "previous"), (EditionName("docs--2"), "live"))
    Editions(journal).become(0.0, *roles, rebuilt=CollectionName(C))
    [switched] = last_events(journal)
    assert explain(switched).why == reason
