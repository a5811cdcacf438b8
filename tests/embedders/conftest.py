import pytest

from tests.embedders.laws import TEXTS


@pytest.fixture(scope="module")
def vectors(embedder):
    """Return the vectors of TEXTS by the module's embedder."""
    return embedder.embed(TEXTS)
