"""Requests of the embedder: batches, the pace of a minute, halving, and answers."""

import json
from collections.abc import Sequence
from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.embedders.openai import (
    MINUTE,
    Malformed,
    Pace,
    RateLimits,
    Sent,
    TextsRefused,
    batches,
    earliest,
    read_answer,
    resolve,
)
from ingestor.model import Vector
from ingestor.ports import BadDocument


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
def test_malformed_vector_is_omitted(numbers: list[float]) -> None:
    found = read_answer(answer([1.0, 0.0], numbers), 2)
    assert found.vectors[0] is not None
    assert found.vectors[1] is None


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (answer([1.0]), "returned 1 vectors for 2 texts"),
        (answer([1.0], [1.0], [1.0]), "returned 3 vectors for 2 texts"),
        (answer([1.0], [1.0], indices=[0, 0]), "returned 2 vectors with a wrong `index`"),
        (answer([1.0], [1.0], indices=[1, 2]), "returned 2 vectors with a wrong `index`"),
        (answer([1.0], [1.0], indices=[[], {}]), "OpenAI-compatible"),
        (answer([1.0], [1.0, 2.0]), r"returned vectors of different or invalid lengths \(1, 2\)"),
        (answer([], []), r"returned vectors of different or invalid lengths \(0\)"),
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


@pytest.mark.parametrize(
    ("sent", "limits", "tokens", "expected"),
    [
        ([], RateLimits(), 10**9, 100.0),
        ([], RateLimits(1, 10), 10, 100.0),
        ([], RateLimits(1, 10), 11, 100.0),  # more than a minute may have: it has one for itself
        ([Sent(90.0, 1)], RateLimits(1, inf), 1, 150.0),
        ([Sent(90.0, 1)], RateLimits(2, inf), 1, 100.0),
        ([Sent(40.0, 9)], RateLimits(1, 9), 9, 100.0),  # a minute ago is long enough
        ([Sent(50.0, 6), Sent(90.0, 3)], RateLimits(inf, 10), 2, 110.0),
        ([Sent(50.0, 6), Sent(90.0, 3)], RateLimits(inf, 10), 8, 150.0),
        ([Sent(50.0, 1)], RateLimits(inf, 10), 11, 110.0),
        ([Sent(90.0, 1), Sent(150.0, 1)], RateLimits(2, inf), 1, 150.0),  # none overtakes one that waits
    ],
)
def test_first_time_that_fits(sent: list[Sent], limits: RateLimits, tokens: int, expected: float) -> None:
    assert earliest(sent, limits, 100.0, tokens) == expected


@given(
    st.lists(st.tuples(st.floats(0, 30), st.integers(0, 12)), max_size=30),
    st.integers(1, 4),
    st.integers(1, 20),
)
def test_rate_limit_holds_in_each_minute(requests: list[tuple[float, int]], most: int, tokens: int) -> None:
    now, at = 0.0, []
    pace = Pace(RateLimits(most, tokens), lambda: now)
    for pause, size in requests:
        now += pause
        at.append((round(now + pace.take(size), 6), size))
    assert [time for time, _ in at] == sorted(time for time, _ in at)
    for begin, _ in at:
        minute = [size for time, size in at if begin <= time < begin + MINUTE - 1e-6]
        assert len(minute) <= most
        assert sum(minute) <= tokens or len(minute) == 1


def test_pause_holds_up_all_requests() -> None:
    now = 10.0
    pace = Pace(RateLimits(), lambda: now)
    pace.pause(7.0)
    pace.pause(3.0)
    assert [pace.take(1), pace.take(1)] == [7.0, 7.0]
    now = 18.0
    assert pace.take(1) == 0.0


@pytest.mark.parametrize(
    ("tokens", "texts", "most", "expected"),
    [
        ([], 2, 10, []),
        ([5], 2, 10, [[0]]),
        ([5, 5, 5], 2, 10, [[0, 1], [2]]),
        ([5, 6, 5], 9, 10, [[0], [1], [2]]),
        ([1, 99, 1, 1], 9, 10, [[0], [1], [2, 3]]),
        ([0, 0, 0], 2, 1, [[0, 1], [2]]),
    ],
)
def test_batches_keep_the_limits_of_texts_and_tokens(
    tokens: list[int], texts: int, most: int, expected: list[list[int]]
) -> None:
    assert [list(batch) for batch in batches(tokens, texts, most)] == expected


@given(st.lists(st.integers(0, 30)), st.integers(1, 5), st.integers(1, 40))
def test_every_text_is_in_one_batch_and_no_batch_is_too_large(
    tokens: list[int], texts: int, most: int
) -> None:
    made = [list(batch) for batch in batches(tokens, texts, most)]
    assert [position for batch in made for position in batch] == list(range(len(tokens)))
    for batch in made:
        assert len(batch) <= texts
        assert len(batch) == 1 or sum(tokens[position] for position in batch) <= most


# test_embedder.py has the order of requests, and errors of all texts


@given(st.sets(st.integers(0, 20)), st.sets(st.integers(0, 20)), st.integers(1, 21))
def test_bad_texts_are_found_and_no_others(bad: set[int], zero: set[int], most: int) -> None:
    """A server takes batches of so many texts, without the bad ones."""

    def send(batch: Sequence[int]) -> list[Vector | None]:
        if len(batch) > most or bad & {*batch}:
            raise TextsRefused("refused the request (400): no")
        return [None if position in zero else np.float32([position]) for position in batch]

    found = resolve(range(21), send, lambda reason: None)
    assert sorted(found) == list(range(21))
    assert {n for n, row in found.items() if isinstance(row, BadDocument)} == bad | zero
    assert all(row == np.float32([n]) for n, row in found.items() if isinstance(row, np.ndarray))
