"""A pool without threads."""

from collections.abc import Callable, Collection

from ingestor.engine.outcomes import Outcome


class Inline:
    """A pool without threads: work is done when it is handed in."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []

    def submit(self, tag: object, work: Callable[[], object], *, scan: bool = False) -> None:
        try:
            self.outcomes.append(Outcome(tag, work()))
        except Exception as error:  # noqa: BLE001 - as the real pool does
            self.outcomes.append(Outcome(tag, error=error))

    def idle(self) -> Collection[object]:
        return ()

    def listen(self, tag: object, hints: object) -> Callable[[], None]:
        return lambda: None

    def next(self, timeout: float) -> Outcome | None:
        return self.outcomes.pop(0) if self.outcomes else None
