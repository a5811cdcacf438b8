"""Limits of a document's preparation, and its seconds by stage.

Texts that repeat, memory for what is chunked, and the time for which commands that look once retry.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from threading import Condition, Lock
from time import monotonic, sleep
from typing import Literal, TypeVar, get_args

from ingestor.core.errors import Stopped
from ingestor.core.fingerprint import fingerprint
from ingestor.model import Chunking, Fingerprint
from ingestor.ports import Stale, Transient

MOST_REPEATS = 100  # chunks of the same text, of one document


@cache
def repeat_rules() -> Fingerprint:
    """Return a fingerprint of the rules for repeats; a change makes all documents be prepared again."""
    return fingerprint(["repeats", MOST_REPEATS])


def without_repeats(chunking: Chunking) -> Chunking:
    """Drop chunks whose text MOST_REPEATS chunks before them have."""
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


TOGETHER = 8_000_000  # characters of the large documents that are chunked at the same time
_SMALL = 250_000  # characters; documents below that size never wait


class TextBudget:
    """Large documents take part of the budget while they are chunked, or wait. Threads share it."""

    def __init__(self, characters: int = TOGETHER, small: int = _SMALL) -> None:
        self._budget, self._small = characters, small
        self._taken = 0
        self._stopped = False
        self._changed = Condition()

    @contextmanager
    def take(self, characters: int) -> Iterator[None]:
        """Wait until the budget has room. A document larger than the whole budget is chunked alone.

        Raises Stopped after ``stop``.
        """
        share = 0 if characters <= self._small else min(characters, self._budget)
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or self._taken + share <= self._budget)
            if self._stopped:
                raise Stopped
            self._taken += share
        try:
            yield
        finally:
            with self._changed:
                self._taken -= share
                self._changed.notify_all()

    def stop(self) -> None:
        """Raise Stopped in waiting threads."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()


PATIENCE = 5.0  # of all documents of one command together
_PAUSE = 0.2  # seconds

T = TypeVar("T")


def until_readable(read: Callable[[], T], until: float) -> T:
    """Call ``read`` and return its result; retry after Transient, until a time of ``monotonic``.

    Raises what ``read`` raises last. Stale is raised at once: only another listing helps against it.
    """
    while True:
        try:
            return read()
        except Stale:
            raise
        except Transient:
            if monotonic() > until:
                raise
            sleep(_PAUSE)


Stage = Literal["read", "chunk", "write"]  # embedding is counted where all texts meet


class StageTimes:
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
        """Add seconds that were measured elsewhere."""
        with self._lock:
            self.seconds[stage] += seconds
