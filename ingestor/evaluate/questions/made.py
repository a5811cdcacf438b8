"""Questions made of the documents themselves, without a model. Pure, and the same every time.

An excerpt of one or two sentences is drawn, and each of its words is kept with probability one half. On three
corpora recall *at an equal budget of tokens* by such questions ordered 14 strategies as real questions did,
with a rank correlation of 0.59 to 0.81, more than by other kinds that were tried. Their recall is too high,
and recall of the first n chunks does not agree: only differences at equal budgets mean anything
(docs/evaluate.md).
"""

import re
from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from ingestor.core.fingerprint import text_digest
from ingestor.evaluate.scores import EvalQuestion, Excerpt
from ingestor.model import Document
from ingestor.text.sentences import sentences
from ingestor.text.spans import Span, inside

_WORD = re.compile(r"\w[\w'’-]*")
_FEWEST, _MOST = 8, 80  # words of an excerpt
_KEPT = 0.5
_SHORTEST = 3  # words of a question
_GAP = 2  # characters between two sentences of one excerpt
_SKIPPED = frozenset({"heading", "code", "table", "front_matter", "rule", "html", "comment", "label"})


def made(documents: Sequence[Document], count: int) -> list[EvalQuestion]:
    """At most ``count``, in proportion to what each document has to ask about."""
    whole = "\n".join(document.text for document in documents)
    candidates = sorted(
        (text_digest(f"{number} {document.text[start:end]}"), number, start, end)
        for number, document in enumerate(documents)
        for start, end in _excerpts(document)
    )
    asked = (
        _question(seed, documents[number].text[start:end], Excerpt(number, start, end))
        for seed, number, start, end in candidates
        if whole.count(documents[number].text[start:end]) == 1
    )
    return list(islice(filter(None, asked), count))


def _excerpts(document: Document) -> Iterator[Span]:
    """Sentences of prose, none twice: by turns one alone, and two together."""
    other = [(block.start, block.end) for block in document.blocks if block.kind in _SKIPPED]
    found = [span for span in sentences(document.text, language=document.language) if not inside(other, span)]
    at, pair = 0, False
    while at < len(found):
        start, end = found[at]
        if pair and at + 1 < len(found) and found[at + 1][0] - end <= _GAP:
            at, end = at + 1, found[at + 1][1]
        if _FEWEST <= len(_WORD.findall(document.text[start:end])) <= _MOST:
            yield start, end
        at, pair = at + 1, not pair


def _question(seed: str, text: str, excerpt: Excerpt) -> EvalQuestion | None:
    words = _WORD.findall(text)
    draws = np.random.default_rng(int(seed, 16)).random(len(words))
    kept = [word for word, draw in zip(words, draws, strict=True) if draw < _KEPT]
    return EvalQuestion(" ".join(kept), (excerpt,), origin="made") if len(kept) >= _SHORTEST else None
