"""Batches and rounding that make a text's vector depend on the text alone. Pure.

The arithmetic of a transformer depends on the length to which a text is padded. It does not depend on the
other texts of the batch; the embedder's tests verify that. So a text's own length decides its padded length,
and only texts of one padded length share a batch.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ingestor.model import Vectors

STEP = 16  # tokens; every new shape costs milliseconds and memory, so there are few


@dataclass(frozen=True, slots=True)
class Batch:
    """Texts that are embedded together, padded to the same length."""

    length: int  # tokens to which each text is padded
    members: tuple[int, ...]  # positions of the texts


def pad_length(length: int, window: int) -> int:
    """Return the number of tokens to which a text of ``length`` tokens is padded, at most ``window``."""
    return min(-(-length // STEP) * STEP, window)


def rows(length: int, budget: int) -> int:
    """Return how many texts, padded to ``length`` tokens each, make a batch of about ``budget`` tokens."""
    return max(budget // length, 1)


def batches(lengths: Sequence[int], window: int, budget: int) -> list[Batch]:
    """Return batches of about ``budget`` tokens each, with the longest texts first.

    ``lengths``: tokens of each text. ``window``: most tokens that the model reads. Texts without tokens are
    left out.
    """
    buckets = defaultdict(list)
    for position, length in enumerate(lengths):
        if length:
            buckets[pad_length(length, window)].append(position)
    return [
        Batch(length, tuple(members[start : start + rows(length, budget)]))
        for length, members in sorted(buckets.items(), reverse=True)
        for start in range(0, len(members), rows(length, budget))
    ]


def unit(vectors: "npt.NDArray[np.floating]") -> "Vectors":
    """Return the rows scaled to length 1 and rounded to float16, but as float32; shape (n, dimensions).

    So a cache can store rows in half the space without loss. Rounding changes the length of a row by at most
    0.05 %. A row of zeros, of a text without tokens, becomes the first axis. Raises ValueError for a row that
    is infinite or NaN.
    """
    import numpy as np

    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    if not np.isfinite(lengths).all():
        raise ValueError("the embedding model returned a vector that contains infinity or NaN")
    scaled = vectors / np.where(lengths, lengths, 1.0)
    scaled[lengths[:, 0] == 0, :1] = 1.0
    rounded: Vectors = scaled.astype(np.float16).astype(np.float32)
    return rounded
