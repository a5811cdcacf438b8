"""What the default strategy makes of the sample documents, with the real model."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from ingestor.chunkers.changepoint import PLUGIN
from ingestor.model import Chunking, Document
from ingestor.queries.reading import rank
from tests.chunkers.laws import TOKENS, parsed
from tests.minilm import CachedModel

pytestmark = pytest.mark.slow
SAMPLES = Path(__file__).parents[2] / "documents"


@cache
def collection() -> dict[str, tuple[Document, Chunking]]:
    """All samples, each beside the sums of the others, as `make run` indexes them."""
    documents = {
        path.name: parsed(path.read_bytes(), path.name)
        for path in sorted(SAMPLES.rglob("*.*"))
        if path.is_file()
    }
    chunker, embed = PLUGIN.build(PLUGIN.options(), TOKENS), CachedModel().embed
    sums = {name: chunker.chunk(document, embed, None).sums for name, document in documents.items()}
    total = np.sum(list(sums.values()), axis=0)
    return {
        name: (document, chunker.chunk(document, embed, total - sums[name]))
        for name, document in documents.items()
    }


def first_hit(question: str) -> str:
    chunks = [chunk.text for _, made in collection().values() for chunk in made.chunks]
    vectors = np.concatenate([made.vectors for _, made in collection().values() if made.vectors is not None])
    return chunks[int((vectors @ CachedModel().embed([question])[0]).argmax())]


def test_no_chunk_of_the_handbook_joins_the_introduction_and_the_first_section() -> None:
    document, made = collection()["handbook.md"]
    section = document.text.index("## 1. Membership")
    assert section in [chunk.start for chunk in made.chunks]
    assert made.chunks[1].end <= section


def test_question_that_is_suggested_is_answered_by_its_first_hit() -> None:
    """`ingestor run` suggests a heading of the collection (queries/reading.py)."""
    titles = [
        block.title for document, _ in collection().values() for block in document.blocks if block.title
    ]
    question = rank(titles)[0]
    assert question == "Can I borrow from the local history collection?"
    hit = first_hit(question)
    assert question in hit
    assert "in the reading room" in hit[hit.index(question) :]


def test_question_of_the_readme_is_answered_by_its_first_hit() -> None:
    assert "Four weeks" in first_hit("How long may I keep a book?")
