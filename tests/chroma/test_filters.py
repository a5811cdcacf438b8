"""Bounds of filters, as the search, assistants, commands and the guard apply them."""

from typing import Any

import pytest

from ingestor.chroma.filters import CONDITIONS, DEEPEST, VALUES, find_excess


def some(number: int) -> list[dict[str, int]]:
    return [{"page": n} for n in range(number)]


def nested(levels: int) -> dict[str, Any]:
    """A filter of so many objects and lists within each other."""
    filter_: Any = {"page": 1}
    for level in range(levels - 1):
        filter_ = [filter_] if level % 2 == 0 else {"$and": filter_}
    return filter_ if isinstance(filter_, dict) else {"$and": filter_}


@pytest.mark.parametrize(
    ("filters", "excess"),
    [
        ((), None),
        ((None, {}), None),
        (({"$or": some(CONDITIONS)},), None),
        (({"$or": some(CONDITIONS + 1)},), "conditions"),
        (({"$or": [{"page": {"$gt": n}} for n in range(CONDITIONS)]},), None),
        (({"$or": [{"page": {"$gt": n, "$lt": 9}} for n in range(CONDITIONS)]},), "conditions"),
        (({"$and": [{"$or": some(126)}, {"$or": some(126)}]},), "conditions"),
        (({"$or": some(126)}, {"$or": [{"$contains": str(n)} for n in range(126)]}), "conditions"),
        (({f"key{n}": n for n in range(CONDITIONS + 1)},), "conditions"),
        (({"$or": [{"page": {"$in": []}}] * (CONDITIONS + 1)},), "conditions"),
        (({"page": {"$in": [*range(VALUES)]}},), None),
        (({"page": {"$in": [*range(VALUES + 1)]}},), "values"),
        (({"$or": [{"page": {"$nin": ["x"] * 100}}] * 51},), "values"),
        (({"page": {"$in": [*range(VALUES), {"a": 1}, None]}},), "values"),
        ((nested(DEEPEST - 1),), None),
        ((nested(DEEPEST + 1),), "levels deep"),
        ((nested(900),), "levels deep"),
        (([[[]]],), None),
    ],
)
def test_filters_beyond_a_bound_are_named(filters: tuple[Any, ...], excess: str | None) -> None:
    found = find_excess(*filters)
    assert (found is None) == (excess is None)
    assert excess is None or excess in str(found)
