"""Prompts about answers: to answer a question from a context, and to judge an answer.

The judge sees the question, the reference (the excerpts that answer it), the context that the answer was
given from, and the answer. Its verdict is the three of LlamaIndex's evaluators: correctness from 1 to 5,
relevancy and faithfulness. A second judgement has the same parts in another order.
"""

from collections.abc import Sequence

from ingestor.evaluate.asking.judgements import JudgedAnswer
from ingestor.evaluate.cutting import SampleCut
from ingestor.evaluate.scores import within
from ingestor.llm.client import Messages
from ingestor.llm.valid import json_object

_ANSWER = """\
Answer the question in at most three sentences and in its language. Use only what the excerpts say. If \
they do not say it, answer that they do not."""
_JUDGE = """\
You judge an answer to a question about documents. The reference is what the documents say about the \
question. The context is all that the answer could be made from. Judge three things:
- correctness, by the reference alone: 5 right and complete, 4 right with small gaps, 3 partly right, 2 \
mostly wrong or missing, 1 wrong or no answer;
- relevant: whether the answer is about what the question asks;
- faithful: whether the context says all that the answer says. An answer that says only that the excerpts do \
not tell is faithful.
Answer with a JSON object and nothing else:
{"correctness": 4, "relevant": true, "faithful": true}"""
_KEYS = {"correctness", "relevant", "faithful"}


def context(cut: SampleCut, ranked: Sequence[int], budget: int) -> str:
    """Return the texts of the best chunks that fill ``budget`` tokens; the last text is truncated."""
    places = [cut.places[number] for number in ranked]
    shown = []
    for number, place in zip(ranked, within(places, budget), strict=False):
        text, whole = cut.texts[number], cut.places[number].tokens
        shown.append(text if place.tokens >= whole else text[: round(len(text) * place.tokens / whole)])
    return "\n\n".join(shown)


def answer_request(question: str, context: str) -> Messages:
    return ("system", _ANSWER), ("user", f"Excerpts:\n{context}\n\nQuestion: {question}")


def judge_request(question: str, reference: str, context: str, answer: str, *, turned: bool) -> Messages:
    """Build the request to judge an answer. ``turned``: reverses the parts after the question."""
    parts = [
        f"Question: {question}",
        f"Reference:\n{reference}",
        f"Context:\n{context}",
        f"Answer to judge:\n{answer}",
    ]
    return ("system", _JUDGE), ("user", "\n\n".join(parts[:1] + parts[:0:-1] if turned else parts))


def verdict(answer: str) -> JudgedAnswer:
    """Raises ValueError, in words for the model."""
    fields = json_object(answer)
    if fields.keys() != _KEYS:
        raise ValueError("the object must have the keys correctness, relevant and faithful")
    correctness, relevant, faithful = fields["correctness"], fields["relevant"], fields["faithful"]
    if type(correctness) is not int or not 1 <= correctness <= 5:
        raise ValueError("correctness must be a whole number from 1 to 5")
    if not (isinstance(relevant, bool) and isinstance(faithful, bool)):
        raise ValueError("relevant and faithful must be true or false")
    return JudgedAnswer(correctness, relevant, faithful)
