"""Scores within some seconds, or none: a search does not wait for a reranker that is slow or still loads."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from ingestor.ports import Transient

Scores = Callable[[str, Sequence[str]], Sequence[float]]


def in_time(scores: Scores, seconds: float, at_once: int) -> Scores:
    """Return ``scores`` with a time limit, after which a call raises Transient.

    ``at_once``: number of parallel calls. Further calls wait, and are cancelled at the limit.
    """
    pool = ThreadPoolExecutor(at_once, thread_name_prefix="rerank")

    def bounded(question: str, texts: Sequence[str]) -> Sequence[float]:
        asked = pool.submit(scores, question, texts)
        try:
            return asked.result(seconds)
        except TimeoutError:
            asked.cancel()
            raise Transient(f"the reranker took longer than {seconds:g} s") from None

    return bounded
