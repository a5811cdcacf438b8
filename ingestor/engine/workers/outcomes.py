"""The interface between engine and workers: work goes out with a tag, an outcome comes back."""

from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol

from ingestor.engine.workers.work_queue import ANY, Lane
from ingestor.model import Hint
from ingestor.ports import Stop

BEGUN = 4  # documents under way for each worker, those that are idle included
TURN = ContextVar("turn", default=0)  # of the work that a worker does; greater for work submitted later


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """The result of the work submitted under ``tag``: a value, or an error with its traceback."""

    tag: object
    value: object = None
    error: Exception | None = None
    trace: str = ""


class Work(Protocol):
    """The part of ``workers.Pool`` that the engine needs."""

    def submit(
        self, tag: object, work: Callable[[], object], *, scan: bool = False, lane: Lane = ANY
    ) -> None: ...
    def behind(self) -> bool:
        """Whether the calling thread works for a collection that readers do not see yet."""
        ...

    def idle(self) -> Collection[object]:
        """Tags of work that waits for its turn elsewhere and needs no worker meanwhile."""
        ...

    def revoke(self, tag: object) -> None:
        """The outcome is not wanted any more: it may come early, with Stopped."""
        ...

    def post(self, tag: object, value: object = None) -> None:
        """Put something into the inbox, after what is there."""
        ...

    def listen(self, tag: object, hints: Callable[[Stop], Iterator[Hint]]) -> Callable[[], None]: ...
    def next(self, timeout: float) -> Outcome | None: ...
    def resting(self) -> AbstractContextManager[None]:
        """Entered by a worker that waits for its turn elsewhere."""
        ...

    def close(self) -> None: ...


def as_exception(error: BaseException) -> Exception:
    """A panic in a Rust library is no Exception; the document that caused it fails like any other."""
    return error if isinstance(error, Exception) else RuntimeError(f"{type(error).__name__}: {error}")
