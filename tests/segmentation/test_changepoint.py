"""The pure core of the changepoint strategy: scatter, best cuts at every penalty, a collection's level."""

import tracemalloc
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingestor.segmentation import changepoint
from ingestor.segmentation.changepoint import (
    LEVELS,
    WHOLE,
    Solutions,
    add_prices,
    contribution,
    grid,
    interval,
    level,
    penalties,
    smooth,
    solve,
    solve_undivided,
)
from ingestor.segmentation.cluster import Cuts, walk_back
from ingestor.segmentation.fixed_point import Fixed, Integers, to_fixed, unit

Drawn = tuple[list[list[int]], list[int]]
small = st.integers(0, 12).flatmap(
    lambda n: st.tuples(
        st.lists(st.lists(st.integers(-9, 9), min_size=3, max_size=3), min_size=n, max_size=n),
        st.lists(st.integers(1, 20), min_size=n, max_size=n),
    )
)


def document(drawn: Drawn) -> tuple[Fixed, Integers]:
    vectors, tokens = drawn
    return unit(np.array(vectors, np.int64).reshape(-1, 3) * 1000), np.array(tokens, np.int64)


def exact_scatter(vectors: Fixed, tokens: Integers) -> Fraction:
    """The weighted sum of squared distances from the weighted mean, in fractions."""
    mass = int(tokens.sum())
    mean = [Fraction(int((vectors[:, d] * tokens).sum()), mass) for d in range(vectors.shape[1])]
    distances = (sum((int(x) - m) ** 2 for x, m in zip(row, mean, strict=True)) for row in vectors)
    return sum((int(k) * d for k, d in zip(tokens, distances, strict=True)), Fraction(0))


@given(small, st.integers(1, 80))
def test_scatter_is_that_about_the_mean(drawn: Drawn, most: int) -> None:
    vectors, tokens = document(drawn)
    found = changepoint.scatter(vectors, tokens, most)
    for end in range(1, len(tokens) + 1):
        for size in range(1, min(found.shape[1], end) + 1):
            part = slice(end - size, end)
            if size == 1 or tokens[part].sum() <= most:
                assert found[end - 1, size - 1] == -(
                    (-exact_scatter(vectors[part], tokens[part])).__floor__()
                )
            else:
                assert found[end - 1, size - 1] > 1 << 60


def all_cuts(units: int) -> Iterator[Cuts]:
    for mask in range(1 << max(units - 1, 0)):
        yield (*(at for at in range(1, units) if mask >> (at - 1) & 1), *([units] if units else []))


weighings = st.lists(st.sampled_from([600, 900, WHOLE, 1300]), min_size=12, max_size=12)


@settings(max_examples=40)
@given(small.filter(lambda drawn: len(drawn[1]) <= 8), st.integers(1, 80), weighings)
def test_cuts_are_the_best_of_all(drawn: Drawn, most: int, weights: list[int]) -> None:
    vectors, tokens = document(drawn)
    costs = changepoint.scatter(vectors, tokens, most)
    prices = penalties(0.001, 0.1, 1, 30)
    solved = solve(costs, prices, np.array(weights[: len(tokens)], np.int64))
    for which, price in enumerate(prices.tolist()):

        def score(cuts: Cuts, price: int = price) -> tuple[int, list[int]]:
            sizes = [end - start for start, end in zip((0, *cuts), cuts, strict=False)]
            total = sum(
                int(costs[end - 1, size - 1]) + price * weights[end - 1] // WHOLE
                if size <= costs.shape[1]
                else 1 << 62
                for size, end in zip(sizes, cuts, strict=True)
            )
            return total, sizes[::-1]

        assert solved.cuts(which) == min(all_cuts(len(tokens)), key=score)


@pytest.mark.parametrize(("units", "widest"), [(2100, 3), (1400, 300)])
def test_long_documents_are_solved_in_little_memory_as_if_all_were_kept(units: int, widest: int) -> None:
    costs = np.random.default_rng(units).integers(0, 1 << 34, (units, widest))
    penalty, best, sizes = 1 << 33, [0], []
    for end in range(units):
        totals = [best[end - size] + int(costs[end, size]) for size in range(min(widest, end + 1))]
        best.append(min(totals) + penalty)
        sizes.append(totals.index(min(totals)) + 1)
    solved = solve(costs, np.array([penalty]))
    assert solved.cuts(0) == walk_back(sizes)
    assert solved.sizes.nbytes == units * (1 if widest < 256 else 2)


@given(small, weighings | st.none())
def test_counts_are_of_the_cuts_and_the_sum_of_weights_never_grows(
    drawn: Drawn, weights: list[int] | None
) -> None:
    solved = solved_of(drawn, weights)
    cuts = [solved.cuts(at) for at in range(LEVELS)]
    assert solved.counts().tolist() == [len(each) for each in cuts]
    sums = [sum(weights[end - 1] if weights else 1 for end in each) for each in cuts]
    assert sums == sorted(sums, reverse=True)


def solved_of(drawn: Drawn, weights: list[int] | None = None) -> Solutions:
    vectors, tokens = document(drawn)
    each = None if weights is None else np.array(weights[: len(tokens)], np.int64)
    return solve(changepoint.scatter(smooth(vectors), tokens, 100), grid(), each)


@given(small, st.integers(0, LEVELS - 1), weighings)
def test_interval_is_all_levels_around_with_these_cuts(drawn: Drawn, at: int, weights: list[int]) -> None:
    solved = solved_of(drawn, weights)
    low, high = interval(solved, at)
    assert 0 <= low <= at <= high < LEVELS
    assert all(solved.cuts(level) == solved.cuts(at) for level in range(low, high + 1))
    assert low == 0 or solved.cuts(low - 1) != solved.cuts(at)
    assert high == LEVELS - 1 or solved.cuts(high + 1) != solved.cuts(at)


