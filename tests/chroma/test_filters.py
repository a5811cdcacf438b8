"""Bounds of filters, as the search, assistants, commands and the guard apply them."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from ingestor.chroma.guard_rules import CONDITIONS, DEEPEST, VALUES, find_excess
from ingestor.search.filters import find_mistake
from tests.chroma.laws import many
from tests.chroma.opening import opened


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


OPERANDS = ("x", "", 1, -2, 1.5, True, None, [], [1], ["x", "y"], [1, "x"], [1, 1.5], [True, 1], [None], {})
OPERATORS = (
    *("$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$contains", "$not_contains"),
    *("$like", "$regex", "b", "$and", ""),
)


def filters() -> Iterable[dict[str, Any]]:
    """Filters of one's own key, sound and wrong: every operator with every operand, and combinations."""
    yield from ({"own": {operator: operand}} for operator in OPERATORS for operand in OPERANDS)
    yield from ({"own": operand} for operand in OPERANDS)
    yield from ({key: operand} for key in ("$and", "$or", "$not", "$contains") for operand in OPERANDS)
    sound, other = {"own": "x"}, {"own": {"$gt": 1}}
    for key in ("$and", "$or"):
        yield from (
            {key: each} for each in ([sound, other], [{}], [sound, {**sound, "b": 1}], [{key: [sound]}])
        )
    yield from ({}, {**sound, "b": 1}, {"own": {"$gt": 1, "$lt": 3}}, {"$and": [sound], "own": 1})


def test_mistakes_are_named_exactly_where_chroma_refuses_a_filter(served) -> None:
    index = opened(served)
    index.upsert(many(1))
    for each in filters():
        try:
            index.filter_ids(["-"], each)
        except ValueError:
            assert find_mistake(each), each
        else:
            assert find_mistake(each) is None, each


def test_standard_keys_are_refused_exactly_where_their_type_never_matches(served) -> None:
    values = {"path": "ref/a.md", "page": 3, "headings": ["FAQ", "Cards"]}
    index = opened(served)
    (record,) = many(1)
    index.upsert([replace(record, metadata={**record.metadata, **values})])
    operators = {"path": ("$eq", "$in"), "page": ("$eq", "$in", "$gte", "$lte"), "headings": ("$contains",)}
    for key in values:
        for operator in ("$eq", "$in", "$contains", "$gte"):
            for operand in ("ref/a.md", "ref/", "FAQ", 3):
                where = {key: {operator: [operand] if operator == "$in" else operand}}
                mistake = find_mistake(where)
                if mistake is None:
                    assert operator in operators[key], where
                else:
                    with pytest.raises((ValueError, AssertionError)):
                        assert index.filter_ids([record.id], where), mistake


@pytest.mark.parametrize(
    ("where", "remedy"),
    [
        ({"path": {"$contains": "ref/"}}, '{"folders": {"$contains": "ref"}}'),
        ({"folders": {"$contains": "ref/"}}, '{"folders": {"$contains": "ref"}}'),
        ({"heading_path": {"$not_contains": "FAQ"}}, '{"headings": {"$not_contains": "FAQ"}}'),
        ({"title": {"$contains": "FAQ"}}, "use $eq or $in"),
        ({"headings": "FAQ"}, '{"headings": {"$contains": "FAQ"}}'),
        ({"page": 1, "language": "en"}, '{"$and": [{"page": 1}, {"language": "en"}]}'),
        ({"page": {"$gt": 1, "$lt": 3}}, '{"$and": [{"page": {"$gt": 1}}, {"page": {"$lt": 3}}]}'),
        ({"page": "3"}, "'page', which is a number"),
        ({"title": {"$like": "a"}}, "known: $eq, $ne"),
    ],
)
def test_mistakes_name_what_to_write_instead(where: dict[str, Any], remedy: str) -> None:
    assert remedy in (find_mistake(where) or "")
