"""The changepoint strategy against the laws of all chunkers, and its options."""

from ingestor.chunkers.changepoint import PLUGIN
from tests.chunkers.laws import ChunkerLaws


class TestChangepoint(ChunkerLaws):
    plugin = PLUGIN
    options = {"target": 20}  # noqa: RUF012
    local = False  # the penalty is the whole collection's


class TestFixedPenalty(ChunkerLaws):
    plugin = PLUGIN
    options = {"target": 20, "penalty": 0.5, "vectors": "encoded"}  # noqa: RUF012
