import numpy as np
import pytest

from ingestor.model import Record
from tests.chroma.laws import IndexLaws, record, vector
from tests.memory_index import MemoryIndex


@pytest.fixture
def fresh():
    return MemoryIndex


class TestMemory(IndexLaws):
    @pytest.mark.parametrize(
        "bad",
        [
            Record("a#0", "\ud800", {}, vector(1)),
            Record("a#0", "text", {"k": "\udfff"}, vector(1)),
            Record("a#0", "text", {"\udfff": 1}, vector(1)),
            Record("a#0", "text", {"k": float("nan")}, vector(1)),
            Record("a#0", "text", {"k": float("-inf")}, vector(1)),
            Record("a#0", "text", {"k": 2**63}, vector(1)),
            Record("a#0", "text", {"k": [1]}, vector(1)),
            Record("a#0", "text", {"k": []}, vector(1)),
            Record("a#0", "text", {"k": ["a", "\ud800"]}, vector(1)),
            Record("a#0", "text", {}, vector(1) * np.float32("nan")),
        ],
        ids=["text", "value", "key", "nan", "infinity", "large", "numbers", "empty", "listed", "vector"],
    )  # fmt: skip
    def test_values_that_chroma_cannot_store_are_refused(self, index, bad):
        with pytest.raises(ValueError, match="a#0"):
            index.upsert([record("b#0"), bad])
        if bad.metadata:
            with pytest.raises(ValueError, match="a#0"):
                index.patch([("a#0", bad.metadata)])
        assert index.count() == 0

    def test_id_named_twice_in_a_call_is_refused(self, index):
        with pytest.raises(ValueError, match="a#0"):
            index.upsert([record("a#0"), record("a#0")])
        with pytest.raises(ValueError, match="a#0"):
            index.patch([("a#0", {}), ("a#0", {})])
