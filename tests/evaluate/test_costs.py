"""What a strategy costs, from what its sample cost."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from ingestor.evaluate.cutting import ModelUse, RecordedAnswers, SampleCut, StrategyCosts, extrapolate, price
from ingestor.evaluate.sample import Sample, SampledDocument
from ingestor.evaluate.scores import ChunkPlace
from ingestor.llm.client import Completion, Prompt
from ingestor.model import Document, Item, SourceName
from ingestor.queries import needs

CUT = SampleCut(
    None,  # type: ignore[arg-type]
    None,  # type: ignore[arg-type]
    [ChunkPlace(0, ((0, 500),), 110)] * 40,
    ["x" * 500] * 40,
    [],
    np.zeros((40, 384), np.float32),
    embedded_tokens=9000,
    seconds=0.0,
    asked=ModelUse(),
)


def costs(cut: SampleCut, share: float, price: float) -> StrategyCosts:
    return extrapolate(cut, 4500, 3.0, share, price)


def test_cost_of_a_collection_is_proportional_to_its_size() -> None:
    found = costs(CUT, 0.1, 0.5)
    assert (found.records, found.embedded, found.seconds) == (400, 90_000, pytest.approx(30))
    assert found.passes == 2  # of the sample and of the whole alike
    assert found.money == pytest.approx(0.045)
    plan = needs.disk(400, 200_000, 0, 384)
    assert found.disk == plan.chroma + plan.journal


@pytest.mark.parametrize(
    ("read", "unread", "listed", "share"), [(10, 0, 10, 1.0), (6, 4, 10, 1.0), (8, 2, 100, 0.1)]
)
def test_documents_unreadable_count_in_share(read: int, unread: int, listed: int, share: float) -> None:
    """They make no records, and neither do those that they stand for."""
    document = SampledDocument(SourceName("docs"), Item("a", "1", "/a"), Document("A."))
    assert Sample((document,) * read, listed, (("b", "damaged"),) * unread).share == share


def test_cost_without_price_is_none() -> None:
    assert costs(CUT, 1.0, 0).money is None
    assert costs(replace(CUT, asked=ModelUse(8, 800, 80)), 1.0, 0).money is None


def test_language_model_is_in_the_price() -> None:
    found = costs(replace(CUT, asked=ModelUse(8, 800, 80, 0.02)), 0.1, 0.5)
    assert found.asked == ModelUse(80, 8000, 800, pytest.approx(0.2))
    assert found.money == pytest.approx(0.045 + 0.2)


@pytest.mark.parametrize(
    ("amount", "text"), [(1234.5, "1,234.50"), (0.1, "0.10"), (0.0123, "0.012"), (0.00004, "4e-05")]
)
def test_small_prices_are_not_rounded_to_nothing(amount: float, text: str) -> None:
    assert price(amount) == text


class Known:
    """Answers that know all requests but one."""

    def answer(self, question: Prompt, ask: Callable[[], Completion]) -> str | None:
        return None if question.key == "new" else "four"

    def wait(self, seconds: float) -> None: ...


def test_each_request_counts_once_and_an_unknown_answer_as_long_as_it_may_be() -> None:
    found = RecordedAnswers(Known(), lambda texts: [len(text) for text in texts])
    for key, most in (("old", 50), ("old", 50), ("new", 50), ("new", 5)):
        asked = Prompt((("system", "0123"), ("user", "456789")), key, 1e6, 2e6, most)
        found.answer(asked, lambda: Completion("never asked"))
    assert found.use(answered=True) == ModelUse(1, 10, 4, 10 + 8)
    assert found.use(answered=False) == ModelUse(1, 10, 5, 10 + 10)
