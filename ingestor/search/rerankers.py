"""Reorders the first hits by a reranker: a cross-encoder in this process, or a server.

A server has the API of text-embeddings-inference (``{"query", "texts"}``, answered by ``[{"index",
"score"}]``), or of Cohere, Jina and vLLM (``{"model", "query", "documents"}``, answered by ``{"results":
[{"index", "relevance_score"}]}``). A search does not wait for a reranker that is slow or still loading.
"""

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from math import isfinite
from typing import Any

from ingestor.config.servers import Rerank
from ingestor.llm.options import ModelServer
from ingestor.llm.server import ModelRequests, RequestNotTaken, TryAgain
from ingestor.ports import NeedsHuman, Transient
from ingestor.search.fusion import Ranked
from ingestor.search.values import NOT_RERANKED

Scores = Callable[[str, Sequence[str]], Sequence[float]]
"""How well each text answers a question, more is better. It raises Transient or NeedsHuman."""


@dataclass(frozen=True, slots=True)
class Reranker:
    """A model's ``scores``, applied to the first ``hits`` hits."""

    scores: Scores
    hits: int


def rerank(
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
        order = best_first(finite_scores(reranker.scores, question, texts[: len(seen)]))
    except (Transient, NeedsHuman) as error:
        return list(best), f"{NOT_RERANKED}{error}"
    in_order = (replace(seen[at], reranked=score) for at, score in order.items())
    return [*in_order, *best[len(seen) :]], None


def cache_scores(reranker: Reranker) -> Reranker:
    """Return a reranker for one question that scores no text twice, and is not called after a failure."""
    known: dict[str, float] = {}
    failed: list[Transient | NeedsHuman] = []

    def scores(question: str, texts: Sequence[str]) -> list[float]:
        if failed:
            raise failed[0]
        fresh = [text for text in dict.fromkeys(texts) if text not in known]
        try:
            known.update(
                zip(fresh, finite_scores(reranker.scores, question, fresh) if fresh else (), strict=True)
            )
        except (Transient, NeedsHuman) as error:
            failed.append(error)
            raise
        return [known[text] for text in texts]

    return Reranker(scores, reranker.hits)


def finite_scores(scores: Scores, question: str, texts: Sequence[str]) -> list[float]:
    """Return a finite score for each text. Raises Transient or NeedsHuman."""
    answer = scores(question, texts)
    if len(answer) != len(texts) or not all(map(isfinite, answer)):
        raise Transient("the reranker did not return one number for each text")
    return [float(score) for score in answer]


def best_first(scores: Sequence[float]) -> dict[int, float]:
    """Return the scores by number of the text, best first; equal scores in order of the texts."""
    return {at: scores[at] for at in sorted(range(len(scores)), key=lambda at: (-scores[at], at))}


def scores_of(options: Rerank, *, patient: bool) -> Scores:
    """Return the scoring function of the configured reranker.

    ``patient``: set no time limit for a cross-encoder, which takes seconds to load.
    """
    if options.url is not None:
        return in_time(endpoint(options), options.timeout, AT_ONCE)
    model = cross_encoder(str(options.model))
    return model if patient else in_time(model, options.timeout, 1)


def in_time(scores: Scores, seconds: float, at_once: int) -> Scores:
    """Return ``scores`` with a time limit, after which a call raises Transient.

    ``at_once``: number of parallel calls. Further calls wait, and are cancelled at the limit.
    """
    pool = ThreadPoolExecutor(at_once, thread_name_prefix="rerank")

    def score_in_time(question: str, texts: Sequence[str]) -> Sequence[float]:
        asked = pool.submit(scores, question, texts)
        try:
            return asked.result(seconds)
        except TimeoutError:
            asked.cancel()
            raise Transient(
                f"the reranker took longer than {seconds:g} s (`search.rerank.timeout`)"
            ) from None

    return score_in_time


AT_ONCE = 4  # requests
_MOST = 5_000_000  # bytes of an answer: servers may repeat the texts


def endpoint(options: Rerank) -> Scores:
    """Return the scoring function of a reranker server. ``options`` must have a ``url``."""
    url = str(options.url).rstrip("/").removesuffix("/rerank")
    server = ModelServer(
        base_url=url, api_key=options.api_key, timeout=options.timeout, retries=0, concurrency=AT_ONCE
    )
    requests = ModelRequests(server, "the reranker", options.model or "")

    def scores(question: str, texts: Sequence[str]) -> Sequence[float]:
        try:
            return _scores(requests.post("/rerank", _body(options.model, question, texts), _MOST), len(texts))
        except (TryAgain, RequestNotTaken) as error:
            raise Transient(requests.describe(error)) from None

    return scores


def _body(model: str | None, question: str, texts: Sequence[str]) -> dict[str, Any]:
    if model is None:
        return {"query": question, "texts": list(texts), "truncate": True}
    return {"model": model, "query": question, "documents": list(texts)}


def _scores(content: bytes, number: int) -> list[float]:
    """Parse the score of each text from an answer. Raises TryAgain."""
    try:
        answer = json.loads(content)
        rows = answer["results"] if isinstance(answer, dict) else answer
        scores = {int(row["index"]): float(row.get("score", row.get("relevance_score"))) for row in rows}
        return [scores[at] for at in range(number)]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise TryAgain("did not answer as a reranker does; check url, and model") from None


_BATCH = 32  # texts
_LONGEST = 512  # tokens of question and text together, unless the model's files set a limit


def cross_encoder(model: str) -> Scores:
    """Return the scoring function of a cross-encoder, which is loaded by the first call.

    ``model``: a folder, or a name on the Hugging Face hub.
    """
    loaded = cache(lambda: _load(model))

    def scores(question: str, texts: Sequence[str]) -> Sequence[float]:
        try:
            pairs = [(question, text) for text in texts]
            answer = loaded().predict(pairs, batch_size=_BATCH, show_progress_bar=False)
        except (RuntimeError, ValueError, IndexError) as error:
            raise Transient(f"the cross-encoder {model} failed: {error}") from error
        return [float(score) for score in answer]

    return scores


def _load(model: str) -> Any:
    if find_spec("sentence_transformers") is None:
        raise NeedsHuman("a cross-encoder needs the extra `torch`: pip install 'chroma-ingestor[torch]'")
    from sentence_transformers import CrossEncoder

    from ingestor.embedders.torch_model import quiet

    try:
        with quiet():
            answer = CrossEncoder(model, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise NeedsHuman(f"the cross-encoder {model} cannot be loaded: {error}") from error
    if answer.num_labels != 1:
        raise NeedsHuman(
            f"{model} returns {answer.num_labels} scores for a text, but a reranker must return one: set "
            "another `search.rerank.model`"
        )
    answer.max_seq_length = min(answer.max_seq_length or _LONGEST, _LONGEST)
    return answer
