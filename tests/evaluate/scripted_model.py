"""A language model for evaluations, by a script: it writes questions, answers them, and judges answers.

What it says depends on what it is asked alone, so that the same request has the same answer.
"""

import json
import re
from typing import Any

from tests.e2e.project import Project
from tests.endpoint import Reply, said

BAD = "kmeans:clusters=2:max_tokens=2000"  # a strategy that everybody must advise against
_SENTENCE = re.compile(r"[A-Z][^.!?\n]{40,300}[.!?]")


def model(body: dict[str, Any]) -> Reply:
    task, asked = (message["content"] for message in body["messages"][:2])
    if "You write questions" in task:
        return said(_question(asked))
    return said(_verdict(asked) if "You judge" in task else _answer(asked))


def parts(asked: str) -> dict[str, str]:
    """Of a request for a judgement, by their names."""
    heads = r"(Question|Reference|Context|Answer to judge):"
    _, *found = re.split(rf"(?:^|\n\n){heads}\s", asked)
    return dict(zip(found[::2], found[1::2], strict=True))


def _question(asked: str) -> str:
    """About the first sentence of the passage that no earlier question is about."""
    earlier, _, passage = asked.rpartition("The passage:\n")
    for number, sentence in enumerate(passage.splitlines(), 1):
        words = [word for word in re.findall(r"\w+", sentence) if len(word) > 3]
        question = f"What about {' '.join(words[:6])}?"
        if _SENTENCE.search(sentence) and len(words) > 4 and question not in earlier:
            return json.dumps({"question": question, "sentences": [number]})
    return "There is nothing to ask."


def _answer(asked: str) -> str:
    """The sentence of the excerpts that has most words of the question."""
    excerpts, _, question = asked.rpartition("Question: ")
    return max(_SENTENCE.findall(excerpts), key=lambda each: _common(each, question), default="They do not.")


def _verdict(asked: str) -> str:
    found = parts(asked)
    answer, reference = found["Answer to judge"], found["Reference"]
    share = _common(answer, reference) / max(1, len(_words(reference)))
    faithful = answer in (*_SENTENCE.findall(found["Context"]), "They do not.")
    return json.dumps({"correctness": 1 + round(4 * share), "relevant": share > 0.2, "faithful": faithful})


def _common(one: str, other: str) -> int:
    return len(_words(one) & _words(other))


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w{3,}", text.lower()))


def set_language_model(project: Project, base_url: str, **more: Any) -> None:
    endpoint = {"base_url": base_url, "model": "scripted", "prompt_price": 2.0, "answer_price": 10.0}
    project.settings |= {"language_model": endpoint | more}
    project.configure()
