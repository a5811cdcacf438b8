"""Fuses the rankings by vectors and by words, and recognises near-duplicates. Pure.

Records are ordered by a weighted sum of their cosine, their BM25 score, and how surely the question names
their document, from 0 to 1. Cosines are scaled to this range over the candidates, so that every model fits;
equal cosines count as they are. A BM25 score is divided by the most that the words of the question can give
(``ranking.ByWords.most``), not by the best hit's. So words count little if few of them match.
(Measured: decisions 0040, 0085, 0165.)

The best record's score has its cosine as it is, and other scores are in proportion to their sums. So all
scores are low if nothing answers the question.

A shingle is a run of three words [Broder 1997]. Two texts are near-duplicates if they share more than 0.8 of
the larger text's shingles. An excerpt is no duplicate of a longer text.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from ingestor.lexical.terms import DENSE
from ingestor.model import RecordId
from ingestor.search.values import Ranks

WORDS = 0.7  # share of BM25; the cosine has the rest
NAMED = 0.4  # weight of a named document, beside 1 for cosine and BM25 together
_SAME = 1e-6  # cosines of equal texts differ by rounding


@dataclass(frozen=True, slots=True)
class Ranked:
    id: RecordId
    score: float
    ranks: Ranks
    reranked: float | None = None  # the reranker's score


def by_vectors(order: Sequence[tuple[RecordId, float]], n: int) -> list[Ranked]:
    """Return the first ``n`` of a list of cosines."""
    return [Ranked(id_, _between(cosine), Ranks(dense=at)) for at, (id_, cosine) in enumerate(order[:n], 1)]


def by_words(order: Sequence[tuple[RecordId, float]], most: float, n: int) -> list[Ranked]:
    """Return the first ``n`` of a list of BM25 scores. ``most``: see ranking.ByWords."""
    return [
        Ranked(id_, _between(score / most), Ranks(lexical=at)) for at, (id_, score) in enumerate(order[:n], 1)
    ]


def fuse(
    dense: Sequence[tuple[RecordId, float]],
    lexical: Sequence[tuple[RecordId, float]],
    cosines: Mapping[RecordId, float],
    most: float,
    n: int,
    dense_share: float = 1 - WORDS,
    named: Mapping[str, float] = MappingProxyType({}),
    scores: Mapping[RecordId, float] = MappingProxyType({}),
) -> list[Ranked]:
    """Return the best ``n``.

    ``cosines``: cosines of further candidates, such as records that only ``lexical`` has.

    ``most``, ``named``, ``scores``: see ranking.ByWords. A record by words without a vector counts as the
    most distant record. If it was deleted, it has no text either, and the next record replaces it.
    """
    listed = dict(lexical)
    bm25 = {**scores, **listed}
    ranked = {id_: cosine for id_, cosine in cosines.items() if id_ in listed} | dict(dense)
    low, high = min(ranked.values(), default=0.0), max(ranked.values(), default=0.0)
    width = high - low
    whole = 1 + NAMED * max(named.values(), default=0.0)

    def score(id_: RecordId, near: float) -> float:
        words = _between(bm25.get(id_, 0.0) / (most or 1.0))
        own = NAMED * named.get(document_of(id_), 0.0)
        return (dense_share * _between(near) + (1 - dense_share) * words + own) / whole

    def scale(cosine: float) -> float:
        return (cosine - low) / width if width > _SAME else cosine

    by_vector = dict.fromkeys(listed, low) | dict(cosines) | dict(dense)
    scored = sorted((-score(id_, scale(cosine)), -cosine, id_) for id_, cosine in by_vector.items())[:n]
    best = next((score(id_, -cosine) / (-top or 1.0) for top, cosine, id_ in scored), 0.0)
    places = [{id_: at for at, (id_, _) in enumerate(order, 1)} for order in (dense, lexical)]
    return [
        Ranked(id_, _between(-sum_ * best), Ranks(places[0].get(id_), places[1].get(id_)))
        for sum_, _, id_ in scored
    ]


def document_of(id_: RecordId) -> str:
    return id_.rpartition("#")[0]


def _between(value: float) -> float:
    return min(1.0, max(0.0, value))


SHARED = 0.8
_WORDS = 3  # words of a shingle
_WORD = re.compile(rf"[{DENSE}]|[^\W{DENSE}]+")


class Distinct:
    """Texts of which no two are near-duplicates."""

    def __init__(self) -> None:
        self._sizes: dict[RecordId, int] = {}
        self._holders: dict[tuple[str, ...], list[RecordId]] = defaultdict(list)

    def add(self, id_: RecordId, text: str) -> RecordId:
        """Return the id of a text's first near-duplicate; if there is none, keep the text, return its id."""
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
    """Yield runs of words in lower case; the whole text if it has fewer words than a run."""
    words = _WORD.findall(text.casefold()) or [text]
    for at in range(max(1, len(words) - _WORDS + 1)):
        yield tuple(words[at : at + _WORDS])
