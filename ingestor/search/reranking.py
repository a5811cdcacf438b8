"""The first hits in the order of a reranker. Pure, but for what the reranker does."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import isfinite

from ingestor.ports import NeedsHuman, Transient
from ingestor.search.fusion import Ranked
from ingestor.search.values import NOT_RERANKED

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
    """Return the best hits in the reranker's order; hits that the reranker did not score follow unchanged.

    If the reranker fails, return the hits in their former order, and the reason.

    ``texts``: texts of ``best``.
    """
    seen = best[: reranker.hits]
    if not seen:
        return list(best), None
    try:
        order = best_first(scored(reranker.scores, question, texts[: len(seen)]))
    except (Transient, NeedsHuman) as error:
        return list(best), f"{NOT_RERANKED}{error}"
    in_order = (replace(seen[at], reranked=score) for at, score in order.items())
    return [*in_order, *best[len(seen) :]], None


def remembered(reranker: Reranker) -> Reranker:
    """Return a reranker for one question that scores no text twice, and is not asked again once it failed."""
    known: dict[str, float] = {}
    failed: list[Transient | NeedsHuman] = []

    def scores(question: str, texts: Sequence[str]) -> list[float]:
        if failed:
            raise failed[0]
        fresh = [text for text in dict.fromkeys(texts) if text not in known]
        try:
            known.update(zip(fresh, scored(reranker.scores, question, fresh) if fresh else (), strict=True))
        except (Transient, NeedsHuman) as error:
            failed.append(error)
            raise
        return [known[text] for text in texts]

    return Reranker(scores, reranker.hits)


def scored(scores: Scores, question: str, texts: Sequence[str]) -> list[float]:
    """A finite score for each text. Raises Transient or NeedsHuman."""
    found = scores(question, texts)
    if len(found) != len(texts) or not all(map(isfinite, found)):
        raise Transient(f"the reranker did not return {len(texts)} numbers")
    return [float(score) for score in found]


def best_first(scores: Sequence[float]) -> dict[int, float]:
    """The scores by their numbers, best first; of equals the first."""
    return {at: scores[at] for at in sorted(range(len(scores)), key=lambda at: (-scores[at], at))}
