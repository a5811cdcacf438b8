"""Tables as rows of texts, for a terminal and for the page."""

from ingestor.evaluate.costs import price
from ingestor.evaluate.evaluation import Evaluation
from ingestor.evaluate.ranking.outcomes import StrategyOutcome

Rows = list[list[str]]  # heads first

_COSTS = [
    "strategy", "records", "disk, MB", "passes", "embedded", "seconds",
    "requests", "read", "written", "price", "rerank s a question",
]  # fmt: skip


def costs(found: Evaluation) -> Rows:
    """Return the table of each strategy's costs, without columns that are empty for all strategies."""
    rows = [_costs(each) for each in found.outcomes]
    kept = [at for at in range(len(_COSTS)) if any(row[at] for row in rows)]
    return [[row[at] for at in kept] for row in (_COSTS, *rows)]


def row_head(outcome: StrategyOutcome) -> str:
    """Return the strategy's name, marked if it is the configured one."""
    return outcome.name + (" (configured)" if outcome.cut.strategy.configured else "")


def _costs(outcome: StrategyOutcome) -> list[str]:
    found, asked = outcome.costs, outcome.costs.asked
    return [
        row_head(outcome),
        f"{found.records:,}",
        f"{found.disk / 1e6:,.1f}",
        f"{found.passes:.1f}",
        f"{found.embedded:,}",
        f"{found.seconds:,.0f}",
        *(f"{each:,}" if each else "" for each in (asked.calls, asked.prompt_tokens, asked.answer_tokens)),
        "" if found.money is None else price(found.money),
        "" if outcome.rerank_seconds is None else f"{outcome.rerank_seconds:.2g}",
    ]