@given(
    st.integers(0, 10_000),
    st.lists(st.integers(0, 400), min_size=LEVELS, max_size=LEVELS),
    st.integers(4, 999),
)
def test_level_is_the_nearest_to_the_target(tokens: int, counts: list[int], target: int) -> None:
    counts.sort(reverse=True)
    found = level(np.array([tokens, *counts], np.int64), target)
    if not tokens or not counts[-1]:
        return

    def ratio(at: int) -> Fraction:
        size = Fraction(tokens, counts[at] * target)
        return max(size, 1 / size)

    assert ratio(found) == min(map(ratio, range(LEVELS)))


def test_level_of_an_empty_collection_is_a_level() -> None:
    assert level(np.zeros(1 + LEVELS, np.int64), 125) == 0


def test_contributions_add_up() -> None:
    drawn = ([[1, 0, 0], [0, 1, 0], [0, 0, 1]], [5, 6, 7])
    own = contribution(document(drawn)[1], solved_of(drawn))
    assert own[0] == 18
    assert own.shape == (1 + LEVELS,)
    assert own[1] == 3
    assert own[LEVELS] == 1


def test_grid_doubles_every_sixteen_levels() -> None:
    assert (np.diff(grid()) > 0).all()
    assert np.allclose(grid()[16:] / grid()[:-16], 2)
    assert grid()[128] == penalties(1)[0]


def test_smoothing_takes_half_of_either_neighbour() -> None:
    found = smooth(to_fixed(np.eye(3, dtype=np.float32)))
    expected = np.array([[2, 1, 0], [1, 2, 1], [0, 1, 2]])
    assert (found == unit(expected)).all()


@pytest.mark.parametrize("target", [15, 60, 200])
def test_mean_chunk_comes_near_the_target(target: int) -> None:
    rng = np.random.default_rng(3)
    topics = rng.normal(size=(200, 24)).repeat(5, axis=0) + rng.normal(size=(1000, 24))
    vectors = unit(np.rint(topics * 1000).astype(np.int64))
    tokens = rng.integers(3, 12, 1000)
    solved = solve(changepoint.scatter(smooth(vectors), tokens, target * 5 // 2), grid())
    own = contribution(tokens, solved)
    assert 0.93 < own[0] / (len(solved.cuts(level(own, target))) * target) < 1.07


def test_bound_units_are_parted_only_if_they_do_not_fit() -> None:
    rows = to_fixed(np.eye(8, dtype=np.float32)[[0, 0, 1, 1, 1, 1]])
    costs, price, none = changepoint.scatter(rows, np.array([10] * 6), 40), penalties(0.5), [False] * 6
    assert np.array_equal(add_prices(costs, none, none), costs)
    assert solve(costs, price).cuts(0) == (2, 6)
    assert 2 not in solve(add_prices(costs, [False, True, *none[2:]], none), price).cuts(0)
    assert len(solve(add_prices(costs, [True] * 5 + [False], none), price).cuts(0)) == 2, "only four fit"


def test_cuts_are_preferred_where_a_section_begins() -> None:
    rows = to_fixed(np.eye(8, dtype=np.float32)[[0, 0, 0, 1, 1, 1]])
    costs, begins = (
        changepoint.scatter(rows, np.array([10] * 6), 60),
        [False, False, True, False, True, False],
    )
    alike = changepoint.scatter(to_fixed(np.eye(8, dtype=np.float32)[[0] * 6]), np.array([10] * 6), 60)
    assert solve(add_prices(alike, [False] * 6, begins), penalties(0.1)).cuts(0) == (2, 4, 6)
    assert solve(add_prices(alike, [False] * 6, begins), penalties(2)).cuts(0) == (6,)
    where_a_subject_ends = solve(add_prices(100 * costs, [False] * 6, begins), penalties(9)).cuts(0)
    assert where_a_subject_ends == (3, 6)


def test_cut_of_less_weight_is_taken_first() -> None:
    costs = changepoint.scatter(to_fixed(np.eye(8, dtype=np.float32)[[0] * 6]), np.array([10] * 6), 40)
    for cheap in (2, 3, 4):
        weights = np.array([600 if end == cheap else WHOLE for end in range(1, 7)])
        assert solve(costs, penalties(0.1), weights).cuts(0) == (cheap, 6)


def test_weight_of_one_changes_nothing() -> None:
    drawn = ([[1, 0, 0], [0, 1, 0], [0, 1, 1], [1, 0, 1]], [5, 6, 7, 8])
    assert np.array_equal(solved_of(drawn).sizes, solved_of(drawn, [WHOLE] * 4).sizes)


@given(tokens=st.integers(1, 5000), section=st.booleans(), weight=st.sampled_from([500, WHOLE]))
def test_single_unit_needs_no_search(tokens: int, section: bool, weight: int) -> None:
    costs = changepoint.scatter(to_fixed(np.array([[0.6, 0.8]], np.float32)), np.array([tokens]), 300)
    found = solve(add_prices(costs, [False], [section]), grid(), np.array([weight]))
    assert np.array_equal(found.sizes, solve_undivided().sizes)
    assert found.sizes.dtype == solve_undivided().sizes.dtype


def test_long_documents_need_little_memory_besides_their_vectors() -> None:
    vectors = np.tile(unit(np.random.default_rng(1).integers(-999, 999, (100, 64))), (200, 1))
    tracemalloc.start()
    try:
        changepoint.scatter(smooth(vectors), np.full(len(vectors), 50), 125)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 * vectors.nbytes
