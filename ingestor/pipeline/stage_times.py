"""Seconds that threads spent in each stage of a document's way. Threads share it."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from time import monotonic
from typing import Literal, get_args

Stage = Literal["read", "chunk", "write"]  # embedding is counted where all texts meet


class StageTimes:
    def __init__(self) -> None:
        self._lock = Lock()
        self.seconds: dict[str, float] = dict.fromkeys(get_args(Stage), 0.0)

    @contextmanager
    def measured(self, stage: Stage) -> Iterator[None]:
        begun = monotonic()
        try:
            yield
        finally:
            self.add(stage, monotonic() - begun)

    def add(self, stage: str, seconds: float) -> None:
        """Seconds that were measured elsewhere."""
        with self._lock:
            self.seconds[stage] += seconds
