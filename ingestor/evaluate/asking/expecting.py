"""Estimate of the requests to language models: for questions, for judgements, and by strategies."""

from collections.abc import Sequence

from ingestor.evaluate.asking import questions as asking
from ingestor.evaluate.asking.estimate import AskingEstimate, AskingUsage, of_judgements
from ingestor.evaluate.costs import ModelUse
from ingestor.evaluate.cutting import RecordedAnswers, rehearse
from ingestor.evaluate.strategies import MOST_COMPARED, Strategy
from ingestor.evaluate.workplace import EvaluationRequest, Workplace
from ingestor.llm.options import Endpoint
from ingestor.pipeline.answers import DryRunAnswers


def estimate_requests(
    request: EvaluationRequest, place: Workplace, endpoint: Endpoint | None
) -> AskingEstimate | None:
    """Estimate the requests that the cache cannot answer; None if no model is asked.

    ``endpoint``: the model that writes questions and judges answers.
    """
    compared = [each for each in request.strategies or [place.configured] if each.models]
    names = [name for each in compared for name in each.models]
    use = _by(compared, place)
    if endpoint is not None:
        names = [endpoint.model, *names]
        use += of_judgements(endpoint, _judged_questions(request), _most(request), request.budgets[0])
        if request.ask_model:
            use += asking.estimate_requests(place, endpoint, request.make)
    return AskingEstimate(", ".join(dict.fromkeys(names)), use) if names else None


def count_requests(place: Workplace, estimate: AskingEstimate) -> AskingUsage:
    """Return the requests that were sent, once the evaluation has asked everything."""
    sent = place.answers
    use = ModelUse(sent.calls, sent.prompt_tokens, sent.completion_tokens, sent.cost)
    return AskingUsage(estimate, use)


def _by(strategies: Sequence[Strategy], place: Workplace) -> ModelUse:
    counts = place.parts.tokens.counts
    answers = RecordedAnswers(DryRunAnswers(place.cache, counts), counts)
    rehearse(strategies, place.sample, place.tools, place.parts.tokens, answers)
    return answers.unanswered


def _judged_questions(request: EvaluationRequest) -> int:
    """Return the number of questions whose answers are judged."""
    return request.judge if request.questions is not None else min(request.judge, request.make)


def _most(request: EvaluationRequest) -> int:
    """Return the largest number of strategies that may be compared.

    The strategies themselves are unknown until the documents are cut, unless they are named.
    """
    named = sum(len(each.with_modes(request.modes)) for each in request.strategies)
    return named or MOST_COMPARED * len(request.modes)
