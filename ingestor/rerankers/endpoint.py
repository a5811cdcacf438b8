"""A reranker behind HTTP, in the form of text-embeddings-inference, or of Cohere, Jina and vLLM.

The second names its model: ``{"model", "query", "documents"}``, answered by ``{"results": [{"index",
"relevance_score"}]}``. The first has ``{"query", "texts"}``, answered by ``[{"index", "score"}]``.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

from ingestor.config.servers import Rerank
from ingestor.llm.options import ModelServer
from ingestor.llm.server import ModelRequests, RequestNotTaken, TryAgain
from ingestor.ports import Transient

AT_ONCE = 4  # requests
_MOST = 5_000_000  # bytes of an answer: servers may repeat the texts


def endpoint(options: Rerank) -> Callable[[str, Sequence[str]], Sequence[float]]:
    """Return the scores of a reranker server. ``options`` must have a ``url``."""
    url = str(options.url).rstrip("/").removesuffix("/rerank")
    server = ModelServer(
        base_url=url, api_key=options.api_key, timeout=options.timeout, retries=0, concurrency=AT_ONCE
    )
    requests = ModelRequests(server, "the reranker", options.model or "")

    def scores(question: str, texts: Sequence[str]) -> Sequence[float]:
        try:
            return _scores(requests.post("/rerank", _body(options.model, question, texts), _MOST), len(texts))
        except (TryAgain, RequestNotTaken) as error:
            raise Transient(requests.said(error)) from None

    return scores


def _body(model: str | None, question: str, texts: Sequence[str]) -> dict[str, Any]:
    if model is None:
        return {"query": question, "texts": list(texts), "truncate": True}
    return {"model": model, "query": question, "documents": list(texts)}


def _scores(content: bytes, number: int) -> list[float]:
    """Parse the score of each text from an answer. Raises TryAgain."""
    try:
        found = json.loads(content)
        rows = found["results"] if isinstance(found, dict) else found
        scores = {int(row["index"]): float(row.get("score", row.get("relevance_score"))) for row in rows}
        return [scores[at] for at in range(number)]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise TryAgain("did not answer as a reranker does; check url, and model") from None
