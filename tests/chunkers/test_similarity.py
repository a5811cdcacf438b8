"""The similarity strategy: the laws of all chunkers, and its rule."""

from collections.abc import Sequence

import pytest

from ingestor.chunkers.adjacent import SIMILARITY as PLUGIN
from ingestor.chunkers.adjacent import Similarity, SimilarityOptions
from ingestor.model import Document, Vectors
from ingestor.registry import find
from tests.chunkers.laws import TOKENS, ChunkerLaws, essay, fake_embed
from tests.chunkers.test_double_pass import by_words


class TestSimilarity(ChunkerLaws):
    plugin = PLUGIN
    options = {"threshold": 0.05, "max_tokens": 60}  # noqa: RUF012


class TestPooled(TestSimilarity):
    options = {**TestSimilarity.options, "vectors": "pooled"}  # noqa: RUF012


class TestParagraphs(TestSimilarity):
    options = {**TestSimilarity.options, "unit": "paragraph"}  # noqa: RUF012


def cut(text: str, **options: object) -> list[str]:
    chosen = SimilarityOptions.model_validate({"threshold": 0.6, "min_tokens": None, **options})
    made = Similarity(chosen, TOKENS).chunk(Document(text), by_words, None)
    return [chunk.text for chunk in made.chunks]


@pytest.mark.parametrize("vectors", ["encoded", "pooled"])
def test_similarity_grows_while_next_unit_resembles_chunk(vectors: str) -> None:
    """The fourth sentence is like the third, but not like the first three together."""
    text = "A A It. A A It. A B It. B B It."
    assert cut(text, vectors=vectors) == ["A A It. A A It. A B It.", "B B It."]
    assert cut(text, vectors=vectors, threshold=0.1) == [text]
    assert cut(text, vectors=vectors, threshold=0.95) == ["A A It. A A It.", "A B It.", "B B It."]


@pytest.mark.parametrize("vectors", ["encoded", "pooled"])
def test_similarity_stops_at_largest_size(vectors: str) -> None:
    assert cut("A It. A It. A It. A It.", vectors=vectors, max_tokens=8) == ["A It. A It.", "A It. A It."]


def test_units_may_be_paragraphs() -> None:
    text = "A It. B It.\n\nB It. A It.\n\nZ It. Z It."
    assert cut(text, unit="paragraph") == ["A It. B It.\n\nB It. A It.", "Z It. Z It."]
    assert cut(text) == ["A It.", "B It.\n\nB It.", "A It.", "Z It. Z It."]


def test_running_chunk_is_read_as_a_whole() -> None:
    asked: list[str] = []

    def embed(texts: Sequence[str]) -> Vectors:
        asked.extend(texts)
        return by_words(texts)

    chunker = Similarity(SimilarityOptions(threshold=0.4), TOKENS)
    chunker.chunk(Document("A It. A B It. B It. Z It."), embed, None)
    assert asked == ["A It.", "A B It.", "B It.", "Z It.", "A It. A B It.", "A It. A B It. B It."]


@pytest.mark.parametrize("strategy", ["similarity", "double_pass", "breakpoint"])
def test_default_leaves_no_fragments_and_no_giants(strategy: str) -> None:
    """A list of short items and sentences that resemble nothing, by vectors without any meaning."""
    items = "".join(f"- item {at}\n" for at in range(40))
    text = f"{essay(12)}\n\nTo D.\n\n{items}\n{essay(12, 40)}"
    plugin = find("chunkers", strategy)
    options = plugin.options()
    chunks = plugin.build(options, TOKENS).chunk(Document(text), fake_embed, None).chunks
    sizes = TOKENS.counts([chunk.text for chunk in chunks])
    assert len(chunks) > 5
    assert max(sizes) <= 400
    assert min(sizes) >= options.min_tokens >= 25


@pytest.mark.parametrize("strategy", ["similarity", "double_pass", "breakpoint"])
def test_default_minimum_makes_way_for_a_small_maximum(strategy: str) -> None:
    options = find("chunkers", strategy).options
    assert options(max_tokens=20).min_tokens == 10
    assert options(max_tokens=20, min_tokens=None).min_tokens is None
    assert options(max_tokens=300).min_tokens == options().min_tokens
