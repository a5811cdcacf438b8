"""Bounds of metadata and text filters, well below what ends or stalls Chroma. Pure.

Chroma 1.5.9 fails at 1,000 conditions and at 20,000 values, and ends at 5,000 conditions: see decision 0062.
"""

from collections.abc import Mapping

CONDITIONS = 250  # comparisons in all filters of a request
VALUES = 5_000  # values in all lists of a request, as in `$in`
DEEPEST = 20  # levels of a filter, objects and lists alike


def find_excess(*filters: object) -> str | None:
    """Return which bound the filters of one request exceed, in words; None if they keep all bounds."""
    conditions = values = 0
    level = [each for each in filters if each is not None]
    for _ in range(DEEPEST + 1):
        deeper = list[object]()
        for value in level:
            if isinstance(value, Mapping):
                deeper += value.values()
            elif isinstance(value, list):
                inner = [each for each in value if isinstance(each, Mapping | list)]
                deeper += inner
                values += len(value) - len(inner)
                conditions += not inner  # `$in` and its list of values
            else:
                conditions += 1
        if conditions > CONDITIONS:
            return f"may have at most {CONDITIONS:,} conditions"
        if values > VALUES:
            return f"may have at most {VALUES:,} values in lists such as `$in`"
        level = deeper
    return f"may be nested at most {DEEPEST} levels deep" if level else None
