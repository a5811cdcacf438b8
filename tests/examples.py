"""How much is tried: a part of it in the default tests, all in `make test-all`."""

from collections.abc import Sequence
from typing import Any

from hypothesis import settings

QUICK = 12  # examples of the default profile


def examples(most: int, **others: Any) -> settings:
    """Return settings for ``most`` examples in the thorough profile, and an eighth of them else."""
    return settings(max_examples=most if is_thorough() else most // 8, **others)


def every(step: int, items: Sequence[Any]) -> Sequence[Any]:
    """Return all items in the thorough profile, and else the first of each ``step``."""
    return items if is_thorough() else items[::step]


def is_thorough() -> bool:
    assert settings.default is not None
    return settings.default.max_examples > QUICK
