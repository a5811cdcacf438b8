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
    """A mean with its 95 % confidence interval, from ``low`` to ``high``, in the unit of the scores."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Difference:
    """Mean score of strategy ``a`` minus the mean score of strategy ``b``. Strategies are numbers.

    ``clear``: whether the strategies differ with 95 % confidence, if all pairs are tested at once
    [Bonferroni]. ``needed``: approximate number of questions that would make the difference clear; None if
    the difference is zero.
    """

    a: int
    b: int
    interval: Interval
    clear: bool
    needed: int | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Mean scores of all strategies by one metric, and the differences between each two strategies."""

    means: tuple[Interval, ...]
    differences: tuple[Difference, ...]

    def difference(self, a: int, b: int) -> Difference:
        """Return the difference of strategies ``a`` and ``b``, in this order.

        Raises KeyError for unknown numbers.
        """
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

    ``scores``: array of shape (strategies, questions). ``documents``: number of the document that each
    question is about. ``groups``: number of comparisons that are made on separate groups of questions. A
    ``clear`` difference has 95 % confidence over all groups together.
    """
    draws = _Draws(np.asarray(documents))
    pairs = list(combinations(range(len(scores)), 2))
    means = list[Interval]()
    for row in scores:  # the estimate for few documents may exceed the range of the scores, such as 100 %
        each = draws.interval(row, 1)
        low, high = max(each.low, float(row.min())), min(each.high, float(row.max()))
        means.append(Interval(each.mean, min(low, each.mean), max(high, each.mean)))
    differences = tuple(_difference(draws, scores, a, b, groups * len(pairs)) for a, b in pairs)
    return Comparison(tuple(means), differences)


class _Draws:
    """Random draws of documents and questions for the bootstrap. All intervals use the same draws."""

    def __init__(self, documents: npt.NDArray[np.int64]) -> None:
        random = np.random.default_rng(_SEED)
        _, self._place = np.unique(documents, return_inverse=True)
        self._sizes = np.bincount(self._place).astype(np.float64)
        self._groups = len(self._sizes)
        self._of_groups = _draw(random, self._groups)
        self._of_questions = _draw(random, len(documents))

    def interval(self, values: Floats, comparisons: int) -> Interval:
        """Return the mean of some values, one for each question, with the 95 % interval of the mean.

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
    """Draw ``count`` times from ``count`` members with replacement, and repeat that DRAWS times.

    Return an array with a row for each repetition: how often each member was drawn.
    """
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
    """Return the factor by which few documents make an interval wider than many documents do.

    The factor is the quantile of Student's t divided by that of the normal distribution. It is computed as a
    series in 1 / ``freedom`` [Abramowitz & Stegun 26.7.5].
    """
    z = NormalDist().inv_cdf((1 + level) / 2)
    return 1 + (z**2 + 1) / (4 * freedom) + (5 * z**4 + 16 * z**2 + 3) / (96 * freedom**2)


_WORTH_ASKING = 10  # factor: a difference that needs more questions is not worth them


@dataclass(frozen=True, slots=True)
class Verdict:
    """The recommended strategy. Strategies are given as numbers, in the order of the comparison.

    ``pick``: the recommended strategy. ``than``: the strategy with which the text compares the pick: the
    configured strategy, or the next best. ``sure``: whether the pick is clearly better than the configured
    strategy, or is the configured strategy and clearly the best. ``level``: strategies that do not clearly
    differ from the pick.
    """

    pick: int
    than: int | None
    sure: bool
    level: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts that the text about a verdict mentions.

    ``names``: names of the strategies. ``tokens``: number of tokens that each strategy embeds. ``read``:
    number of tokens that language models read for each strategy. ``current``: number of the configured
    strategy; None if it is not compared. ``made``, ``written``: numbers of questions that this program made,
    and that a language model wrote.
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
    """Choose the strategy to recommend.

    ``comparison``: recall of the strategies at the first budget. ``current``: number of the configured
    strategy; None if it is not compared.
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
    """A strategy that is clearly better for one source than the strategy recommended for all documents.

    ``pick``: number of the better strategy. ``difference``: its recall minus that of the recommended
    strategy.
    """

    source: str
    pick: int
    difference: Difference


def better_for_sources(by_source: Mapping[str, Comparison], pick: int) -> list[BetterForSource]:
    """Return the sources for which some strategy is clearly better than ``pick``, with the best of these.

    ``by_source``: for each source, the comparison on the questions about its documents. ``pick``: number of
    the strategy that is recommended for all documents.
    """
    exceptions: list[BetterForSource] = []
    for source, comparison in by_source.items():
        better = [at for at in range(len(comparison.means)) if at != pick and _beats(comparison, at, pick)]
        if better:
            best = max(better, key=lambda at: comparison.means[at].mean)
            exceptions.append(BetterForSource(source, best, comparison.difference(best, pick)))
    return exceptions


def describe_verdict(
    given: Verdict, comparison: Comparison, facts: Facts, exceptions: Sequence[BetterForSource] = ()
) -> str:
    """Return a paragraph about the recommendation: how certain it is, and what the questions cannot show.

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
    """Return a sentence that names the strategies not clearly different from the recommended one.

    The sentence gives the approximate number of questions that could show a difference from the first of
    them. The list is empty if there are no such strategies.
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
    """Round a number of questions up, to two significant digits."""
    unit = int(10 ** max(0, len(str(count)) - 2))
    return -(-count // unit) * unit
