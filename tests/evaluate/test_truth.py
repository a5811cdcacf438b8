"""The tool tells the truth: on scores of real documents, and on the corpora of Chroma's report."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from benchmarks._needs import Missing
from benchmarks.evaluate import BUDGET, corpora, cut_by, scores_of, spearman
from ingestor.cli.chunk_command import choice
from ingestor.config.file import load
from ingestor.evaluate.comparison import Floats, compare, verdict
from ingestor.evaluate.cutting import SampleCut
from ingestor.evaluate.evaluation import Evaluation, EvaluationRequest, evaluate
from ingestor.evaluate.made_questions import make_questions
from ingestor.evaluate.sample import Sample
from ingestor.evaluate.scores import EvalQuestion
from ingestor.evaluate.strategies import Strategy
from ingestor.evaluate.workplace import same_documents
from ingestor.model import CollectionName
from tests.e2e.conftest import ask, project
from tests.e2e.project import Project
from tests.evaluate.test_evaluate import BAD, samples

_FIXTURES = (ask, project, samples)


@dataclass(frozen=True)
class Report:
    questions: list[EvalQuestion]
    sample: Sample
    cuts: dict[str, SampleCut]


def evaluated(project: Project, make: int, *names: str) -> Evaluation:
    config = load(project.config, {})
    collection = CollectionName("docs")
    chosen = tuple(Strategy(choice(name.split(":")[0], name.split(":")[1:], name)) for name in names)
    return evaluate(
        config, EvaluationRequest(collection, chosen, make=make), lambda what: None, lambda cost: None
    )


def clear(scores: Floats, about: Sequence[int]) -> bool:
    return any(each.clear for each in compare(scores, about).differences)


# test_intervals.py tells equal strategies apart as seldom, of scores that are drawn
@pytest.mark.slow
@pytest.mark.parametrize("swapped", ["questions", "documents"])
def test_strategies_that_differ_by_chance_alone_are_seldom_distinguished(
    samples: Project, swapped: str
) -> None:
    """Real scores of two strategies, exchanged by the toss of a coin: no difference, in 95 % of runs."""
    found = evaluated(samples, 120, "recursive:size=100", "fixed:size=80")
    about = same_documents(found.questions)
    one, other = (outcome.scores.at[500] for outcome in found.outcomes)
    assert (one != other).sum() > 20
    runs = 100
    wrong = 0
    for seed in range(runs):
        random = np.random.default_rng(seed)
        coins = random.random(len(one) if swapped == "questions" else max(about) + 1) < 0.5
        coin = coins if swapped == "questions" else coins[about]
        wrong += clear(np.array([np.where(coin, one, other), np.where(coin, other, one)]), about)
    assert wrong <= 10  # of 100, where 5 are expected: more has a chance of 1 %


@pytest.mark.slow
def test_planted_bad_strategy_is_recommended_for_no_choice_of_questions(samples: Project) -> None:
    found = evaluated(samples, 240, "recursive:size=100", BAD, "structure:max_tokens=200")
    scores = np.array([outcome.scores.at[500] for outcome in found.outcomes])
    about = np.array(same_documents(found.questions))
    for seed in range(50):
        chosen = np.random.default_rng(seed).choice(len(about), 80, replace=False)
        comparison = compare(scores[:, chosen], about[chosen].tolist())
        for current in (None, 0, 2):
            assert verdict(comparison, current).pick != 1


# --- the corpora of the report ------------------------------------------------------------------------------

# Recall, precision Ω and IoU at n = 5, in percent, by `python -m benchmarks retrieval`, which cuts, searches
# and scores by itself (docs/decisions/0011). The report's other two corpora are not at hand; over all five
# the recall of these strategies is lower: 75.8, 82.4, 82.9 and 75.7.
REFERENCES = {
    "recursive:size=200": (86.5, 29.3, 6.3),
    "changepoint:target=125": (89.4, 36.3, 7.4),
    "fixed:size=250:overlap=125": (90.5, 8.6, 4.1),
    "cluster:max_tokens=200": (86.5, 33.2, 7.6),
}


TINY = "fixed:size=30"
OTHERS = ("recursive:size=400", "fixed:size=400:overlap=200", "changepoint:target=250", "sentence", TINY)


@pytest.fixture(scope="module")
def report() -> Report:
    """The report's questions and corpora, cut by each strategy."""
    try:
        questions, sample = corpora()
    except Missing as missing:
        pytest.skip(str(missing))
    return Report(questions, sample, {name: cut_by(name, sample) for name in (*REFERENCES, BAD, *OTHERS)})


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_reference_rows_are_reproduced(report: Report) -> None:
    for name, (recall, omega, iou) in REFERENCES.items():
        ours = scores_of(report.questions, report.cuts[name])
        assert 100 * ours.recall.mean() == pytest.approx(recall, abs=1.0), name
        assert 100 * ours.omega.mean() == pytest.approx(omega, abs=1.0), name
        assert 100 * ours.iou.mean() == pytest.approx(iou, abs=0.3), name


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_bad_strategy_is_not_recommended_by_real_questions(report: Report) -> None:
    rows = [scores_of(report.questions, cut).at[BUDGET] for cut in report.cuts.values()]
    found = compare(np.array(rows), same_documents(report.questions))
    bad = list(report.cuts).index(BAD)
    assert all(verdict(found, current).pick != bad for current in (None, *range(len(rows))))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_made_questions_order_strategies_as_real_ones_do(report: Report) -> None:
    """By recall at 600 tokens; the benchmark has more strategies, of which none is planted.

    The chat logs and the speech give under a hundred questions, which are too few to order ten strategies.
    """
    ours = make_questions([each.document for each in report.sample.documents], 10_000)
    for number, name in enumerate(report.sample.names):
        kinds = [[q for q in kind if q.excerpts[0].document == number] for kind in (ours, report.questions)]
        if len(kinds[0]) < 100:
            continue
        orders = [
            [float(scores_of(kind[:150], cut).at[BUDGET].mean()) for cut in report.cuts.values()]
            for kind in kinds
        ]
        assert spearman(*orders) > 0.5, name
        tiny, usual = (list(report.cuts).index(each) for each in (TINY, "changepoint:target=125"))
        assert all(order[tiny] < order[usual] - 0.04 for order in orders), name  # 7, 7, 14; real: 16, 11, 21
