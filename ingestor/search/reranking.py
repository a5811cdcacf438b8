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
        order = best_first(reranker, question, texts[: len(seen)])
    except (Transient, NeedsHuman) as error:
        return list(best), f"not reranked: {error}"
    scored = (replace(seen[at], reranked=score) for at, score in order.items())
    return [*scored, *best[len(seen) :]], None


def best_first(reranker: Reranker, question: str, texts: Sequence[str]) -> dict[int, float]:
    """The texts' scores by their numbers, best first; of equals the first. Raises Transient or NeedsHuman."""
    scores = _checked(reranker.scores(question, texts), len(texts))
    return {at: scores[at] for at in sorted(range(len(scores)), key=lambda at: (-scores[at], at))}


def _checked(scores: Sequence[float], number: int) -> list[float]:
    if len(scores) != number or not all(map(isfinite, scores)):
        raise Transient(f"the reranker gave no {number} scores that are numbers")
    return [float(score) for score in scores]
