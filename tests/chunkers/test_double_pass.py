"""The double_pass strategy: the laws of all chunkers, and what is its own."""

from ingestor.chunkers.double_pass import PLUGIN
from tests.chunkers.laws import ChunkerLaws


class TestDoublePass(ChunkerLaws):
    plugin = PLUGIN
    options = {"initial": 0.05, "appending": 0.02, "merging": 0.02, "max_tokens": 60}  # noqa: RUF012


class TestPooled(TestDoublePass):
    options = {**TestDoublePass.options, "vectors": "pooled"}  # noqa: RUF012
