"""Work that is done elsewhere and comes back as an outcome: what the engine and the pool agree on."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from ingestor.model import Hint
from ingestor.ports import Stop


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What became of the work handed in under ``tag``: a value, or an error with its traceback."""

    tag: object
    value: object = None
    error: Exception | None = None
    trace: str = ""


class Work(Protocol):
    """What the engine needs of pool.Pool."""

    def submit(self, tag: object, work: Callable[[], object], *, scan: bool = False) -> None: ...
    def listen(self, tag: object, hints: Callable[[Stop], Iterator[Hint]]) -> Callable[[], None]: ...
    def next(self, timeout: float) -> Outcome | None: ...


class Slow(Exception):
    """The document takes longer than a first attempt may: it waits for a turn among the slow documents."""


class Stopped(Exception):
    """The program is going down: the work is abandoned, and nothing of it was written."""
