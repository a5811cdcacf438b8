"""Watches of the pool: a new one begins when those that were ended are closed."""

import threading
from collections.abc import Iterator

from ingestor.engine.workers import Pool
from ingestor.model import Hint
from ingestor.ports import Stop


def test_new_watch_starts_after_ended_watches_are_closed() -> None:
    pool, steps, may_close = Pool(1), list[str](), threading.Event()

    def old(stop: Stop) -> Iterator[Hint]:
        yield Hint("old")
        stop.wait(60)
        assert may_close.wait(60)
        steps.append("old closed")

    def new(stop: Stop) -> Iterator[Hint]:
        steps.append("new opened")
        yield Hint("new")
        stop.wait(60)

    end = pool.listen("docs", old)
    assert pool.next(60) is not None
    end()
    pool.listen("docs", new)
    may_close.set()
    found = pool.next(60)
    assert found is not None
    assert found.value == Hint("new")
    assert steps == ["old closed", "new opened"]
    pool.close()
