from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.embedders.exact import STEP, batches, pad_length

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
