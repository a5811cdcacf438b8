"""An evaluation as the stable JSON of ``evaluate --json``. Scores are percentages."""

from collections.abc import Sequence
from typing import Any

from ingestor.evaluate.asking.estimate import AskingEstimate, AskingUsage
from ingestor.evaluate.asking.judgements import CORRECTNESS, Judged
from ingestor.evaluate.check import Checked
from ingestor.evaluate.costs import ModelUse, StrategyCosts
from ingestor.evaluate.evaluation import Evaluation
from ingestor.evaluate.intervals import Interval
from ingestor.evaluate.questions.csv_file import RefusedQuestion
from ingestor.evaluate.ranking.outcomes import StrategyOutcome
from ingestor.evaluate.scores import EvalQuestion
from ingestor.evaluate.verdict import Apart


def as_json(found: Evaluation) -> dict[str, Any]:
    """Keys stay; more may be added."""
    pick = found.outcomes[found.verdict.pick].cut.strategy
    return {
        "collection": found.request.collection,
        "documents": {
            "count": len(found.sample.documents),
            "listed": found.sample.listed,
            "unread": [{"document": key, "reason": reason} for key, reason in found.sample.unread],
        },
        "questions": {
            "count": len(found.questions),
            "origin": origin(found.questions),
            "refused": _refused(found.refused),
        },
        "strategies": [_strategy(found, at, each) for at, each in enumerate(found.outcomes)],
        "differences": _differences(found),
        "judged": None if found.judged is None else _judged(found, found.judged),
        "language_model": None if found.asked is None else _asked(found.asked),
        "recommendation": {
            "strategy": pick.choice.plugin.kind,
            "options": pick.options,
            "search": found.outcomes[found.verdict.pick].mode,
            "yaml": pick.yaml,
            "sure": found.verdict.sure,
            "text": found.text,
            "sources": [_apart(found, each) for each in found.apart],
        },
    }


def check_as_json(found: Checked) -> dict[str, Any]:
    """Keys stay; more may be added."""
    asked = found.inspection
    return {
        "collection": asked.collection,
        "questions": {"count": len(found.recall), "refused": _refused(found.refused)},
        "budget": asked.budget,
        "recall": _interval(found.mean),
        "compared": found.before is not None,
        "fell": percent(found.fell),
        "tolerance": percent(asked.tolerance),
        "passed": found.passed,
        "worst": [
            {"question": text, "before": percent(before), "now": percent(now)}
            for text, before, now in found.worst(10)
        ],
    }


def estimate_as_json(found: AskingEstimate) -> dict[str, Any]:
    """Keys stay; more may be added."""
    return {
        "model": found.model,
        **_use(found.use),
    }


def _asked(found: AskingUsage) -> dict[str, Any]:
    return {
        "model": found.expected.model,
        **_use(found.use),
        "expected": estimate_as_json(found.expected),
    }


def _use(found: ModelUse) -> dict[str, Any]:
    return {
        "calls": found.calls,
        "prompt_tokens": found.prompt_tokens,
        "answer_tokens": found.answer_tokens,
        "cost": round(found.cost, 6),
    }


def origin(questions: Sequence[EvalQuestion]) -> str:
    """``file``, ``made``, ``model`` or ``mixed``."""
    origins: set[str] = {question.origin for question in questions}
    return "mixed" if len(origins) > 1 else origins.pop()


def percent(value: float) -> float:
    return round(100 * float(value), 2)


def _strategy(found: Evaluation, at: int, outcome: StrategyOutcome) -> dict[str, Any]:
    cut, scores = outcome.cut, outcome.scores
    return {
        "name": cut.strategy.choice.plugin.kind,
        "options": cut.strategy.options,
        "configured": cut.strategy.configured,
        "search": outcome.mode,
        "label": outcome.name,
        "chunks": len(cut.places),
        "mean_tokens": round(cut.mean_tokens, 1),
        "recall": {str(budget): _interval(each.means[at]) for budget, each in found.comparisons.items()},
        "recall_n5": percent(scores.recall.mean()),
        "precision_n5": percent(scores.precision.mean()),
        "iou_n5": percent(scores.iou.mean()),
        "ndcg_n5": percent(scores.ndcg.mean()),
        "precision_omega": percent(scores.omega.mean()),
        "seconds": round(outcome.seconds, 2),
        "embedded_tokens": cut.embedded_tokens,
        "passes": round(outcome.costs.passes, 2),
        "rerank_seconds": None if outcome.rerank_seconds is None else round(outcome.rerank_seconds, 4),
        "collection": _whole(outcome.costs),
        "judged": None if found.judged is None else _judged_strategy(found.judged, at),
    }


def _whole(found: StrategyCosts) -> dict[str, Any]:
    return {
        "records": found.records,
        "embedded_tokens": found.embedded,
        "seconds": round(found.seconds, 1),
        "cost": None if found.money is None else round(found.money, 4),
        "disk": found.disk,
        "language_model": _use(found.asked) if found.asked.calls else None,
    }


def _judged(found: Evaluation, judged: Judged) -> dict[str, Any]:
    names = [each.name for each in found.outcomes]
    agreement = judged.agreement
    return {
        "questions": judged.questions,
        "compared": judged.compared,
        "unjudged": sum(judged.unjudged),
        "budget": found.request.budgets[0],
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


def _judged_strategy(judged: Judged, at: int) -> dict[str, Any]:
    means = {
        metric: _in_unit(metric, comparison.means[at]) for metric, comparison in judged.comparisons.items()
    }
    return {**means, "unjudged": judged.unjudged[at]}


def _in_unit(metric: str, found: Interval) -> dict[str, float]:
    """Correctness as it is, from 1 to 5; all others in percent."""
    if metric != CORRECTNESS:
        return _interval(found)
    return {"mean": round(found.mean, 3), "low": round(found.low, 3), "high": round(found.high, 3)}


def _differences(found: Evaluation) -> list[dict[str, Any]]:
    names = [each.name for each in found.outcomes]
    return [
        {
            "a": names[each.a],
            "b": names[each.b],
            "budget": budget,
            "clear": each.clear,
            **_interval(each.interval),
        }
        for budget, comparison in found.comparisons.items()
        for each in comparison.differences
    ]


def _apart(found: Evaluation, each: Apart) -> dict[str, Any]:
    strategy = found.outcomes[each.pick].cut.strategy
    said = {"source": each.source, "strategy": strategy.choice.plugin.kind, "options": strategy.options}
    return {**said, **_interval(each.difference.interval)}


def _refused(rows: Sequence[RefusedQuestion]) -> list[dict[str, Any]]:
    return [{"line": each.line or None, "question": each.question, "reason": each.reason} for each in rows]


def _interval(found: Interval) -> dict[str, float]:
    return {"mean": percent(found.mean), "low": percent(found.low), "high": percent(found.high)}
