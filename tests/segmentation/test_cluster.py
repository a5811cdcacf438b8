"""The pure core of the cluster strategy: exact sums, best cuts, intervals; alone and in a collection."""

from collections.abc import Iterator
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from ingestor.model import Sums
from ingestor.segmentation.cluster import FARTHEST, MEAN_BITS, Cuts, Programme, contribution, mean, programme
from ingestor.segmentation.fixed_point import Fixed, products_by_lag, squares, sums_within, to_fixed, unit
from tests.examples import examples

LONGEST = 4

# The laws of a collection, by name: a broken way of keeping it must be found out by one of them.
DUE = "those are due whose cuts move, and no others"
BATCH = "the cuts are those of the batch"
WITHIN = "the mean lies within every interval"
SUMS = "the sums are those of the batch"


def rows(turns: list[int]) -> Fixed:
    """Unit vectors in the plane at right angles: means and crossings often coincide exactly."""
    around = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]], dtype=np.float32)
    return to_fixed(around[np.array(turns, dtype=np.int64)])


few_pieces = st.lists(st.integers(0, 3), max_size=8).map(rows)
some_pieces = st.lists(st.lists(st.floats(-1, 1, width=16), min_size=3, max_size=3), max_size=30).map(
    lambda found: unit(np.rint(np.array(found, dtype=np.float64).reshape(-1, 3) * 2**14).astype(np.int64))
)
means = st.integers(-FARTHEST, FARTHEST) | st.fractions(-1, 1, max_denominator=12).map(
    lambda m: int(m * (1 << MEAN_BITS))
)


def all_sizes(total: int, longest: int) -> Iterator[tuple[int, ...]]:
    if total == 0:
        yield ()
    for last in range(1, min(total, longest) + 1):
        yield from ((*rest, last) for rest in all_sizes(total - last, longest))


def brute_force(pieces: Fixed, longest: int, value: int, allowed: np.ndarray) -> Cuts:
    """Tries every segmentation; Python integers and fractions throughout."""
    dots = [[sum(int(x) * int(y) for x, y in zip(a, b, strict=True)) for b in pieces] for a in pieces]

    def reward(first: int, end: int) -> int:
        pairs = [(i, j) for i in range(first, end) for j in range(i + 1, end)]
        return (2 * sum(dots[i][j] for i, j in pairs) << 8) - value * 2 * len(pairs)

    def score(sizes: tuple[int, ...]) -> tuple[int, list[int]]:
        ends = np.cumsum(sizes, dtype=np.int64).tolist()
        total = sum(reward(end - size, end) for size, end in zip(sizes, ends, strict=True))
        return total, [-size for size in reversed(sizes)]

    def possible(sizes: tuple[int, ...]) -> bool:
        ends = np.cumsum(sizes, dtype=np.int64)
        return all(size == 1 or allowed[end - 1, size - 1] for size, end in zip(sizes, ends, strict=True))

    best = max(filter(possible, all_sizes(len(pieces), longest)), key=score)
    return tuple(np.cumsum(best, dtype=np.int64).tolist())


@given(few_pieces, st.integers(1, LONGEST), means, st.data())
def test_cuts_are_the_best_of_all(pieces: Fixed, longest: int, value: int, data: st.DataObject) -> None:
    shape = (len(pieces), max(1, longest))
    bits = data.draw(st.lists(st.booleans(), min_size=shape[0] * shape[1], max_size=shape[0] * shape[1]))
    allowed = np.array(bits, dtype=np.bool_).reshape(shape)
    allowed[:, 0] = True
    found = programme(pieces, longest, allowed)
    cuts = found.cuts(value)
    assert cuts == brute_force(pieces, longest, value, allowed)
    assert_interval_is_exact(found, value, cuts)


@given(some_pieces, st.integers(1, 12), means)
def test_interval_is_all_of_the_values_with_these_cuts(pieces: Fixed, longest: int, value: int) -> None:
    found = programme(pieces, longest)
    cuts = found.cuts(value)
    assert_interval_is_exact(found, value, cuts)


