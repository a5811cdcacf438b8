"""Small worlds need small bounds: a loss is asked about from two documents on."""

import pytest

from ingestor.core import decisions
from tests.simulation.ports.files import SMALL


@pytest.fixture(autouse=True)
def small_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "SMALL_LOSS", SMALL)
