"""A language model for evaluations, by a script: it writes questions, answers them, and judges answers."""

import json
import re
from typing import Any

from tests.endpoint import Reply, said

_SENTENCE = re.compile(r"[A-Z][^.!?\n]{40,300}[.!?]")


def model(body: dict[str, Any]) -> Reply:
    """Of the first sentence of the passage that no earlier question has, a question and an excerpt."""
    asked = body["messages"][1]["content"]
    earlier, _, passage = asked.rpartition("The passage:\n")
    for sentence in _SENTENCE.findall(passage):
        words = [word for word in re.findall(r"\w+", sentence) if len(word) > 3]
        question = f"What about {' '.join(words[:6])}?"
        if len(words) > 4 and question not in earlier:
            return said(json.dumps({"question": question, "excerpts": [sentence]}))
    return said("There is nothing to ask.")
