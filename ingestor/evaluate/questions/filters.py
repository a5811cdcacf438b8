"""Filters for questions of a language model: near-duplicates, and questions that fit their excerpts badly.

Chroma's report uses fixed cosines, which fit one embedding model. Here both bounds follow from the questions
themselves, so that they fit every model. Pure.

- An excerpt fits its question badly when its cosine is below the upper decile of the cosines between
  questions and excerpts of *other* questions about the same document. With all-MiniLM-L6-v2 and the 276
  questions of three corpora of the report that decile is 0.29, and 3 % of their excerpts are below it.
- Two questions are near-duplicates when their cosine is nine tenths of the way from the median of all pairs
  to 1: with that model above 0.91. The nearest of the report's questions that differ have 0.89.
"""

from collections.abc import Sequence

import numpy as np

from ingestor.evaluate.intervals import Floats
from ingestor.model import Vectors

_FOREIGN = 0.9  # quantile
_ALIKE = 0.9  # of the way from the median to 1
_FEWEST = 20  # pairs from which a quantile is taken


def misfits(questions: Vectors, excerpts: Vectors, owners: Sequence[int], about: Sequence[int]) -> set[int]:
    """Questions of which an excerpt fits badly.

    ``owners``: of each excerpt, its question; ``about``: of each question, its document.
    """
    if not owners:
        return set()
    similar = (questions @ excerpts.T).astype(np.float64)
    own = np.asarray(owners)
    documents = np.asarray(about)
    foreign = (documents[:, None] == documents[own][None, :]) & (np.arange(len(questions))[:, None] != own)
    pairs = similar[foreign]
    if len(pairs) < _FEWEST:
        return set()
    bound = float(np.quantile(pairs, _FOREIGN))
    return {question for at, question in enumerate(owners) if similar[question, at] < bound}


def duplicates(questions: Vectors) -> dict[int, int]:
    """Questions that nearly repeat an earlier one, which is kept: by number, the earlier one's."""
    similar: Floats = (questions @ questions.T).astype(np.float64)
    pairs = similar[np.triu_indices(len(questions), 1)]
    median = float(np.median(pairs)) if len(pairs) >= _FEWEST else 0.0
    bound = median + _ALIKE * (1 - median)
    originals: dict[int, int] = {}
    for at in range(1, len(questions)):
        earlier = [n for n in range(at) if n not in originals and similar[n, at] > bound]
        if earlier:
            originals[at] = max(earlier, key=lambda n: similar[n, at])
    return originals
