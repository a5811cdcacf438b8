"""The metrics, on cases that can be worked out by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.evaluate.scores import (
    ChunkPlace,
    EvalQuestion,
    Excerpt,
    common,
    count_covered,
    count_tokens,
    length,
    ndcg,
    omega,
    score,
    scores,
    within,
)


def place(start: int, end: int, document: int = 0, tokens: int = 10) -> ChunkPlace:
    return ChunkPlace(document, ((start, end),), tokens)


EXCERPT = (Excerpt(0, 100, 200),)


@pytest.mark.parametrize(
    ("found", "recall", "precision", "iou"),
    [
        ([place(100, 200)], 1.0, 1.0, 1.0),
        ([place(150, 250)], 0.5, 0.5, 50 / 150),
        ([place(0, 400)], 1.0, 0.25, 0.25),
        ([place(100, 200), place(100, 200)], 1.0, 0.5, 0.5),  # what is retrieved twice counts twice against
        ([place(100, 200, document=1)], 0.0, 0.0, 0.0),  # the same offsets of another document
        ([place(100, 200), place(0, 300, document=1)], 1.0, 0.25, 0.25),
        ([ChunkPlace(0, ((100, 120), (190, 230)), 10)], 0.3, 0.5, 30 / 130),  # not contiguous
        ([], 0.0, 0.0, 0.0),
    ],
)
def test_scores_are_recall_precision_and_iou(
    found: list[ChunkPlace], recall: float, precision: float, iou: float
) -> None:
    made = score(EXCERPT, found)
    assert (made.recall, made.precision, made.iou) == pytest.approx((recall, precision, iou))


def test_excerpts_in_several_documents_and_those_that_overlap_count_each_character_once() -> None:
    excerpts = (Excerpt(0, 0, 10), Excerpt(0, 5, 15), Excerpt(1, 0, 5))
    assert length(excerpts) == 20
    assert common(excerpts, [place(0, 100), place(0, 2, document=1)]) == 17


def test_omega_is_the_precision_of_the_chunks_that_hold_a_part() -> None:
    places = [place(0, 100), place(100, 150), place(150, 300), place(300, 400)]
    assert omega(EXCERPT, places) == pytest.approx(100 / 200)


@pytest.mark.parametrize(
    ("ranked", "expected"),
    [
        ([place(100, 200)], 1.0),
        ([place(0, 50), place(100, 200)], 1 / math.log2(3)),
        ([place(0, 50)], 0.0),
    ],
)
def test_ndcg_discounts_by_rank(ranked: list[ChunkPlace], expected: float) -> None:
    assert ndcg(EXCERPT, ranked, [place(100, 200), place(0, 50)], 5) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("budget", "ends"),
    [(5, [50]), (10, [100]), (12, [100, 120]), (20, [100, 200]), (99, [100, 200])],
)
def test_last_chunk_fills_the_budget_in_part(budget: int, ends: list[int]) -> None:
    assert [each.spans[-1][1] for each in within([place(0, 100), place(100, 200)], budget)] == ends


spans = st.tuples(st.integers(0, 60), st.integers(1, 30)).map(lambda pair: (pair[0], pair[0] + pair[1]))
places = st.lists(
    st.builds(ChunkPlace, st.integers(0, 1), spans.map(lambda span: (span,)), st.integers(1, 40)), max_size=6
)


@given(spans, places, st.integers(1, 200), st.integers(0, 100))
def test_larger_budget_finds_no_less(
    wanted: tuple[int, int], found: list[ChunkPlace], low: int, more: int
) -> None:
    excerpts = (Excerpt(0, *wanted),)
    less, most = (score(excerpts, list(within(found, budget))) for budget in (low, low + more))
    assert less.recall <= most.recall + 1e-9


@given(spans, places)
def test_scores_are_shares_and_iou_is_the_least(wanted: tuple[int, int], found: list[ChunkPlace]) -> None:
    made = score((Excerpt(0, *wanted),), found)
    assert 0 <= made.iou <= min(made.recall, made.precision) + 1e-9
    assert max(made.recall, made.precision) <= 1


@given(st.lists(spans, max_size=8))
def test_covered_counts_characters(found: list[tuple[int, int]]) -> None:
    assert count_covered(found) == len({at for start, end in found for at in range(start, end)})


def test_found_rate_is_the_share_of_questions_with_half_of_their_excerpts() -> None:
    places = [ChunkPlace(0, ((start, start + 10),), 5) for start in range(0, 100, 10)]
    questions = [EvalQuestion("a", (Excerpt(0, 20, 40),)), EvalQuestion("b", (Excerpt(0, 0, 40),))]
    made = scores(questions, [[2, 5, 3, 6, 7]] * 2, places, [500])
    assert {depth: each.tolist() for depth, each in made.hits.items()} == {1: [1, 0], 3: [1, 1], 5: [1, 1]}
    assert made.context.tolist() == [25, 25]


def test_scores_by_tokens_count_tokens_that_begin_in_a_span() -> None:
    offsets = [[0, 10, 12, 14, 16, 18, 20, 30]]  # long tokens outside, short ones inside
    questions = [EvalQuestion("a", (Excerpt(0, 10, 20),))]
    places = [ChunkPlace(0, ((0, 12),), 2), ChunkPlace(0, ((12, 31),), 6)]
    recall, iou = count_tokens(questions, [[0]], places, offsets)
    assert recall.tolist() == [pytest.approx(1 / 5)]
    assert iou.tolist() == [pytest.approx(1 / 6)]
    recall, iou = count_tokens(questions, [[0, 1]], places, offsets)
    assert recall.tolist() == [1.0]
    assert iou.tolist() == [pytest.approx(5 / 8)]
