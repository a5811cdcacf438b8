"""Answers that are what they should be, and others."""

import json
from typing import Any

import numpy as np
import pytest

from ingestor.embedders.openai import Malformed, read_answer


def answer(*embeddings: Any, indices: list[Any] | None = None, **more: Any) -> bytes:
    numbers = indices or range(len(embeddings))
    data = [{"index": n, "embedding": each} for n, each in zip(numbers, embeddings, strict=True)]
    return json.dumps({"data": data, "usage": {"prompt_tokens": 7}, **more}).encode()


def test_vectors_are_scaled_and_rounded() -> None:
    found = read_answer(answer([3.0, 4.0], [1e-3, 0.0]), 2)
    assert (found.dimensions, found.tokens) == (2, 7)
    first, second = found.vectors
    assert first is not None
    assert first.dtype == np.float32
    assert first.tolist() == np.float16([0.6, 0.8]).tolist()
    assert second is not None
    assert second.tolist() == [1.0, 0.0]


def test_vectors_are_in_the_order_of_their_texts() -> None:
    found = read_answer(answer([1.0, 0.0], [0.0, 1.0], indices=[1, 0]), 2)
    assert [row.tolist() for row in found.vectors if row is not None] == [[0.0, 1.0], [1.0, 0.0]]


def test_vectors_without_index_are_in_order() -> None:
    body = {"data": [{"embedding": [1.0, 0.0]}, {"embedding": [0.0, 1.0]}]}
    found = read_answer(json.dumps(body).encode(), 2)
    assert [row.tolist() for row in found.vectors if row is not None] == [[1.0, 0.0], [0.0, 1.0]]
    assert found.tokens is None


@pytest.mark.parametrize(
    "numbers",
    [[0.0, 0.0], [float("nan"), 1.0], [float("inf"), 1.0], [None, 1.0], [None, None], [1e308, 1e308]],
)
def test_numbers_that_are_no_vector(numbers: list[float]) -> None:
    found = read_answer(answer([1.0, 0.0], numbers), 2)
    assert found.vectors[0] is not None
    assert found.vectors[1] is None


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (answer([1.0]), "gave 1 vectors for 2 texts"),
        (answer([1.0], [1.0], [1.0]), "gave 3 vectors for 2 texts"),
        (answer([1.0], [1.0], indices=[0, 0]), "numbered its 2 vectors wrongly"),
        (answer([1.0], [1.0], indices=[1, 2]), "numbered its 2 vectors wrongly"),
        (answer([1.0], [1.0], indices=[[], {}]), "OpenAI-compatible"),
        (answer([1.0], [1.0, 2.0]), "gave vectors of 1, 2 numbers"),
        (answer([], []), "gave vectors of 0 numbers"),
        (answer([[1.0]], [[1.0]]), "OpenAI-compatible"),
        (answer("AACAPw==", "AACAPw=="), "OpenAI-compatible"),
        (answer(["1"], ["1"]), "OpenAI-compatible"),
        (answer([True], [True]), "OpenAI-compatible"),
        (answer(None, None), "OpenAI-compatible"),
        (answer({}, {}), "OpenAI-compatible"),
        (answer([1.0], [1.0], usage={"prompt_tokens": -1}), "OpenAI-compatible"),
        (answer([1.0], [1.0], usage={"prompt_tokens": 10**300}), "OpenAI-compatible"),
        (answer([1.0], [1.0], usage="many"), "OpenAI-compatible"),
        (b'{"data": "ab"}', "OpenAI-compatible"),
        (b'{"data": null}', "OpenAI-compatible"),
        (b"[]", "OpenAI-compatible"),
        (b"<html>", "did not answer with JSON"),
        (b"\xff\xfe", "did not answer with JSON"),
        (b"", "did not answer with JSON"),
        (b"[" * 100_000, "did not answer with JSON"),
    ],
)
def test_malformed_answer_is_refused(content: bytes, reason: str) -> None:
    with pytest.raises(Malformed, match=reason):
        read_answer(content, 2)
