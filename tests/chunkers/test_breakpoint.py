"""The breakpoint strategy: the laws of all chunkers, and what is its own."""

from ingestor.chunkers.breakpoint import PLUGIN
from tests.chunkers.laws import ChunkerLaws


class TestBreakpoint(ChunkerLaws):
    plugin = PLUGIN
    options = {"amount": 60}  # noqa: RUF012
    local = False  # the threshold is the whole document's


class TestPooled(TestBreakpoint):
    options = {**TestBreakpoint.options, "vectors": "pooled"}  # noqa: RUF012
