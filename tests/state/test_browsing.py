"""Documents in pages: every one once, in order, whatever the filter; and figures counted by indexes."""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from ingestor.state.journal import Journal, JournalReader
from ingestor.state.reports import DocumentQuery, Reports, Which, failures, one_of, page_of
from ingestor.state.tables import IN_FORCE, STATE, natural_key
from tests.page.large import fill


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("journal") / "journal.sqlite3"


@pytest.fixture(scope="module")
def journal(path: Path) -> Journal:
    journal = Journal(path, synchronous="OFF")
    fill(journal, 3000)
    with journal.transaction() as db:
        db.execute("UPDATE documents SET wanted_version = NULL, since = 5 WHERE id % 7 = 0")
        db.execute("UPDATE documents SET shortfall = 'empty' WHERE id % 11 = 0 AND NOT quarantined")
        db.execute("UPDATE documents SET wanted_recipe = 'r2', since = 9 WHERE id % 13 = 0")
        db.execute("UPDATE collections SET role = 'previous' WHERE name = 'source3'")
    return journal


@pytest.fixture(scope="module")
def reader(path: Path, journal: Journal) -> Iterator[JournalReader]:
    with closing(JournalReader(path)) as found:
        yield found


def states(journal: Journal) -> dict[tuple[str, str, str], int]:
    """By looking at every document."""
    query = f"SELECT source, collection, {STATE}, key FROM documents WHERE {IN_FORCE}"
    return dict(Counter((source, edition, state) for source, edition, state, _ in journal.select(query)))


def test_documents_are_counted_by_state(journal: Journal) -> None:
    counted = {(source, edition, state): n for source, edition, state, n in Reports(journal).counts()}
    assert counted == states(journal)
    assert {state for _, _, state in counted} == {
        "settled", "gone", "quarantined", "unsupported", "waiting", "due",
    }  # fmt: skip


def test_oldest_change_of_each_source_is_known(journal: Journal) -> None:
    assert Reports(journal).oldest() == dict.fromkeys(("source0", "source1", "source2"), 5.0)


@pytest.mark.parametrize("which", ["any", "settled", "due", "waiting", "quarantined", "unsupported", "short"])
@pytest.mark.parametrize("source", [None, "source2"])
@pytest.mark.parametrize("naturally", [True, False])
def test_pages_hold_every_document_once_forwards_and_back(
    journal: Journal, reader: JournalReader, which: Which, source: str | None, naturally: bool
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
    known = states(journal)
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


def test_failures_and_single_documents(journal: Journal) -> None:
    found = failures(journal, 5)
    assert len(found) == 5
    assert all(row.has_failed or row.state == "gone" for row in found)
    assert one_of(journal, found[0].document_id) == found[0]
    assert one_of(journal, "no such id") is None


@pytest.mark.parametrize(
    "wanted", [DocumentQuery(), DocumentQuery("source1"), DocumentQuery(after=("source1", "source1", "x"))]
)
def test_no_page_sorts_all_documents(journal: Journal, wanted: DocumentQuery) -> None:
    """SQLite says so where it must: the index has the order of a page."""
    plans: list[str] = []

    class Explaining:
        def select(self, query: str, values: object = ()) -> list[tuple[object, ...]]:
            plans.extend(str(row[3]) for row in journal.select(f"EXPLAIN QUERY PLAN {query}", values))  # type: ignore[arg-type]
            return []

    page_of(Explaining(), wanted, 101, naturally=False)
    assert any("USING INDEX sqlite_autoindex_documents" in step for step in plans), plans
    assert not any("ORDER BY" in step for step in plans), plans


def test_numbers_in_names_are_sorted_by_their_value() -> None:
    names = ["Chapter 10.md", "chapter 2.md", "a9/b10", "a10/b1", "a9/b9", "chapter 02.md"]
    assert sorted(names, key=natural_key) == [
        "a9/b9", "a9/b10", "a10/b1", "chapter 2.md", "chapter 02.md", "Chapter 10.md",
    ]  # fmt: skip
