"""Texts that are longer than the embedding model's window, so that their ends are ignored."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter

from ingestor.model import Chunk
from ingestor.ports import Embedder

Beyond = Callable[[Sequence[str]], list[bool]]  # whether each text is longer than the window


def endless(texts: Sequence[str]) -> list[bool]:
    """Return False for each text: a model without a window truncates nothing."""
    return [False] * len(texts)


def exceeds_window(embedder: Embedder, texts: Sequence[str]) -> list[bool]:
    """Whether each text exceeds the window. Short texts are not counted: a code point has at most four
    tokens."""
    may_be = [text for text in texts if 4 * len(text) > embedder.window]
    if not may_be:
        return endless(texts)
    counts = dict(zip(may_be, embedder.count(may_be), strict=True))
    return [counts.get(text, 0) > embedder.window for text in texts]


def holding(text: str, chunks: Sequence[Chunk], parts: Iterable[str]) -> list[bool]:
    """Whether each chunk holds the beginning of one of ``parts``, which occur in the text in this order."""
    found, at = [False] * len(chunks), 0
    for part in parts:
        place = text.find(part, at)
        owner = bisect_right(chunks, place, key=attrgetter("start")) - 1
        if place >= 0 and owner >= 0:
            found[owner], at = True, place
    return found
