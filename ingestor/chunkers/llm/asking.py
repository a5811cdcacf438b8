"""What the strategies share that ask a language model: options, and how an answer is got that can be used.

A question holds the text it is about and nothing else of the document, and the model's answer is kept (see
pipeline/answers.py): what is unchanged is not asked about again, and a document that was interrupted goes on
where it was. An answer that can't be used is asked for again, with what is wrong with it; it, too, is kept,
so that the same document is chunked the same way whatever the model said.
"""

from collections.abc import Callable
from typing import TypeVar

from ingestor.chunkers.options import ChunkerOptions
from ingestor.llm.client import Ask, Endpoint, Messages

T = TypeVar("T")

_TIMES = 3  # that a model is asked for one answer


class AskingOptions(ChunkerOptions, Endpoint):
    """Of chunkers that ask a language model."""


def answered(ask: Ask, messages: Messages, read: Callable[[str], T]) -> T | None:
    """The first answer that ``read`` does not refuse by ValueError; None where there is none."""
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
