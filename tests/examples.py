"""How many examples hypothesis tries: a quarter of them in the default tests, all in `make test-all`."""

from typing import Any

from hypothesis import settings

QUICK = 25  # examples of the default profile


def examples(most: int, **others: Any) -> settings:
    """Return settings for ``most`` examples in the thorough profile, and a quarter of them else."""
    return settings(max_examples=most if settings.default.max_examples > QUICK else most // 4, **others)  # type: ignore[union-attr]
