"""Pooled vectors and neighbour mixing: right, exact, and independent of what else is in the batch."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.model import Vectors
from ingestor.segmentation.fixed_point import to_fixed
from ingestor.segmentation.pooling import mix, pool

WIDTH = 16


def some(n: int, seed: int = 0) -> Vectors:
    raw = np.random.default_rng(seed).normal(size=(n, WIDTH))
    return (raw / np.linalg.norm(raw, axis=1, keepdims=True)).astype(np.float16).astype(np.float32)


def normalised(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def near(found: Vectors, expected: np.ndarray) -> bool:
    return bool((np.einsum("ij,ij->i", normalised(found.astype(np.float64)), expected) > 0.99999).all())


def test_pooled_is_the_token_weighted_mean() -> None:
    vectors, tokens = some(5), np.array([3, 50, 7, 1, 20])
    found = pool(to_fixed(vectors), tokens, [(0, 2), (2, 5)])
    weighted = vectors.astype(np.float64) * tokens[:, None]
    assert near(found, normalised(np.stack([weighted[:2].sum(axis=0), weighted[2:].sum(axis=0)])))


def test_mixing_takes_its_share_of_two_neighbours_on_either_side() -> None:
    v = some(5).astype(np.float64)
    expected = v[2] + 0.3 * (v[1] + v[3]) + 0.15 * (v[0] + v[4])
    edge = v[0] + 0.3 * v[1] + 0.15 * v[2]
    found = mix(some(5), 0.3)
    assert near(found[[2, 0]], normalised(np.stack([expected, edge])))


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_few_chunks_have_few_neighbours(n: int) -> None:
    assert mix(some(n), 0.5).shape == (n, WIDTH)
    assert pool(to_fixed(some(1)), np.array([1]), [(0, 1)] * n).shape == (n, WIDTH)


def test_no_share_changes_nothing() -> None:
    vectors = some(4)
    assert mix(vectors, 0.0) is vectors


@given(st.integers(1, 40), st.integers(0, 2**32), st.floats(0.01, 1), st.data())
def test_row_depends_on_two_neighbours_alone(n: int, seed: int, weight: float, data: st.DataObject) -> None:
    vectors = some(n, seed)
    at = data.draw(st.integers(0, n - 1))
    first = max(at - 2, 0)
    part = mix(vectors[first : at + 3], weight)
    assert (mix(vectors, weight)[at] == part[at - first]).all()


@given(st.integers(1, 40), st.integers(0, 2**32))
def test_vectors_are_of_unit_length_and_survive_float16(n: int, seed: int) -> None:
    vectors = some(n, seed)
    for found in (mix(vectors, 0.3), pool(to_fixed(vectors), np.arange(1, n + 1), [(0, n)])):
        assert found.dtype == np.float32
        assert (found == found.astype(np.float16)).all()
        assert np.allclose(np.linalg.norm(found, axis=1), 1, atol=1e-3)


def test_opposite_vectors_that_cancel_out_leave_a_vector() -> None:
    one = np.eye(1, WIDTH, dtype=np.float32)
    against = np.concatenate([one, -one])
    assert (pool(to_fixed(against), np.array([5, 5]), [(0, 2)]) == -one).all()
    assert (mix(against, 1.0) == against).all()


def test_vector_takes_nothing_from_another_section() -> None:
    rows = np.eye(4, dtype=np.float32)
    sections = [(0, 0), (0, 1), (1, 1), (2, 2)]  # the second chunk goes on into section 1
    apart = mix(rows, 0.3, sections)
    assert (apart != 0).tolist() == [
        [True, True, False, False], [True, True, True, False], [False, True, True, False],
        [False, False, False, True],
    ]  # fmt: skip
    assert np.array_equal(mix(rows, 0.3, [(0, 0)] * 4), mix(rows, 0.3))
