"""Passages of documents that a language model is shown, the same in every run. Pure.

A passage has 4,000 characters at most, as in Chroma's report. A document has passages in proportion to its
length; its n-th one is the same however many are drawn and whatever other documents there are.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from ingestor.core.fingerprint import text_digest
from ingestor.text.spans import Span

LONGEST = 4000  # characters
_SHORTEST = 200


def passages(texts: Sequence[str], count: int) -> Mapping[int, list[Span]]:
    """Choose ``count`` passages, by document number; documents under 200 characters have none."""
    weights = {at: max(1.0, len(text) / LONGEST) for at, text in enumerate(texts) if len(text) >= _SHORTEST}
    most = {at: _share(weights, at, count) for at in weights}
    turns = sorted(((n + 0.5) / weights[at], at, n) for at in weights for n in range(most[at]))
    spans: defaultdict[int, list[Span]] = defaultdict(list)
    for _, at, n in turns[:count]:
        spans[at].append(_passage(texts[at], n))
    return dict(sorted(spans.items()))


def _share(weights: Mapping[int, float], at: int, count: int) -> int:
    """Return an upper bound of a document's share of ``count`` passages."""
    return int(count * weights[at] / sum(weights.values())) + 2


def _passage(text: str, n: int) -> Span:
    """The n-th one of this text: it begins after white space and ends before some, where there is any."""
    if len(text) <= LONGEST:
        return 0, len(text)
    start = int(text_digest(f"{n} {text}"), 16) % (len(text) - LONGEST + 1)
    end = start + LONGEST
    if start and not text[start - 1].isspace():
        start = next((at + 1 for at in range(start, start + LONGEST // 10) if text[at].isspace()), start)
    if end < len(text):
        end = next((at for at in range(end, end - LONGEST // 10, -1) if text[at].isspace()), end)
    return start, end
