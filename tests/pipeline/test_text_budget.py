"""The bound on text that is chunked at the same time."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from ingestor.core.errors import Stopped
from ingestor.pipeline.limits import TextBudget
from tests.waiting import LONG, wait


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
    with budget.take(50_000_000), ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(_take, budget, 300_000)
        wait(lambda: not waiting.done())
        budget.stop()
        with pytest.raises(Stopped):
            waiting.result(LONG)


def _take(budget: TextBudget, characters: int) -> None:
    with budget.take(characters):
        pass
