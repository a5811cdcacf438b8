"""Scores of a strategy's ranked chunks for every question. Pure.

Scores count characters. ``count_tokens`` counts tokens: a span has the tokens that begin in it.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ingestor.evaluate.intervals import Floats
from ingestor.evaluate.scores import (
    ChunkPlace,
    EvalQuestion,
    Excerpt,
    common,
    length,
    ndcg,
    omega,
    score,
    within,
)
from ingestor.text.spans import Span

NEAREST = 5
DEPTHS = (1, 3, 5)  # numbers of chunks at which a question may be found
_HALF = 0.5  # share of the excerpts that the chunks hold


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """Scores of one strategy: a number from 0 to 1 for each question. ``at``: recall by budget, in tokens.

    ``ranked``: numbers of the nearest chunks, best first, enough to fill the largest budget.
    ``hits``: by number of chunks, 1 if so many of the nearest hold half of the excerpts.
    ``context``: tokens of the nearest five.
    """

    at: Mapping[int, Floats]
    hits: Mapping[int, Floats]
    context: Floats
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
    recall, precision, iou, whole, gained, context = columns[:6]
    hits = dict(zip(DEPTHS, columns[6:], strict=False))
    by_budget = dict(zip(budgets, columns[6 + len(DEPTHS) :], strict=True))
    return Scores(by_budget, hits, context, recall, precision, iou, whole, gained, ranked)


def count_tokens(
    questions: Sequence[EvalQuestion],
    ranked: Sequence[Sequence[int]],
    places: Sequence[ChunkPlace],
    offsets: Sequence[Sequence[int]],
) -> tuple[Floats, Floats]:
    """Return recall and IoU of the nearest chunks for each question, by tokens.

    ``offsets``: where each token begins, by document.
    """

    def tokens(document: int, span: Span) -> Span:
        return bisect_left(offsets[document], span[0]), bisect_left(offsets[document], span[1])

    def place(number: int) -> ChunkPlace:
        one = places[number]
        return replace(one, spans=tuple(tokens(one.document, span) for span in one.spans))

    rows = []
    for question, best in zip(questions, ranked, strict=True):
        spans = [(e.document, *tokens(e.document, (e.start, e.end))) for e in question.excerpts]
        excerpts = [Excerpt(document, start, max(end, start + 1)) for document, start, end in spans]
        made = score(excerpts, [place(number) for number in best[:NEAREST]])
        rows.append((made.recall, made.iou))
    recall, iou = np.array(rows, np.float64).T
    return recall, iou


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
        sum(place.tokens for place in best[:NEAREST]),
        *(common(excerpts, best[:depth]) >= _HALF * length(excerpts) for depth in DEPTHS),
        *(score(excerpts, list(within(best, budget))).recall for budget in budgets),
    ]


def _by_document(places: Iterable[ChunkPlace]) -> Mapping[int, Sequence[ChunkPlace]]:
    by_number: defaultdict[int, list[ChunkPlace]] = defaultdict(list)
    for place in places:
        by_number[place.document].append(place)
    return by_number
