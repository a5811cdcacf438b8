"""What a strategy costs, from what its sample cost."""

import pytest

from ingestor.app.planning import needs
from ingestor.evaluate.costs import Measured, costs
from ingestor.evaluate.reading import Sample, SampledDocument
from ingestor.model import Document, Item, SourceName

SAMPLE = Measured(records=40, text=20_000, embedded=9000, tokens=4500, seconds=3.0, dimensions=384)


def test_the_whole_collection_costs_as_much_as_its_part_in_proportion() -> None:
    found = costs(SAMPLE, 0.1, 0.5)
    assert (found.records, found.embedded, found.seconds) == (400, 90_000, pytest.approx(30))
    assert found.passes == 2  # of the sample and of the whole alike
    assert found.money == pytest.approx(0.045)
    plan = needs.disk(400, 200_000, 0, 384)
    assert found.disk == plan.chroma + plan.journal


@pytest.mark.parametrize(
    ("read", "unread", "listed", "share"), [(10, 0, 10, 1.0), (6, 4, 10, 1.0), (8, 2, 100, 0.1)]
)
def test_documents_that_cannot_be_read_stand_for_others(
    read: int, unread: int, listed: int, share: float
) -> None:
    """They make no records, and neither do those that they stand for."""
    document = SampledDocument(SourceName("docs"), Item("a", "1", "/a"), Document("A."))
    assert Sample((document,) * read, listed, (("b", "damaged"),) * unread).share == share


def test_without_a_price_there_is_none() -> None:
    assert costs(SAMPLE, 1.0, 0).money is None
