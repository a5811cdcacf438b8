"""Batches of one padded length, and rounding."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.embedders.exact import STEP, batches, pad_length, unit

WINDOWS = st.integers(1, 600)
LENGTHS = st.lists(st.integers(0, 300), max_size=80)


@pytest.mark.parametrize(
    ("length", "window", "expected"),
    [(1, 256, 16), (16, 256, 16), (17, 256, 32), (250, 256, 256), (256, 256, 256), (70, 77, 77), (3, 8, 8)],
)
def test_padded_length_is_the_next_step_within_the_window(length, window, expected):
    assert pad_length(length, window) == expected


@given(LENGTHS, WINDOWS, st.integers(1, 4096))
def test_every_text_with_tokens_is_in_one_batch_and_padded_as_if_it_were_alone(lengths, window, budget):
    lengths = [min(length, window) for length in lengths]
    made = batches(lengths, window, budget)
    members = [position for batch in made for position in batch.members]
    assert sorted(members) == [position for position, length in enumerate(lengths) if length]
    for batch in made:
        assert all(batch.length == pad_length(lengths[position], window) for position in batch.members)
        assert len(batch.members) == 1 or batch.length * len(batch.members) <= budget


@given(LENGTHS, st.integers(1, 4096))
def test_only_the_last_batch_of_a_length_has_room_left(lengths, budget):
    made = batches(lengths, 300, budget)
    for batch, following in pairwise(made):
        assert batch.length >= following.length
        if batch.length == following.length:
            assert (len(batch.members) + 1) * batch.length > budget


def test_batch_has_about_the_budgets_tokens():
    assert [len(batch.members) for batch in batches([STEP * 2] * 150, 256, 2048)] == [64, 64, 22]


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
    with pytest.raises(ValueError, match="contains infinity or NaN"):
        unit(np.array([[1.0, bad]]))
