"""Asking a language model until its answer is valid, and reading the JSON in answers.

After an invalid answer the model is asked again, with the reason. Invalid answers are cached as valid ones
are, so that the same question has the same end every time.
"""

import json
from collections.abc import Callable
from typing import Any, TypeVar

from ingestor.llm.client import Ask, Messages

T = TypeVar("T")


def ask_until_valid(
    ask: Ask,
    messages: Messages,
    read: Callable[[str], T],
    times: int = 3,
    invalid: Callable[[str], None] = lambda reason: None,
) -> T | None:
    """The first answer that ``read`` accepts (no ValueError); None if there is none in so many ``times``.

    ``invalid`` is told why an answer is not accepted.
    """
    for _ in range(times):
        answer = ask(messages)
        if answer is None:
            return None
        try:
            return read(answer)
        except ValueError as wrong:
            invalid(str(wrong))
            turn = ("assistant", answer.strip() or "(no answer)")
            messages = (*messages, turn, ("user", f"That can't be used: {wrong}. Answer again, as asked."))
    return None


def json_list(answer: str) -> list[Any]:
    """The JSON list in an answer; text around it is ignored. Raises ValueError, in words for the model."""
    value = _json(answer, "[", "]")
    if not isinstance(value, list):
        raise ValueError("the answer is not a JSON list")
    return value


def json_object(answer: str) -> dict[str, Any]:
    """The JSON object in an answer, likewise."""
    value = _json(answer, "{", "}")
    if not isinstance(value, dict):
        raise ValueError("the answer is not a JSON object")
    return value


def _json(answer: str, first: str, last: str) -> Any:
    body = answer.rpartition("</think>")[2]
    start, end = body.find(first), body.rfind(last)
    try:
        return json.loads(body[start : end + 1] if start >= 0 else "")
    except (ValueError, RecursionError):
        return None
