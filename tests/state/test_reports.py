"""Reports: documents in pages, each once and in order; counts by indexes; the history of collections."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from ingestor.core.decisions import NEVER, Changes, Failure
from ingestor.core.entries import EditionName, Intent
from ingestor.model import CollectionName, Item, SourceName
from ingestor.queries.reading import explain
from ingestor.state import reports
from ingestor.state.editions import Editions, Requests
from ingestor.state.journal import Journal, JournalReader
from ingestor.state.reports import (
    DocumentQuery,
    Which,
    count_documents,
    failures,
    find_oldest_changes,
    id_of,
    last_events,
    list_documents,
    note_refused,
    one_of,
    page_of,
    reasons,
)
from ingestor.state.tables import IN_FORCE, STATE, natural_key
from tests.page.large import fill
from tests.state.journals import C, S, observe, of_collection, of_source, one, settle


@pytest.fixture(scope="module")
def large_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("journal") / "journal.sqlite3"


@pytest.fixture(scope="module")
def large(large_path: Path) -> Journal:
    journal = Journal(large_path, synchronous="OFF")
    fill(journal, 1500)
    with journal.transaction() as db:
        db.execute("UPDATE documents SET wanted_version = NULL, since = 5 WHERE id % 7 = 0")
        db.execute("UPDATE documents SET shortfall = 'empty' WHERE id % 11 = 0 AND NOT quarantined")
        db.execute("UPDATE documents SET wanted_recipe = 'r2', since = 9 WHERE id % 13 = 0")
        db.execute("UPDATE collections SET role = 'previous' WHERE name = 'source3'")
    return journal


@pytest.fixture(scope="module")
def reader(large_path: Path, large: Journal) -> Iterator[JournalReader]:
    with closing(JournalReader(large_path)) as found:
        yield found


def states(journal: Journal) -> dict[tuple[str, str, str], int]:
    """By looking at every document."""
    query = f"SELECT source, collection, {STATE}, key FROM documents WHERE {IN_FORCE}"
    return dict(Counter((source, edition, state) for source, edition, state, _ in journal.select(query)))


def test_documents_and_oldest_changes_are_counted(large: Journal) -> None:
    counted = {(source, edition, state): n for source, edition, state, n in count_documents(large)}
    assert counted == states(large)
    expected = {"settled", "gone", "quarantined", "unsupported", "waiting", "due"}
    assert {state for _, _, state in counted} == expected
    assert find_oldest_changes(large) == dict.fromkeys(("source0", "source1", "source2"), 5.0)


@pytest.mark.parametrize("which", ["any", "settled", "due", "waiting", "quarantined", "unsupported", "short"])
@pytest.mark.parametrize("source", [None, "source2"])
@pytest.mark.parametrize("naturally", [True, False])
def test_pages_hold_every_document_once_forwards_and_back(
    large: Journal, reader: JournalReader, which: Which, source: str | None, naturally: bool
) -> None:
    pages = partial(page_of, reader, naturally=naturally)
    whole = pages(DocumentQuery(source, which=which), 10_000)
    keys = [row.place for row in whole]
    by = (lambda one: (*one[:2], natural_key(one[2]), one[2])) if naturally else None
    assert keys == sorted(set(keys), key=by)
    seen, after = list[tuple[str, str, str]](), None
    while page := pages(DocumentQuery(source, which=which, after=after), 31):
        seen += [row.place for row in page]
        after = page[-1].place
    assert seen == keys
    if keys:
        before = pages(DocumentQuery(source, which=which, before=keys[-1]), 7)
        assert [row.place for row in before] == keys[:-1][-7:]
    wanted = {"due": ("due", "gone"), "short": ("settled",)}.get(which, (which,))
    known = states(large)
    if which not in ("any", "short"):
        in_state = [n for (of, _, state), n in known.items() if state in wanted and source in (None, of)]
        assert len(whole) == sum(in_state)
    assert which == "any" or {row.state for row in whole} == set(wanted)


def test_part_of_the_name_finds_documents(reader: JournalReader) -> None:
    assert [row.key for row in page_of(reader, DocumentQuery(match="MEETING 000042"), 9)] == [
        "2017/department-42/minutes of the meeting 000042.md"
    ]
    assert page_of(reader, DocumentQuery(match="%"), 9) == []
    assert page_of(reader, DocumentQuery(edition="source3"), 9) == [], "readers do not see it"


def test_failures_and_single_documents(large: Journal) -> None:
    found = failures(large, 5)
    assert len(found) == 5
    assert all(row.has_failed or row.state == "gone" for row in found)
    assert one_of(large, found[0].document_id) == found[0]
    assert one_of(large, "no such id") is None


@pytest.mark.parametrize(
    "wanted", [DocumentQuery(), DocumentQuery("source1"), DocumentQuery(after=("source1", "source1", "x"))]
)
def test_no_page_sorts_all_documents(large: Journal, wanted: DocumentQuery) -> None:
    """SQLite says so where it must: the index has the order of a page."""
    plans: list[str] = []

    class Explaining:
        def select(self, query: str, values: object = ()) -> list[tuple[object, ...]]:
            plans.extend(str(row[3]) for row in large.select(f"EXPLAIN QUERY PLAN {query}", values))  # type: ignore[arg-type]
            return []

    page_of(Explaining(), wanted, 101, naturally=False)
    assert any("USING INDEX sqlite_autoindex_documents" in step for step in plans), plans
    assert not any("ORDER BY" in step for step in plans), plans


def test_numbers_in_names_are_sorted_by_their_value() -> None:
    names = ["Chapter 10.md", "chapter 2.md", "a9/b10", "a10/b1", "a9/b9", "chapter 02.md"]
    assert sorted(names, key=natural_key) == [
        "a9/b9", "a9/b10", "a10/b1", "chapter 2.md", "chapter 02.md", "Chapter 10.md",
    ]  # fmt: skip


def test_documents_are_listed_in_pages(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "_PAGE", 2)
    observe(journal, *"edcba")
    settle(journal, "c")
    other = SourceName("other")
    journal.observe(other, C, Changes(tuple(Item(key, "1", f"/{key}") for key in "fa")), remove_at=0.0)
    found = [(each.source, each.document, each.records, each.state) for each in list_documents(journal)]
    ours = [(S, key, 2 if key == "c" else 0, "settled" if key == "c" else "due") for key in "abcde"]
    assert found == [(other, "a", 0, "due"), (other, "f", 0, "due"), *ours]
    assert [each.document for each in list_documents(journal, S)] == [*"abcde"]
    assert [*list_documents(journal, "nothing")] == []


def test_kept_records_are_read_in_pages(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "_PAGE", 2)
    observe(journal, "a", "b", "c")
    other = CollectionName("other")
    journal.observe(S, other, Changes((Item("a", "1", "/a"),)), remove_at=0.0)
    rows = {entry.key: entry for entry in of_source(journal, S) if entry.edition == C}
    [elsewhere] = of_collection(journal, other)
    journal.intend([Intent(rows[key].row, (1, 2, 3)) for key in "ac"] + [Intent(elsewhere.row, (5,))])
    found = [(document_id, known.slot) for _, document_id, known in reports.journal_records(journal, C)]
    assert sorted(found) == sorted((rows[key].document_id, slot) for key in "ac" for slot in (1, 2, 3))
    assert [known.slot for _, _, known in reports.journal_records(journal, other)] == [5]


def test_oldest_change_is_known_until_it_is_applied(journal: Journal) -> None:
    def oldest() -> float | None:
        return find_oldest_changes(journal).get(S)

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


# --- history ------------------------------------------------------------------------------------------------


@pytest.fixture
def served(journal: Journal) -> Journal:
    with journal.transaction() as db:
        db.execute("INSERT INTO collections (name, serves) VALUES (?, ?)", (C, C))
    return journal


def test_only_the_last_events_are_kept(served: Journal) -> None:
    with served.transaction() as db:
        db.executemany("INSERT INTO history (what, why) VALUES ('refused', ?)", ((n,) for n in range(20_010)))
    assert served.select("SELECT COUNT(*), MIN(why) + 0 FROM history") == [(20_000, 10)]
    note_refused(served, "line 3")
    assert [one.why for one in last_events(served, n=2)] == ["line 3", "20009"]


def test_hidden_collection_leaves_no_events(served: Journal) -> None:
    observe(served, "a")
    for role, digest in (("staging", "first"), ("live", "second")):
        with served.transaction() as db:
            db.execute("UPDATE collections SET role = ?", (role,))
            db.execute("UPDATE documents SET digest = ?", (digest,))
    assert [one.what for one in last_events(served)] == ["changed", "switched"]
    assert id_of(served, "a") == last_events(served)[0].document_id
    assert id_of(served, "b") is None


def test_switch_after_a_rebuild_gives_its_reason(served: Journal) -> None:
    reason = "search does not find 2 of 110 records by their own vectors"
    Requests(served).put("rebuilding", CollectionName(C), reason)
    with served.transaction() as db:
        db.execute("INSERT INTO collections (name, serves, role) VALUES ('docs--2', ?, 'staging')", (C,))
    roles = ((C, "previous"), (EditionName("docs--2"), "live"))
    Editions(served).become(0.0, *roles, rebuilt=CollectionName(C))
    [switched] = last_events(served)
    assert explain(switched).why == reason
