"""Needs of new records: disk, memory and time."""

from itertools import pairwise

import pytest

from ingestor.queries.needs import disk, memory, write_seconds


def test_needs_of_records_follow_their_size() -> None:
    assert memory(245_000, 1024) == pytest.approx(1e9, rel=0.15), "Chroma's rule, and the links"
    found = disk(1000, 400_000, 1000, 384)
    assert found.total == found.chroma + found.journal + found.cache
    assert found.chroma > found.cache > found.journal


def test_write_time_grows_with_records() -> None:
    assert write_seconds(0, 500) == 0
    assert write_seconds(800, 0) == pytest.approx(8 * write_seconds(100, 300))
    each = [write_seconds(1, before) for before in (999, 2_000, 4_000, 8_000)]
    steps = [later - earlier for earlier, later in pairwise(each)]
    assert steps == pytest.approx([steps[0]] * 3, rel=0.01), "as much for each doubling"
    assert steps[0] > 0
    assert sum(write_seconds(500, before) for before in range(0, 10_000, 500)) == pytest.approx(
        write_seconds(10_000, 0)
    )
