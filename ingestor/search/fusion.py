"""Fusion of two rankings, by vectors and by words. Pure.

A record's score is a weighted sum of its cosine and its BM25 score, from 0 to 1. Cosines are scaled to this
range over the candidates, so that every model fits; equal cosines count as they are. A BM25 score
is divided by the most that the words of the question can give (``ranking.ByWords.most``), not by the best
hit's: words count little if few of them are found. Chosen by measurement: decision 0040.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ingestor.model import RecordId
from ingestor.search.values import Ranks

DENSE = 0.3  # the share of the cosine; BM25 has the rest
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


def fused(
    dense: Sequence[tuple[RecordId, float]],
    lexical: Sequence[tuple[RecordId, float]],
    cosines: Mapping[RecordId, float],
    most: float,
    n: int,
    dense_share: float = DENSE,
) -> list[Ranked]:
    """The best ``n``. ``cosines``: of those that only ``lexical`` has, and maybe of others. ``most``: see
    ranking.ByWords.

    A record by words whose vector was not found counts as the most distant. If it is gone, it has no text
    either, and the next one takes its place.
    """
    bm25 = dict(lexical)
    known = {id_: cosine for id_, cosine in cosines.items() if id_ in bm25} | dict(dense)
    low, high = min(known.values(), default=0.0), max(known.values(), default=0.0)
    by_vector, width = dict.fromkeys(bm25, low) | known, high - low
    scored = sorted(
        (
            -dense_share * ((cosine - low) / width if width > _SAME else _between(cosine))
            - (1 - dense_share) * _between(bm25.get(id_, 0.0) / (most or 1.0)),
            -cosine,
            id_,
        )
        for id_, cosine in by_vector.items()
    )[:n]
    places = [{id_: at for at, (id_, _) in enumerate(order, 1)} for order in (dense, lexical)]
    return [Ranked(id_, -score, Ranks(places[0].get(id_), places[1].get(id_))) for score, _, id_ in scored]


def _between(value: float) -> float:
    return min(1.0, max(0.0, value))
