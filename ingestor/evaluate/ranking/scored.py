"""Scores of a strategy's ranked chunks for every question. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ingestor.evaluate.intervals import Floats
from ingestor.evaluate.scores import ChunkPlace, EvalQuestion, ndcg, omega, score, within

NEAREST = 5


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """Scores of one strategy: a number from 0 to 1 for each question. ``at``: recall by budget, in tokens.

    ``ranked``: numbers of the nearest chunks, best first, enough to fill the largest budget.
    """

    at: Mapping[int, Floats]
    recall: Floats
    precision: Floats
    iou: Floats
    omega: Floats
    ndcg: Floats
    ranked: Sequence[Sequence[int]]


def scores(
    questions: Sequence[EvalQuestion],
    ranked: Sequence[Sequence[int]],
    places: Sequence[ChunkPlace],
    budgets: Sequence[int],
) -> Scores:
    """Score the ranked chunks of every question; at least one question and one chunk are required.

    ``ranked``: for each question, indices of ``places``, best first. ``budgets``: in tokens.
    """
    near = _by_document(places)
    rows = [_row(question, [places[at] for at in best], near, budgets)
            for question, best in zip(questions, ranked, strict=True)]  # fmt: skip
    columns = np.array(rows, np.float64).T
    by_budget = dict(zip(budgets, columns[5:], strict=True))
    recall, precision, iou, whole, gained = columns[:5]
    return Scores(by_budget, recall, precision, iou, whole, gained, ranked)


def enough(places: Sequence[ChunkPlace], budget: int) -> int:
    """Return the number of chunks that fill the budget, even if they are the smallest."""
    filled = np.cumsum(np.sort([max(1, place.tokens) for place in places]))
    return max(NEAREST, int(np.searchsorted(filled, budget)) + 1)


def _row(
    question: EvalQuestion,
    best: Sequence[ChunkPlace],
    near: Mapping[int, Sequence[ChunkPlace]],
    budgets: Iterable[int],
) -> list[float]:
    excerpts = question.excerpts
    possible = [place for each in {e.document for e in excerpts} for place in near.get(each, ())]
    first = score(excerpts, best[:NEAREST])
    return [
        first.recall,
        first.precision,
        first.iou,
        omega(excerpts, possible),
        ndcg(excerpts, best, possible, NEAREST),
        *(score(excerpts, list(within(best, budget))).recall for budget in budgets),
    ]


def _by_document(places: Iterable[ChunkPlace]) -> Mapping[int, Sequence[ChunkPlace]]:
    by_number: defaultdict[int, list[ChunkPlace]] = defaultdict(list)
    for place in places:
        by_number[place.document].append(place)
    return by_number
