"""Has a language model answer questions from each strategy's context, and judge the answers.

Each context has the same budget of tokens. Equal requests are sent once, so equal contexts get the same
answer. All answers are cached.

The judge sees the question, the reference (the excerpts that answer it), the context of the answer, and the
answer. The verdict has the three values of LlamaIndex's evaluators: correctness from 1 to 5, relevancy and
faithfulness. A second judgement has the same parts in another order.

Strategies are compared by the questions for which every strategy has a judged answer, so that all differences
are paired.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from operator import attrgetter
from typing import Any

import numpy as np

from ingestor.core.fingerprint import text_digest
from ingestor.evaluate.asking import TWICE
from ingestor.evaluate.comparison import Comparison, compare
from ingestor.evaluate.cutting import SampleCut
from ingestor.evaluate.scores import EvalQuestion, Ranked, within
from ingestor.evaluate.workplace import Workplace, same_documents
from ingestor.llm.at_once import in_parallel
from ingestor.llm.client import Ask, LanguageModel, Messages, ask_until_valid, json_object
from ingestor.llm.options import Endpoint
from ingestor.ports import Stop
from ingestor.units import quantity

CORRECTNESS, RELEVANCY, FAITHFULNESS, SIMILARITY = "correctness", "relevancy", "faithfulness", "similarity"


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    """A language model's verdict on an answer.

    ``correctness`` is between 1 (wrong) and 5 (right and complete).
    """

    correctness: int
    relevant: bool
    faithful: bool


@dataclass(frozen=True, slots=True)
class Judgement:
    """Judgement of one answer. ``verdict``: None if there is no answer, or no valid verdict on it.

    ``again``: verdict of a second judgement, if there was one. ``similarity``: cosine of the answer and the
    excerpts.
    """

    verdict: JudgedAnswer | None
    again: JudgedAnswer | None = None
    similarity: float = 0.0


@dataclass(frozen=True, slots=True)
class Agreement:
    """How well two judgements of the same answers agree: for each metric, the share of equal values.

    ``count``: number of answers that were judged twice. ``correctness_within_1``: share of these answers
    whose two values of correctness differ by at most 1.
    """

    count: int
    correctness: float
    correctness_within_1: float
    relevancy: float
    faithfulness: float


@dataclass(frozen=True, slots=True)
class Judged:
    """Judgements of all strategies. Correctness is between 1 and 5, every other metric between 0 and 1.

    ``questions``: number of questions that were asked. ``compared``: number of questions for which every
    strategy has a judged answer. ``unjudged``: for each strategy, the number of answers without a valid
    judgement. ``comparisons``: the comparison by each metric; empty if ``compared`` is 0. ``agreement``: of
    the answers that were judged twice; None if there are none.
    """

    questions: int
    compared: int
    unjudged: tuple[int, ...]
    comparisons: Mapping[str, Comparison]
    agreement: Agreement | None


_METRICS: Mapping[str, Callable[[Any], float]] = {  # of a judgement with a verdict
    CORRECTNESS: attrgetter("verdict.correctness"),
    RELEVANCY: attrgetter("verdict.relevant"),
    FAITHFULNESS: attrgetter("verdict.faithful"),
    SIMILARITY: attrgetter("similarity"),
}


def compare_judgements(rows: Sequence[Sequence[Judgement]], about: Sequence[int]) -> Judged:
    """Compare the strategies by the questions for which every strategy has a judged answer.

    ``rows``: for each strategy, the judgement of its answer to each question. ``about``: number of the
    document that each question is about.
    """
    whole = [at for at in range(len(about)) if all(row[at].verdict is not None for row in rows)]
    documents = [about[at] for at in whole]
    comparisons = {
        name: compare(np.array([[of(row[at]) for at in whole] for row in rows], np.float64), documents)
        for name, of in _METRICS.items()
        if whole
    }
    unjudged = tuple(sum(each.verdict is None for each in row) for row in rows)
    return Judged(len(about), len(whole), unjudged, comparisons, _agreement(rows))


def describe_judgements(judged: Judged, names: Sequence[str], pick: int, than: int | None) -> str:
    """Describe the judgements of two strategies in one or two sentences.

    ``pick``, ``than``: numbers of the recommended strategy and of the one to compare it with.
    """
    if not judged.comparisons:
        return "No answer could be judged."
    correctness = judged.comparisons[CORRECTNESS]
    mean = correctness.means[pick].mean
    sentence = f"Answers from the context of {names[pick]} were judged {mean:.2f} of 5 correct"
    if than is not None:
        difference = correctness.difference(pick, than)
        ends = difference.interval
        clear = "" if difference.clear else ", which is no clear difference"
        sentence += (
            f", {abs(ends.mean):.2f} {'more' if ends.mean >= 0 else 'less'} than from that of {names[than]} "
            f"(95 % interval {ends.low:+.2f} to {ends.high:+.2f}){clear}"
        )
    sentence += "."
    if (twice := judged.agreement) is not None:
        sentence += (
            f" Of {quantity(twice.count, 'answer')} judged twice, {100 * twice.correctness:.0f} % got the "
            f"same correctness and {100 * twice.correctness_within_1:.0f} % one at most 1 apart, "
            f"{100 * twice.relevancy:.0f} % the same relevancy, "
            f"and {100 * twice.faithfulness:.0f} % the same faithfulness."
        )
    return sentence


def describe_judged(judged: Judged, budget: int) -> str:
    """Return sentences for people: how many answers were judged, and the units of the table's columns."""
    return (
        f"Judged: answers to {judged.compared:,} of {quantity(judged.questions, 'question')}, "
        f"from {budget:,} tokens of each strategy; "
        f"{quantity(sum(judged.unjudged), 'answer')} without a valid judgement. "
        "Correct: 1 to 5, with its 95 % interval; relevant, faithful, similar to the excerpts: percent."
    )


