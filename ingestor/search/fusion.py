"""One order from two: by vectors and by words. Pure.

A record's score is a weighted sum of its cosine and its BM25 score. Cosines are scaled to the range from 0 to
1 over the candidates, so that those of every model fit. A BM25 score is divided by the most that the words of
the question can give (``ranking.Asked.most``), not by the best hit's: so words count little where few of them
are found, as with a question in other words than the text's. Chosen by measurement: decision 0040.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ingestor.model import RecordId
from ingestor.search.values import Ranks

DENSE = 0.3  # the share of the cosine; BM25 has the rest


@dataclass(frozen=True, slots=True)
class Ranked:
    id: RecordId
    score: float
    ranks: Ranks
    reranked: float | None = None  # the reranker's score


def alone(order: Sequence[tuple[RecordId, float]], n: int, mode: str) -> list[Ranked]:
    """The first ``n`` of one list. ``mode``: dense or lexical."""
    return [
        Ranked(id_, score, Ranks(at, None) if mode == "dense" else Ranks(None, at))
        for at, (id_, score) in enumerate(order[:n], 1)
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
    ranking.Asked.

    A record by words whose vector was not found counts as the most distant. If it is gone, it has no text
    either, and the next one takes its place.
    """
    by_words = dict(lexical)
    known = {id_: cosine for id_, cosine in cosines.items() if id_ in by_words} | dict(dense)
    low, high = min(known.values(), default=0.0), max(known.values(), default=0.0)
    by_vector, width = dict.fromkeys(by_words, low) | known, (high - low) or 1.0
    scored = sorted(
        (
            -dense_share * (cosine - low) / width
            - (1 - dense_share) * by_words.get(id_, 0.0) / (most or 1.0),
            -cosine,
            id_,
        )
        for id_, cosine in by_vector.items()
    )[:n]
    places = [{id_: at for at, (id_, _) in enumerate(order, 1)} for order in (dense, lexical)]
    return [Ranked(id_, -score, Ranks(places[0].get(id_), places[1].get(id_))) for score, _, id_ in scored]
