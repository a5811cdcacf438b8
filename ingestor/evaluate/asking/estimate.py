"""Estimate of requests to a language model, and of their cost. Pure."""

from dataclasses import dataclass

from ingestor.evaluate.costs import ModelUse, price
from ingestor.llm.options import Endpoint
from ingestor.units import counted

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
