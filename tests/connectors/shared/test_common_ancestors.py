import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.connectors.shared.keys import cover, is_covered

KEYS = st.lists(st.sampled_from("abc"), max_size=4).map("/".join)


@pytest.mark.parametrize(
    ("keys", "limit", "expected"),
    [
        ([], 3, []),
        (["a/b", "a/c"], 3, ["a/b", "a/c"]),
        (["a/b", "a", "ab"], 3, ["a", "ab"]),
        (["a/b", "a/c", "d"], 2, ["a", "d"]),
        (["a/b/c", "a/d", "e"], 2, ["a", "e"]),
        (["a", "b"], 1, [""]),
        (["", "a/b"], 9, [""]),
    ],
)
def test_keys_over_the_limit_are_covered_by_ancestors(
    keys: list[str], limit: int, expected: list[str]
) -> None:
    assert cover(keys, limit) == expected


@given(st.sets(KEYS), st.integers(1, 5))
def test_all_is_covered_by_few_that_do_not_cover_each_other(keys: set[str], limit: int) -> None:
    covers = set(cover(keys, limit))
    assert len(covers) <= limit
    assert all(key in covers or is_covered(key, covers) for key in keys)
    assert not any(is_covered(key, covers) for key in covers)
