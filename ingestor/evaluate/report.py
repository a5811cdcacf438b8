"""Builds the stable JSON of ``evaluate --json``. Scores are percentages."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ingestor.evaluate.asking import AskingEstimate
from ingestor.evaluate.check import Checked
from ingestor.evaluate.comparison import BetterForSource, Difference, Interval
from ingestor.evaluate.cutting import ModelUse
from ingestor.evaluate.evaluation import Evaluation
from ingestor.evaluate.judging import CORRECTNESS, Judged
from ingestor.evaluate.page import questions_to_settle
from ingestor.evaluate.question_file import RefusedQuestion
from ingestor.evaluate.ranking import StrategyOutcome
from ingestor.evaluate.scores import EvalQuestion


def as_json(evaluation: Evaluation) -> dict[str, Any]:
    """Return the fields of ``evaluate --json``. Keys are stable; more may be added."""
    outcome, sample = evaluation.outcomes[evaluation.verdict.pick], evaluation.sample
    pick, asked, names = outcome.cut.strategy, evaluation.asked, [each.name for each in evaluation.outcomes]
    return {
        "collection": evaluation.request.collection,
        "documents": {
            "count": len(sample.documents),
            "listed": sample.listed,
            "unread": [{"document": key, "reason": reason} for key, reason in sample.unread],
        },
        "questions": {
            "count": len(evaluation.questions),
            "origin": origin(evaluation.questions),
            "refused": _refusals(evaluation.refused),
        },
        "strategies": [_strategy(evaluation, at, each) for at, each in enumerate(evaluation.outcomes)],
        "differences": [
            {**_pair(names, each), "budget": budget, "clear": each.clear, "needed": each.needed}
            | _interval(each.interval)
            for budget, comparison in evaluation.comparisons.items()
            for each in comparison.differences
        ],
        "judged": None if evaluation.judged is None else _judgements(evaluation, evaluation.judged),
        "language_model": asked
        and {"model": asked.expected.model, **_use(asked.use), "expected": estimate_as_json(asked.expected)},
        "recommendation": {
            "strategy": pick.choice.plugin.kind,
            "options": pick.options,
            "search": outcome.mode,
            "yaml": pick.yaml,
            "sure": evaluation.verdict.sure,
            "text": evaluation.text,
            "sources": [_better_for(evaluation, each) for each in evaluation.better_for],
        },
    }


def check_as_json(checked: Checked) -> dict[str, Any]:
    """Return the fields of ``evaluate --check --json``. Keys are stable; more may be added."""
    asked = checked.request
    return {
        "collection": asked.collection,
        "questions": {"count": len(checked.recall), "refused": _refusals(checked.refused)},
        "budget": asked.budget,
        "recall": _interval(checked.mean),
        "compared": checked.before is not None,
        "fell": percent(checked.fell),
        "tolerance": percent(asked.tolerance),
        "passed": checked.is_within_tolerance,
        "worst": [
            {"question": text, "before": percent(before), "now": percent(now)}
            for text, before, now in checked.worst(10)
        ],
    }


def estimate_as_json(estimate: AskingEstimate) -> dict[str, Any]:
    """Return the fields of ``evaluate --estimate --json``. Keys are stable; more may be added."""
    return {"model": estimate.model, **_use(estimate.use)}


def _use(use: ModelUse) -> dict[str, Any]:
    return {**asdict(use), "cost": round(use.cost, 6)}


def origin(questions: Sequence[EvalQuestion]) -> str:
    """Return where all questions come from: ``file``, ``made``, ``model``, or ``mixed`` if they differ."""
    origins: set[str] = {question.origin for question in questions}
    return "mixed" if len(origins) > 1 else origins.pop()


def percent(value: float) -> float:
    """Return a share from 0 to 1 as percent with two decimals."""
    return round(100 * float(value), 2)


def _strategy(evaluation: Evaluation, at: int, outcome: StrategyOutcome) -> dict[str, Any]:
    cut, scores, costs, judged = outcome.cut, outcome.scores, outcome.costs, evaluation.judged
    recall, iou = outcome.by_tokens
    return {
        "name": cut.strategy.choice.plugin.kind,
        "options": cut.strategy.options,
        "configured": cut.strategy.configured,
        "search": outcome.mode,
        "label": outcome.name,
        "model": outcome.model,
        "chunks": len(cut.places),
        "mean_tokens": round(cut.mean_tokens, 1),
        "recall": {str(budget): _interval(each.means[at]) for budget, each in evaluation.comparisons.items()},
        "recall_n5": percent(scores.recall.mean()),
        "precision_n5": percent(scores.precision.mean()),
        "iou_n5": percent(scores.iou.mean()),
        "ndcg_n5": percent(scores.ndcg.mean()),
        "deviations_n5": {
            name: percent(getattr(scores, name).std()) for name in ("recall", "precision", "iou")
        },
        "tokens_n5": {
            "recall": percent(recall.mean()),
            "recall_deviation": percent(recall.std()),
            "iou": percent(iou.mean()),
            "iou_deviation": percent(iou.std()),
        },
        "found": {str(depth): percent(each.mean()) for depth, each in scores.hits.items()},
        "similarity": round(float(outcome.similarity.mean()), 4),
        "context_n5": round(float(scores.context.mean()), 1),
        "to_settle": questions_to_settle(evaluation, at),
        "mean_characters": round(cut.mean_characters, 1),
        "precision_omega": percent(scores.omega.mean()),
        "seconds": round(outcome.seconds, 2),
        "embedded_tokens": cut.embedded_tokens,
        "passes": round(costs.passes, 2),
        "rerank_seconds": None if outcome.rerank_seconds is None else round(outcome.rerank_seconds, 4),
        "collection": {
            "records": costs.records,
            "embedded_tokens": costs.embedded,
            "seconds": round(costs.seconds, 1),
            "cost": None if costs.money is None else round(costs.money, 4),
            "disk": costs.disk,
            "language_model": _use(costs.asked) if costs.asked.calls else None,
        },
        "judged": judged
        and {
            **{metric: _in_unit(metric, each.means[at]) for metric, each in judged.comparisons.items()},
            "unjudged": judged.unjudged[at],
        },
    }


def _judgements(evaluation: Evaluation, judged: Judged) -> dict[str, Any]:
    names = [each.name for each in evaluation.outcomes]
    return {
        "questions": judged.questions,
        "compared": judged.compared,
        "unjudged": sum(judged.unjudged),
        "budget": evaluation.request.budgets[0],
        "agreement": judged.agreement
        and {
            name: value if name == "count" else percent(value)
            for name, value in asdict(judged.agreement).items()
        },
        "differences": [
            {**_pair(names, each), "metric": metric, "clear": each.clear} | _in_unit(metric, each.interval)
            for metric, comparison in judged.comparisons.items()
            for each in comparison.differences
        ],
    }


def _in_unit(metric: str, interval: Interval) -> dict[str, float]:
    """Return the mean and the ends of an interval, in percent. Correctness is not converted: it is 1 to 5."""
    if metric != CORRECTNESS:
        return _interval(interval)
    return {name: round(value, 3) for name, value in asdict(interval).items()}


def _pair(names: Sequence[str], difference: Difference) -> dict[str, Any]:
    return {"a": names[difference.a], "b": names[difference.b]}


def _better_for(evaluation: Evaluation, each: BetterForSource) -> dict[str, Any]:
    strategy = evaluation.outcomes[each.pick].cut.strategy
    named = {"source": each.source, "strategy": strategy.choice.plugin.kind, "options": strategy.options}
    return {**named, **_interval(each.difference.interval)}


def _refusals(rows: Sequence[RefusedQuestion]) -> list[dict[str, Any]]:
    return [{"line": each.line or None, "question": each.question, "reason": each.reason} for each in rows]


def _interval(interval: Interval) -> dict[str, float]:
    return {name: percent(value) for name, value in asdict(interval).items()}