def _agreement(rows: Sequence[Sequence[Judgement]]) -> Agreement | None:
    twice = [(each.verdict, each.again) for row in rows for each in row if each.verdict and each.again]
    if not twice:
        return None
    ones, others = (
        np.array([(each.correctness, each.relevant, each.faithful) for each in verdicts])
        for verdicts in zip(*twice, strict=True)
    )
    correctness, relevancy, faithfulness = (ones == others).mean(axis=0).tolist()
    near = float((abs(ones - others)[:, 0] <= 1).mean())
    return Agreement(len(twice), correctness, near, relevancy, faithfulness)


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
_FIELDS = {
    "correctness": {"type": "integer", "enum": [1, 2, 3, 4, 5]},
    "relevant": {"type": "boolean"},
    "faithful": {"type": "boolean"},
}


def context(cut: SampleCut, ranked: Sequence[int], budget: int) -> str:
    """Return the context from which a language model answers a question: the texts of the best chunks.

    ``ranked``: numbers of the chunks, best first. ``budget``: tokens of the context; the last text is
    truncated to fit.
    """
    places = [cut.places[number] for number in ranked]
    shown = []
    for number, place in zip(ranked, within(places, budget), strict=False):
        text, whole = cut.texts[number], cut.places[number].tokens
        shown.append(text if place.tokens >= whole else text[: round(len(text) * place.tokens / whole)])
    return "\n\n".join(shown)


def answer_request(question: str, context: str) -> Messages:
    return ("system", _ANSWER), ("user", f"Excerpts:\n{context}\n\nQuestion: {question}")


def judge_request(question: str, reference: str, context: str, answer: str, *, turned: bool) -> Messages:
    """Build the request to judge an answer.

    ``reference``: the excerpts that answer the question. ``turned``: whether to give the parts after the
    question in reverse order, which shows how much the verdict depends on the order.
    """
    parts = [f"Reference:\n{reference}", f"Context:\n{context}", f"Answer to judge:\n{answer}"]
    shown = "\n\n".join([f"Question: {question}", *(reversed(parts) if turned else parts)])
    return ("system", _JUDGE), ("user", shown)


