"""Small worlds need small bounds, and plugins of their own."""

import os

import pytest

from ingestor.core import decisions
from ingestor.rechunk import recipes
from ingestor.state import journal
from tests.simulation.histories import FindOut, finding_out
from tests.simulation.ports import plugins
from tests.simulation.ports.files import SMALL


@pytest.fixture(autouse=True)
def small_world(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loss is asked about from two documents on, and files are closed to others as the program does it."""
    os.umask(0o077)
    monkeypatch.setattr(decisions, "SMALL_LOSS", SMALL)
    monkeypatch.setattr(journal, "token_hex", plugins.token_hex)
    monkeypatch.setattr(recipes, "find", plugins.find)
    monkeypatch.setattr(recipes, "kinds", plugins.kinds)


@pytest.fixture
def find_out(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> FindOut:
    """Finds out a broken variant; if it fails, the histories are too tame to show that a rule is needed."""
    cache: pytest.Cache | None = getattr(request.config, "cache", None)  # none with -p no:cacheprovider
    few = "not slow" in request.config.option.markexpr
    return finding_out(cache, request.node.nodeid, monkeypatch, few=few)
