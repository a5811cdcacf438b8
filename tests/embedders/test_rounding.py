import numpy as np
import pytest

from ingestor.embedders.exact import unit


def test_rows_have_length_one_and_lose_nothing_in_float16():
    rows = unit(np.random.default_rng(1).normal(size=(50, 384)) * np.logspace(-4, 4, 50)[:, None])
    assert rows.dtype == np.float32
    assert np.abs(np.linalg.norm(rows, axis=1) - 1).max() < 5e-4
    assert np.array_equal(rows.astype(np.float16), rows)


def test_row_is_rounded_the_same_whatever_its_mates():
    rows = np.random.default_rng(2).normal(size=(64, 384)).astype(np.float32)
    together = unit(rows)
    assert all(np.array_equal(unit(rows[[n]])[0], together[n]) for n in range(64))


def test_zeros_become_the_first_axis():
    assert unit(np.zeros((2, 3), np.float32)).tolist() == [[1, 0, 0], [1, 0, 0]]
    assert unit(np.zeros((0, 3), np.float32)).shape == (0, 3)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_vector_without_numbers_is_refused(bad):
    with pytest.raises(ValueError, match="not a number"):
        unit(np.array([[1.0, bad]]))
