"""Differences between strategies, their confidence, and the choice that follows from them. Pure.

The confidence is a bootstrap over questions, clustered by document: questions about one document resemble
each other. So documents are drawn, with all their questions [Davison & Hinkley 1997, 3.8]. Few documents make
such intervals too narrow: Student's t and the factor G / (G - 1) widen them. An interval is never narrower
than the interval of a bootstrap over single questions. All strategies are scored on the same draws, so that
every difference is paired.

The configured strategy stays unless another is clearly better: with 95 % confidence over all pairs at once
(``Difference``). Without a configured strategy the best mean wins.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import ceil, sqrt
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from ingestor.units import quantity

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
    """Difference of strategy ``a`` minus strategy ``b`` (numbers).

    ``clear``: whether zero lies outside the interval for all pairs at once, which is wider [Bonferroni].
    ``needed``: approximate number of questions that would make this difference clear; None if it is zero.
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
                ends = each.interval
                turned = Interval(-ends.mean, -ends.high, -ends.low)
                return Difference(a, b, turned, each.clear, each.needed)
        raise KeyError((a, b))


def compare(scores: Floats, documents: Sequence[int], groups: int = 1) -> Comparison:
    """Compare strategies by their scores.

    ``scores``: shape (strategies, questions); ``documents``: the document that each question asks about.
    ``groups``: number of such comparisons, each of other questions; ``clear`` holds for all of them at once.
    """
    draws = _Draws(np.asarray(documents))
    pairs = list(combinations(range(len(scores)), 2))
    means = tuple(_clip(draws.interval(row, 1), row) for row in scores)
    differences = tuple(_difference(draws, scores, a, b, groups * len(pairs)) for a, b in pairs)
    return Comparison(means, differences)


def _clip(interval: Interval, values: Floats) -> Interval:
    """Clip an interval to the range of the scores, since an interval for few documents may pass 100 %."""
    low, high = max(interval.low, float(values.min())), min(interval.high, float(values.max()))
    return Interval(interval.mean, min(low, interval.mean), max(high, interval.mean))


class _Draws:
    """Random draws of documents and questions, shared by all intervals."""

    def __init__(self, documents: npt.NDArray[np.int64]) -> None:
        random = np.random.default_rng(_SEED)
        _, self._place = np.unique(documents, return_inverse=True)
        self._sizes = np.bincount(self._place).astype(np.float64)
        self._groups = len(self._sizes)
        self._of_groups = _draw(random, self._groups)
        self._of_questions = _draw(random, len(documents))

    def interval(self, values: Floats, comparisons: int) -> Interval:
        """Return the mean of a value for each question, with its 95 % interval.

        ``comparisons``: number of intervals that must hold at once, which makes each of them wider.
        """
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
    """Draw ``count`` members with replacement, DRAWS times. Return how often each was drawn, by draw."""
    return random.multinomial(count, np.full(count, 1 / count), DRAWS).astype(np.float64)


def _difference(draws: _Draws, scores: Floats, a: int, b: int, pairs: int) -> Difference:
    values = scores[a] - scores[b]
    plain, strict = draws.interval(values, 1), draws.interval(values, pairs)
    clear = len(values) >= FEWEST and (strict.low > 0 or strict.high < 0)
    needed = None
    if strict.mean:  # intervals narrow with the root of the number of questions
        arm = strict.mean - strict.low if strict.mean > 0 else strict.high - strict.mean
        needed = max(FEWEST, ceil(len(values) * (arm / strict.mean) ** 2))
    return Difference(a, b, plain, clear, needed)


def _few(freedom: int, level: float) -> float:
    """Return the factor by which an interval for few documents is wider: Student's t by the normal quantile.

    The factor is expanded in 1 / ``freedom`` [Abramowitz & Stegun 26.7.5].
    """
    z = NormalDist().inv_cdf((1 + level) / 2)
    return 1 + (z**2 + 1) / (4 * freedom) + (5 * z**4 + 16 * z**2 + 3) / (96 * freedom**2)


_WORTH_ASKING = 10  # factor: a difference that needs more questions is not worth them


