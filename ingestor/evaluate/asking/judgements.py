"""Statistics of judged answers: means, differences, the judge's agreement with itself. Pure.

Strategies are compared by the questions for which every strategy has a judged answer, so that all differences
are paired.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ingestor.evaluate.intervals import Comparison, compare
from ingestor.units import counted

CORRECTNESS, RELEVANCY, FAITHFULNESS, SIMILARITY = "correctness", "relevancy", "faithfulness", "similarity"


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    """Verdict on an answer. ``correctness``: 1 to 5."""

    correctness: int
    relevant: bool
    faithful: bool


@dataclass(frozen=True, slots=True)
class Judgement:
    """Judgement of an answer. ``verdict``: None if the answer or a valid judgement is missing.

    ``again``: verdict of a second judgement; ``similarity``: cosine of answer and excerpts.
    """

    verdict: JudgedAnswer | None
    again: JudgedAnswer | None = None
    similarity: float = 0.0


@dataclass(frozen=True, slots=True)
class Agreement:
    """Share of twice-judged answers with the same judgement, by metric.

    ``count``: answers judged twice; ``near``: share whose correctness differs by 1 at most.
    """

    count: int
    correctness: float
    near: float
    relevancy: float
    faithfulness: float


@dataclass(frozen=True, slots=True)
class Judged:
    """Judgements of all strategies. Correctness is from 1 to 5, every other metric from 0 to 1.

    ``questions``: number asked; ``compared``: number with a judged answer of every strategy.
    ``unjudged``: answers without a judgement, by strategy.
    ``comparisons``: by metric; empty if no question can be compared.
    """

    questions: int
    compared: int
    unjudged: tuple[int, ...]
    comparisons: Mapping[str, Comparison]
    agreement: Agreement | None


_METRICS: Mapping[str, Callable[[Judgement, JudgedAnswer], float]] = {
    CORRECTNESS: lambda one, verdict: verdict.correctness,
    RELEVANCY: lambda one, verdict: verdict.relevant,
    FAITHFULNESS: lambda one, verdict: verdict.faithful,
    SIMILARITY: lambda one, verdict: one.similarity,
}


def compare_judgements(rows: Sequence[Sequence[Judgement]], about: Sequence[int]) -> Judged:
    """Compare the strategies by the questions for which every strategy has a judged answer.

    ``rows``: for each strategy, a judgement for each question; ``about``: each question's document.
    """
    whole = [at for at in range(len(about)) if all(row[at].verdict is not None for row in rows)]
    documents = [about[at] for at in whole]
    comparisons = {
        name: compare(np.array([[_value(row[at], of) for at in whole] for row in rows]), documents)
        for name, of in _METRICS.items()
        if whole
    }
    unjudged = tuple(sum(each.verdict is None for each in row) for row in rows)
    return Judged(len(about), len(whole), unjudged, comparisons, _agreement(rows))


def words(judged: Judged, names: Sequence[str], pick: int, than: int | None) -> str:
    """Describe the judgements in one or two sentences. ``pick`` and ``than``: strategies by number."""
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
    return sentence + "." + ("" if judged.agreement is None else f" {_trust(judged.agreement)}")


def _trust(agreement: Agreement) -> str:
    answers, same, near = counted(agreement.count, "answer"), agreement.correctness, agreement.near
    return (
        f"Of {answers} judged twice, {100 * same:.0f} % got the same correctness"
        f" and {100 * near:.0f} % one at most 1 apart."
    )


def _value(one: Judgement, of: Callable[[Judgement, JudgedAnswer], float]) -> float:
    assert one.verdict is not None
    return float(of(one, one.verdict))


def _agreement(rows: Sequence[Sequence[Judgement]]) -> Agreement | None:
    twice = [(each.verdict, each.again) for row in rows for each in row if each.verdict and each.again]
    if not twice:
        return None
    same = np.array(
        [
            (
                one.correctness == other.correctness,
                abs(one.correctness - other.correctness) <= 1,
                one.relevant == other.relevant,
                one.faithful == other.faithful,
            )
            for one, other in twice
        ],
        np.float64,
    )
    return Agreement(len(twice), *same.mean(axis=0).tolist())
