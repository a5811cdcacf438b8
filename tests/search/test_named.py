"""Documents that a question names by their titles come first."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ingestor.engine.edition_store import EditionIndex
from ingestor.lexical.check import words_of
from ingestor.lexical.file import open_for_reading
from ingestor.lexical.index import LexicalIndex
from ingestor.lexical.ranking import rank_by_words
from ingestor.model import Record, RecordId
from ingestor.search.fusion import fuse
from ingestor.search.search import Searcher
from ingestor.search.values import Question
from tests.lexical.worlds import opened
from tests.search.test_search import EMBEDDER, Store

FIRMS = ("Acme", "Borealis", "Cobalt", "Dynamo", "Ember", "Fathom")
YEARS = (2020, 2021, 2022)
LINES = ("Net sales were 410 million.", "Cash was 12 million.", "The company rents its plants.")


@contextmanager
def searcher(folder: Path) -> Iterator[tuple[Searcher, EditionIndex]]:
    """Reports that say the same, of firms and years that only their titles name."""
    path = folder / "lexical.sqlite3"
    with opened(path) as file:
        store, lexical = Store(), LexicalIndex(file, ("uuid",))
        index = EditionIndex([store], lexical)
        index.upsert([
            Record(
                RecordId(f"{firm}-{year}#{n}"), line,
                {"document_id": f"{firm}-{year}", "title": f"{firm} annual report {year}", "language": "en"},
                EMBEDDER.embed([line])[0],
            )
            for firm in FIRMS for year in YEARS for n, line in enumerate(LINES)
        ])  # fmt: skip
        lexical.set_complete(True)
        with words_of(open_for_reading(path), ("uuid",)) as words:
            yield Searcher(store, words, EMBEDDER.embed, lambda texts: [1] * len(texts), lambda: 0.0), index


def first(search: Searcher, query: str, **options: object) -> list[str]:
    return [hit.id for hit in search.answer(Question(query, n=3, **options)).hits]  # type: ignore[arg-type]


def test_question_with_firm_and_year_finds_that_report_first(tmp_path: Path) -> None:
    with searcher(tmp_path) as (search, _):
        for firm, year in (("Cobalt", 2021), ("Fathom", 2020)):
            assert first(search, f"What were the net sales of {firm} in {year}?")[0] == f"{firm}-{year}#0"


def test_question_that_names_nothing_is_ranked_as_without_titles(tmp_path: Path) -> None:
    with searcher(tmp_path) as (search, _):
        words = search.words
        assert words.db is not None and words.number is not None
        assert rank_by_words(words.db, words.number, "Who rents plants?", 9).named == {}
        assert {id_.rpartition("#")[2] for id_ in first(search, "Who rents plants?")} == {"2"}


def test_filter_holds_for_documents_that_the_question_names(tmp_path: Path) -> None:
    with searcher(tmp_path) as (search, _):
        where = {"document_id": {"$ne": "Cobalt-2021"}}
        found = first(search, "What were the net sales of Cobalt in 2021?", where=where)
        assert found and not any(id_.startswith("Cobalt-2021") for id_ in found)


def test_new_title_of_a_document_is_the_one_that_questions_name(tmp_path: Path) -> None:
    with searcher(tmp_path) as (search, index):
        title = {"title": "Galileo annual report 2021"}
        index.patch([(RecordId(f"Cobalt-2021#{n}"), title) for n in range(len(LINES))])
        assert first(search, "What were the net sales of Galileo in 2021?")[0] == "Cobalt-2021#0"
        assert first(search, "What were the net sales of Cobalt in 2021?")[0] != "Cobalt-2021#0"
        index.drop([RecordId(f"Cobalt-2021#{n}") for n in range(len(LINES))])
        words = search.words
        assert words.db is not None and words.number is not None
        assert "Cobalt-2021" not in rank_by_words(words.db, words.number, "Galileo in 2021", 9).named


@pytest.mark.parametrize("named", [{}, {"a": 1.0}, {"a": 0.5, "b": 1.0}])
def test_scores_stay_between_0_and_1(named: dict[str, float]) -> None:
    dense = [(RecordId("a#0"), 0.9), (RecordId("b#0"), 0.8)]
    found = fuse(dense, [(RecordId("a#0"), 5.0)], {RecordId("b#1"): 0.1}, 5.0, 9, named=named)
    assert all(0 <= one.score <= 1 for one in found)
    assert found[0].id == "a#0"
    assert found[0].score > 0.9 or named.get("a") == 0.5


def test_single_ordinary_word_of_a_title_names_a_document_with_doubt(tmp_path: Path) -> None:
    """In a small collection any word of a title is among the rarest."""
    with searcher(tmp_path) as (search, _):
        words = search.words
        assert words.db is not None and words.number is not None
        named = rank_by_words(words.db, words.number, "How is coal turned into an ember?", 9).named
        assert set(named) == {f"Ember-{year}" for year in YEARS}
        assert max(named.values()) < 0.6
