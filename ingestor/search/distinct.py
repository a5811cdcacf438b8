"""Near-duplicates among hits: of texts that share most of their shingles the first stays. Pure.

A shingle is a run of three words [Broder 1997]. Two texts are near-duplicates if they share more than 0.8 of
the shingles of the larger one, so an excerpt is no duplicate of a longer text.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator

from ingestor.lexical.terms import DENSE
from ingestor.model import RecordId

SHARED = 0.8
_WORDS = 3  # of a shingle
_WORD = re.compile(rf"[{DENSE}]|[^\W{DENSE}]+")


class Distinct:
    """The texts so far, each unlike all others."""

    def __init__(self) -> None:
        self._sizes: dict[RecordId, int] = {}
        self._holders: dict[tuple[str, ...], list[RecordId]] = defaultdict(list)

    def add(self, id_: RecordId, text: str) -> RecordId:
        """Return the first text that this one is a near-duplicate of; else keep it, and return its own id."""
        shingles = set(_shingles(text))
        shared = Counter(holder for each in shingles for holder in self._holders.get(each, ()))
        for holder in self._sizes:
            if shared[holder] > SHARED * max(len(shingles), self._sizes[holder]):
                return holder
        self._sizes[id_] = len(shingles)
        for each in shingles:
            self._holders[each].append(id_)
        return id_


def _shingles(text: str) -> Iterator[tuple[str, ...]]:
    """Runs of words in lower case; the whole text if it has fewer words than a run."""
    words = _WORD.findall(text.casefold()) or [text]
    for at in range(max(1, len(words) - _WORDS + 1)):
        yield tuple(words[at : at + _WORDS])
