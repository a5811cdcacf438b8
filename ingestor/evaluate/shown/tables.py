"""Tables as rows of texts, for a terminal and for the page."""

from ingestor.evaluate.costs import price
from ingestor.evaluate.evaluation import Evaluation
from ingestor.evaluate.ranking.outcomes import StrategyOutcome

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