def assert_interval_is_exact(found: Programme, value: int, cuts: Cuts) -> None:
    low, high = found.interval(value, cuts)
    assert low <= value <= high
    assert all(found.cuts(inside) == cuts for inside in {low, high, (low + high) // 2})
    assert low == -FARTHEST or found.cuts(low - 1) != cuts
    assert high == FARTHEST or found.cuts(high + 1) != cuts


@pytest.mark.parametrize("pieces", [3, 5, 6])
def test_interval_is_exact_at_every_integer_near_it(pieces: int) -> None:
    """Walks through every integer around each edge, where ties are."""
    found = programme(rows([0, 0, 3, 3, 2, 0][:pieces]), LONGEST)
    value = -FARTHEST
    while value <= FARTHEST:
        cuts = found.cuts(value)
        low, high = found.interval(value, cuts)
        assert low == value
        for near in range(high - 3, min(high + 3, FARTHEST) + 1):
            assert (found.cuts(near) == cuts) == (low <= near <= high)
        value = high + 1


def test_ties_are_cut_short() -> None:
    alike = programme(rows([0, 0, 0, 0]), LONGEST)
    one = 1 << MEAN_BITS
    assert alike.cuts(one - 1) == (4,)
    assert alike.cuts(one) == (1, 2, 3, 4)
    assert alike.interval(one - 1, (4,)) == (-FARTHEST, one - 1)


def test_empty_document_is_content_with_any_mean() -> None:
    empty = programme(rows([]), LONGEST)
    assert empty.cuts(0) == ()
    assert empty.interval(0, ()) == (-FARTHEST, FARTHEST)


def test_document_too_large_is_refused() -> None:
    with pytest.raises(ValueError, match="too many"):
        programme(np.zeros((9000, 1), dtype=np.int64), 9000)


@given(few_pieces)
def test_mean_is_the_mean_of_all_pairs(pieces: Fixed) -> None:
    pairs = [(i, j) for i in range(len(pieces)) for j in range(i)]
    dots = sum(int((pieces[i] * pieces[j]).sum()) for i, j in pairs)
    exact = Fraction(dots << 8, len(pairs)) if pairs else Fraction(0)
    assert mean(contribution(pieces)) == exact.__floor__()


def test_mean_of_a_collection_whose_sums_square_beyond_64_bits() -> None:
    million = contribution(rows([0])) * 1_000_000
    assert mean(million) == 1 << MEAN_BITS


@given(st.integers(1, 300), st.integers(0, 9), st.integers(0, 2**32))
@settings(max_examples=30)
def test_products_are_exact_whatever_their_blocks(n: int, lags: int, seed: int) -> None:
    found = np.random.default_rng(seed).integers(-(2**18), 2**18, size=(n, 3))
    products = products_by_lag(found, lags)
    for lag in range(1, lags + 1):
        expected = (found[lag:] * found[:-lag]).sum(axis=1) if lag < n else np.zeros(0)
        assert (products[lag:, lag - 1] == expected).all()
        assert not products[:lag, lag - 1].any()


def test_sums_within_counts_each_row_and_each_pair_once() -> None:
    found = np.array([[1], [10], [100], [1000]])
    within = sums_within(squares(found), products_by_lag(found, 2))
    assert within[3, 2] == 100**2 + 1000**2 + 10**2 + 100 * 1000 + 10 * 100 + 10 * 1000
    assert within[2, 1] == 10**2 + 100**2 + 10 * 100


def test_vectors_that_are_not_unit_vectors_are_refused() -> None:
    for wrong in ([[1.2, 0.0]], [[float("nan"), 0.0]], [[float("inf"), 0.0]]):
        with pytest.raises(ValueError, match="whose length is not 1"):
            to_fixed(np.array(wrong, dtype=np.float32))
    assert to_fixed(np.zeros((1, 2), dtype=np.float32)).tolist() == [[0, 0]]


class Incremental:
    """The way an engine keeps a collection: each part of it can be replaced by a broken one."""

    def contribution(self, pieces: Fixed) -> Sums:
        return contribution(pieces)

    def cuts(self, found: Programme, value: int) -> Cuts:
        return found.cuts(value)

    def interval(self, found: Programme, value: int, cuts: Cuts) -> tuple[int, int]:
        return found.interval(value, cuts)


class TooWide(Incremental):
    def interval(self, found: Programme, value: int, cuts: Cuts) -> tuple[int, int]:
        low, high = found.interval(value, cuts)
        return low - 1, high + 1


class TooNarrow(Incremental):
    def interval(self, found: Programme, value: int, cuts: Cuts) -> tuple[int, int]:
        low, high = found.interval(value, cuts)
        return min(low + 1, value), max(high - 1, value)


class FromOneSide(Incremental):
    def interval(self, found: Programme, value: int, cuts: Cuts) -> tuple[int, int]:
        return found.interval(value, cuts)[0], FARTHEST


class FloatSums(Incremental):
    def contribution(self, pieces: Fixed) -> Sums:
        return contribution(pieces).astype(np.float32) * np.float32(1 / 3)


class TiesCutLong(Incremental):
    def cuts(self, found: Programme, value: int) -> Cuts:
        return found.cuts(value - 1)

    def interval(self, found: Programme, value: int, cuts: Cuts) -> tuple[int, int]:
        return found.interval(value - 1, cuts)


class NeverAgain(Incremental):
    def interval(self, found: Programme, value: int, cuts: Cuts) -> tuple[int, int]:
        return -FARTHEST, FARTHEST


class Collection(RuleBasedStateMachine):
    """Documents come, change and go; only those whose interval the mean has left are visited again."""

    def __init__(self, way: Incremental) -> None:
        super().__init__()
        self.way = way
        self.pieces: dict[str, Fixed] = {}
        self.kept: dict[str, tuple[Cuts, tuple[int, int]]] = {}

    @initialize()
    def start(self) -> None:
        self.total = self.way.contribution(rows([]))

    names = st.sampled_from("abcdef")

    @rule(name=names, pieces=few_pieces)
    def put(self, name: str, pieces: Fixed) -> None:
        self._subtract(name)
        self.pieces[name] = pieces
        self.total = self.total + self.way.contribution(pieces)
        self._cut(name)
        self._settle()

    @rule(name=names)
    def remove(self, name: str) -> None:
        self._subtract(name)
        self.kept.pop(name, None)
        self._settle()

    def _subtract(self, name: str) -> None:
        if (pieces := self.pieces.pop(name, None)) is not None:
            self.total = self.total - self.way.contribution(pieces)

    def _settle(self) -> None:
        value = mean(self.total)
        before = {name: cuts for name, (cuts, _) in self.kept.items()}
        due = {name for name, (_, (low, high)) in self.kept.items() if not low <= value <= high}
        for name in due:
            self._cut(name)
        assert due == {name for name in before if before[name] != self._from_scratch(name)}, DUE

    def _cut(self, name: str) -> None:
        found, value = programme(self.pieces[name], LONGEST), mean(self.total)
        cuts = self.way.cuts(found, value)
        self.kept[name] = cuts, self.way.interval(found, value, cuts)

    def _from_scratch(self, name: str) -> Cuts:
        return programme(self.pieces[name], LONGEST).cuts(self._batch_mean())

    def _batch_mean(self) -> int:
        return mean(contribution(np.concatenate([rows([]), *self.pieces.values()])))

    @invariant()
    def equals_the_batch(self) -> None:
        for name, (cuts, (low, high)) in self.kept.items():
            assert cuts == self._from_scratch(name), BATCH
            assert low <= self._batch_mean() <= high, WITHIN
            assert all(end - first <= LONGEST for first, end in zip((0, *cuts), cuts, strict=False))

    @invariant()
    def sums_are_those_of_the_batch(self) -> None:
        assert mean(self.total) == self._batch_mean(), SUMS


def test_collection_is_always_as_if_made_from_scratch() -> None:
    searching = examples(120, stateful_step_count=30)
    run_state_machine_as_test(partial(Collection, Incremental()), settings=searching)


BROKEN: dict[type[Incremental], str] = {
    TooWide: DUE, TooNarrow: DUE, FromOneSide: DUE, FloatSums: f"{DUE}|{SUMS}", TiesCutLong: BATCH,
    NeverAgain: DUE,
}  # fmt: skip


@pytest.mark.parametrize("broken", BROKEN)
def test_broken_interval_is_detected(broken: type[Incremental]) -> None:
    searching = settings(
        max_examples=500,
        stateful_step_count=30,
        phases=[Phase.generate],
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    with pytest.raises(AssertionError, match=BROKEN[broken]):
        run_state_machine_as_test(partial(Collection, broken()), settings=searching)
