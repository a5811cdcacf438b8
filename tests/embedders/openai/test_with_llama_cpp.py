"""A real server of other people: llama.cpp's, with a real model, in an environment of its own.

Gemma 3 270M is no embedding model: its averaged states are vectors all the same, and near where texts are.
"""

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ingestor.embedders.openai import OpenAIEmbedder, OpenAIOptions
from ingestor.ports import BadDocument
from tests.gemma import serving

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

TEXTS = [f"River {n} has {n * n} bridges." for n in range(12)]


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    with serving(embedding=True) as found:
        yield found


def built(base_url: str, **more: Any) -> OpenAIEmbedder:
    return OpenAIEmbedder(
        OpenAIOptions.model_validate({"base_url": base_url, "model": "gemma", "timeout": 600, **more})
    )


def test_vectors_of_a_real_server_are_valid(base_url: str) -> None:
    embedder = built(base_url)
    found = embedder.embed_each(TEXTS, threading.Event())
    vectors = np.array(found.vectors)
    assert vectors.shape == (len(TEXTS), embedder.dimensions) == (len(TEXTS), 640)
    assert found.tokens
    assert found.tokens > len(TEXTS)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-3)


def test_batches_and_lanes_change_no_more_than_the_last_digits(base_url: str) -> None:
    alone = built(base_url, batch_texts=1, concurrency=1).embed(TEXTS)
    together = built(base_url, batch_texts=5, concurrency=3).embed(TEXTS)
    assert (alone * together).sum(axis=1).min() > 0.99


def test_text_that_is_too_long_is_found_among_others(base_url: str) -> None:
    texts = [*TEXTS[:5], "word " * 3000, *TEXTS[5:10]]
    rows = built(base_url).embed_each(texts, threading.Event()).vectors
    assert [type(row) for row in rows].index(BadDocument) == 5
    assert sum(isinstance(row, np.ndarray) for row in rows) == 10
    assert "too large to process" in str(rows[5])
