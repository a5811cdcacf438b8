"""The cluster strategy against the laws of all chunkers, and its options."""

from ingestor.chunkers.cluster import PLUGIN
from tests.chunkers.laws import ChunkerLaws


class TestCluster(ChunkerLaws):
    plugin = PLUGIN
    options = {"max_tokens": 120, "min_tokens": 30}  # noqa: RUF012
    joins = False  # min_tokens is the size of a piece, and a chunk may be one piece
    local = False  # the mean is the whole collection's


class TestPooled(TestCluster):
    options = {"max_tokens": 120, "min_tokens": 30, "scope": "document", "vectors": "pooled"}  # noqa: RUF012
