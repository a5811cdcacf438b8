"""How often a language model will be asked, and what that costs. Pure."""

from dataclasses import dataclass

from ingestor.llm.options import Endpoint

TWICE = 5  # of so many questions one has its answers judged twice
_QUESTION, _ANSWER, _VERDICT = 150, 100, 30  # tokens of an answer, about
_TASKS = 600  # tokens of the instructions, the question and the excerpts, about


@dataclass(frozen=True, slots=True)
class AskingEstimate:
    """``cost``: by the configured prices; 0 where there are none."""

    model: str
    calls: int
    prompt_tokens: int
    answer_tokens: int
    cost: float

    @property
    def text(self) -> str:
        cost = f", which costs about {self.cost:.2f}" if self.cost else ""
        return (
            f"language model {self.model}: about {self.calls:,} requests, {self.prompt_tokens:,} tokens read "
            f"and {self.answer_tokens:,} written{cost}"
        )


@dataclass(frozen=True, slots=True)
class AskingUsage:
    """Of a language model: what was expected, and what was sent, less what was in the cache."""

    expected: AskingEstimate
    calls: int
    prompt_tokens: int
    answer_tokens: int
    cost: float


def of_questions(endpoint: Endpoint, calls: int, prompt_tokens: int) -> AskingEstimate:
    """``calls``: that are not in the cache; ``prompt_tokens``: of these."""
    return _priced(endpoint, calls, prompt_tokens, calls * _QUESTION)


def of_judgements(endpoint: Endpoint, questions: int, strategies: int, budget: int) -> AskingEstimate:
    """Of an answer and a judgement for each strategy and question, and some second judgements."""
    answers = questions * strategies
    verdicts = answers + answers // TWICE
    prompts = answers * (budget + _TASKS // 2) + verdicts * (budget + _TASKS)
    return _priced(endpoint, answers + verdicts, prompts, answers * _ANSWER + verdicts * _VERDICT)


def together(one: AskingEstimate, other: AskingEstimate) -> AskingEstimate:
    return AskingEstimate(
        one.model,
        one.calls + other.calls,
        one.prompt_tokens + other.prompt_tokens,
        one.answer_tokens + other.answer_tokens,
        one.cost + other.cost,
    )


def _priced(endpoint: Endpoint, calls: int, prompts: int, answers: int) -> AskingEstimate:
    cost = prompts * endpoint.prompt_price + answers * endpoint.answer_price
    return AskingEstimate(endpoint.model, calls, prompts, answers, cost / 1e6)
