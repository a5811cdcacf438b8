import pytest

from tests.chroma.laws import IndexLaws
from tests.memory_index import MemoryIndex


@pytest.fixture
def fresh():
    return MemoryIndex


class TestMemory(IndexLaws):
    pass
