"""Small worlds need small bounds: a loss is asked about from two documents on."""

import pytest

from ingestor import decide
from tests.simulation.ports import SMALL


@pytest.fixture(autouse=True)
def small_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decide, "SMALL_LOSS", SMALL)