@dataclass(frozen=True, slots=True)
class Verdict:
    """Recommended strategy. Strategies are numbers in the order of the comparison.

    ``pick``: the recommended strategy. ``than``: the strategy that the verdict compares with the pick, which
    is the configured one or the next best. ``sure``: whether the pick is clearly better than the configured
    strategy, or is configured and clearly the best. ``level``: strategies that do not clearly differ from it.
    """

    pick: int
    than: int | None
    sure: bool
    level: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts for the words of a verdict.

    ``names``: names of the strategies. ``tokens``: tokens that each strategy embeds. ``read``: tokens that a
    language model reads for each. ``current``: number of the configured strategy; None without one.
    """

    names: Sequence[str]
    tokens: Sequence[int]
    read: Sequence[int]
    current: int | None
    questions: int
    made: int  # of them, by this program
    written: int  # of them, by a language model
    budget: int
    search: str = "dense"  # of the picked strategy
    keywords: int = 0  # of the questions: words of a sentence, in languages without templates


def verdict(comparison: Comparison, current: int | None) -> Verdict:
    """Pick a strategy. ``comparison``: means of one or more strategies by recall at the deciding budget.

    ``current``: number of the configured strategy.
    """
    order = sorted(range(len(comparison.means)), key=lambda at: (-comparison.means[at].mean, at != current))
    better = [at for at in order if current not in (None, at) and _beats(comparison, at, current)]
    if better:
        pick, than = better[0], current
    else:
        pick = order[0] if current is None else current
        than = next((at for at in order if at != pick), None)
    others = [at for at in order if at != pick]
    level = tuple(at for at in others if not comparison.difference(pick, at).clear)
    return Verdict(pick, than, bool(better) or (bool(others) and not level), level)


@dataclass(frozen=True, slots=True)
class BetterForSource:
    """A strategy that is clearly better for one source than the recommendation for all documents.

    ``pick``: number of the strategy. ``difference``: its recall minus that of the recommendation.
    """

    source: str
    pick: int
    difference: Difference


def better_for_sources(by_source: Mapping[str, Comparison], picked: int) -> list[BetterForSource]:
    """Return the best strategy of each source for which a strategy is clearly better than ``picked``.

    ``by_source``: comparisons on the questions about each source; ``picked``: strategy for all documents.
    """
    exceptions: list[BetterForSource] = []
    for source, comparison in by_source.items():
        better = [
            at for at in range(len(comparison.means)) if at != picked and _beats(comparison, at, picked)
        ]
        if better:
            best = max(better, key=lambda at: comparison.means[at].mean)
            exceptions.append(BetterForSource(source, best, comparison.difference(best, picked)))
    return exceptions


def describe_verdict(
    given: Verdict, comparison: Comparison, facts: Facts, exceptions: Sequence[BetterForSource] = ()
) -> str:
    """Return a paragraph for people: the recommendation, how certain it is, and what limits the questions.

    ``exceptions``: sources for which another strategy is better.
    """
    if given.than is None:
        return f"{facts.names[given.pick]} is the only strategy that was compared."
    sentences = [_compare_pick(given, comparison, facts), *_name_ties(given, comparison, facts)]
    sentences += [
        f"For source {each.source}, {facts.names[each.pick]} is better: there it finds "
        f"{each.difference.interval.mean * 100:.1f} points more than {facts.names[given.pick]} "
        f"{_interval(each.difference)}."
        for each in exceptions
    ]
    if facts.search != "dense":
        sentences.append(f"No config sets the way of search: readers ask for mode {facts.search}.")
        if facts.made or facts.written:
            sentences.append(
                "Questions made of the text have its words, which helps search by words: ask real ones."
            )
    if facts.made:
        sentences.append(
            f"{_part(facts.made, facts)} made from the documents without a language model"
            + (_ORDER if 2 * facts.keywords < facts.made else ".")
        )
    if facts.keywords:
        sentences.append(
            f"{_part(facts.keywords, facts)} keywords, since only English sentences become questions. "
            "Keywords hardly rank strategies as people's questions do: ask your own from a file, or by "
            "--ask-model."
        )
    if facts.written:
        sentences.append(
            f"{_part(facts.written, facts)} written by a language model that had the text "
            "before it: they share more of its words than questions of people do."
        )
    return " ".join(sentences)


_ORDER = (
    ": the order of strategies and their differences can be trusted more than the height of their recall."
)


def _part(count: int, facts: Facts) -> str:
    part = "The questions" if count == facts.questions else f"{count:,} of the questions"
    return f"{part} {'was' if part.startswith('1 of') else 'were'}"


def _beats(comparison: Comparison, at: int, other: int | None) -> bool:
    """Return whether strategy ``at`` is clearly better than strategy ``other``."""
    assert other is not None
    difference = comparison.difference(at, other)
    return difference.clear and difference.interval.mean > 0


def _compare_pick(given: Verdict, comparison: Comparison, facts: Facts) -> str:
    assert given.than is not None
    pick, than, at = facts.names[given.pick], facts.names[given.than], f"at {facts.budget:,} tokens"
    difference = comparison.difference(given.pick, given.than)
    gained = difference.interval.mean * 100
    more, interval = f"{abs(gained):.1f} points more of the excerpts", _interval(difference)
    cost = _cost(given.pick, given.than, facts)
    if facts.current is None:
        return f"{pick} finds most {at}: {more} than {than} {interval}{cost}."
    if given.pick != facts.current:
        return f"{pick} finds {more} {at} than {than}, which is configured {interval}{cost}."
    if given.sure:
        return f"Keep {pick}: {at} it finds {more} than the next best, {than} {interval}."
    if gained >= 0:
        return f"Keep {pick}: {at} no other strategy found more of the excerpts."
    than_pick = comparison.difference(given.than, given.pick)
    chance = f"maybe by chance {_interval(than_pick)}"
    if than_pick.interval.low > 0:
        chance = (
            f"{_interval(than_pick)[1:-1]}, which among {len(facts.names)} strategies may still be chance"
        )
    far = f"by the evidence of {_count_questions(facts)}"
    return f"Keep {pick}, {far}: {than} found {more} {at}, {chance}."


def _name_ties(given: Verdict, comparison: Comparison, facts: Facts) -> list[str]:
    """Return a sentence about strategies that do not clearly differ from the pick, if there are any.

    The sentence names the approximate number of questions that could separate the closest one.
    """
    if not given.level:
        return []
    if facts.questions < FEWEST:
        return [f"{_count_questions(facts).capitalize()} cannot show a difference: ask {FEWEST} at least."]
    pick, names = facts.names[given.pick], [facts.names[at] for at in given.level]
    listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    needed = comparison.difference(given.pick, given.level[0]).needed
    enough = max(needed or 0, facts.questions + 1)
    ask = ""
    if needed is not None and enough <= _WORTH_ASKING * facts.questions:
        ask = f": about {_round(enough):,} would separate {names[0]} from {pick}, at the measured difference"
    elif needed is not None:
        ask = f": more than {_WORTH_ASKING} times as many would be needed, so choose by costs"
    asked = _count_questions(facts)
    return [f"{asked} show no clear difference between {pick} and {listed}{ask}."]


def _count_questions(facts: Facts) -> str:
    return "one question" if facts.questions == 1 else quantity(facts.questions, "question")


def _interval(difference: Difference) -> str:
    ends = difference.interval
    return f"(95 % interval {ends.low * 100:+.1f} to {ends.high * 100:+.1f})"


def _cost(pick: int, than: int, facts: Facts) -> str:
    asks = ", and has a language model read the text" if facts.read[pick] and not facts.read[than] else ""
    ratio = facts.tokens[pick] / facts.tokens[than] if facts.tokens[than] else 1.0
    if ratio < 0.9:
        return f", and embeds {1 - ratio:.0%} fewer tokens{asks}".replace("%", " %")
    return f", and embeds {ratio:.1f} times as many tokens{asks}" if ratio > 1.1 else asks


def _round(count: int) -> int:
    """Round a number of questions up to two significant digits."""
    unit = int(10 ** max(0, len(str(count)) - 2))
    return -(-count // unit) * unit
