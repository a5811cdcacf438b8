"""Texts longer than the model's window are embedded in parts, so that no vector ignores an end.

The model's own tokenizer decides what fits, whatever the limits of a strategy count. A longer text is halved
near its middle, at the strongest border there, until every part fits; its vector is the mean of its parts'.
"""

import re
from collections.abc import Callable, Sequence
from itertools import accumulate

import numpy as np

from ingestor.model import Vectors
from ingestor.ports import Embed, Embedder
from ingestor.segmentation.fixed_point import to_fixed
from ingestor.segmentation.pooling import pool

Beyond = Callable[[Sequence[str]], list[bool]]  # whether each text is longer than the window

VERSION = 1  # raised whenever the same text is divided otherwise
_BORDERS = tuple(map(re.compile, (r"\n", r"(?<=[.!?。！？])\s", r"\s", r"\b")))  # strongest first


def endless(texts: Sequence[str]) -> list[bool]:
    """Return False for each text: a model without a window reads all."""
    return [False] * len(texts)


def exceeds_window(embedder: Embedder, texts: Sequence[str]) -> list[bool]:
    """Return whether each text exceeds the window. Short texts are not counted: a code point has at most four
    tokens."""
    may_be = [text for text in texts if 4 * len(text) > embedder.window]
    if not may_be:
        return endless(texts)
    counts = dict(zip(may_be, embedder.count(may_be), strict=True))
    return [counts.get(text, 0) > embedder.window for text in texts]


def embed_whole(texts: Sequence[str], embed: Embed, beyond: Beyond) -> Vectors:
    """Embed texts, those beyond the window in parts that are weighted by their lengths."""
    long = beyond(texts)
    if not any(long):
        return embed(texts)
    divided = [parts(text, beyond) if is_long else [text] for text, is_long in zip(texts, long, strict=True)]
    flat = [part for each in divided for part in each]
    embedded = embed(flat)
    ends = list(accumulate(map(len, divided)))
    members = [(end - len(each), end) for each, end in zip(divided, ends, strict=True)]
    several = [at for at, each in enumerate(divided) if len(each) > 1]
    vectors = embedded[[start for start, _ in members]]
    weights = np.array([len(part) for part in flat], np.int64)
    if several:
        vectors[several] = pool(to_fixed(embedded), weights, [members[at] for at in several])
    return vectors


def parts(text: str, beyond: Beyond) -> list[str]:
    """Divide a text into parts that fit, in order. A single code point stays, whatever its length."""
    fitting, left = list[str](), [text]
    while left:
        first, *rest = left
        if len(first) < 2 or not beyond([first])[0]:
            fitting.append(first)
            left = rest
        else:
            at = _middle(first)
            left = [*filter(str.strip, (first[:at], first[at:])), *rest]
    return fitting


def _middle(text: str) -> int:
    """Return the place nearest to the middle of the strongest kind that the middle half has."""
    middle, low, high = len(text) // 2, len(text) // 4, len(text) - len(text) // 4
    for border in _BORDERS:
        places = [at.end() for at in border.finditer(text, low, high) if 0 < at.end() < len(text)]
        if places:
            return min(places, key=lambda at: abs(at - middle))
    return middle
