"""The reranker that a config describes."""

from collections.abc import Callable, Sequence

from ingestor.config.servers import Rerank
from ingestor.rerankers.cross_encoder import cross_encoder
from ingestor.rerankers.endpoint import AT_ONCE, endpoint
from ingestor.rerankers.in_time import in_time


def scores_of(options: Rerank, *, patient: bool) -> Callable[[str, Sequence[str]], Sequence[float]]:
    """Return the scores of the configured reranker.

    ``patient``: sets no time limit for a cross-encoder, which takes seconds to load.
    """
    if options.url is not None:
        return in_time(endpoint(options), options.timeout, AT_ONCE)
    model = cross_encoder(str(options.model))
    return model if patient else in_time(model, options.timeout, 1)
