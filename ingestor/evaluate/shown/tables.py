"""Tables as rows of texts, for a terminal and for the page."""

from ingestor.evaluate.costs import price
from ingestor.evaluate.evaluation import Evaluation
from ingestor.evaluate.ranking.outcomes import StrategyOutcome
from ingestor.evaluate.scores import DEPTHS

Rows = list[list[str]]  # heads first

_COSTS = [
    "strategy", "records", "disk, MB", "passes", "embedded", "seconds",
    "requests", "read", "written", "price", "rerank s a question",
]  # fmt: skip


def costs(evaluation: Evaluation) -> Rows:
    """Return the table of each strategy's costs, without columns that are empty for all strategies."""
    rows = [_costs(each) for each in evaluation.outcomes]
    kept = [at for at in range(len(_COSTS)) if any(row[at] for row in rows)]
    return [[row[at] for at in kept] for row in (_COSTS, *rows)]


def details(evaluation: Evaluation) -> Rows:
    """Return the table of further figures of each strategy, some with ± standard deviations of the questions.

    The last column has about how many more questions would settle a tie with the recommended strategy.
    """
    hits = [f"found@{depth}" for depth in DEPTHS]
    heads = ["strategy", "characters", *hits, "similarity", "recall@5", "IoU@5", "precision@5"]
    heads += ["recall@5, tokens", "IoU@5, tokens", "context@5", "to settle"]
    return [heads, *(_details(evaluation, at) for at in range(len(evaluation.outcomes)))]


def _details(evaluation: Evaluation, at: int) -> list[str]:
    outcome = evaluation.outcomes[at]
    scores, (recall, iou) = outcome.scores, outcome.by_tokens
    more = questions_to_settle(evaluation, at)
    return [
        row_head(outcome),
        f"{outcome.cut.mean_characters:.0f}",
        *(f"{100 * scores.hits[depth].mean():.0f}" for depth in DEPTHS),
        f"{outcome.similarity.mean():.2f}",
        *(
            f"{100 * each.mean():.1f} ± {100 * each.std():.1f}"
            for each in (scores.recall, scores.iou, scores.precision, recall, iou)
        ),
        f"{scores.context.mean():,.0f}",
        "" if more is None else f"{more:,}",
    ]


def questions_to_settle(evaluation: Evaluation, at: int) -> int | None:
    """Return about how many more questions would make the difference from the recommended strategy clear.

    None if the difference is clear, or zero.
    """
    pick, asked = evaluation.verdict.pick, len(evaluation.questions)
    if at == pick:
        return None
    difference = evaluation.comparisons[evaluation.request.budgets[0]].difference(at, pick)
    if difference.clear or difference.needed is None:
        return None
    return max(difference.needed - asked, 1)


def row_head(outcome: StrategyOutcome) -> str:
    """Return the strategy's name, marked if it is the configured one."""
    return outcome.name + (" (configured)" if outcome.cut.strategy.configured else "")


def _costs(outcome: StrategyOutcome) -> list[str]:
    costs, asked = outcome.costs, outcome.costs.asked
    return [
        row_head(outcome),
        f"{costs.records:,}",
        f"{costs.disk / 1e6:,.1f}",
        f"{costs.passes:.1f}",
        f"{costs.embedded:,}",
        f"{costs.seconds:,.0f}",
        *(f"{each:,}" if each else "" for each in (asked.calls, asked.prompt_tokens, asked.answer_tokens)),
        "" if costs.money is None else price(costs.money),
        "" if outcome.rerank_seconds is None else f"{outcome.rerank_seconds:.2g}",
    ]
