"""A search over an index in memory and a real lexical file."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from ingestor.embedders.hashing import PLUGIN
from ingestor.engine.edition_store import EditionIndex
from ingestor.lexical.check import Words, words_of
from ingestor.lexical.file import open_for_reading
from ingestor.lexical.index import LexicalIndex
from ingestor.lexical.ranking import rank_by_words
from ingestor.model import Record, RecordId
from ingestor.ports import Gone, NeedsHuman, Transient
from ingestor.search.rerankers import Reranker
from ingestor.search.search import AGAIN, Searcher
from ingestor.search.values import Question
from tests.lexical.worlds import opened
from tests.memory_index import SearchedIndex

EMBEDDER = PLUGIN.build(PLUGIN.options(dimensions=64))
TEXTS = {
    "faq": ["How are books borrowed?", "With a card, at the desk.", "Error ERR_4711: the card is blocked."],
    "code": ["Call get_or_create_collection first.", "It returns the collection."],
    "haus": ["Die Häuser am Wald sind alt, nach § 12 des Gesetzes."],
}  # fmt: skip


def records() -> Iterator[Record]:
    for document, texts in TEXTS.items():
        at = 0
        for n, text in enumerate(texts):
            related = {"1": document}
            related |= {"2": f"{document}#{n - 1}"} if n else {}
            related |= {"3": f"{document}#{n + 1}"} if n + 1 < len(texts) else {}
            metadata = {
                "document_id": document, "source": f"/{document}.md", "chunk_index": n, "start_index": at,
                "chunk_count": len(texts),
                "end_index": at + len(text), "start_line": n + 1, "end_line": n + 1,
                "language": "de" if document == "haus" else "en",
                "relationships": str(related).replace("'", '"'), "heading_path": f"Part {n // 2}",
                "parent_index": n // 2,
            }  # fmt: skip
            at += len(text) + 1
            yield Record(RecordId(f"{document}#{n}"), text, metadata, EMBEDDER.embed([text])[0])


@contextmanager
def searching(
    folder: Path, chosen: Iterable[Record], *, complete: bool = True
) -> Iterator[tuple[Searcher, SearchedIndex, EditionIndex]]:
    path = folder / "lexical.sqlite3"
    with opened(path) as file:
        store, lexical = SearchedIndex(), LexicalIndex(file, ("uuid",))
        index = EditionIndex([store], lexical)
        index.upsert(list(chosen))
        lexical.set_complete(complete)
        with words_of(open_for_reading(path), ("uuid",)) as words:
            search = Searcher(store, words, EMBEDDER.embed, count_words, lambda: 0.0)
            yield search, store, index


def count_words(texts: Sequence[str]) -> list[int]:
    return [len(text.split()) for text in texts]


@contextmanager
def searcher(folder: Path, *, complete: bool = True) -> Iterator[Searcher]:
    with searching(folder, records(), complete=complete) as (search, _, _):
        yield search


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("ERR_4711", "faq#2"),
        ("err 4711", "faq#2"),
        ("get_or_create_collection", "code#0"),
        ("Haus", "haus#0"),
        ("§12", "haus#0"),
        ("who is borrowing a book?", "faq#0"),
    ],
)
@pytest.mark.parametrize("mode", ["hybrid", "lexical"])
def test_names_numbers_and_forms_of_words_are_found(tmp_path: Path, query: str, best: str, mode: str) -> None:
    with searcher(tmp_path) as search:
        answer = search.answer(Question(query, n=1, mode=mode))  # type: ignore[arg-type]
    assert [hit.id for hit in answer.hits] == [best]
    assert answer.hits[0].ranks.lexical == 1
    assert (answer.mode, answer.fallback) == (mode, None)
    assert answer.hits[0].document == answer.passages[0].text


@pytest.mark.parametrize("mode", ["hybrid", "lexical"])
def test_hit_deleted_meanwhile_is_replaced_by_the_next(tmp_path: Path, mode: str) -> None:
    with searcher(tmp_path) as search:
        asked = Question("the card is blocked", n=2, mode=mode)  # type: ignore[arg-type]
        first, second = (hit.id for hit in search.answer(asked).hits)
        search.store.drop([first])  # type: ignore[attr-defined]
        after = search.answer(asked).hits
    assert len(after) == 2
    assert after[0].id == second
    assert all(hit.document for hit in after)


@pytest.mark.parametrize("mode", ["hybrid", "dense"])
@pytest.mark.parametrize("lexical_too", [True, False])
def test_answer_beside_a_deletion_is_of_one_state(tmp_path: Path, mode: str, lexical_too: bool) -> None:
    """The deletion is seen in words and vectors, or has not reached the words yet."""
    asked = Question("the card is blocked at the desk", n=2, mode=mode, expand="neighbours")  # type: ignore[arg-type]
    with searching(tmp_path, records()) as (search, store, index):
        gone = search.answer(asked).hits[0].id
        store.writes.append(lambda: (index if lexical_too else store).drop([gone]))
        beside = search.answer(asked)
        if not lexical_too:
            index.drop([gone])
        assert gone not in [hit.id for hit in beside.hits]
        if lexical_too:
            assert beside == search.answer(asked)


def test_answer_beside_an_edit_has_one_version_of_its_text(tmp_path: Path) -> None:
    asked = Question("the card is blocked at the desk", n=2)
    with searching(tmp_path, records()) as (search, store, index):
        edited = search.answer(asked).hits[0].id
        text = "Something else entirely."
        [before] = store.read([edited])
        after = Record(edited, text, before.metadata, EMBEDDER.embed([text])[0])
        store.writes.append(lambda: index.upsert([after]))
        assert search.answer(asked) == search.answer(asked)


def test_collection_that_is_forgotten_while_it_is_searched_is_gone(tmp_path: Path) -> None:
    """A swap deletes it between its vectors and its words; the service then asks the new one."""
    with searching(tmp_path, records()) as (search, store, index):
        store.writes.append(lambda: index.words._file.discard(("uuid",)))
        with pytest.raises(Gone):
            search.answer(Question("books"))
        assert search.answer(Question("books")).mode == "dense"


def test_answer_is_given_though_every_attempt_meets_a_write(tmp_path: Path) -> None:
    with searching(tmp_path, records()) as (search, store, index):
        record = next(records())
        for number in range(10):
            again = replace(record, text=f"{record.text} {number}")
            store.writes.append(partial(index.upsert, [again]))
        assert search.answer(Question("books", n=1)).hits
        assert len(store.writes) == 10 - 1 - AGAIN


def test_reranker_scores_no_text_twice_when_an_answer_is_repeated(tmp_path: Path) -> None:
    seen: list[str] = []

    def scores(question: str, texts: Sequence[str]) -> list[float]:
        seen.extend(texts)
        return [float(len(text)) for text in texts]

    with searching(tmp_path, records()) as (search, store, index):
        store.writes.append(lambda: index.drop([RecordId("haus#0")]))
        replace(search, reranker=Reranker(scores, 10)).answer(Question("the card", n=5))
    assert len(seen) == len(set(seen)) > 1


def test_hybrid_keeps_a_record_whose_vector_is_not_found(tmp_path: Path) -> None:
    with searcher(tmp_path) as search:
        asked = Question("ERR_4711 blocked card", n=2)
        best = search.answer(asked).hits[0].id
        with (
            patch.object(SearchedIndex, "vectors", lambda self, ids: {}),
            patch.object(SearchedIndex, "nearest", lambda self, vectors, n, where=None: [[]]),
        ):
            assert search.answer(asked).hits[0].id == best


@pytest.mark.parametrize("mode", ["hybrid", "dense", "lexical"])
def test_filters_hold_in_all_modes(tmp_path: Path, mode: str) -> None:
    with searcher(tmp_path) as search:
        asked = {"where": {"document_id": "code"}, "mode": mode}
        answer = search.answer(Question("the card, the collection", n=9, **asked))  # type: ignore[arg-type]
    assert answer.hits
    assert {hit.metadata["document_id"] for hit in answer.hits} == {"code"}


@pytest.mark.parametrize("mode", ["hybrid", "lexical"])
def test_incomplete_index_falls_back_to_vectors_and_is_reported(tmp_path: Path, mode: str) -> None:
    with searcher(tmp_path, complete=False) as search:
        answer = search.answer(Question("How are books borrowed?", n=1, mode=mode))  # type: ignore[arg-type]
    assert (answer.mode, answer.hits[0].id) == ("dense", "faq#0")
    assert "being built" in str(answer.fallback)
    without = Searcher(search.store, Words(), search.embed, search.count, search.clock)
    assert "not built yet" in str(without.answer(Question("books")).fallback)
    assert without.answer(Question("books", mode="dense")).fallback is None


@pytest.mark.parametrize(
    ("expand", "ids"),
    [
        ("none", {"faq#0"}),
        ("neighbours", {"faq#0", "faq#1"}),
        ("section", {"faq#0", "faq#1"}),
        ("parent", {"faq#0", "faq#1"}),
        ("document", {"faq#0", "faq#1", "faq#2"}),
    ],
)
def test_expand_adds_the_records_around_a_hit(tmp_path: Path, expand: str, ids: set[str]) -> None:
    with searcher(tmp_path) as search:
        answer = search.answer(Question("How are books borrowed?", n=1, expand=expand))  # type: ignore[arg-type]
    (passage,) = answer.passages
    assert set(passage.ids) == ids
    assert passage.text == "\n".join(TEXTS["faq"][: len(ids)])
    assert (passage.start, passage.end, passage.lines) == (0, len(passage.text), (1, len(ids)))
    assert [hit.id for hit in answer.hits] == ["faq#0"]


@pytest.mark.parametrize("mode", ["hybrid", "dense", "lexical"])
def test_passages_name_document_author_score_and_neighbours(tmp_path: Path, mode: str) -> None:
    with searcher(tmp_path) as search:
        store: SearchedIndex = search.store  # type: ignore[assignment]
        for id_, record in store.records.items():
            own = {"title": "Library rules", "author": "Ada", "path": "rules/faq.md"}
            store.records[id_] = Record(id_, record.text, {**record.metadata, **own}, record.vector)
        asked = Question("With a card, at the desk.", n=1, mode=mode)  # type: ignore[arg-type]
        alone = search.answer(asked)
        wide = search.answer(replace(asked, expand="section"))
    (passage,) = alone.passages
    assert (passage.document_id, passage.title, passage.author, passage.path) == (
        "faq", "Library rules", "Ada", "rules/faq.md",
    )  # fmt: skip
    assert passage.heading_path == "Library rules > Part 0"
    assert passage.score == alone.hits[0].score
    assert (passage.previous, passage.next) == ("faq#0", "faq#2")
    (merged,) = wide.passages
    assert merged.ids == ("faq#0", "faq#1")
    assert (merged.previous, merged.next, merged.score) == (None, "faq#2", alone.hits[0].score)


@pytest.mark.parametrize("left_out", [{"relationships"}, {"relationships", "chunk_index"}])
def test_neighbours_are_found_by_position_where_records_do_not_name_them(
    tmp_path: Path, left_out: set[str]
) -> None:
    with searcher(tmp_path) as search:
        store: SearchedIndex = search.store  # type: ignore[assignment]
        for id_, record in store.records.items():
            kept = {key: value for key, value in record.metadata.items() if key not in left_out}
            store.records[id_] = Record(id_, record.text, kept, record.vector)
        answer = search.answer(Question("With a card, at the desk.", n=1, expand="neighbours"))
    found = {id_ for passage in answer.passages for id_ in passage.ids}
    assert found == ({"faq#1"} if "chunk_index" in left_out else {"faq#0", "faq#1", "faq#2"})


def test_budget_takes_the_place_of_n(tmp_path: Path) -> None:
    with searcher(tmp_path) as search:
        small = search.answer(Question("How are books borrowed?", budget_tokens=6))
        large = search.answer(Question("How are books borrowed?", budget_tokens=1000, expand="document"))
    assert [hit.id for hit in small.hits] == ["faq#0"]
    assert (small.needed_tokens, large.needed_tokens) == (None, None)
    assert {id_ for passage in large.passages for id_ in passage.ids} == {record.id for record in records()}


@pytest.mark.parametrize("expand", ["none", "document"])
@pytest.mark.parametrize("mode", ["hybrid", "dense", "lexical"])
def test_budget_too_small_for_the_best_hit_names_the_least_that_fits(
    tmp_path: Path, mode: str, expand: str
) -> None:
    asked = Question("How are books borrowed?", mode=mode, expand=expand)  # type: ignore[arg-type]
    with searcher(tmp_path) as search:
        small = search.answer(replace(asked, budget_tokens=1))
        assert (small.hits, small.needed_tokens) == ((), 5)
        assert not search.answer(replace(asked, budget_tokens=4)).hits
        assert search.answer(replace(asked, budget_tokens=5)).hits
        nothing = search.answer(replace(asked, budget_tokens=1, where={"document_id": "none"}))
    assert nothing.needed_tokens is None


def add_copies(folder: Path, search: Searcher, n: int) -> None:
    """Add edited copies of one text: each has one word of its own."""
    text = (
        "A borrowed book comes back to the desk within four weeks, else the reader pays a small fee for each "
        "week that it is late, and whoever has lost it buys another one of the same edition"
    )
    added = [
        Record(
            RecordId(f"copy{at}#0"),
            f"{text} edit{at}",
            {"document_id": f"copy{at}", "source": f"/copy{at}.md", "language": "en", "chunk_index": 0},
            EMBEDDER.embed([f"{text} edit{at}"])[0],
        )
        for at in range(n)
    ]
    with opened(folder / "lexical.sqlite3") as file:
        EditionIndex([search.store], LexicalIndex(file, ("uuid",))).upsert(added)  # type: ignore[list-item]


@pytest.mark.parametrize("mode", ["hybrid", "dense", "lexical"])
@pytest.mark.parametrize("copies", [1, 7, 130])
def test_near_duplicates_collapse_into_the_best(tmp_path: Path, mode: str, copies: int) -> None:
    with searcher(tmp_path) as search:
        add_copies(tmp_path, search, copies)
        asked = Question("borrowed book, the desk, the card", n=3, mode=mode)  # type: ignore[arg-type]
        plain = search.answer(replace(asked, n=copies + 6)).hits
        for question in (
            replace(asked, distinct=True),
            replace(asked, expand="neighbours"),
            replace(asked, budget_tokens=10_000),
        ):
            answer = search.answer(question)
            of_copies = [hit for hit in answer.hits if hit.id.startswith("copy")]
            assert len(of_copies) == 1
            best = next(hit for hit in plain if hit.id.startswith("copy"))
            assert of_copies[0].id == best.id, "the best one stays"
            also = {copy.id for copy in of_copies[0].also_in}
            assert len(also) == len(of_copies[0].also_in)
            assert min(copies, 40) - 1 <= len(also) <= copies - 1, "all of the first candidates"
            assert {copy.source for copy in of_copies[0].also_in} == {
                f"/{id_.partition('#')[0]}.md" for id_ in also
            }
            assert len(answer.hits) >= 3
            (shown,) = [passage for passage in answer.passages if of_copies[0].id in passage.ids]
            assert shown.also_in == of_copies[0].also_in
    assert all(hit.also_in == () for hit in plain)
    assert sum(hit.id.startswith("copy") for hit in plain) == copies


def test_words_that_no_record_has_find_nothing(tmp_path: Path) -> None:
    with searcher(tmp_path) as search:
        assert search.answer(Question("xylophone", mode="lexical")).hits == ()
        assert search.answer(Question('"', mode="lexical")).hits == ()
        assert len(search.answer(Question("xylophone", n=2)).hits) == 2
        assert np.isfinite([hit.score for hit in search.answer(Question("xylophone")).hits]).all()


@pytest.mark.parametrize("mode", ["hybrid", "dense", "lexical"])
@pytest.mark.parametrize("n_records", [1, 2, 6])
def test_scores_lie_between_0_and_1_in_every_mode(tmp_path: Path, mode: str, n_records: int) -> None:
    with searcher(tmp_path) as search:
        gone = [record.id for record in records()][n_records:]
        search.store.drop(gone)  # type: ignore[attr-defined]
        for query in ("the card is blocked", "How are books borrowed?", "xylophone the", "Häuser"):
            scores = [hit.score for hit in search.answer(Question(query, mode=mode)).hits]  # type: ignore[arg-type]
            assert all(0 <= score <= 1 for score in scores)
            assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("mode", ["hybrid", "lexical"])
def test_common_word_beside_unknown_words_decides_little(tmp_path: Path, mode: str) -> None:
    with searcher(tmp_path) as search:
        hits = search.answer(Question("the xylophone orchestra", mode=mode)).hits  # type: ignore[arg-type]
        known = search.answer(Question("ERR_4711", mode=mode)).hits  # type: ignore[arg-type]
    assert max(hit.score for hit in hits if hit.ranks.lexical) < known[0].score * 2 / 3


def worse(question: str, texts: Sequence[str]) -> list[float]:
    return [-float(at == 0) for at, _ in enumerate(texts)]


@pytest.mark.parametrize("mode", ["hybrid", "dense", "lexical"])
def test_reranker_orders_the_first_hits(tmp_path: Path, mode: str) -> None:
    question = Question("the card, the collection", n=3, mode=mode)  # type: ignore[arg-type]
    with searcher(tmp_path) as search:
        before = [hit.id for hit in search.answer(question).hits]
        answer = replace(search, reranker=Reranker(worse, 2)).answer(question)
        one = replace(search, reranker=Reranker(worse, 2)).answer(replace(question, n=1))
    assert [hit.id for hit in answer.hits] == [before[1], before[0], *before[2:]]
    assert [hit.reranked for hit in answer.hits] == [0.0, -1.0, None][: len(before)]
    assert [hit.id for hit in one.hits] == [before[1]], "it sees more hits than are asked for"
    assert answer.fallback is None


@pytest.mark.parametrize(
    "scores", [[1.0], [float("nan")] * 2, Transient("it is away"), NeedsHuman("no torch")]
)
def test_failed_reranker_keeps_the_order_and_is_reported(tmp_path: Path, scores: object) -> None:
    def failing(question: str, texts: Sequence[str]) -> list[float]:
        if isinstance(scores, Exception):
            raise scores
        return list(scores)  # type: ignore[call-overload]

    with searcher(tmp_path, complete=False) as search:
        before = search.answer(Question("the card", n=2))
        answer = replace(search, reranker=Reranker(failing, 2)).answer(Question("the card", n=2))
    assert answer.hits == before.hits
    assert "being built" in str(answer.fallback)
    assert "; not reranked: " in str(answer.fallback)


# --- documents that a question names by their titles come first ---------------------------------------------

FIRMS = ("Acme", "Borealis", "Cobalt", "Dynamo", "Ember", "Fathom")
YEARS = (2020, 2021, 2022)
LINES = ("Net sales were 410 million.", "Cash was 12 million.", "The company rents its plants.")


@contextmanager
def reports(folder: Path) -> Iterator[tuple[Searcher, EditionIndex]]:
    """Reports that say the same, of firms and years that only their titles name."""
    chosen = (
        Record(
            RecordId(f"{firm}-{year}#{n}"), line,
            {"document_id": f"{firm}-{year}", "title": f"{firm} annual report {year}", "language": "en"},
            EMBEDDER.embed([line])[0],
        )
        for firm in FIRMS for year in YEARS for n, line in enumerate(LINES)
    )  # fmt: skip
    with searching(folder, chosen) as (search, _, index):
        yield search, index


def named(search: Searcher, query: str) -> Mapping[str, float]:
    words = search.words
    assert words.db is not None and words.number is not None
    return rank_by_words(words.db, words.number, query, 9).named


def first(search: Searcher, query: str, **options: object) -> list[str]:
    return [hit.id for hit in search.answer(Question(query, n=3, **options)).hits]  # type: ignore[arg-type]


def test_question_with_firm_and_year_finds_that_report_first(tmp_path: Path) -> None:
    with reports(tmp_path) as (search, _):
        for firm, year in (("Cobalt", 2021), ("Fathom", 2020)):
            assert first(search, f"What were the net sales of {firm} in {year}?")[0] == f"{firm}-{year}#0"


def test_question_that_names_nothing_is_ranked_as_without_titles(tmp_path: Path) -> None:
    with reports(tmp_path) as (search, _):
        assert named(search, "Who rents plants?") == {}
        assert {id_.rpartition("#")[2] for id_ in first(search, "Who rents plants?")} == {"2"}


def test_filter_holds_for_documents_that_the_question_names(tmp_path: Path) -> None:
    with reports(tmp_path) as (search, _):
        where = {"document_id": {"$ne": "Cobalt-2021"}}
        found = first(search, "What were the net sales of Cobalt in 2021?", where=where)
        assert found and not any(id_.startswith("Cobalt-2021") for id_ in found)


def test_new_title_of_a_document_is_the_one_that_questions_name(tmp_path: Path) -> None:
    with reports(tmp_path) as (search, index):
        title = {"title": "Galileo annual report 2021"}
        index.patch([(RecordId(f"Cobalt-2021#{n}"), title) for n in range(len(LINES))])
        assert first(search, "What were the net sales of Galileo in 2021?")[0] == "Cobalt-2021#0"
        assert first(search, "What were the net sales of Cobalt in 2021?")[0] != "Cobalt-2021#0"
        index.drop([RecordId(f"Cobalt-2021#{n}") for n in range(len(LINES))])
        assert "Cobalt-2021" not in named(search, "Galileo in 2021")


def test_single_ordinary_word_of_a_title_names_a_document_with_doubt(tmp_path: Path) -> None:
    """In a small collection any word of a title is among the rarest."""
    with reports(tmp_path) as (search, _):
        found = named(search, "How is coal turned into an ember?")
        assert set(found) == {f"Ember-{year}" for year in YEARS}
        assert max(found.values()) < 0.6
