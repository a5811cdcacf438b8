"""docs/service.md names every metric and every address."""

import re
from pathlib import Path

import pytest

from ingestor.service.metrics import metrics
from ingestor.service.openapi import description
from ingestor.service.situation import Situation

PAGE = (Path(__file__).parents[2] / "docs/service.md").read_text("utf-8")
NAMES = [f"{one.name}{'_total' if one.type == 'counter' else ''}" for one in metrics(Situation())]


@pytest.mark.parametrize("name", NAMES)
def test_a_metric_is_explained(name: str) -> None:
    table = next(row for row in PAGE.split("\n\n") if "| Metric |" in row)
    assert f"`{name}`" in table


@pytest.mark.parametrize("path", description()["paths"])
def test_an_address_is_explained(path: str) -> None:
    assert re.search(rf"/{path.split('/')[1]}\b", PAGE.partition("## ")[0])
