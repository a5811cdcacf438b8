"""The similarity strategy: the laws of all chunkers, and what is its own."""

from ingestor.chunkers.similarity import PLUGIN
from tests.chunkers.laws import ChunkerLaws


class TestSimilarity(ChunkerLaws):
    plugin = PLUGIN
    options = {"threshold": 0.05, "max_tokens": 60}  # noqa: RUF012


class TestPooled(TestSimilarity):
    options = {**TestSimilarity.options, "vectors": "pooled"}  # noqa: RUF012
