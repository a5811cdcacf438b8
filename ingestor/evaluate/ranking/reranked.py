"""Chunks in the order of a reranker, which sees each question once: its scores are kept in the cache.

Neither a folder nor an address tells which weights answer, and both may hold others tomorrow. So the scores
of a fixed question are part of the key: a reranker that answers it otherwise is another one.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter

from ingestor.config.servers import Rerank
from ingestor.core.fingerprint import text_digest
from ingestor.search.rerankers import Scores, best_first, scored, scores_of
from ingestor.state.cache import VectorCache

_PATIENCE = 60.0  # seconds; an evaluation waits longer for a reranker than a search does
_QUESTION = "What does a loan from another library cost?"
_TEXTS = ("A book from another library costs two euros.", "The garden opens at nine.", "Loans are free.")
_DIGITS = 3  # of the scores of the fixed question; later ones may differ from run to run


@dataclass(frozen=True, slots=True)
class Reranking:
    """``ranked``: numbers of chunks for each question, best first. ``seconds``: of a question, on average."""

    ranked: list[list[int]]
    seconds: float


def rerank_best(
    rerank: Rerank,
    questions: Sequence[str],
    texts: Sequence[str],
    rankings: Sequence[Sequence[int]],
    cache: VectorCache,
    progress: Callable[[int], None],
) -> Reranking:
    """Rerank the best chunks of every question.

    ``texts``: texts of all chunks. ``rankings``: each question's chunk numbers, best first, before reranking.
    Raises Transient or NeedsHuman, as the reranker does.
    """
    scores = scores_of(rerank.model_copy(update={"timeout": _PATIENCE}), patient=True)
    name = _name(rerank, scores)
    orders, seconds = list[list[int]](), list[float]()
    for at, (question, best) in enumerate(zip(questions, rankings, strict=True)):
        progress(at)
        seen, rest = best[: rerank.hits], best[rerank.hits :]
        if seen:
            rated, took = _rate(scores, name, question, [texts[number] for number in seen], cache)
            seen = [seen[number] for number in best_first(rated)]
            seconds.append(took)
        orders.append([*seen, *rest])
    return Reranking(orders, sum(seconds) / max(1, len(seconds)))


def _name(rerank: Rerank, scores: Scores) -> str:
    """Name the reranker. Loads a cross-encoder."""
    probed = [f"{score:.{_DIGITS}g}" for score in scored(scores, _QUESTION, _TEXTS)]
    return json.dumps([rerank.url, rerank.model, probed])


def _rate(
    scores: Scores, name: str, question: str, texts: Sequence[str], cache: VectorCache
) -> tuple[list[float], float]:
    """The scores of the texts, and the seconds that they took when they were made."""
    key = text_digest(json.dumps(["rerank", name, question, *texts]))
    known = cache.get_answer(key)
    if known is not None:
        kept = json.loads(known)
        return kept["scores"], kept["seconds"]
    begun = perf_counter()
    made = scored(scores, question, texts)
    seconds = perf_counter() - begun
    cache.put_answer(key, json.dumps({"scores": made, "seconds": seconds}))
    return made, seconds
