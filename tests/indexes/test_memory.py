import pytest

from ingestor.indexes.memory import MemoryIndex
from tests.indexes.laws import IndexLaws


@pytest.fixture
def fresh():
    return MemoryIndex


class TestMemory(IndexLaws):
    pass
