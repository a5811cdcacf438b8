"""The laws of a comparison: it sees what is there, and nothing where nothing is."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingestor.evaluate.comparison import Facts, Floats, better_for_sources, compare, describe_verdict, verdict

GOOD, BAD = "good", "bad"


def drawn(seed: int, questions: int, documents: int, gains: Sequence[float]) -> tuple[Floats, list[int]]:
    """Scores of strategies that differ by ``gains`` on average; questions about one document are alike."""
    random = np.random.default_rng(seed)
    about = np.arange(questions) % documents
    shared = random.normal(0, 0.15, documents)[about] + random.normal(0, 0.25, questions)
    own = [
        random.normal(0, 0.08, documents)[about] + random.normal(0, 0.2, questions) + gain for gain in gains
    ]
    return np.clip(0.6 + shared + np.array(own), 0, 1), about.tolist()


def said(scores: Floats, about: list[int], current: int | None) -> str:
    found = compare(scores, about)
    names = [f"S{at}" for at in range(len(scores))]
    facts = Facts(names, [100] * len(names), [0] * len(names), current, len(about), 0, 0, 500)
    return describe_verdict(verdict(found, current), found, facts)


@given(st.integers(0, 2**32), st.integers(2, 60), st.integers(1, 12), st.integers(2, 4))
@settings(max_examples=20, deadline=None)
def test_identical_strategies_show_no_difference(
    seed: int, questions: int, documents: int, strategies: int
) -> None:
    scores, about = drawn(seed, questions, documents, [0.0])
    found = compare(np.repeat(scores, strategies, axis=0), about)
    ends = {(each.interval.low, each.interval.mean, each.interval.high) for each in found.differences}
    assert ends == {(0, 0, 0)}
    assert not any(each.clear for each in found.differences)
    assert verdict(found, 0).pick == 0
    assert not verdict(found, 0).sure


@pytest.mark.parametrize("documents", [15, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 5, 60))])
def test_strategies_that_are_equal_on_average_are_seldom_distinguished(documents: int) -> None:
    """95 % of runs: with documents whose questions are alike only where there are a few of them."""
    runs = 100
    wrong = 0
    for seed in range(runs):
        random = np.random.default_rng(seed)
        about = np.arange(60) % documents
        shared = random.normal(0, 0.25, 60)
        effect = random.normal(0, 0.1, documents)[about] if documents > 1 else 0
        scores = np.array([0.6 + shared, 0.6 + shared + effect + random.normal(0, 0.2, 60)])
        wrong += compare(scores, about.tolist()).differences[0].clear
    assert wrong <= 10  # of 100, where 5 are expected: more has a chance of 1 %


@given(st.integers(0, 2**32), st.permutations([0.0, 0.0, -0.3]), st.sampled_from([None, 0, 1, 2]))
@settings(max_examples=20, deadline=None)
def test_planted_bad_strategy_is_never_recommended(
    seed: int, gains: list[float], current: int | None
) -> None:
    scores, about = drawn(seed, 120, 15, gains)
    given_verdict = verdict(compare(scores, about), current)
    assert gains[given_verdict.pick] == 0.0


@given(st.integers(0, 2**32))
@settings(max_examples=20, deadline=None)
def test_differences_are_of_pairs_and_turn_round(seed: int) -> None:
    scores, about = drawn(seed, 50, 5, [0, 0.1, 0.2])
    found = compare(scores, about)
    one, other = found.difference(0, 2), found.difference(2, 0)
    assert one.interval.mean == pytest.approx((scores[0] - scores[2]).mean())
    assert (one.interval.low, one.interval.high) == (-other.interval.high, -other.interval.low)


def test_few_questions_show_no_difference() -> None:
    assert not compare(np.array([[1.0], [0.0]]), [0]).differences[0].clear


def test_better_strategy_is_recommended_and_by_how_much() -> None:
    scores, about = drawn(1, 240, 60, [0.0, 0.2])
    text = said(scores, about, 0)
    assert text.startswith("S1 finds ")
    assert "than S0, which is configured (95 % interval +" in text


def test_configured_strategy_stays_without_a_clear_difference() -> None:
    scores, about = drawn(3, 30, 10, [0.0, 0.02])
    text = said(scores, about, 0)
    assert text.startswith("Keep S0")
    assert "30 questions show no clear difference between S0 and S1" in text


@pytest.mark.parametrize(
    ("seed", "told"), [(6, "about 330 would separate S1 from S0"), (3, "more than 10 times as many")]
)
def test_advised_number_of_questions_is_limited(seed: int, told: str) -> None:
    scores, about = drawn(seed, 100, 30, [0.0, 0.0])
    assert told in said(scores, about, 0)


def test_difference_doubtful_by_many_comparisons_is_reported() -> None:
    """Its interval leaves out zero, but it is the best of six that were tried."""
    scores, about = drawn(1, 60, 15, [0.0, 0.09, 0.0, 0.0, 0.0, 0.0, 0.0])
    found = compare(scores, about).difference(1, 0)
    assert found.interval.low > 0 and not found.clear
    text = said(scores, about, 0)
    assert text.startswith("Keep S0, by the evidence of 60 questions: S1 found ")
    assert "which among 7 strategies may still be chance." in text
    assert "maybe by chance" not in text


def test_source_for_which_another_strategy_is_clearly_better_is_named() -> None:
    mails, about = drawn(1, 80, 20, [0.0, 0.3])
    pages, others = drawn(2, 80, 20, [0.3, 0.0])
    by_source = {"mails": compare(mails, about, 2), "pages": compare(pages, others, 2)}
    (found,) = better_for_sources(by_source, 0)
    assert (found.source, found.pick) == ("mails", 1)
    assert found.difference.interval.low > 0
    whole = compare(np.hstack([mails, pages]), about + [20 + each for each in others])
    facts = Facts(["S0", "S1"], [100, 100], [0, 0], 0, 160, 0, 0, 500)
    assert "For source mails, S1 is better" in describe_verdict(verdict(whole, 0), whole, facts, [found])


def test_more_groups_make_a_clear_difference_rarer() -> None:
    scores, about = drawn(3, 60, 15, [0.0, 0.1])
    assert compare(scores, about).difference(1, 0).clear
    assert not compare(scores, about, 1000).difference(1, 0).clear


def test_no_interval_of_a_mean_passes_what_is_possible() -> None:
    """Widened for three documents, this one would end at 1.13."""
    scores = np.array([[1.0] * 20 + [0.8] * 10, [1.0] * 30])
    mean, whole = compare(scores, [0] * 10 + [1] * 10 + [2] * 10).means
    assert 0.8 <= mean.low < mean.mean < mean.high == 1
    assert (whole.low, whole.mean, whole.high) == (1, 1, 1)


@pytest.mark.parametrize(("keywords", "trusts_order"), [(2, True), (7, False)])
def test_verdict_trusts_no_order_by_keywords(keywords: int, trusts_order: bool) -> None:
    comparison = compare(np.ones((2, 9)), [0] * 9)
    facts = Facts(["S0", "S1"], [100, 100], [0, 0], 0, 9, 9, 0, 500, keywords=keywords)
    said = describe_verdict(verdict(comparison, 0), comparison, facts, [])
    assert f"{keywords} of the questions were keywords" in said and "--ask-model" in said
    assert ("order of strategies and their differences can be trusted" in said) == trusts_order
