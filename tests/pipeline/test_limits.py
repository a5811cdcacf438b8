"""Limits of the pipeline: patience with unreadable items, and the text that is chunked at the same time."""

from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from threading import Event
from time import monotonic

import pytest

from ingestor.pipeline import limits
from ingestor.pipeline.limits import TextBudget, until_readable
from ingestor.ports import Stale, Transient
from tests.waiting import LONG


class Failing:
    """Raises these errors, one a call, and then returns "read"."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)

    def __call__(self) -> str:
        if self.errors:
            raise self.errors.pop(0)
        return "read"


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_PAUSE", 0)


def test_item_readable_a_moment_later_is_read() -> None:
    assert until_readable(Failing(Transient("just now"), Transient("just now")), monotonic() + 3600) == "read"


@pytest.mark.parametrize(("error", "seconds"), [(Transient("just now"), -1), (Stale("changed"), 3600)])
def test_stale_item_is_not_retried(error: Transient, seconds: float) -> None:
    failing = Failing(error)
    with pytest.raises(type(error)):
        until_readable(failing, monotonic() + seconds)


def test_large_documents_wait_and_small_ones_do_not() -> None:
    budget, entered = TextBudget(1_000_000), Event()

    def chunk(characters: int) -> None:
        with budget.take(characters):
            entered.set()

    with ThreadPoolExecutor(1) as threads:
        with budget.take(700_000):
            with budget.take(200_000), budget.take(290_000):
                pass
            waiting = threads.submit(chunk, 400_000)
            assert not entered.wait(0.2)
        waiting.result(LONG)
    assert entered.is_set()


def test_document_larger_than_the_budget_is_chunked_alone() -> None:
    budget = TextBudget(1_000_000)
    with ThreadPoolExecutor(1) as threads, budget.take(50_000_000):
        waiting = threads.submit(budget.take(300_000).__enter__)
        assert not wait_for([waiting], 0.2).done
    waiting.result(LONG)
