"""Chunks that repeat one text many times: only the first of them are indexed. Pure.

Their vectors are equal, so no reader could tell them apart; and of thousands of equal vectors Chroma's graph
loses the neighbours: search would miss other documents.
"""

from collections import Counter
from dataclasses import replace
from functools import cache

from ingestor.core.fingerprint import fingerprint
from ingestor.model import Chunking, Fingerprint

MOST = 100  # chunks of the same text, of one document


@cache
def rules() -> Fingerprint:
    """Return a fingerprint of the rules for repeats; a change makes all documents be prepared again."""
    return fingerprint(["repeats", MOST])


def without_repeats(chunking: Chunking) -> Chunking:
    """Without chunks whose text MOST chunks before them have."""
    seen: Counter[str] = Counter()
    kept = []
    for position, chunk in enumerate(chunking.chunks):
        seen[chunk.text] += 1
        if seen[chunk.text] <= MOST:
            kept.append(position)
    if len(kept) == len(chunking.chunks):
        return chunking
    vectors = None if chunking.vectors is None else chunking.vectors[kept]
    return replace(chunking, chunks=tuple(chunking.chunks[at] for at in kept), vectors=vectors)
