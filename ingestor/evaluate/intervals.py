"""Confidence of differences between strategies: a bootstrap over questions, clustered by document. Pure.

Questions about one document resemble each other, so documents are drawn, with all their questions [Davison &
Hinkley 1997, 3.8]. Few documents make such intervals too narrow: Student's t and the factor G / (G - 1) widen
them. An interval is never narrower than the interval of a bootstrap over single questions.

All strategies are scored on the same draws, so that every difference is paired.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import ceil, sqrt
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

DRAWS = 2000
_SEED = 20240703
_CONFIDENCE = 0.95
FEWEST = 20  # questions; fewer show nothing


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean, and the ends of its 95 % interval; in the unit of the scores."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Difference:
    """Strategy ``a`` less strategy ``b``, by number, and whether zero lies outside.

    ``clear`` holds for all pairs at once: its interval is wider, by the number of pairs [Bonferroni].
    ``needed``: about how many questions would make a difference of this size clear; None where it is zero.
    """

    a: int
    b: int
    interval: Interval
    clear: bool
    needed: int | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Means and pairwise differences of all strategies by one metric."""

    means: tuple[Interval, ...]
    differences: tuple[Difference, ...]

    def difference(self, a: int, b: int) -> Difference:
        """Return the difference of strategies ``a`` and ``b``. Raises KeyError if they were not compared."""
        for each in self.differences:
            if (each.a, each.b) == (a, b):
                return each
            if (each.a, each.b) == (b, a):
                return _turn(each)
        raise KeyError((a, b))


def compare(scores: Floats, documents: Sequence[int], groups: int = 1) -> Comparison:
    """Compare strategies by their scores.

    ``scores``: shape (strategies, questions); ``documents``: the document that each question asks about.
    ``groups``: number of such comparisons, each of other questions; ``clear`` holds for all of them at once.
    """
    draws = _Draws(np.asarray(documents))
    pairs = list(combinations(range(len(scores)), 2))
    means = tuple(_within(draws.interval(row, 1), row) for row in scores)
    differences = tuple(_difference(draws, scores, a, b, groups * len(pairs)) for a, b in pairs)
    return Comparison(means, differences)


def _within(interval: Interval, values: Floats) -> Interval:
    """Clip an interval to the range of values: an interval widened for few documents may pass 100 %."""
    low, high = max(interval.low, float(values.min())), min(interval.high, float(values.max()))
    return Interval(interval.mean, min(low, interval.mean), max(high, interval.mean))


class _Draws:
    """The same draws of documents and of questions for every interval."""

    def __init__(self, documents: npt.NDArray[np.int64]) -> None:
        random = np.random.default_rng(_SEED)
        _, self._place = np.unique(documents, return_inverse=True)
        self._sizes = np.bincount(self._place).astype(np.float64)
        self._groups = len(self._sizes)
        self._of_groups = _draw(random, self._groups)
        self._of_questions = _draw(random, len(documents))

    def interval(self, values: Floats, comparisons: int) -> Interval:
        """Return the interval of a mean. ``comparisons``: number of intervals that must hold at once."""
        mean, level = float(values.mean()), 1 - (1 - _CONFIDENCE) / comparisons
        ends = [self._spread(self._of_questions @ values / len(values) - mean, level)]
        if self._groups > 1:
            sums = np.bincount(self._place, values)
            drawn = (self._of_groups @ sums) / (self._of_groups @ self._sizes) - mean
            widened = drawn * sqrt(self._groups / (self._groups - 1)) * _few(self._groups - 1, level)
            ends.append(self._spread(widened, level))
        return Interval(mean, mean + min(low for low, _ in ends), mean + max(high for _, high in ends))

    def _spread(self, deviations: Floats, level: float) -> tuple[float, float]:
        low, high = np.quantile(deviations, [(1 - level) / 2, (1 + level) / 2])
        return min(float(low), 0.0), max(float(high), 0.0)


def _draw(random: np.random.Generator, count: int) -> Floats:
    """Draw how often each of ``count`` counts; shape (DRAWS, count)."""
    return random.multinomial(count, np.full(count, 1 / count), DRAWS).astype(np.float64)


def _difference(draws: _Draws, scores: Floats, a: int, b: int, pairs: int) -> Difference:
    values = scores[a] - scores[b]
    plain, strict = draws.interval(values, 1), draws.interval(values, pairs)
    clear = len(values) >= FEWEST and (strict.low > 0 or strict.high < 0)
    return Difference(a, b, plain, clear, _questions_needed(strict, len(values)))


def _questions_needed(interval: Interval, questions: int) -> int | None:
    """Intervals narrow with the root of the number of questions."""
    if not interval.mean:
        return None
    arm = interval.mean - interval.low if interval.mean > 0 else interval.high - interval.mean
    return max(FEWEST, ceil(questions * (arm / interval.mean) ** 2))


def _turn(difference: Difference) -> Difference:
    ends = difference.interval
    return Difference(
        difference.b,
        difference.a,
        Interval(-ends.mean, -ends.high, -ends.low),
        difference.clear,
        difference.needed,
    )


def _few(freedom: int, level: float) -> float:
    """Student's t over the normal quantile, expanded in 1 / ``freedom`` [Abramowitz & Stegun 26.7.5]."""
    z = NormalDist().inv_cdf((1 + level) / 2)
    return 1 + (z**2 + 1) / (4 * freedom) + (5 * z**4 + 16 * z**2 + 3) / (96 * freedom**2)
