"""Common code of strategies that ask a language model: options, and asking until an answer is valid.

A question holds only the text concerned, and answers are cached (pipeline/answers.py). So unchanged text is
not asked about again, and an interrupted document continues where it was. After an invalid answer the model
is asked again, with the reason. Invalid answers are cached too, so that a document is always chunked the same
way.
"""

from collections.abc import Callable
from typing import TypeVar

from ingestor.chunkers.options import ChunkerOptions
from ingestor.llm.client import Ask, Endpoint, Messages

T = TypeVar("T")

_TIMES = 3  # attempts to get one valid answer


class AskingOptions(ChunkerOptions, Endpoint):
    """Options of chunkers that ask a language model."""


def answered(ask: Ask, messages: Messages, read: Callable[[str], T]) -> T | None:
    """The first answer that ``read`` accepts (no ValueError); None if there is none."""
    for _ in range(_TIMES):
        answer = ask(messages)
        if answer is None:
            return None
        try:
            return read(answer)
        except ValueError as wrong:
            said = ("assistant", answer.strip() or "(no answer)")
            messages = (*messages, said, ("user", f"That can't be used: {wrong}. Answer again, as asked."))
    return None
