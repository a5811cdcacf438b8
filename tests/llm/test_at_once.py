"""Several questions at the same time: in order, and ended by the first error."""

from threading import Barrier, Event

import pytest

from ingestor.llm.at_once import in_parallel
from ingestor.ports import Stop
from tests.waiting import LONG


def test_results_are_in_order_and_made_together() -> None:
    together = Barrier(3, timeout=LONG)  # passed only if three run at the same time

    def do(number: int) -> int:
        together.wait()
        return number * number

    assert in_parallel(do, [3, 1, 2], 3, Stop()) == [9, 1, 4]


def test_error_stops_what_waits_and_leaves_out_the_rest() -> None:
    stopped, begun = Event(), list[int]()

    def do(number: int) -> None:
        begun.append(number)
        if number == 0:
            raise ValueError("first")
        assert stopped.wait(LONG)

    with pytest.raises(ValueError, match="first"):
        in_parallel(do, range(50), 2, Stop(), stopped.set)
    assert len(begun) < 50
