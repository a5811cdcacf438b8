"""The first hits in the order of a reranker. Pure, but for what the reranker does."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import isfinite

from ingestor.ports import NeedsHuman, Transient
from ingestor.search.fusion import Ranked

Scores = Callable[[str, Sequence[str]], Sequence[float]]
"""How well each text answers a question, more is better. It raises Transient or NeedsHuman."""


@dataclass(frozen=True, slots=True)
class Reranker:
    """``hits``: how many it sees."""

    scores: Scores
    hits: int


def reranked(
    reranker: Reranker, question: str, best: Sequence[Ranked], texts: Sequence[str]
) -> tuple[list[Ranked], str | None]:
    """``best`` in the reranker's order as far as it saw them; or as they were, with the reason.

    ``texts``: of ``best``.
    """
    seen = best[: reranker.hits]
    if not seen:
        return list(best), None
    try:
        scores = _checked(reranker.scores(question, texts[: len(seen)]), len(seen))
    except (Transient, NeedsHuman) as error:
        return list(best), f"not reranked: {error}"
    scored = [replace(one, reranked=score) for one, score in zip(seen, scores, strict=True)]
    order = sorted(range(len(scored)), key=lambda at: (-scores[at], at))
    return [*(scored[at] for at in order), *best[len(seen) :]], None


def _checked(scores: Sequence[float], number: int) -> list[float]:
    if len(scores) != number or not all(map(isfinite, scores)):
        raise Transient(f"the reranker gave no {number} scores that are numbers")
    return [float(score) for score in scores]