def read_verdict(answer: str) -> JudgedAnswer:
    """Parse a language model's verdict.

    Raises ValueError with a reason, which the next request to the model quotes.
    """
    fields = json_object(answer)
    if fields.keys() != _FIELDS.keys():
        raise ValueError(
            "the object must have the keys `correctness`, `relevant` and `faithful`, and no others"
        )
    correctness, relevant, faithful = (fields[name] for name in _FIELDS)
    if type(correctness) is not int or not 1 <= correctness <= 5:
        raise ValueError("`correctness` must be a whole number from 1 to 5")
    if not (isinstance(relevant, bool) and isinstance(faithful, bool)):
        raise ValueError("`relevant` and `faithful` must be true or false")
    return JudgedAnswer(correctness, relevant, faithful)


_TIMES = 2  # attempts to get a valid verdict


def judge(
    place: Workplace,
    endpoint: Endpoint,
    questions: Sequence[EvalQuestion],
    references: Sequence[str],
    rankings: Sequence[tuple[SampleCut, Ranked]],
    number: int,
    budget: int,
) -> Judged:
    """Have the language model answer questions from the context of each strategy, and judge the answers.

    ``number``: number of questions; the same questions are chosen in every run. ``references``: for each
    question, the excerpts that answer it. ``budget``: tokens of a context. Raises Transient or NeedsHuman.
    """
    order = sorted(range(len(questions)), key=lambda at: text_digest(questions[at].text))
    chosen = sorted(order[:number])  # a larger choice contains every smaller one
    twice = set(order[:number:TWICE])
    model, judging = (LanguageModel(endpoint, place.answers, fields) for fields in (None, _FIELDS))
    done = count(1)
    pairs = [(at, cut, ranked) for at in chosen for cut, ranked in rankings]

    def one(pair: tuple[int, SampleCut, Ranked]) -> tuple[str, Judgement]:
        at, cut, ranked = pair
        shown = context(cut, ranked[at], budget)
        made = _judgement(model, judging, questions[at].text, references[at], shown, twice=at in twice)
        place.progress(f"asking {endpoint.model}: {next(done):,} of {quantity(len(pairs), 'answer')}")
        return made

    made = in_parallel(one, pairs, endpoint.concurrency, Stop(), place.answers.stop)
    given = [number for number, (answer, _) in enumerate(made) if answer]
    ours = place.embedding([made[number][0] for number in given])
    theirs = place.embedding([references[pairs[number][0]] for number in given])
    judgements = [judgement for _, judgement in made]
    for number, cosine in zip(given, (ours * theirs).sum(axis=1).tolist(), strict=True):
        judgements[number] = replace(judgements[number], similarity=cosine)
    rows = [judgements[at :: len(rankings)] for at in range(len(rankings))]
    return compare_judgements(rows, same_documents([questions[at] for at in chosen]))


def _judgement(
    model: Ask, judging: Ask, question: str, reference: str, shown: str, *, twice: bool
) -> tuple[str, Judgement]:
    """Have a model answer a question from a context, and have the answer judged.

    Return the answer and its judgement, whose similarity is not computed yet. The answer is "" if the model
    gives none. ``shown``: the context. ``twice``: whether to judge the answer twice.
    """
    answer = (model(answer_request(question, shown)) or "").rpartition("</think>")[2].strip()
    if not answer:
        return "", Judgement(None)
    verdicts = [
        ask_until_valid(
            judging, judge_request(question, reference, shown, answer, turned=turned), read_verdict, _TIMES
        )
        for turned in ((False, True) if twice else (False,))
    ]
    return answer, Judgement(verdicts[0], verdicts[1] if twice else None)
