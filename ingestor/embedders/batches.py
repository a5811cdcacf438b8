"""Batches: the texts that go through a model together. Pure.

A vector must be a function of its text alone, to the last bit. The arithmetic of a transformer depends on the
length that a text is padded to. It does not depend on the other texts of the batch, as the tests of the
embedder hold. So every text has a padded length of its own, and only texts of one padded length share a
batch.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

STEP = 16  # tokens; every new shape costs milliseconds and memory, so there are few


@dataclass(frozen=True, slots=True)
class Batch:
    length: int  # tokens that each member is padded to
    members: tuple[int, ...]  # positions of the texts


def pad_length(length: int, window: int) -> int:
    """Rounded up to the next step, within the window."""
    return min(-(-length // STEP) * STEP, window)


def rows(length: int, budget: int) -> int:
    """Return the number of texts of a padded length that make a batch of about ``budget`` tokens."""
    return max(budget // length, 1)


def batches(lengths: Sequence[int], window: int, budget: int) -> list[Batch]:
    """Yield batches of texts with these numbers of tokens, longest first. Empty texts are in no batch."""
    buckets = defaultdict(list)
    for position, length in enumerate(lengths):
        if length:
            buckets[pad_length(length, window)].append(position)
    return [
        Batch(length, tuple(members[start : start + rows(length, budget)]))
        for length, members in sorted(buckets.items(), reverse=True)
        for start in range(0, len(members), rows(length, budget))
    ]
