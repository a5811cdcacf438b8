"""Limits of a document's preparation, and the seconds spent in its stages.

The limits concern repeated texts, texts longer than the model's window, and the memory of documents that are
being chunked. Another limit is the time that commands spend on retries.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import accumulate
from threading import Condition, Lock
from time import monotonic, sleep
from typing import Literal, TypeVar, get_args

import numpy as np

from ingestor.core.fingerprint import fingerprint
from ingestor.model import Chunking, Vectors
from ingestor.ports import Embed, Embedder, Stale, Transient
from ingestor.segmentation.fixed_point import to_fixed
from ingestor.segmentation.pooling import pool

MOST_REPEATS = 100  # chunks of the same text, of one document
REPEAT_RULES = fingerprint(["repeats", MOST_REPEATS])  # if it changes, all documents become due


def without_repeats(chunking: Chunking) -> Chunking:
    """Leave out each chunk whose text MOST_REPEATS earlier chunks of the document already have."""
    seen: Counter[str] = Counter()
    kept = []
    for position, chunk in enumerate(chunking.chunks):
        seen[chunk.text] += 1
        if seen[chunk.text] <= MOST_REPEATS:
            kept.append(position)
    if len(kept) == len(chunking.chunks):
        return chunking
    vectors = None if chunking.vectors is None else chunking.vectors[kept]
    return replace(chunking, chunks=tuple(chunking.chunks[at] for at in kept), vectors=vectors)


# --- the model's window ---------------------------------------------------------------------------------
# Texts longer than the window are embedded in parts, so that no vector ignores the end of a text. The model's
# own tokenizer decides what fits, whatever the limits of a strategy count. A longer text is halved near its
# middle, at the strongest border there, until every part fits; its vector is the mean of its parts' vectors.

ExceedsWindow = Callable[[Sequence[str]], list[bool]]  # whether each text is longer than the window

DIVISION = 1  # version of the division; raised whenever the same text is divided otherwise
_BORDERS = tuple(map(re.compile, (r"\n", r"(?<=[.!?。！？])\s", r"\s", r"\b")))  # strongest first


def never_exceeds(texts: Sequence[str]) -> list[bool]:
    """Return False for each text: a model without a window reads texts of any length."""
    return [False] * len(texts)


def exceeds_window(embedder: Embedder, texts: Sequence[str]) -> list[bool]:
    """Return for each text whether it has more tokens than the embedder's window.

    Tokens are counted only for long texts. A code point has at most four tokens, so short texts always fit.
    """
    may_be = [text for text in texts if 4 * len(text) > embedder.window]
    if not may_be:
        return never_exceeds(texts)
    counts = dict(zip(may_be, embedder.count(may_be), strict=True))
    return [counts.get(text, 0) > embedder.window for text in texts]


def embed_whole(texts: Sequence[str], embed: Embed, exceeds: ExceedsWindow) -> Vectors:
    """Embed texts, including texts that are longer than the model's window.

    Such a text is divided into parts. It gets the mean of the parts' vectors, weighted by their length.
    ``exceeds``: returns for each text whether it is longer than the window.
    """
    long = exceeds(texts)
    if not any(long):
        return embed(texts)
    pairs = zip(texts, long, strict=True)
    divided = [divide(text, exceeds) if is_long else [text] for text, is_long in pairs]
    flat = [part for each in divided for part in each]
    embedded = embed(flat)
    ends = list(accumulate(map(len, divided)))
    members = [(end - len(each), end) for each, end in zip(divided, ends, strict=True)]
    several = [at for at, each in enumerate(divided) if len(each) > 1]
    vectors = embedded[[start for start, _ in members]]
    weights = np.array([len(part) for part in flat], np.int64)
    if several:
        vectors[several] = pool(to_fixed(embedded), weights, [members[at] for at in several])
    return vectors


def divide(text: str, exceeds: ExceedsWindow) -> list[str]:
    """Divide a text into parts that each fit into the model's window, in order.

    A single code point is never divided, even if it does not fit.
    """
    if len(text) < 2 or not exceeds([text])[0]:
        return [text]
    at = _find_border(text)
    halves = filter(str.strip, (text[:at], text[at:]))
    return [part for half in halves for part in divide(half, exceeds)]


def _find_border(text: str) -> int:
    """Return the position at which a text is best divided in two.

    Candidates are the strongest borders (such as ends of paragraphs) in the middle half of the text. The one
    nearest to the middle is chosen.
    """
    middle, low, high = len(text) // 2, len(text) // 4, len(text) - len(text) // 4
    for border in _BORDERS:
        places = [at.end() for at in border.finditer(text, low, high) if 0 < at.end() < len(text)]
        if places:
            return min(places, key=lambda at: abs(at - middle))
    return middle


# --- memory and time ------------------------------------------------------------------------------------

TOGETHER = 8_000_000  # characters of the large documents that are chunked at the same time
_SMALL = 250_000  # characters; documents below that size never wait


class TextBudget:
    """A budget of characters that threads share, which bounds the memory for chunking large documents."""

    def __init__(self, characters: int = TOGETHER, small: int = _SMALL) -> None:
        self._budget, self._small = characters, small
        self._taken, self._changed = 0, Condition()

    @contextmanager
    def take(self, characters: int) -> Iterator[None]:
        """Wait until the budget has room for a document of this length, and occupy the room while the context
        runs.

        A document larger than the whole budget is chunked alone. At the end of the program, contexts raise
        Stopped at their next request for vectors, so those who wait do so in turn.
        """
        size = 0 if characters <= self._small else min(characters, self._budget)
        with self._changed:
            self._changed.wait_for(lambda: self._taken + size <= self._budget)
            self._taken += size
        try:
            yield
        finally:
            with self._changed:
                self._taken -= size
                self._changed.notify_all()


LARGE_TEXTS = TextBudget()  # of this process

PATIENCE = 5.0  # seconds for the retries of all documents of one command together
_PAUSE = 0.2  # seconds

T = TypeVar("T")


def until_readable(read: Callable[[], T], until: float) -> T:
    """Call ``read`` and return its result. After Transient, try again until a point in time.

    ``until``: this point, as ``time.monotonic`` counts seconds. Raises the last error. Stale is raised at
    once, because only another listing helps against it.
    """
    while True:
        try:
            return read()
        except Transient as error:
            if isinstance(error, Stale) or monotonic() > until:
                raise
            sleep(_PAUSE)


# Embedding is measured by engine/embedding.py, for the texts of all documents.
Stage = Literal["read", "chunk", "write"]


class StageTimes:
    """Seconds that documents spent in each stage since the program started. Any thread may call."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.seconds: dict[str, float] = dict.fromkeys(get_args(Stage), 0.0)

    @contextmanager
    def measure(self, stage: Stage) -> Iterator[None]:
        begun = monotonic()
        try:
            yield
        finally:
            self.add(stage, monotonic() - begun)

    def add(self, stage: str, seconds: float) -> None:
        """Add seconds to a stage that a process on another machine measured."""
        with self._lock:
            self.seconds[stage] += seconds
