"""Artificial texts of words drawn by Zipf's law, always the same."""

from collections.abc import Sequence

import numpy as np

WORDS = 50_000


class Words:
    def __init__(self) -> None:
        self._draw = np.random.default_rng(0)
        self._bounds = np.cumsum(1 / np.arange(1, WORDS + 1))
        self._vocabulary = [f"{a}{b}" for a in _syllables(250) for b in _syllables(200)]

    def drawn(self, words: int) -> str:
        places = np.searchsorted(self._bounds, self._draw.random(words) * self._bounds[-1])
        return " ".join(self._vocabulary[at] for at in places)


def _syllables(count: int) -> Sequence[str]:
    return [f"{c}{v}{e}" for c in "bdfgklmnprstvz" for v in "aeiou" for e in "lmnrst"][:count]
