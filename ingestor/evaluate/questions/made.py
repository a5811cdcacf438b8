"""Questions made of the documents themselves, without a model. Pure, and the same every time.

One or two sentences are drawn, and each of their words is kept with probability one half. The excerpt to find
is these sentences with their neighbours. Recall *at an equal budget of tokens* by such questions orders
strategies much as real questions do (docs/evaluate.md has the correlations). Without the neighbours the order
was wrong: chunks of 30 tokens, each about one sentence, scored best. With real questions such chunks score
worst but for bad strategies. The height of recall means nothing, and recall of the first n chunks does not
agree.
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


def make_questions(documents: Sequence[Document], count: int) -> list[EvalQuestion]:
    """Make at most ``count`` questions, in proportion to the prose of each document."""
    whole = "\n".join(document.text for document in documents)
    candidates = sorted(
        (text_digest(f"{number} {document.text[start:end]}"), number, (start, end), excerpt)
        for number, document in enumerate(documents)
        for (start, end), excerpt in _draw(document)
    )
    asked = (
        _question(seed, documents[number].text[start:end], Excerpt(number, *excerpt))
        for seed, number, (start, end), excerpt in candidates
        if whole.count(documents[number].text[start:end]) == 1
    )
    return list(islice(filter(None, asked), count))


def _draw(document: Document) -> Iterator[tuple[Span, Span]]:
    """Sentences of prose, none twice, by turns one alone and two together; and each with those around it."""
    other = [(block.start, block.end) for block in document.blocks if block.kind in _SKIPPED]
    prose = [span for span in sentences(document.text, language=document.language) if not inside(other, span)]
    at, pair = 0, False
    while at < len(prose):
        last = at + 1 if pair and _together(prose, at) else at
        start, end = prose[at][0], prose[last][1]
        if _FEWEST <= len(_WORD.findall(document.text[start:end])) <= _MOST:
            yield (start, end), _widen(prose, at, last)
        at, pair = last + 1, not pair


def _widen(spans: Sequence[Span], first: int, last: int) -> Span:
    first -= first > 0 and _together(spans, first - 1)
    last += _together(spans, last)
    return spans[first][0], spans[last][1]


def _together(spans: Sequence[Span], at: int) -> bool:
    """Whether a sentence and the next one follow each other."""
    return at + 1 < len(spans) and spans[at + 1][0] - spans[at][1] <= _GAP


def _question(seed: str, text: str, excerpt: Excerpt) -> EvalQuestion | None:
    words = _WORD.findall(text)
    draws = np.random.default_rng(int(seed, 16)).random(len(words))
    kept = [word for word, draw in zip(words, draws, strict=True) if draw < _KEPT]
    return EvalQuestion(" ".join(kept), (excerpt,), origin="made") if len(kept) >= _SHORTEST else None
