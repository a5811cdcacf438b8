"""Builds the stable JSON of ``evaluate --json``. Scores are percentages."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ingestor.evaluate.asking import AskingEstimate
from ingestor.evaluate.check import Checked
from ingestor.evaluate.comparison import BetterForSource, Interval
from ingestor.evaluate.cutting import ModelUse, StrategyCosts
from ingestor.evaluate.evaluation import Evaluation
from ingestor.evaluate.judging import CORRECTNESS, Judged
from ingestor.evaluate.page import questions_to_settle
from ingestor.evaluate.question_file import RefusedQuestion
from ingestor.evaluate.ranking import StrategyOutcome
from ingestor.evaluate.scores import EvalQuestion


def as_json(evaluation: Evaluation) -> dict[str, Any]:
    """Return the fields of ``evaluate --json``. Keys are stable; more may be added."""
    pick = evaluation.outcomes[evaluation.verdict.pick].cut.strategy
    return {
        "collection": evaluation.request.collection,
        "documents": {
            "count": len(evaluation.sample.documents),
            "listed": evaluation.sample.listed,
            "unread": [{"document": key, "reason": reason} for key, reason in evaluation.sample.unread],
        },
        "questions": {
            "count": len(evaluation.questions),
            "origin": origin(evaluation.questions),
            "refused": _refusals(evaluation.refused),
        },
        "strategies": [_strategy(evaluation, at, each) for at, each in enumerate(evaluation.outcomes)],
        "differences": _differences(evaluation),
        "judged": None if evaluation.judged is None else _judgements(evaluation, evaluation.judged),
        "language_model": None
        if (asked := evaluation.asked) is None
        else {
            "model": asked.expected.model,
            **_use(asked.use),
            "expected": estimate_as_json(asked.expected),
        },
        "recommendation": {
            "strategy": pick.choice.plugin.kind,
            "options": pick.options,
            "search": evaluation.outcomes[evaluation.verdict.pick].mode,
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
    cut, scores, by_tokens = outcome.cut, outcome.scores, outcome.by_tokens
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
            "recall": percent(scores.recall.std()),
            "precision": percent(scores.precision.std()),
            "iou": percent(scores.iou.std()),
        },
        "tokens_n5": {
            "recall": percent(by_tokens[0].mean()),
            "recall_deviation": percent(by_tokens[0].std()),
            "iou": percent(by_tokens[1].mean()),
            "iou_deviation": percent(by_tokens[1].std()),
        },
        "found": {str(depth): percent(each.mean()) for depth, each in scores.hits.items()},
        "similarity": round(float(outcome.similarity.mean()), 4),
        "context_n5": round(float(scores.context.mean()), 1),
        "to_settle": questions_to_settle(evaluation, at),
        "mean_characters": round(cut.mean_characters, 1),
        "precision_omega": percent(scores.omega.mean()),
        "seconds": round(outcome.seconds, 2),
        "embedded_tokens": cut.embedded_tokens,
        "passes": round(outcome.costs.passes, 2),
        "rerank_seconds": None if outcome.rerank_seconds is None else round(outcome.rerank_seconds, 4),
        "collection": _collection_costs(outcome.costs),
        "judged": None if evaluation.judged is None else _means_of_judgements(evaluation.judged, at),
    }


def _collection_costs(costs: StrategyCosts) -> dict[str, Any]:
    return {
        "records": costs.records,
        "embedded_tokens": costs.embedded,
        "seconds": round(costs.seconds, 1),
        "cost": None if costs.money is None else round(costs.money, 4),
        "disk": costs.disk,
        "language_model": _use(costs.asked) if costs.asked.calls else None,
    }


def _judgements(evaluation: Evaluation, judged: Judged) -> dict[str, Any]:
    names = [each.name for each in evaluation.outcomes]
    agreement = judged.agreement
    return {
        "questions": judged.questions,
        "compared": judged.compared,
        "unjudged": sum(judged.unjudged),
        "budget": evaluation.request.budgets[0],
        "agreement": None
        if agreement is None
        else {
            "count": agreement.count,
            "correctness": percent(agreement.correctness),
            "correctness_within_1": percent(agreement.near),
            "relevancy": percent(agreement.relevancy),
            "faithfulness": percent(agreement.faithfulness),
        },
        "differences": [
            {"a": names[each.a], "b": names[each.b], "metric": metric, "clear": each.clear}
            | _in_unit(metric, each.interval)
            for metric, comparison in judged.comparisons.items()
            for each in comparison.differences
        ],
    }


def _means_of_judgements(judged: Judged, at: int) -> dict[str, Any]:
    means = {
        metric: _in_unit(metric, comparison.means[at]) for metric, comparison in judged.comparisons.items()
    }
    return {**means, "unjudged": judged.unjudged[at]}


def _in_unit(metric: str, interval: Interval) -> dict[str, float]:
    """Return the mean and the ends of an interval, in percent. Correctness is not converted: it is 1 to 5."""
    if metric != CORRECTNESS:
        return _interval(interval)
    return {"mean": round(interval.mean, 3), "low": round(interval.low, 3), "high": round(interval.high, 3)}


def _differences(evaluation: Evaluation) -> list[dict[str, Any]]:
    names = [each.name for each in evaluation.outcomes]
    return [
        {
            "a": names[each.a],
            "b": names[each.b],
            "budget": budget,
            "clear": each.clear,
            "needed": each.needed,
            **_interval(each.interval),
        }
        for budget, comparison in evaluation.comparisons.items()
        for each in comparison.differences
    ]


def _better_for(evaluation: Evaluation, each: BetterForSource) -> dict[str, Any]:
    strategy = evaluation.outcomes[each.pick].cut.strategy
    named = {"source": each.source, "strategy": strategy.choice.plugin.kind, "options": strategy.options}
    return {**named, **_interval(each.difference.interval)}


def _refusals(rows: Sequence[RefusedQuestion]) -> list[dict[str, Any]]:
    return [{"line": each.line or None, "question": each.question, "reason": each.reason} for each in rows]


def _interval(interval: Interval) -> dict[str, float]:
    return {"mean": percent(interval.mean), "low": percent(interval.low), "high": percent(interval.high)}
