"""docs/service.md names every metric and every address."""

import re
from pathlib import Path

import pytest
import yaml

from ingestor.service.figures import metrics
from ingestor.service.situation import Situation

PAGE = (Path(__file__).parents[2] / "docs/service.md").read_text("utf-8")
NAMES = [f"{one.name}{'_total' if one.type == 'counter' else ''}" for one in metrics(Situation())]


@pytest.mark.parametrize("name", NAMES)
def test_a_metric_is_explained(name: str) -> None:
    table = next(row for row in PAGE.split("\n\n") if "| Metric |" in row)
    assert f"`{name}`" in table


def test_alerts_name_metrics_that_exist() -> None:
    rules = next(block for block in re.findall(r"(?s)```yaml\n(.*?)```", PAGE) if "alert:" in block)
    expressions = [rule["expr"] for rule in yaml.safe_load(rules)["groups"][0]["rules"]]
    used = set(re.findall(r"ingestor_\w+", " ".join(expressions)))
    assert used <= set(NAMES)
    assert len(used) > 4
