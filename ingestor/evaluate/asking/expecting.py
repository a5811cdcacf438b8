"""Requests to language models: questions that they write, and estimates of all requests and their cost."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from ingestor.evaluate.costs import ModelUse, price
from ingestor.evaluate.cutting import RecordedAnswers, rehearse
from ingestor.evaluate.questions.csv_file import RefusedQuestion
from ingestor.evaluate.questions.passages import passages
from ingestor.evaluate.questions.written import Manner, filter_questions, write_questions
from ingestor.evaluate.scores import EvalQuestion
from ingestor.evaluate.strategies import MOST_COMPARED, Strategy
from ingestor.evaluate.workplace import EvaluationRequest, Workplace
from ingestor.llm.client import LanguageModel
from ingestor.llm.options import Endpoint
from ingestor.pipeline.answers import DryRunAnswers
from ingestor.units import counted


def ask(
    place: Workplace, endpoint: Endpoint, number: int
) -> tuple[list[EvalQuestion], list[RefusedQuestion]]:
    """Return at most ``number`` questions, and the refused ones. Raises Transient or NeedsHuman."""
    texts, done = _texts(place), count(1)
    place.progress(f"asking {endpoint.model} for {counted(number, 'question')}")
    manner = Manner(
        LanguageModel(endpoint, place.answers),
        endpoint.concurrency,
        place.answers.stop,
        lambda: place.progress(f"asking {endpoint.model}: {next(done):,} of {counted(number, 'question')}"),
    )
    questions, refused = write_questions(texts, passages(texts, number), manner)
    kept, others = filter_questions(questions, texts, place.embedding, place.parts.query_vectors)
    return kept, [*refused, *others]


def estimate_questions(place: Workplace, endpoint: Endpoint, number: int) -> ModelUse:
    """Estimate the requests for ``number`` questions without sending any."""
    texts = _texts(place)
    dry_run = DryRunAnswers(place.cache, place.parts.tokens.counts)
    manner = Manner(LanguageModel(endpoint, dry_run), 1, lambda: None, lambda: None)
    write_questions(texts, passages(texts, number), manner)
    return of_questions(endpoint, dry_run.calls, dry_run.prompt_tokens)


def _texts(place: Workplace) -> list[str]:
    return [each.document.text for each in place.sample.documents]


TWICE = 5  # of so many questions one has its answers judged twice
_QUESTION, _ANSWER, _VERDICT = 150, 100, 30  # tokens of an answer, about
_TASKS = 600  # tokens of the instructions, the question and the excerpts, about


@dataclass(frozen=True, slots=True)
class AskingEstimate:
    """Estimated requests to language models. ``model``: names of all models that are asked."""

    model: str
    use: ModelUse

    @property
    def text(self) -> str:
        use = self.use
        cost = f", which costs about {price(use.cost)}" if use.cost else ""
        return (
            f"language model {self.model}: about {counted(use.calls, 'request')}, "
            f"{counted(use.prompt_tokens, 'token')} read and {use.answer_tokens:,} written{cost}"
        )


@dataclass(frozen=True, slots=True)
class AskingUsage:
    """Requests that were sent, beside the estimate. ``use``: without answers from the cache."""

    expected: AskingEstimate
    use: ModelUse


def of_questions(endpoint: Endpoint, calls: int, prompt_tokens: int) -> ModelUse:
    """Estimate the use for writing questions.

    ``calls``: requests that the cache cannot answer; ``prompt_tokens``: tokens of these requests.
    """
    return _price(endpoint, calls, prompt_tokens, calls * _QUESTION)


def of_judgements(endpoint: Endpoint, questions: int, strategies: int, budget: int) -> ModelUse:
    """Estimate the use for an answer and a judgement of each strategy and question.

    One answer in ``TWICE`` gets a second judgement. ``budget``: tokens of a context.
    """
    answers = questions * strategies
    verdicts = answers + answers // TWICE
    prompts = answers * (budget + _TASKS // 2) + verdicts * (budget + _TASKS)
    return _price(endpoint, answers + verdicts, prompts, answers * _ANSWER + verdicts * _VERDICT)


def _price(endpoint: Endpoint, calls: int, prompts: int, answers: int) -> ModelUse:
    cost = prompts * endpoint.prompt_price + answers * endpoint.answer_price
    return ModelUse(calls, prompts, answers, cost / 1e6)


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
            use += estimate_questions(place, endpoint, request.make)
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
